/// Peak memory while importing: at most the file's size times 1.2, and 64 MiB.
#include <sys/resource.h>
#include <sys/wait.h>

#include <filesystem>

#include "tests/lib/onnx/sparse_model.h"

namespace infer {
namespace {

/// Peak resident bytes of a fresh process that imports `path`; -1 when import fails.
int64_t PeakOfImport(const std::string& path) {
  const pid_t child = fork();
  if (child == 0) {
    auto m = ImportModel(path, Ops());
    _exit(m.ok() ? 0 : 1);
  }
  int status = 0;
  rusage usage{};
  wait4(child, &status, 0, &usage);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) return -1;
  return int64_t{usage.ru_maxrss} * 1024;
}

void ExpectLittleMemory(const std::vector<int64_t>& elements) {
  TempDir dir;
  const std::string path = dir / "m.onnx";
  WriteSparseModel(path, elements);
  const auto size = static_cast<int64_t>(std::filesystem::file_size(path));
  const int64_t peak = PeakOfImport(path);
  std::printf("file %.1f MB, peak %.1f MB, ratio %.3f\n", static_cast<double>(size) / 1e6,
              static_cast<double>(peak) / 1e6,
              static_cast<double>(peak) / static_cast<double>(size));
  ASSERT_GE(peak, size) << "import failed, or did not load the data";
  EXPECT_LE(peak, size * 6 / 5 + (int64_t{64} << 20));
}

TEST(ImportMemory, ManyTensors) { ExpectLittleMemory(std::vector<int64_t>(80, 1'000'003)); }
TEST(ImportMemory, OneLargeTensor) { ExpectLittleMemory({103'000'000, 1000}); }

}  // namespace
}  // namespace infer
