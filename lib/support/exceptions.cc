#include "lib/support/exceptions.h"

#include <exception>
#include <new>
#include <stdexcept>
#include <system_error>

#include "lib/support/memory_limit.h"
#include "lib/support/stop.h"

namespace infer {
namespace {

Status OutOfMemory(std::string_view doing) {
  return ResourceExhausted(std::string("out of memory") + (doing.empty() ? "" : " ") +
                           std::string(doing));
}

Status StatusOfCurrent(std::string_view doing) {
  try {
    throw;
  } catch (const MemoryLimitReached& e) {
    return ResourceExhausted("over the memory limit of " + std::to_string(e.limit()) + " bytes" +
                             (doing.empty() ? "" : " ") + std::string(doing));
  } catch (const std::bad_alloc&) {
    return OutOfMemory(doing);
  } catch (const std::length_error&) {  // a container of more elements than there are addresses
    return OutOfMemory(doing);
  } catch (const std::system_error& e) {
    const std::string what =
        std::string(e.what()) + (doing.empty() ? "" : " ") + std::string(doing);
    const bool resource = e.code() == std::errc::resource_unavailable_try_again ||
                          e.code() == std::errc::not_enough_memory;
    return resource ? ResourceExhausted(what) : Internal("unexpected exception: " + what);
  } catch (const Stopped& e) {
    return e.status();
  } catch (const CheckFailure& e) {
    return Internal(e.what());
  } catch (const std::exception& e) {
    return Internal(std::string("unexpected exception: ") + e.what());
  } catch (...) {
    return Internal("unexpected exception");
  }
}

}  // namespace

Status StatusOfException(std::string_view doing) noexcept {
  try {
    return StatusOfCurrent(doing);
  } catch (...) {
    return {Code::kResource, "out of memory"};  // short enough to need none
  }
}

}  // namespace infer
