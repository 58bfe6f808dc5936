#include "tools/infer_bench/tune/settings.h"

#include <algorithm>

#include "lib/support/strings.h"

namespace infer::bench {
namespace {

constexpr int64_t kMostLanes = 1024;
constexpr int64_t kMostRows = 4096;  // of a run of the engine: as many queries are in flight

}  // namespace

std::vector<std::string> ThreadsUpTo(int cores) {
  std::vector<std::string> out;
  for (int t = 1; t < cores; t *= 2) out.push_back(Cat(t));
  out.push_back(Cat(cores));
  return out;
}

Result<std::vector<TuneSetting>> SettingsOf(const GridOptions& grid,
                                            const std::vector<std::string>& lanes, int cores,
                                            const std::vector<VariantFile>& variants, bool engine) {
  std::vector<int> wanted;
  for (const std::string& text : lanes) {
    const auto n = ParseInt(text);
    if (!n || *n < 0 || *n > kMostLanes)
      return InvalidArgument(Cat("--lanes ", text, ": a whole number from 0 to ", kMostLanes));
    wanted.push_back(static_cast<int>(*n));
  }
  if (wanted.empty()) wanted = {0};
  std::vector<VariantFile> files = {{}};  // the model
  files.insert(files.end(), variants.begin(), variants.end());
  std::vector<TuneSetting> out;
  for (const VariantFile& file : files) {
    GridOptions of_file = grid;
    if (!file.path.empty()) of_file.precision.clear();
    INFER_ASSIGN(const std::vector<Cell> cells, Grid({file.path}, of_file));
    for (const Cell& cell : cells) {
      if (engine && cell.batch > kMostRows)
        return InvalidArgument(Cat("--batch ", cell.batch, ": with --engine at most ", kMostRows));
      std::vector<int> of_cell;
      for (int n : wanted) {
        const int count = n > 0 ? n : std::max(1, cores / cell.threads);
        if (std::find(of_cell.begin(), of_cell.end(), count) == of_cell.end())
          of_cell.push_back(count);
      }
      for (int n : of_cell)
        out.push_back({.variant = file.path,
                       .accuracy_loss = file.accuracy_loss,
                       .precision = cell.precision,
                       .threads = cell.threads,
                       .batch = engine ? 0 : cell.batch,
                       .lanes = n,
                       .max_batch = engine ? std::max<int64_t>(1, cell.batch) : 0});
    }
  }
  return out;
}

}  // namespace infer::bench
