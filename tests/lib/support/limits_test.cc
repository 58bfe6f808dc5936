#include <gtest/gtest.h>

#include <thread>

#include "lib/support/exceptions.h"
#include "lib/support/memory_limit.h"
#include "lib/support/stop.h"

namespace infer {
namespace {

TEST(StopScope, ATokenHoldsInTheScopeOnly) {
  std::stop_source outer, inner;
  EXPECT_TRUE(CheckStop().ok());
  {
    const StopScope a(outer.get_token());
    EXPECT_FALSE(StopRequested());
    {
      const StopScope never{std::stop_token()};
      const StopScope b(inner.get_token());
      inner.request_stop();
      EXPECT_TRUE(StopRequested());
      EXPECT_EQ(CheckStop().code(), Code::kCancelled);
    }
    EXPECT_FALSE(StopRequested()) << "the inner token asks no more";
    outer.request_stop();
    const StopScope c{std::stop_source().get_token()};
    EXPECT_TRUE(StopRequested()) << "an inner scope does not hide the outer one";
    std::thread([] { EXPECT_FALSE(StopRequested()) << "of another thread"; }).join();
  }
  EXPECT_FALSE(StopRequested());
}

TEST(MemoryLimit, ChargesUpToIt) {
  const int64_t before = MemoryLimit();
  SetMemoryLimit(ChargedMemory() + 1000);
  ChargeMemory(600);
  EXPECT_THROW(ChargeMemory(401), MemoryLimitReached);
  EXPECT_THROW(ChargeMemory(INT64_MAX), std::bad_alloc);
  ChargeMemory(400);
  ReleaseMemory(1000);
  try {
    ChargeMemory(1001);
    ADD_FAILURE();
  } catch (...) {
    const Status s = StatusOfException("here");
    EXPECT_EQ(s.code(), Code::kResource);
    EXPECT_NE(s.message().find("over the memory limit of"), std::string::npos) << s.message();
  }
  SetMemoryLimit(before);
  ChargeMemory(5000);
  ReleaseMemory(5000);
}

}  // namespace
}  // namespace infer
