#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <fstream>
#include <new>
#include <numeric>
#include <stdexcept>
#include <system_error>
#include <thread>
#include <vector>

#include "lib/support/exceptions.h"
#include "lib/support/hash.h"
#include "lib/support/parallel.h"
#include "lib/support/random.h"
#include "lib/support/strings.h"

namespace infer {
namespace {

TEST(Strings, NumbersRoundTrip) {
  for (double v : {0.1, 1e-5, 1e300, -0.0, 3.0}) EXPECT_EQ(*ParseDouble(FormatDouble(v)), v);
  EXPECT_FALSE(ParseDouble("1.5x"));
  EXPECT_FALSE(ParseInt(""));
  EXPECT_EQ(*ParseInt("+7"), 7);
}

TEST(Strings, Glob) {
  EXPECT_TRUE(GlobMatch("conv*", "conv1"));
  EXPECT_TRUE(GlobMatch("*/[ab]?/*", "layer/b1/weight"));
  EXPECT_FALSE(GlobMatch("*/[ab]?/*", "layer/c1/weight"));
  EXPECT_TRUE(GlobMatch("[!x]*z", "yz"));
  EXPECT_FALSE(GlobMatch("a*b", "acbd"));
}

TEST(Hash, EveryBytePositionCounts) {
  std::vector<uint8_t> data(100, 7);
  const uint64_t h = HashBytes(data.data(), data.size());
  for (size_t i = 0; i < data.size(); ++i) {
    data[i] ^= 1;
    EXPECT_NE(HashBytes(data.data(), data.size()), h) << i;
    data[i] ^= 1;
  }
  EXPECT_NE(HashBytes(data.data(), 99), h);
}

TEST(Random, IsStandardNormal) {
  Random random(5);
  double sum = 0, squares = 0;
  constexpr int kN = 100000;
  for (int i = 0; i < kN; ++i) {
    const double v = random.Normal();
    sum += v;
    squares += v * v;
  }
  EXPECT_NEAR(sum / kN, 0, 0.02);
  EXPECT_NEAR(squares / kN, 1, 0.03);
}

TEST(ParallelFor, CoversEveryIndexOnce) {
  for (int lanes : {1, 2, 3, 7}) {
    SetLaneBudget(lanes);
    LaneLease lease(0);
    std::vector<std::atomic<int>> hits(1000);
    ParallelFor(1000, 10, [&](int64_t a, int64_t b) {
      for (int64_t i = a; i < b; ++i) ++hits[static_cast<size_t>(i)];
    });
    for (auto& h : hits) EXPECT_EQ(h, 1);
  }
  SetLaneBudget(AvailableCores());
}

TEST(ParallelFor, ThrowsTheFirstExceptionOnTheCaller) {
  for (int lanes : {1, 2, 3, 7}) {
    SetLaneBudget(lanes);
    LaneLease lease(0);
    for (int round = 0; round < 3; ++round) {
      std::atomic<int> begun{0};
      const auto every = [&](int64_t, int64_t) {
        ++begun;
        throw std::bad_alloc();
      };
      EXPECT_THROW(ParallelFor(lanes, 1, every), std::bad_alloc) << lanes;
      EXPECT_EQ(begun, lanes == 1 ? 1 : lanes) << "the other ranges are still run";
      const auto last = [&](int64_t, int64_t end) {
        if (end == 1000) throw std::length_error("last");
      };
      EXPECT_THROW(ParallelFor(1000, 10, last), std::length_error) << lanes;
    }
    EXPECT_EQ(CurrentLanes(), lanes) << "the caller is in no loop any more";
    // Nor are the others: a loop of one range per lane still gives each what it had.
    std::atomic<int> inner{0};
    ParallelFor(lanes, 1, [&](int64_t, int64_t) { inner += CurrentLanes(); });
    EXPECT_EQ(inner, lanes);
  }
  SetLaneBudget(AvailableCores());
}

TEST(Status, OfAnException) {
  const auto status_of = [](auto exception) {
    try {
      throw exception;
    } catch (...) {
      return StatusOfException("while testing");
    }
  };
  EXPECT_EQ(status_of(std::bad_alloc()).code(), Code::kResource);
  EXPECT_EQ(status_of(std::bad_alloc()).message(), "out of memory while testing");
  EXPECT_EQ(status_of(std::length_error("reserve")).code(), Code::kResource);
  const auto no_thread = std::make_error_code(std::errc::resource_unavailable_try_again);
  EXPECT_EQ(status_of(std::system_error(no_thread)).code(), Code::kResource);
  EXPECT_EQ(status_of(std::runtime_error("odd")).message(), "unexpected exception: odd");
  EXPECT_EQ(status_of(1).code(), Code::kInternal);
}

TEST(LaneLease, WithoutThreadsReservingIsAnException) {
  if (std::getenv("INFER_SANITIZED"))
    GTEST_SKIP() << "a sanitizer takes more addresses than there are";
  const pid_t child = fork();
  if (child == 0) {
    int64_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    const auto bytes = static_cast<rlim_t>(pages * sysconf(_SC_PAGESIZE)) + (rlim_t{64} << 20);
    const rlimit limit{bytes, bytes};
    setrlimit(RLIMIT_AS, &limit);
    SetLaneBudget(256);  // of stacks that are 8 MiB
    const LaneLease lease(256);
    try {
      ReserveLanes(256);
      _exit(1);
    } catch (...) {
      if (StatusOfException("").code() != Code::kResource) _exit(2);
    }
    std::atomic<int> done{0};  // a loop does with what there is
    ParallelFor(256, 1, [&](int64_t begin, int64_t end) { done += static_cast<int>(end - begin); });
    _exit(done == 256 ? 0 : 3);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST(LaneLease, ConcurrentRunsStayInTheBudget) {
  SetLaneBudget(3);
  std::atomic<int> running{0}, worst{0};
  auto work = [&] {
    for (int i = 0; i < 20; ++i) {
      LaneLease lease(2);
      ParallelFor(64, 1, [&](int64_t a, int64_t b) {
        const int now = ++running;
        for (int w = worst; now > w && !worst.compare_exchange_weak(w, now);) {
        }
        volatile double x = 0;
        for (int64_t k = a; k < b * 1000; ++k) x = x + static_cast<double>(k);
        --running;
      });
    }
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < 6; ++i) threads.emplace_back(work);
  for (auto& t : threads) t.join();
  EXPECT_LE(worst, 3);
  EXPECT_GE(worst, 1);
  SetLaneBudget(AvailableCores());
}

TEST(Check, EndsAsInternalOnEveryNumberOfLanes) {
  for (int lanes : {1, 2, 4}) {
    SetLaneBudget(lanes);
    Status status;
    try {
      LaneLease lease(lanes);
      ParallelFor(1000, 1,
                  [](int64_t begin, int64_t end) { INFER_CHECK(begin > 500 || end < 500); });
    } catch (...) {
      status = StatusOfException("");
    }
    EXPECT_EQ(status.code(), Code::kInternal);
    EXPECT_NE(status.message().find("check failed: begin > 500"), std::string::npos)
        << status.message();
  }
  SetLaneBudget(AvailableCores());
}

}  // namespace
}  // namespace infer
