#include "tools/infer_opt/quantize/worth.h"

#include "lib/support/readable.h"
#include "lib/support/strings.h"
#include "passes/pass/pipeline.h"
#include "tools/common/pair_timing.h"
#include "tools/infer_opt/fuse/measure.h"

namespace infer {
namespace {

constexpr double kToldApart = 0.02;

/// "0.8 (95 % interval 0.79 to 0.81) of the time of the fused FP32 model", here or as it is told.
std::string TimeText(const Summary& ratio, const std::optional<ToldTime>& told) {
  std::string measured =
      Cat(Rounded(ratio.median, 3), " (95 % interval ", Rounded(ratio.median_low, 3), " to ",
          Rounded(ratio.median_high, 3), ") of the time of the fused FP32 model");
  if (!told) return measured;
  return Cat(Rounded(told->of_fused, 3), " of the time of the fused FP32 model by the cost table (",
             told->table, "); in our runtime, measured: ", measured);
}

std::string SizeText(int64_t fused_bytes, int64_t bytes) {
  const auto least = static_cast<double>(std::max<int64_t>(fused_bytes, 1));
  return Cat(Rounded(static_cast<double>(bytes) / least, 3), " of its bytes");
}

std::string Recommended(const std::string& model_path) {
  return Cat("recommended is the fused FP32 file, infer-opt fuse ", model_path, " -o FILE");
}

struct Timed {
  PairTiming timing;
  bool slower = false;
};

Result<Timed> TimeTwice(Context& context, const Program& fused, const Program& candidate,
                        const std::vector<Datum>& inputs) {
  Timed t;
  for (int round = 0; round < 2; ++round) {
    INFER_ASSIGN(t.timing, TimePair(fused, candidate, inputs, context.stop()));
    t.slower = t.timing.ratio.median_low > 1 + kToldApart;
    if (!t.slower) break;  // only a suspicion is measured again
  }
  return t;
}

}  // namespace

Result<bool> TellWorth(Context& context, const WorthSide& fp32, const WorthSide& candidate,
                       const DeviceOptions& device, const Samples& samples,
                       const std::string& model_path, Json& report) {
  context.Step("time beside the fused FP32 model");
  INFER_ASSIGN(const auto inputs, samples.get(0));
  std::vector<std::shared_ptr<const Program>> programs;
  for (const Graph* g : {&fp32.graph, &candidate.graph}) {
    Graph fused = g->Clone();
    INFER_TRY(Optimize(fused).status());
    INFER_ASSIGN(auto program, CompileOwnedFor(std::move(fused), device));
    programs.push_back(std::move(program));
  }
  INFER_ASSIGN(Timed t, TimeTwice(context, *programs[0], *programs[1], inputs));
  if (candidate.told) t.slower = candidate.told->of_fused > 1 + kToldApart;
  const Summary& ratio = t.timing.ratio;
  const bool larger = candidate.bytes > fp32.bytes;
  const double share =
      static_cast<double>(candidate.bytes) / static_cast<double>(std::max<int64_t>(fp32.bytes, 1));
  const std::string time = TimeText(ratio, candidate.told);
  context.PrintLine(Cat("\n", candidate.told ? "told: " : "measured: ", time, ", ",
                        SizeText(fp32.bytes, candidate.bytes)));
  const bool worth = !t.slower && !larger;
  report["worth"] = {{"latency", ToJson(t.timing)},
                     {"of_bytes", share},
                     {"slower", t.slower},
                     {"larger", larger},
                     {"recommended", worth ? "quantized" : "fused-fp32"}};
  if (candidate.told) report["worth"]["told"] = candidate.told->of_fused;
  if (!worth)
    context.Warn(
        Cat("the result is ",
            t.slower && larger ? "slower and larger than"
            : t.slower         ? "slower than"
                               : "larger than",
            " the fused FP32 model (", t.slower ? time : "", t.slower && larger ? ", " : "",
            larger ? SizeText(fp32.bytes, candidate.bytes) : "", "): ", Recommended(model_path)));
  return worth;
}

void TellLarger(Context& context, int64_t fused_bytes, int64_t bytes,
                const std::string& model_path) {
  if (bytes <= fused_bytes) return;
  context.Warn(Cat("the result is larger than the fused FP32 model (", SizeText(fused_bytes, bytes),
                   "): ", Recommended(model_path)));
}

}  // namespace infer
