/// --mode static: INT8 in QDQ form, ranges of activations from calibration data.
#include "quant/scheme/quantize.h"
#include "tools/infer_opt/quantize/mode.h"

namespace infer {
namespace {

class StaticMode : public QuantizeMode {
 public:
  std::string_view name() const override { return "static"; }
  std::string_view help() const override { return "INT8 weights and activations, calibrated"; }
  bool needs_data() const override { return true; }
  void Declare(Options& o) override {
    o.Value("--observer", &observer_, "minmax, percentile:99.99 or moving-average:0.9");
    o.Choice("--activations", &activations_, {"u8", "s8"}, "Integer type of activations");
    o.Flag("--per-tensor", &per_tensor_, "One scale per weight tensor instead of per channel");
    o.Flag("--reduce-range", &reduce_range_, "7-bit weights, for processors without VNNI");
    o.Value("--keep-first", &options_.scheme.keep_first, "So many first layers stay FP32");
    o.Value("--keep-last", &options_.scheme.keep_last, "So many last layers stay FP32");
  }

  Result<QuantizeReport> Quantize(const QuantizeJob& job, Graph& g, Json&) override {
    QuantScheme& s = options_.scheme;
    s.per_channel = !per_tensor_;
    s.activations.dtype = activations_ == "s8" ? DType::kI8 : DType::kU8;
    s.weights.reduce_range = reduce_range_;
    s.include = job.include;
    s.exclude = job.exclude;
    INFER_ASSIGN(options_.observer, ParseObserver(observer_));
    options_.threads = job.threads;
    options_.stop = job.context.stop();
    options_.progress = [&](int64_t done, int64_t total) {
      job.context.Progress("calibrate", done, total);
    };
    return QuantizeStatic(g, job.calibration, job.backend, options_);
  }

 private:
  QuantizeOptions options_;
  std::string observer_ = "minmax", activations_ = "u8";
  bool per_tensor_ = false, reduce_range_ = false;
};

}  // namespace

std::unique_ptr<QuantizeMode> MakeStaticMode() { return std::make_unique<StaticMode>(); }

std::vector<std::unique_ptr<QuantizeMode>> QuantizeModes() {
  std::vector<std::unique_ptr<QuantizeMode>> modes;
  modes.push_back(MakeStaticMode());
  modes.push_back(MakeWeightOnlyMode());
  modes.push_back(MakeMixedMode());
  return modes;
}

}  // namespace infer
