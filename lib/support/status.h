#pragma once
/// Status and Result<T>: the only way a function reports a failure that its *input* can cause.
/// Programming errors use INFER_CHECK, which aborts. No exception crosses a folder; std::bad_alloc
/// is caught where a command, a compile or a run begins (lib/support/exceptions.h).
#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace infer {

/// What kind of failure; tools map each to one exit code (docs/cli.md).
enum class Code {
  kOk,
  kInvalidArgument,  ///< the caller's options make no sense (usage)
  kInvalidModel,     ///< a model, data or config file is broken
  kUnsupported,      ///< valid, but an operator, type or device that we do not have
  kIo,               ///< the operating system refused to read or write
  kResource,         ///< out of memory, or a limit of ours was reached
  kCancelled,        ///< a stop token fired
  kInternal,         ///< our bug
};

/// Success, or a code with a message. Success is one null pointer, for it is what nearly every call
/// returns.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Code code, std::string message);  ///< kOk: the message is dropped
  Status(Status&& o) noexcept : failure_(std::exchange(o.failure_, nullptr)) {}
  Status(const Status& o) : failure_(o.ok() ? nullptr : Copy(*o.failure_)) {}
  Status& operator=(Status o) noexcept {
    std::swap(failure_, o.failure_);
    return *this;
  }
  ~Status() {
    if (!ok()) Delete(failure_);
  }
  bool ok() const { return !failure_; }
  Code code() const;
  const std::string& message() const;  ///< empty when ok()
  /// Prefixes where we were, outermost first: "after pass fold-x: node Gemm_3: ...".
  Status In(std::string_view where) &&;

 private:
  struct Failure;
  static Failure* Copy(const Failure& f);
  static void Delete(Failure* f);
  Failure* failure_ = nullptr;  // owned
};

Status InvalidArgument(std::string m);
Status InvalidModel(std::string m);
Status Unsupported(std::string m);
Status IoError(std::string m);
Status ResourceExhausted(std::string m);
Status Cancelled(std::string m);
Status Internal(std::string m);

/// Throws CheckFailure (lib/support/exceptions.h), which ends the command, compile or run that met
/// it.
[[noreturn]] void CheckFailed(const char* file, int line, const char* text);

}  // namespace infer

#define INFER_CHECK(cond) \
  (static_cast<bool>(cond) ? void(0) : ::infer::CheckFailed(__FILE__, __LINE__, #cond))

namespace infer {

/// A T or the Status that explains why there is none.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : v_(std::in_place_index<0>, std::move(value)) {}  // NOLINT: implicit on purpose
  Result(Status s) : v_(std::in_place_index<1>, std::move(s)) {      // NOLINT: implicit on purpose
    INFER_CHECK(!std::get<1>(v_).ok());
  }
  bool ok() const { return v_.index() == 0; }
  T& operator*() & { return std::get<0>(v_); }
  const T& operator*() const& { return std::get<0>(v_); }
  T&& operator*() && { return std::get<0>(std::move(v_)); }
  T* operator->() { return &std::get<0>(v_); }
  const T* operator->() const { return &std::get<0>(v_); }
  Status status() const { return ok() ? Status() : std::get<1>(v_); }

 private:
  std::variant<T, Status> v_;
};

}  // namespace infer

#define INFER_CAT2(a, b) a##b
#define INFER_CAT(a, b) INFER_CAT2(a, b)
/// Returns the Status from the enclosing function when it is not ok.
#define INFER_TRY(expr)                                   \
  do {                                                    \
    if (::infer::Status s_ = (expr); !s_.ok()) return s_; \
  } while (0)
// NOLINTBEGIN(bugprone-macro-parentheses): what stands left of = may be a declaration
/// INFER_ASSIGN(auto x, F()): x is F()'s value, or the enclosing function returns F()'s Status.
#define INFER_ASSIGN(lhs, expr) INFER_ASSIGN_(INFER_CAT(result_, __LINE__), lhs, expr)
#define INFER_ASSIGN_(tmp, lhs, expr) \
  auto tmp = (expr);                  \
  if (!tmp.ok()) return tmp.status(); \
  lhs = *std::move(tmp)
// NOLINTEND(bugprone-macro-parentheses)
