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
  Result<QuantizeReport> Quantize(const QuantizeJob& job, Graph& g, Json&) override {
    DynamicOptions options;
    options.convolutions = convolutions_ == "on";
    options.include = job.include;
    options.exclude = job.exclude;
    return QuantizeDynamic(g, options);
  }

 private:
  std::string convolutions_ = "on";
};

}  // namespace

std::unique_ptr<QuantizeMode> MakeDynamicMode() { return std::make_unique<DynamicMode>(); }

}  // namespace infer
