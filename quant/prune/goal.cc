#include "quant/prune/goal.h"

#include "lib/support/readable.h"
#include "lib/support/strings.h"
#include "quant/algorithm/layer_rows.h"

namespace infer {
namespace {

constexpr int64_t kMostJudges = 512;

Samples SamplesThat(const Samples& samples, bool are_held_out) {
  std::vector<int64_t> which;
  for (int64_t i = 0; i < samples.count; ++i)
    if (IsHeldOutSample(i) == are_held_out) which.push_back(i);
  return Subset(samples, std::move(which));
}

}  // namespace

Status CheckBytesGoal(double bytes) {
  return bytes > 0 ? Status() : InvalidArgument("a size goal is above 0");
}

Status CheckSpeedupGoal(double times, bool is_measured) {
  if (!(times > 1 && times <= 100)) return InvalidArgument("a speed-up is above 1 and at most 100");
  return is_measured ? Status() : InvalidArgument("nothing measures the speed-up");
}

Status CheckDropGoal(double drop, int64_t samples) {
  if (!(drop >= 0 && drop < 1))
    return InvalidArgument("a drop is a share of at least 0, below 100 %");
  if (samples >= kHoldOutSamplesFrom) return {};
  return InvalidArgument(Cat("a drop as the goal is searched for on calibration data: at least ",
                             kHoldOutSamplesFrom, " samples"));
}

Status CheckBytesToSave(double goal, double all) {
  if (goal < all) return {};
  return InvalidArgument(
      Cat("the weights of the prepared model take ", HumanBytes(static_cast<int64_t>(all)),
          ", no more than the goal leaves for them (", HumanBytes(static_cast<int64_t>(goal)),
          "): `infer-opt fuse` alone reaches it"));
}

Status SpeedupOutOfReach(double goal, double fastest) {
  return Unsupported(Cat("a speed-up of ", goal, " is out of reach: the fastest that was tried is ",
                         Rounded(fastest, 3)));
}

Samples FitPart(const Samples& samples) { return SamplesThat(samples, false); }
Samples JudgePart(const Samples& samples) { return SamplesThat(samples, true); }
Samples EvenlySpaced(const Samples& samples, int64_t most) {
  const int64_t n = std::min(samples.count, most);
  std::vector<int64_t> which(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) which[static_cast<size_t>(i)] = i * samples.count / n;
  return Subset(samples, std::move(which));
}

Result<HeldOut> MakeDropJudge(const Graph& golden, const Samples& samples, const Backend& backend,
                              int threads, std::stop_token stop) {
  HeldOut::Options o;
  o.threads = threads;
  o.stop = std::move(stop);
  o.max_samples = kMostJudges;
  return HeldOut::Make(golden, JudgePart(samples), backend, o);
}

Result<double> DropOf(const HeldOut& judge, const Graph& g) {
  INFER_ASSIGN(const HeldOutError e, judge.Measure(g));
  if (e.rows == 0)
    return InvalidArgument(
        "a drop as the goal needs a model whose first output is scores of classes");
  return e.labelled > 0 ? e.drop : e.flips;
}

Result<std::map<std::string, Dims>> ExtentsOfFirst(const Graph& g, const Samples& samples) {
  std::map<std::string, Dims> extents;
  if (samples.count == 0) return extents;
  INFER_ASSIGN(const std::vector<Datum> inputs, samples.get(0));
  for (size_t i = 0; i < inputs.size() && i < g.inputs().size(); ++i)
    if (inputs[i].is_tensor()) extents[g.inputs()[i]->name()] = inputs[i].tensor().dims();
  return extents;
}

}  // namespace infer
