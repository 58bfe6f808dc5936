#include "tools/common/pair_timing.h"

#include <array>

#include "lib/support/measure.h"

namespace infer {
namespace {

constexpr int kWarmUps = 3, kMinPairs = 11, kMaxPairs = 301;
constexpr double kEnoughMs = 1000;

}  // namespace

Result<PairTiming> TimePair(const Program& a, const Program& b, const std::vector<Datum>& inputs,
                            const std::stop_token& stop) {
  std::vector<std::unique_ptr<RunContext>> runs;
  for (const Program* p : {&a, &b}) {
    INFER_ASSIGN(auto run, p->NewContext());
    for (size_t i = 0; i < inputs.size(); ++i) INFER_TRY(run->BindInput(i, inputs[i]));
    runs.push_back(std::move(run));
  }
  const auto timed = [&](size_t which) -> Result<double> {
    const auto start = std::chrono::steady_clock::now();
    INFER_TRY(runs[which]->Run({.stop = stop, .leave_resident = true}));
    return MsSince(start);
  };
  for (int i = 0; i < kWarmUps; ++i)
    for (const size_t which : {size_t{0}, size_t{1}}) INFER_TRY(timed(which).status());
  std::array<std::vector<double>, 2> ms;
  std::vector<double> ratios;
  const auto start = std::chrono::steady_clock::now();
  for (int pair = 0; pair < kMaxPairs; ++pair) {
    if (pair >= kMinPairs && MsSince(start) > kEnoughMs) break;
    // Who goes first alternates: a slow moment hits both alike.
    const size_t first = static_cast<size_t>(pair % 2);
    INFER_ASSIGN(const double one, timed(first));
    INFER_ASSIGN(const double other, timed(1 - first));
    ms[first].push_back(one);
    ms[1 - first].push_back(other);
    ratios.push_back(ms[1].back() / ms[0].back());
  }
  return PairTiming{Summarize(ms[0]), Summarize(ms[1]), Summarize(ratios), runs[0]->memory(),
                    runs[1]->memory()};
}

}  // namespace infer
