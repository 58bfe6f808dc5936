/// --mode weight-only: weights of 2, 4 or 8 bits in blocks, activations in f32. No data is needed.
#include "quant/weight_only/weight_only.h"

#include "lib/support/strings.h"
#include "quant/algorithm/data_rounder.h"
#include "quant/weight_only/round.h"
#include "tools/infer_opt/quantize/mode.h"

namespace infer {
namespace {

class WeightOnlyMode : public QuantizeMode {
 public:
  std::string_view name() const override { return "weight-only"; }
  std::string_view help() const override {
    return "weights of 2, 4 or 8 bits, embeddings too, activations f32; needs no data";
  }
  bool needs_data() const override { return false; }
  /// MatMulNBits and GatherBlockQuantized of com.microsoft, or blocked DequantizeLinear.
  std::vector<std::string_view> formats() const override { return {"nbits", "qdq"}; }
  void Declare(Options& o) override {
    o.Value("--bits", &options_.scheme.grid.bits, "weight-only: bits of weights: 2, 4 or 8");
    o.Value("--block", &options_.scheme.grid.block,
            "weight-only: weights with one scale: 16 to 256; 0: those of an output (qdq)");
    o.Flag("--asymmetric", &asymmetric_, "weight-only: zero points, too");
    std::vector<std::string> methods = RounderNames();
    for (std::string& name : DataMethodNames()) methods.push_back(std::move(name));
    o.Choice("--method", &method_, methods, "weight-only: how weights are rounded");
    o.Value("--accuracy-level", &options_.accuracy_level,
            "weight-only: of MatMulNBits: 0 f32 activations, 4 they may be quantized to 8 bits");
    o.Choice("--embeddings", &embeddings_, {"on", "int8", "off"},
             "weight-only: tables of Gather: as --bits, in 8 bits, or left in FP32");
    o.Choice("--layers-int8", &layers_, {"on", "off"},
             "weight-only: weights of convolutions and recurrent layers in 8 bits");
  }

  Result<QuantizeReport> Quantize(const QuantizeJob& job, Graph& g, Json& report) override {
    if (DataMethodNamed(method_) && job.calibration.count == 0)
      return InvalidArgument(
          Cat("--method ", method_,
              " rounds by calibration data: --data X, or --calib X --eval Z; " Join(RounderNames(),
                                                                                    ", "),
              " need none"));
    WeightScheme& s = options_.scheme;
    s.grid.symmetric = !asymmetric_;
    s.format = job.format == "qdq" ? WeightFormat::kQdq : WeightFormat::kNBits;
    s.lookups = embeddings_ != "off";
    s.lookup_bits = embeddings_ == "int8" ? 8 : 0;
    s.layers = layers_ == "on";
    s.include = job.include;
    s.exclude = job.exclude;
    options_.rounder = [&](Graph& prepared, const WeightPlan& plan) -> Result<BlockRounder> {
      const auto method = DataMethodNamed(method_);
      if (!method) return RounderNamed(method_);
      HessianOptions data;
      data.threads = job.threads;
      data.stop = options_.stop;
      data.progress = [&](int64_t done, int64_t total) {
        job.context.Progress("calibrate", done, total);
      };
      return RounderFromData(prepared, plan, job.calibration, job.backend, *method, data);
    };
    options_.round_layers = DataMethodNamed(method_).has_value();
    options_.stop = job.context.stop();
    options_.progress = [&](int64_t done, int64_t total) {
      job.context.Progress("quantize", done, total);
    };
    report["weight_only"] = {
        {"bits", s.grid.bits},  {"block", s.grid.block}, {"symmetric", s.grid.symmetric},
        {"format", job.format}, {"method", method_},     {"embeddings", embeddings_}};
    if (s.format == WeightFormat::kNBits)
      report["weight_only"]["accuracy_level"] = options_.accuracy_level;
    return QuantizeWeightOnly(g, options_);
  }

 private:
  WeightOnlyOptions options_;
  std::string method_ = "mse", embeddings_ = "on", layers_ = "on";
  bool asymmetric_ = false;
};

}  // namespace

std::unique_ptr<QuantizeMode> MakeWeightOnlyMode() { return std::make_unique<WeightOnlyMode>(); }

}  // namespace infer
