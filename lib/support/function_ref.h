#pragma once
/// FunctionRef: a callable that is only looked at, for parameters. Unlike std::function it owns
/// nothing and allocates nothing, and costs the compiler one small function per callable.
#include <memory>
#include <type_traits>
#include <utility>

namespace infer {

template <typename Signature>
class FunctionRef;

/// Valid as long as the callable that it was made of lives.
template <typename R, typename... Args>
class FunctionRef<R(Args...)> {
 public:
  template <typename F>
    requires(!std::is_same_v<std::remove_cvref_t<F>, FunctionRef> &&
             std::is_invocable_r_v<R, const F&, Args...>)
  FunctionRef(const F& f)  // NOLINT: implicit on purpose
      : callable_(std::addressof(f)), call_([](const void* callable, Args... args) -> R {
          return (*static_cast<const F*>(callable))(std::forward<Args>(args)...);
        }) {}
  R operator()(Args... args) const { return call_(callable_, std::forward<Args>(args)...); }

 private:
  const void* callable_;
  R (*call_)(const void*, Args...);
};

}  // namespace infer
