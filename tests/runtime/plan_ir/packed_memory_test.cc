/// Memory of packed weights: aligned parts that do not meet, and no more of it than a small program
/// needs.
#include "runtime/plan_ir/packed_memory.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "lib/support/memory_limit.h"

namespace infer {
namespace {

TEST(PackedMemory, SmallProgramsTakeLittle) {
  const int64_t before = ChargedMemory();
  PackedMemory memory;
  const PackedMemory::Part part = memory.Take(1000);
  EXPECT_LT(ChargedMemory() - before, int64_t{2} << 20);
}

TEST(PackedMemory, PartsDoNotMeet) {
  const int64_t before = ChargedMemory();
  int64_t wanted = 0;
  {
    std::vector<PackedMemory::Part> parts;
    PackedMemory memory;
    for (size_t i = 0; i < 300; ++i) {
      parts.push_back(memory.Take(i * 1021 + 1));
      ASSERT_EQ(reinterpret_cast<uintptr_t>(parts.back().data) % 64, 0u);
      std::memset(parts.back().data, static_cast<int>(i % 251), i * 1021 + 1);
      wanted += static_cast<int64_t>(i * 1021 + 1);
    }
    for (size_t i = 0; i < parts.size(); ++i) {
      ASSERT_EQ(parts[i].data[0], static_cast<std::byte>(i % 251));
      ASSERT_EQ(parts[i].data[i * 1021], static_cast<std::byte>(i % 251));
    }
    EXPECT_LT(ChargedMemory() - before, wanted + (int64_t{34} << 20));
  }
  EXPECT_EQ(ChargedMemory(), before);
}

}  // namespace
}  // namespace infer
