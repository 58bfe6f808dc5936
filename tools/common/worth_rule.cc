#include "tools/common/worth_rule.h"

#include "lib/support/readable.h"
#include "lib/support/strings.h"

namespace infer {
namespace {

constexpr double kToldApart = 0.02;

bool IsSlower(const Summary& ratio) { return ratio.median_low > 1 + kToldApart; }

std::string TimeText(const Worth& w) {
  const Summary& ratio = w.timing.ratio;
  std::string measured =
      Cat(Rounded(ratio.median, 3), " (95 % interval ", Rounded(ratio.median_low, 3), " to ",
          Rounded(ratio.median_high, 3), ") of the time of the fused FP32 model");
  if (!w.told) return measured;
  return Cat(Rounded(w.told->of_fused, 3),
             " of the time of the fused FP32 model by the cost table (", w.told->table,
             "); in our runtime, measured: ", measured);
}

double ShareOfBytes(int64_t fused_bytes, int64_t bytes) {
  return static_cast<double>(bytes) / static_cast<double>(std::max<int64_t>(fused_bytes, 1));
}

std::string SizeText(int64_t fused_bytes, int64_t bytes) {
  return Cat(Rounded(ShareOfBytes(fused_bytes, bytes), 3), " of its bytes");
}

std::string Recommended(const std::string& model_path) {
  return Cat("recommended is the fused FP32 file, infer-opt fuse ", model_path, " -o FILE");
}

}  // namespace

bool Worth::slower() const {
  return told ? told->of_fused > 1 + kToldApart : IsSlower(timing.ratio);
}

Result<PairTiming> TimeSuspects(const std::function<Result<PairTiming>()>& measure) {
  INFER_ASSIGN(PairTiming t, measure());
  if (IsSlower(t.ratio)) {
    INFER_ASSIGN(t, measure());
  }
  return t;
}

std::string ToText(const Worth& w) {
  return Cat(w.told ? "told: " : "measured: ", TimeText(w), ", ", SizeText(w.fused_bytes, w.bytes));
}

std::string WarningOf(const Worth& w, const std::string& model_path) {
  const bool slower = w.slower(), larger = w.larger();
  if (!slower) return WarningOfBytes(w.fused_bytes, w.bytes, model_path);
  return Cat("the result is ", larger ? "slower and larger than" : "slower than",
             " the fused FP32 model (", TimeText(w),
             larger ? Cat(", ", SizeText(w.fused_bytes, w.bytes)) : "",
             "): ", Recommended(model_path));
}

std::string WarningOfBytes(int64_t fused_bytes, int64_t bytes, const std::string& model_path) {
  if (bytes <= fused_bytes) return "";
  return Cat("the result is larger than the fused FP32 model (", SizeText(fused_bytes, bytes),
             "): ", Recommended(model_path));
}

Json ToJson(const Worth& w) {
  Json j = {{"latency", ToJson(w.timing)},
            {"of_bytes", ShareOfBytes(w.fused_bytes, w.bytes)},
            {"slower", w.slower()},
            {"larger", w.larger()},
            {"recommended", w.worth() ? "quantized" : "fused-fp32"}};
  if (w.told) j["told"] = w.told->of_fused;
  return j;
}

}  // namespace infer
