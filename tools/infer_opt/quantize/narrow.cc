/// --mode fp16 and --mode bf16: weights and computation in 16-bit floats.
#include "quant/convert/narrow.h"

#include "tools/infer_opt/quantize/mode.h"

namespace infer {
namespace {

/// Options that both modes share.
struct NarrowFlags {
  std::string keep_io = "on";
};

class NarrowMode : public QuantizeMode {
 public:
  NarrowMode(DType to, std::shared_ptr<NarrowFlags> flags) : flags_(std::move(flags)) {
    options_.to = to;
  }
  std::string_view name() const override { return half() ? "fp16" : "bf16"; }
  std::string_view help() const override {
    return half() ? "16-bit floats where the numbers fit; data, where given, check the ranges"
                  : "bfloat16 where the operators take it";
  }
  bool needs_data() const override { return false; }
  bool wants_f32() const override { return false; }
  std::vector<std::string_view> formats() const override { return {"float"}; }
  std::string_view declared_by() const override { return "fp16"; }
  void Declare(Options& o) override {
    if (half())  // once for both
      o.Choice("--keep-io", &flags_->keep_io, {"on", "off"},
               "fp16, bf16: inputs and outputs stay f32");
  }

  bool has_draft() const override { return true; }
  std::string_view way_out() const override { return half() ? "" : "--mode fp16"; }
  Status Draft(const QuantizeJob& job, Graph& g) override {
    NarrowOptions draft = options_;
    draft.keep_io = flags_->keep_io == "on";
    draft.include = job.include;
    draft.exclude = job.exclude;
    draft.stop = job.context.stop();
    return NarrowFloats(g, Samples(), job.backend, draft).status();
  }

  Result<QuantizeReport> Quantize(const QuantizeJob& job, Graph& g, Json&) override {
    options_.keep_io = flags_->keep_io == "on";
    options_.include = job.include;
    options_.exclude = job.exclude;
    options_.threads = job.threads;
    options_.stop = job.context.stop();
    options_.progress = [&](int64_t done, int64_t total) {
      job.context.Progress("check ranges", done, total);
    };
    return NarrowFloats(g, job.calibration, job.backend, options_);
  }

 private:
  bool half() const { return options_.to == DType::kF16; }
  NarrowOptions options_;
  std::shared_ptr<NarrowFlags> flags_;
};

}  // namespace

std::vector<std::unique_ptr<QuantizeMode>> MakeNarrowModes() {
  std::vector<std::unique_ptr<QuantizeMode>> modes;
  const auto flags = std::make_shared<NarrowFlags>();
  for (const DType to : {DType::kF16, DType::kBF16})
    modes.push_back(std::make_unique<NarrowMode>(to, flags));
  return modes;
}

}  // namespace infer
