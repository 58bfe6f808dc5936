#include "tools/infer_bench/run/grid.h"

#include <algorithm>

#include "lib/support/parallel.h"
#include "lib/support/path_parts.h"
#include "lib/support/strings.h"
#include "tools/bench/precision.h"

namespace infer::bench {
namespace {

constexpr int64_t kMostThreads = 4096;

Result<std::vector<int64_t>> Numbers(const std::string& option,
                                     const std::vector<std::string>& texts, int64_t least,
                                     int64_t most) {
  std::vector<int64_t> out;
  for (const std::string& text : texts) {
    const auto v = ParseInt(text);
    if (!v || *v < least || *v > most)
      return InvalidArgument(Cat(option, " ", text, ": a whole number from ", least, " to ", most));
    if (std::find(out.begin(), out.end(), *v) == out.end()) out.push_back(*v);
  }
  return out;
}

using Extents = std::vector<std::pair<std::string, int64_t>>;

/// "a=1", "2", "b=3" (of --seq a=1,2 --seq b=3) is {a=1,b=3}, {a=2,b=3}.
Result<std::vector<Extents>> SeqChoices(const std::vector<std::string>& texts) {
  std::vector<std::pair<std::string, std::vector<std::string>>> given;
  for (const std::string& text : texts) {
    const size_t at = text.rfind('=');
    if (at == 0 || (at == std::string::npos && given.empty()))
      return InvalidArgument(Cat("--seq ", text, ": write NAME=EXTENT,..."));
    if (at == std::string::npos) {
      given.back().second.push_back(text);
      continue;
    }
    const std::string name = text.substr(0, at);
    auto known =
        std::find_if(given.begin(), given.end(), [&](const auto& g) { return g.first == name; });
    if (known == given.end()) known = given.insert(given.end(), {name, {}});
    known->second.push_back(text.substr(at + 1));
  }
  std::vector<Extents> choices = {{}};
  for (const auto& [name, values] : given) {
    INFER_ASSIGN(const auto extents, Numbers("--seq " + name, values, 0, int64_t{1} << 40));
    std::vector<Extents> more;
    for (const Extents& so_far : choices)
      for (int64_t extent : extents) {
        more.push_back(so_far);
        more.back().emplace_back(name, extent);
      }
    choices = std::move(more);
  }
  return choices;
}

}  // namespace

void GridOptions::Declare(Options& o) {
  o.Section("What to measure");
  o.Values("--threads", &threads,
           "Threads of a run, a measurement for each number; 0: the usable "
           "physical cores");
  o.Values("--batch", &batch,
           "Batches, a measurement for each: the leading dimension of the inputs");
  o.Values("--seq", &seq, "NAME=EXTENT,...: a measurement for each extent of a symbolic dimension");
  o.Values("--precision", &precision,
           "A measurement in each of " + Join(PrecisionNames(), ", ") + " (these need no data)");
}

std::string Cell::Name() const {
  std::string name = std::string(BaseName(path));
  if (precision != kAsIs) name += Cat("/precision:", precision);
  if (batch > 0) name += Cat("/batch:", batch);
  for (const auto& [symbol, extent] : seq) name += Cat("/", symbol, ":", extent);
  return Cat(name, "/threads:", threads);
}

SessionOptions Cell::Session(SessionOptions base) const {
  base.precision = precision;
  base.batch = batch;
  base.device.threads = threads;
  for (const auto& [symbol, extent] : seq) base.model.set.push_back(Cat(symbol, "=", extent));
  return base;
}

Result<std::vector<Cell>> Grid(const std::vector<std::string>& paths, const GridOptions& options) {
  INFER_ASSIGN(auto batches, Numbers("--batch", options.batch, 1, int64_t{1} << 40));
  INFER_ASSIGN(auto threads, Numbers("--threads", options.threads, 0, kMostThreads));
  INFER_ASSIGN(const auto extents, SeqChoices(options.seq));
  std::vector<std::string> precisions = options.precision;
  if (batches.empty()) batches = {0};
  if (threads.empty()) threads = {0};
  if (precisions.empty()) precisions = {std::string(kAsIs)};
  for (const std::string& p : precisions) INFER_TRY(CheckPrecision(p));
  std::vector<Cell> cells;
  for (const std::string& path : paths)
    for (const std::string& precision : precisions)
      for (int64_t batch : batches)
        for (const Extents& seq : extents)
          for (int64_t t : threads)
            cells.push_back({.path = path,
                             .precision = precision,
                             .batch = batch,
                             .seq = seq,
                             .threads = t > 0 ? static_cast<int>(t) : AvailableCores()});
  return cells;
}

}  // namespace infer::bench
