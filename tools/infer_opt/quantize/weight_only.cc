/// --mode weight-only: weights of 2, 4 or 8 bits in blocks, activations in f32. No data is needed.
#include "quant/weight_only/weight_only.h"

#include <algorithm>

#include "lib/support/strings.h"
#include "quant/algorithm/data_rounder.h"
#include "quant/prune/joint.h"
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

  /// Tables in f32, blocks in standard operators, a scale per output: what fewer readers refuse.
  std::vector<QuantizeWay> Ways(const QuantizeJob& job) const override {
    std::vector<QuantizeWay> ways;
    const bool has_tables = embeddings_ != "off";
    const auto add = [&](std::string_view format, std::set<std::string> settings,
                         const std::string& told) {
      ways.push_back({std::string(format), settings, told});
      if (layers_ == "off") return;
      settings.insert(kNoLayers);
      ways.push_back({std::string(format), settings,
                      Cat(told, told.empty() ? "" : ", ",
                          "convolutions and recurrent layers in f32 (--layers-int8 off)")});
    };
    for (const std::string_view format : {"nbits", "qdq"}) {
      if (!job.format_given && job.standard_only && format == "nbits") continue;
      if (job.format_given && job.format != format) continue;
      const bool other = !ways.empty();
      const std::string form = other ? "weights behind DequantizeLinear (--format qdq)" : "";
      const std::string tables =
          Cat(form, other ? ", " : "", "tables of Gather in f32 (--embeddings off)");
      add(format, {}, form);
      if (has_tables) add(format, {kNoTables}, tables);
      if (format != "qdq" || options_.scheme.grid.block == 0) continue;
      const std::string rows = Cat(form, other ? ", " : "", "a scale per output (--block 0)");
      add(format, {kNoBlocks}, rows);
      if (has_tables)
        add(format, {kNoBlocks, kNoTables},
            Cat(rows, ", tables of Gather in f32 (--embeddings off)"));
    }
    return ways;
  }
  void Take(const QuantizeWay& way) override { taken_ = way.settings; }
  bool has_draft() const override { return true; }
  bool can_prune() const override { return true; }
  Status Draft(const QuantizeJob& job, Graph& g) override {
    WeightOnlyOptions draft = options_;
    Fill(job, draft.scheme);
    draft.rounder = [](Graph&, const WeightPlan&) { return RounderNamed("nearest"); };
    draft.stop = job.context.stop();
    return QuantizeWeightOnly(g, draft).status();
  }

  Result<QuantizeReport> Quantize(const QuantizeJob& job, Graph& g, Json& report) override {
    if (DataMethodNamed(method_) && job.calibration.count == 0)
      return InvalidArgument(Cat("--method ", method_,
                                 " rounds by calibration data: --data X, or --calib X --eval Z; ",
                                 Join(RounderNames(), ", "), " need none"));
    WeightScheme& s = options_.scheme;
    Fill(job, s);
    options_.stop = job.context.stop();
    HessianOptions data;
    data.threads = job.threads;
    data.stop = options_.stop;
    data.progress = [&](int64_t done, int64_t total) {
      job.context.Progress("calibrate", done, total);
    };
    INFER_TRY(UseMethod(method_, job.calibration, job.backend, data, options_));
    if (job.pruning) INFER_TRY(Prune(job));
    options_.progress = [&](int64_t done, int64_t total) {
      job.context.Progress("quantize", done, total);
    };
    report["weight_only"] = {
        {"bits", s.grid.bits},  {"block", s.grid.block}, {"symmetric", s.grid.symmetric},
        {"format", job.format}, {"method", method_},     {"embeddings", embeddings_}};
    if (s.format == WeightFormat::kNBits)
      report["weight_only"]["accuracy_level"] = options_.accuracy_level;
    INFER_ASSIGN(QuantizeReport done, QuantizeWeightOnly(g, options_));
    TellWider(job.context, done);
    return done;
  }

 private:
  Status Prune(const QuantizeJob& job) {
    if (DataMethodNamed(method_))
      return InvalidArgument(Cat("--method ", method_,
                                 ": with --sparsity weights are rounded while they are pruned; ",
                                 Join(RounderNames(), ", "), " round what is not pruned"));
    options_.change = job.pruning->By(job.calibration);
    INFER_ASSIGN(const BlockRounder others, RounderNamed(method_));
    options_.rounder = [pruning = job.pruning, others](Graph&, const WeightPlan&) {
      return pruning->Rounder(others);
    };
    return {};
  }

  /// Few bits are of products and tables; other layers are stored in 8.
  void TellWider(Context& context, const QuantizeReport& r) const {
    if (options_.scheme.grid.bits >= 8) return;
    const auto wider = std::count_if(r.layers.begin(), r.layers.end(), [](const QuantizedLayer& l) {
      return l.precision.starts_with("int8") && l.op != "MatMul" && l.op != "Gemm" &&
             l.op != "Gather";
    });
    if (wider > 0)
      context.PrintLine(Cat(wider,
                            " convolutions and recurrent layers are stored in 8 bits, since ",
                            options_.scheme.grid.bits,
                            " bits are of MatMul, Gemm and Gather alone (--layers-int8 off leaves "
                            "them in f32)"));
  }

  static constexpr const char *kNoTables = "no tables", *kNoBlocks = "no blocks",
                              *kNoLayers = "no layers";

  void Fill(const QuantizeJob& job, WeightScheme& s) const {
    s.grid.symmetric = !asymmetric_;
    s.format = job.format == "qdq" ? WeightFormat::kQdq : WeightFormat::kNBits;
    s.lookups = embeddings_ != "off" && !taken_.contains(kNoTables);
    if (taken_.contains(kNoBlocks)) s.grid.block = 0;
    s.lookup_bits = embeddings_ == "int8" ? 8 : 0;
    s.layers = layers_ == "on" && !taken_.contains(kNoLayers);
    s.include = job.include;
    s.exclude = job.exclude;
  }

  WeightOnlyOptions options_;
  std::set<std::string> taken_;  ///< settings of the way
  std::string method_ = "mse", embeddings_ = "on", layers_ = "on";
  bool asymmetric_ = false;
};

}  // namespace

std::unique_ptr<QuantizeMode> MakeWeightOnlyMode() { return std::make_unique<WeightOnlyMode>(); }

}  // namespace infer
