/// The file that keeps a driver's pipelines: read back, and rejected in every way in which it can
/// be wrong. Results never hang on it.
#include "runtime/vulkan/record/pipeline_cache.h"

#include <unistd.h>

#include <filesystem>
#include <thread>

#include "lib/support/file.h"
#include "lib/support/folder.h"
#include "tests/runtime/vulkan/graphs.h"

namespace infer {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr const char* kCachedNet =
    "graph g(x: f32[9,30]) -> (y) { w = const f32[30,40] ~1 p = MatMul(x, w) y = Gelu(p) }";

class CacheFolder {
 public:
  CacheFolder() {
    std::string name = std::filesystem::temp_directory_path() / "pipelinesXXXXXX";
    INFER_CHECK(::mkdtemp(name.data()) != nullptr);
    path = name;
  }
  ~CacheFolder() { std::filesystem::remove_all(path); }
  std::string file() const {
    const auto entries = *EntriesOf(path);
    EXPECT_EQ(entries.size(), 1u);
    return entries.empty() ? "" : Cat(path, "/", entries[0]);
  }
  std::string path;
};

/// Runs the net, and says what became of the cache.
PipelineInfo Started(const std::string& folder) {
  const auto backend = VulkanOver({.pipeline_cache = folder});
  const Graph g = ParsedGraph(kCachedNet);
  RunAndCompare(*backend, g);
  return *(*backend->Compile(g, {}))->pipelines();
}

TEST(PipelineCache, TheSecondStartReadsWhatTheFirstWrote) {
  const CacheFolder folder;
  const PipelineInfo first = Started(folder.path + "/made/on/the/way");
  EXPECT_EQ(first.cache, "absent");
  EXPECT_GT(first.made, 0);
  EXPECT_GT(first.made_ms, 0);
  const PipelineInfo second = Started(folder.path + "/made/on/the/way");
  EXPECT_EQ(second.cache, "loaded");
  EXPECT_GT(second.loaded_bytes, 0);
  EXPECT_EQ(Started("").cache, "off");
}

TEST(PipelineCache, WhatIsWrongIsRejectedAndWrittenAnew) {
  const CacheFolder folder;
  Started(folder.path);
  const std::string good = *ReadFile(folder.file());
  for (const auto& [bad, why] : {std::pair(std::string(), "no pipeline cache"),
                                 {std::string(100, 'x'), "no pipeline cache"},
                                 {good.substr(0, good.size() - 1), "its length"},
                                 {good + "x", "its length"},
                                 {good.substr(0, 12), "no pipeline cache"}}) {
    ASSERT_TRUE(WriteFileAtomically(folder.file(), bad).ok());
    EXPECT_THAT(Started(folder.path).cache, AllOf(StartsWith("rejected: "), HasSubstr(why)));
    EXPECT_EQ(Started(folder.path).cache, "loaded");
  }
  const auto gpu = *vulkan::Gpu::Make({});
  const std::string identity = vulkan::PipelineIdentity(gpu->properties());
  EXPECT_TRUE(vulkan::PipelinePayload(good, identity).ok());
  // A byte that is turned over is seen, wherever it stands: every one of the header, and some 500
  // of a driver that keeps much.
  for (size_t i = 0; i < good.size(); i += i < 64 ? 1 : 1 + good.size() / 500) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ 0x10);
    EXPECT_FALSE(vulkan::PipelinePayload(bad, identity).ok()) << i;
  }
}

/// The checksum is right, but what is inside is another device's: the driver is not shown it.
TEST(PipelineCache, AnotherDevicesDataIsRejected) {
  const CacheFolder folder;
  Started(folder.path);
  const auto gpu = *vulkan::Gpu::Make({});
  const std::string identity = vulkan::PipelineIdentity(gpu->properties());
  std::string payload = *vulkan::PipelinePayload(*ReadFile(folder.file()), identity);
  payload[8] = static_cast<char>(payload[8] ^ 1);  // the vendor
  ASSERT_TRUE(WriteFileAtomically(folder.file(), vulkan::PipelineFile(identity, payload)).ok());
  EXPECT_THAT(Started(folder.path).cache, HasSubstr("another device"));
  EXPECT_FALSE(
      vulkan::PipelinePayload(vulkan::PipelineFile("another driver", payload), identity).ok());
}

TEST(PipelineCache, AFolderThatCannotBeWrittenIsNoFailure) {
  EXPECT_EQ(Started("/proc/nothing/here").cache, "absent");
}

TEST(PipelineCache, SeveralThatWriteAtOnceLeaveAWholeFile) {
  const CacheFolder folder;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) threads.emplace_back([&] { Started(folder.path); });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(Started(folder.path).cache, "loaded");
}

}  // namespace
}  // namespace infer
