#pragma once
/// System calls that a signal may interrupt, and what they failed of.
#include <cerrno>
#include <system_error>

#include "lib/support/status.h"

namespace infer {

/// Calls `call` until it is not interrupted (EINTR); its result. Not for close: on Linux the
/// descriptor is gone either way.
template <typename F>
auto Retry(const F& call) {
  for (;;) {
    const auto result = call();
    if (!(result < 0 && errno == EINTR)) return result;
  }
}

/// "WHAT: No space left on device", of errno: kResource where the kernel has no memory, else kIo.
inline Status ErrnoError(std::string what) {
  const int error = errno;
  what += ": " + std::generic_category().message(error);
  return {error == ENOMEM ? Code::kResource : Code::kIo, std::move(what)};
}

}  // namespace infer
