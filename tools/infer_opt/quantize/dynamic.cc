/// --mode dynamic: INT8 weights, activations quantized as they come.
#include "quant/convert/dynamic.h"

#include <algorithm>

#include "lib/support/strings.h"
#include "quant/prune/joint.h"
#include "quant/target/target.h"
#include "tools/infer_opt/quantize/mode.h"

namespace infer {
namespace {

class DynamicMode : public QuantizeMode {
 public:
  std::string_view name() const override { return "dynamic"; }
  std::string_view help() const override {
    return "INT8 weights, activations quantized as they come; needs no data";
  }
  bool needs_data() const override { return false; }
  std::vector<std::string_view> formats() const override { return {"integer"}; }
  void Declare(Options& o) override {
    o.Choice("--dynamic-conv", &convolutions_, {"auto", "on", "off"},
             "dynamic: Conv too; auto: unless ONNX Runtime reads the file, which takes several "
             "times as long for them as for FP32");
  }
  std::vector<QuantizeWay> Ways(const QuantizeJob& job) const override {
    std::vector<QuantizeWay> ways = {{job.format, {}, ""}};
    if (CoversConvolutions(job))
      ways.push_back({job.format, {kNoConvolutions}, "convolutions in f32 (--dynamic-conv off)"});
    return ways;
  }
  void Take(const QuantizeWay& way) override {
    leaves_convolutions_ = way.settings.contains(kNoConvolutions);
  }
  bool has_draft() const override { return true; }
  /// DynamicQuantizeLinear's.
  int64_t least_opset() const override { return 11; }
  Status Draft(const QuantizeJob& job, Graph& g) override { return Made(job, g, nullptr).status(); }
  Result<QuantizeReport> Quantize(const QuantizeJob& job, Graph& g, Json& report) override {
    INFER_ASSIGN(QuantizeReport made,
                 Made(job, g, job.pruning ? job.pruning->By(job.calibration) : nullptr));
    is_ours_ = !job.for_ort && (!job.target || job.target->runtime == TargetRuntime::kOurs);
    if (job.for_ort)
      job.context.Note("ONNX Runtime's time for dynamic INT8 is not foretold: measure it there");
    WeightRangeFlags::TellSaturation(job.context, made.has_wide_pairs, IsForOthers(job), report);
    const auto counts = [&](std::string_view precision) {
      return std::any_of(made.layers.begin(), made.layers.end(), [&](const QuantizedLayer& l) {
        return l.op == "Conv" && l.precision == precision;
      });
    };
    if (counts("int8") && !IsForOthers(job))
      job.context.Note(
          "ONNX Runtime takes several times as long for INT8 convolutions of this form as for "
          "FP32: "
          "--target ort (or --dynamic-conv off) leaves them in FP32");
    else if (counts("f32") && !CoversConvolutions(job) && convolutions_ == "auto")
      job.context.Note(
          "convolutions stay in FP32, for which ONNX Runtime takes a fraction of the time of INT8 "
          "ones of this form; --mode static makes them faster, --dynamic-conv on makes them INT8");
    return made;
  }
  bool has_weight_range() const override { return true; }
  bool can_prune() const override { return true; }
  /// Times of our runtime say nothing of another one's.
  Worth worth() const override { return is_ours_ ? Worth::kTold : Worth::kNotAsked; }

 private:
  static constexpr const char* kNoConvolutions = "no convolutions";

  bool CoversConvolutions(const QuantizeJob& job) const {
    return convolutions_ == "on" || (convolutions_ == "auto" && !job.for_ort);
  }

  Result<QuantizeReport> Made(const QuantizeJob& job, Graph& g, WeightChange change) const {
    DynamicOptions options;
    options.change = std::move(change);
    options.convolutions = CoversConvolutions(job) && !leaves_convolutions_;
    options.reduce_range = job.weight_range.Reduces(job.for_ort);
    // ONNX Runtime's convolutions multiply such codes exactly.
    options.reduce_convolutions = job.weight_range.reduce;
    options.include = job.include;
    options.exclude = job.exclude;
    auto made = QuantizeDynamic(g, options);
    if (!made.ok() && made.status().code() == Code::kUnsupported && convolutions_ == "auto" &&
        !options.convolutions)
      return Unsupported(Cat(made.status().message(),
                             "; convolutions are left in FP32 for ONNX Runtime (--dynamic-conv on "
                             "makes them INT8, which is slower there; --mode static is faster)"));
    return made;
  }

  std::string convolutions_ = "auto";
  bool leaves_convolutions_ = false, is_ours_ = true;
};

}  // namespace

std::unique_ptr<QuantizeMode> MakeDynamicMode() { return std::make_unique<DynamicMode>(); }

}  // namespace infer
