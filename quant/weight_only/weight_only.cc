#include "quant/weight_only/weight_only.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iterator>

#include "lib/ir/editor.h"
#include "lib/ir/verify.h"
#include "lib/support/strings.h"
#include "quant/convert/bodies.h"
#include "quant/convert/cast_and_mul.h"
#include "quant/convert/layers.h"
#include "quant/scheme/quantize.h"
#include "quant/weight_only/round.h"

namespace infer {
namespace {

/// The node's, or its first result's.
std::string LayerNameOf(const Node& n) {
  if (!n.name().empty()) return n.name();
  for (const Value* v : n.outputs())
    if (v) return v->name();
  return "";
}

std::string PrecisionOf(const BlockGrid& grid) {
  return grid.bits == 8 ? "int8-weights" : Cat("int", grid.bits);
}

Status NothingToDo(const QuantizeReport& report, const std::string& bodies) {
  std::vector<std::string> reasons;
  for (const QuantizedLayer& l : report.layers)
    reasons.push_back(Cat(l.op, " '", l.name, "': ", l.reason));
  if (reasons.empty())
    return Unsupported(Cat("the model has no layer with weights", InABody(bodies)));
  return Unsupported(
      Cat("no weights can be quantized: ", FirstReasons(std::move(reasons)), InABody(bodies)));
}

class WeightQuantizer {
 public:
  WeightQuantizer(Graph& g, const WeightOnlyOptions& options, WeightPlan plan)
      : g_(g), options_(options), plan_(std::move(plan)) {}

  Result<QuantizeReport> Run() {
    for (const WeightReader& r : plan_.readers) {
      QuantizedLayer layer;
      layer.name = LayerNameOf(*r.node);
      layer.op = std::string(r.node->op());
      layer.precision = "f32";
      layer.quantizable = true;
      layer.reason = r.reason;
      report_.layers.push_back(std::move(layer));
    }
    BlockRounder rounder = NearestRounder();
    if (options_.rounder) {
      INFER_ASSIGN(rounder, options_.rounder(g_, plan_));
    }
    const auto total = static_cast<int64_t>(plan_.groups.size());
    for (int64_t i = 0; i < total; ++i) {
      if (options_.stop.stop_requested()) return Cancelled("quantization was stopped");
      if (options_.progress) options_.progress(i, total);
      const WeightGroup& group = plan_.groups[static_cast<size_t>(i)];
      const std::string name = group.source->name();
      Status done = group.is_layer ? QuantizeLayer(group, rounder) : QuantizeBlocks(group, rounder);
      if (!done.ok()) return std::move(done).In(name);
    }
    if (options_.progress) options_.progress(total, total);
    GraphEditor(g_).Sweep();
    CountLayers(report_);
    return std::move(report_);
  }

 private:
  Status QuantizeBlocks(const WeightGroup& group, const BlockRounder& rounder) {
    const GroupWeights weights(group);
    std::vector<std::string> operands;
    for (const size_t i : group.readers)
      if (plan_.readers[i].use == WeightUse::kProduct)
        operands.push_back(plan_.readers[i].node->input(0)->name());
    INFER_ASSIGN(
        const RoundedWeights rounded,
        rounder({group.source->name(), operands, weights.view(), group.grid, group.has_lookup}));
    QuantizedLayer& first = report_.layers[group.readers[0]];
    first.method = rounded.method;
    first.note = rounded.note;
    first.weight_error = RelativeError(weights.view(), rounded.q);
    first.nearest_error =
        rounded.method == "nearest"
            ? first.weight_error
            : RelativeError(weights.view(), QuantizeNearest(weights.view(), group.grid));
    if (rounded.of_outputs) {
      first.output_error = rounded.error;
      first.nearest_output_error = rounded.nearest_error;
    }
    const int64_t before = group.source->constant()->byte_size();
    INFER_ASSIGN(const WrittenWeights written,
                 WriteGroup(g_, plan_, group, rounded.q, options_.scheme, options_.accuracy_level));
    Account(group, before, written.bytes);
    return {};
  }

  /// The scale of each row of `weights`.
  static std::vector<float> RowScales(const WeightGroup& group, const QuantParams& params) {
    const Tensor& w = *group.source->constant();
    std::vector<float> scales(static_cast<size_t>(group.rows), params.scale[0]);
    if (group.axis < 0) return scales;
    int64_t inner = 1;
    for (int i = group.axis + 1; i < w.rank(); ++i) inner *= w.dim(i);
    for (int64_t r = 0; r < group.rows; ++r) {
      const int64_t first = group.rows_first ? r * group.depth : r;
      scales[static_cast<size_t>(r)] =
          params.scale[static_cast<size_t>(first / inner % w.dim(group.axis))];
    }
    return scales;
  }

  /// The codes that `rounder` chooses for the scales of `params`; what it tells goes to `layer`.
  Status RoundLayer(const WeightGroup& group, const BlockRounder& rounder,
                    const QuantParams& params, QuantizedLayer& layer, Tensor& codes) {
    const GroupWeights weights(group);
    const std::vector<float> scales = RowScales(group, params);
    INFER_ASSIGN(const RoundedWeights rounded,
                 rounder({group.source->name(), {}, weights.view(), group.grid, false, scales}));
    layer.method = rounded.method;
    layer.note = rounded.note;
    if (rounded.of_outputs) {
      layer.output_error = rounded.error;
      layer.nearest_output_error = rounded.nearest_error;
    }
    const BlockQuantized& q = rounded.q;
    for (int64_t r = 0; r < q.rows; ++r)
      for (int64_t k = 0; k < q.depth; ++k)
        codes.SetInt(group.rows_first ? r * q.depth + k : k * q.rows + r,
                     q.codes[static_cast<size_t>(r * q.depth + k)] - q.grid.middle());
    return {};
  }

