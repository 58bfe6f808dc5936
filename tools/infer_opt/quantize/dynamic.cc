/// --mode dynamic: INT8 weights, activations quantized as they come.
#include "quant/convert/dynamic.h"

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
    o.Choice("--dynamic-conv", &convolutions_, {"on", "off"}, "dynamic: Conv too");
  }
  std::vector<QuantizeWay> Ways(const QuantizeJob& job) const override {
    std::vector<QuantizeWay> ways = {{job.format, {}, ""}};
    if (convolutions_ == "on")
      ways.push_back({job.format, {kNoConvolutions}, "convolutions in f32 (--dynamic-conv off)"});
    return ways;
  }
  void Take(const QuantizeWay& way) override {
    leaves_convolutions_ = way.settings.contains(kNoConvolutions);
  }
  bool has_draft() const override { return true; }
  Status Draft(const QuantizeJob& job, Graph& g) override { return Made(job, g).status(); }
  Result<QuantizeReport> Quantize(const QuantizeJob& job, Graph& g, Json&) override {
    return Made(job, g);
  }

 private:
  static constexpr const char* kNoConvolutions = "no convolutions";

  Result<QuantizeReport> Made(const QuantizeJob& job, Graph& g) const {
    DynamicOptions options;
    options.convolutions = convolutions_ == "on" && !leaves_convolutions_;
    options.include = job.include;
    options.exclude = job.exclude;
    return QuantizeDynamic(g, options);
  }

  std::string convolutions_ = "on";
  bool leaves_convolutions_ = false;
};

}  // namespace

std::unique_ptr<QuantizeMode> MakeDynamicMode() { return std::make_unique<DynamicMode>(); }

}  // namespace infer