  Status QuantizeLayer(const WeightGroup& group, const BlockRounder& rounder) {
    const Tensor& w = *group.source->constant();
    const QuantParams params = ChooseWeightParams(w, group.axis, {DType::kI8, true, false});
    Tensor codes = QuantizeTensor(w, params);
    const double error = RelativeErrorOf(w, DequantizeTensor(codes, params));
    if (error > options_.scheme.layer_error) {
      for (const size_t i : group.readers)
        report_.layers[i].reason =
            Cat("8 bits would err by ", FormatNumber(100 * error), " % of its weights, above ",
                FormatNumber(100 * options_.scheme.layer_error), " %");
      return {};
    }
    QuantizedLayer& first = report_.layers[group.readers[0]];
    first.method = "nearest";
    first.weight_error = first.nearest_error = error;
    first.per_channel = group.axis >= 0;
    if (options_.round_layers) {
      INFER_TRY(RoundLayer(group, rounder, params, first, codes));
      first.weight_error = RelativeErrorOf(w, DequantizeTensor(codes, params));
    }
    const int64_t before = w.byte_size();
    INFER_ASSIGN(const WrittenWeights written,
                 WriteLayerGroup(g_, plan_, group, codes, params.scale));
    Account(group, before, written.bytes);
    return {};
  }

  static double RelativeErrorOf(const Tensor& w, const Tensor& real) {
    const auto a = w.data<float>(), b = real.data<float>();
    double error = 0, all = 0;
    for (size_t i = 0; i < a.size(); ++i) {
      const double x = static_cast<double>(a[i]), d = x - static_cast<double>(b[i]);
      error += d * d;
      all += x * x;
    }
    return all > 0 ? std::sqrt(error / all) : 0;
  }

  static std::string FormatNumber(double x) {
    char text[32];
    std::snprintf(text, sizeof(text), "%.2g", x);
    return text;
  }

  /// Shared weights count once, for the first layer that reads them.
  void Account(const WeightGroup& group, int64_t before, int64_t after) {
    const std::string precision = PrecisionOf(group.grid);
    QuantizedLayer& first = report_.layers[group.readers[0]];
    for (const size_t i : group.readers) {
      QuantizedLayer& l = report_.layers[i];
      l.precision = precision;
      if (&l == &first) continue;
      l.method = first.method;
      l.weight_error = first.weight_error;
      l.nearest_error = first.nearest_error;
      l.output_error = first.output_error;
      l.nearest_output_error = first.nearest_output_error;
      l.note = Cat("shares the weights of '", first.name, "'");
    }
    first.weight_bytes_before = before;
    first.weight_bytes_after = after;
  }

  Graph& g_;
  const WeightOnlyOptions& options_;
  WeightPlan plan_;
  QuantizeReport report_;
};

/// A body of control flow as a graph of its own.
Result<QuantizeReport> QuantizeInBody(Graph& body, const WeightOnlyOptions& options) {
  WeightOnlyOptions inside;
  inside.scheme = options.scheme;
  inside.accuracy_level = options.accuracy_level;
  inside.prepare = options.prepare;
  inside.stop = options.stop;
  inside.body_rounder = options.body_rounder;
  if (options.body_rounder)
    inside.rounder = [&](Graph&, const WeightPlan&) { return options.body_rounder; };
  INFER_TRY(FitPatterns(body, inside.scheme.include, inside.scheme.exclude));
  return QuantizeWeightOnly(body, inside);
}

}  // namespace

Result<QuantizeReport> QuantizeWeightOnly(Graph& g, const WeightOnlyOptions& options) {
  if (options.accuracy_level < 0 || options.accuracy_level > 4)
    return InvalidArgument(Cat("accuracy level ", options.accuracy_level, "; 0 to 4 are known"));
  INFER_TRY(CheckScheme(options.scheme));
  if (options.prepare) INFER_TRY(CheckFiniteWeights(g));
  Graph work = g.Clone();
  if (options.prepare)
    if (Status s = PrepareForQuantization(work); !s.ok())
      return std::move(s).In("preparing the model");
  QuantizeReport report;
  INFER_ASSIGN(const std::string bodies,
               QuantizeBodies(
                   work, [&](Graph& body) { return QuantizeInBody(body, options); }, report));
  if (options.change) {
    INFER_ASSIGN(const WeightPlan planned, PlanWeights(work, g, options.scheme));
    INFER_TRY(options.change(work, g, GridsOf(planned)));
  }
  INFER_ASSIGN(WeightPlan plan, PlanWeights(work, g, options.scheme));
  INFER_ASSIGN(QuantizeReport around, WeightQuantizer(work, options, std::move(plan)).Run());
  std::move(around.layers.begin(), around.layers.end(), std::back_inserter(report.layers));
  CountLayers(report);
  if (report.integer_layers == 0) {
    INFER_TRY(CheckIsFloat(g));
    return NothingToDo(report, bodies);
  }
  INFER_TRY(SpellAsCastAndMul(work, /*products=*/false));
  if (Status s = Verify(work); !s.ok()) return Internal(Cat("after quantization: ", s.message()));
  report.weight_bytes_before = ConstantBytes(g);
  report.weight_bytes_after = ConstantBytes(work);
  g = std::move(work);
  return report;
}

}  // namespace infer
