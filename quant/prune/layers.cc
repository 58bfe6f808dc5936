#include "quant/prune/layers.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "lib/ir/roles.h"
#include "lib/support/strings.h"

namespace infer {
namespace {

/// [outputs, inputs per group, taps...].
WeightPlace ConvPlace(const Dims& w, int64_t groups, int64_t taps) {
  WeightPlace p;
  p.plane = {groups, w[0] / groups, w[1], taps};
  p.row_step = w[1] * taps;
  p.tap_step = 1;
  p.channel_step = taps;
  return p;
}

/// [inputs, outputs per group, taps...]: a row per output and tap.
WeightPlace TransposedPlace(const Dims& w, int64_t groups, int64_t taps) {
  WeightPlace p;
  p.plane = {groups, w[1] * taps, w[0] / groups, 1};
  p.outer = groups;
  p.outer_step = w[0] / groups * w[1] * taps;
  p.row_step = 1;
  p.channel_step = w[1] * taps;
  return p;
}

/// [..., inputs, outputs], or [..., outputs, inputs] where rows come first.
WeightPlace MatrixPlace(const Dims& w, bool rows_first) {
  const size_t last = w.size() - 1;
  const int64_t rows = w[rows_first ? last - 1 : last], depth = w[rows_first ? last : last - 1];
  WeightPlace p;
  for (size_t a = 0; a + 2 < w.size(); ++a) p.outer *= w[a];
  p.plane = {1, p.outer * rows, depth, 1};
  p.outer_step = rows * depth;
  p.row_step = rows_first ? depth : 1;
  p.channel_step = rows_first ? 1 : rows;
  return p;
}

bool IsFloatConstant(const Value* v) {
  return v && v->is_constant() && v->type().is_tensor() && IsFloat(v->dtype()) &&
         BitWidth(v->dtype()) >= 16 && BitWidth(v->dtype()) <= 32 &&
         v->constant()->num_elements() > 0;
}

/// A constant row that is added to `channels` channels, or one number for all of them.
bool IsBiasRow(const Value* v, int64_t channels) {
  if (!v || !v->is_constant() || v->dtype() != DType::kF32) return false;
  const Tensor& t = *v->constant();
  return t.num_elements() == 1 ||
         (t.num_elements() == channels && t.rank() > 0 && t.dim(-1) == channels);
}

/// Where a number per output can be added to what `node` makes; nullopt: nowhere.
std::optional<AlgorithmLayer> BiasPlace(const Node& node, const WeightPlane& plane) {
  const auto layout = WeightLayoutOf(node);
  const Value* const result = node.output(0);
  if (!layout || layout->outputs_in_groups || node.input(1)->constant()->rank() < 2 ||
      !IsF32(result))
    return std::nullopt;
  if (!layout->is_window && node.input(1)->constant()->rank() != 2) return std::nullopt;
  AlgorithmLayer l;
  l.output = l.biased = result->name();
  l.input = node.input(0)->name();
  l.channel_axis = layout->is_window ? 1 : -1;
  if (layout->has_bias) {
    if (layout->beta == 0) return std::nullopt;
    if (node.input(2) && !IsBiasRow(node.input(2), plane.all_rows())) return std::nullopt;
    return l;
  }
  if (!result->has_one_use()) return std::nullopt;
  const Node& next = *result->uses().front().user;
  const Value* const bias = AddedTo(result, next);
  if (!bias || !IsF32(next.output(0)) || !IsBiasRow(bias, plane.all_rows())) return std::nullopt;
  l.biased = next.output(0)->name();
  return l;
}

/// How the layer reads what it multiplies; the reason where that is not known.
Result<RowSource> MomentSource(const Node& node, size_t operand, const WeightPlane& plane) {
  const auto layout = WeightLayoutOf(node);
  auto found = layout && !layout->outputs_in_groups ? SourceOf(node) : LayerSourceOf(node, operand);
  if (!found.ok()) return found;
  if (found->depth != plane.depth() || found->groups != plane.groups)
    return InvalidArgument("its weights are not one matrix");
  const Value* read = node.input(0);
  if (found->value != read->name()) read = node.output(0);
  if (read->is_constant() || !IsF32(read)) return InvalidArgument("its operand is not f32");
  return found;
}

class PrunableFinder {
 public:
  PrunableFinder(const Graph& g, NodeFilter include, NodeFilter exclude)
      : g_(g), include_(std::move(include)), exclude_(std::move(exclude)) {}

  std::vector<PrunableWeights> Find() {
    for (const auto& n : g_.nodes())
      for (const size_t operand : {size_t{1}, size_t{2}}) See(*n, operand);
    for (PrunableWeights& p : found_) Judge(p);
    return std::move(found_);
  }

 private:
  void See(const Node& node, size_t operand) {
    const auto place = PlaceOf(node, operand);
    if (!place) return;
    const std::string& name = node.input(operand)->name();
    const auto [it, is_new] = index_.emplace(name, found_.size());
    if (is_new) {
      PrunableWeights p;
      p.weights = name;
      p.op = node.op();
      for (const Value* v : node.outputs())
        if (p.layer.empty() && v) p.layer = v->name();
      if (!node.name().empty()) p.layer = node.name();
      p.place = *place;
      found_.push_back(std::move(p));
    }
    PrunableWeights& p = found_[it->second];
    ++readers_[name];
    if (!(p.place == *place)) p.reason = "layers read it in different layouts";
    if (const NodePattern* e = exclude_.Match(node)) p.reason = Cat("excluded by ", ToString(*e));
    if (include_.empty() || include_.Match(node)) included_[name] = true;
    AddSource(node, operand, p);
    auto bias = operand == 1 ? BiasPlace(node, place->plane) : std::nullopt;
    if (is_new)
      p.bias = std::move(bias);
    else
      p.bias.reset();  // layers that share weights do not share what their results lack
  }

  static void AddSource(const Node& node, size_t operand, PrunableWeights& p) {
    auto source = MomentSource(node, operand, p.place.plane);
    if (!source.ok()) {
      if (p.no_data.empty()) p.no_data = source.status().message();
      return;
    }
    if (std::none_of(p.sources.begin(), p.sources.end(),
                     [&](const RowSource& s) { return s.Key() == source->Key(); }))
      p.sources.push_back(*std::move(source));
  }

  void Judge(PrunableWeights& p) const {
    const Value& v = *g_.FindValue(p.weights);
    if (!p.no_data.empty()) p.sources.clear();
    if (!p.reason.empty()) return;
    if (!included_.contains(p.weights)) {
      p.reason = "no include entry matches it";
    } else if (v.is_output() || static_cast<int>(v.uses().size()) > readers_.at(p.weights)) {
      p.reason = "it is more than weights: other operators read it, too";
    } else {
      const std::vector<float> w = v.constant()->ToFloats();
      if (!std::all_of(w.begin(), w.end(), [](float x) { return std::isfinite(x); }))
        p.reason = "it holds NaN or infinity";
    }
  }

  const Graph& g_;
  NodeFilter include_, exclude_;
  std::vector<PrunableWeights> found_;
  std::map<std::string, size_t> index_;
  std::map<std::string, int> readers_;
  std::map<std::string, bool> included_;
};

}  // namespace

std::vector<float> WeightPlace::Read(const Tensor& t) const {
  const std::vector<float> values = t.ToFloats();
  std::vector<float> w(static_cast<size_t>(plane.size()));
  size_t i = 0;
  ForEach([&](int64_t at) { w[i++] = values[static_cast<size_t>(at)]; });
  return w;
}

Tensor WeightPlace::Write(std::span<const float> weights, const Tensor& like) const {
  Tensor t(DType::kF32, like.dims());
  const auto values = t.mutable_data<float>();
  size_t i = 0;
  ForEach([&](int64_t at) { values[static_cast<size_t>(at)] = weights[i++]; });
  return like.dtype() == DType::kF32 ? t : t.Cast(like.dtype());
}

std::optional<WeightPlace> PlaceOf(const Node& node, size_t operand) {
  const Value* v = node.input(operand);
  if (!IsFloatConstant(v)) return std::nullopt;
  return PlaceOf(node, operand, v->constant()->dims());
}

std::optional<WeightPlace> PlaceOf(const Node& node, size_t operand, const Dims& w) {
  if (IsRecurrentLayer(node) && operand <= 2 && w.size() == 3) return MatrixPlace(w, true);
  const auto layout = WeightLayoutOf(node);
  return layout && operand == 1 ? PlaceOf(*layout, w) : std::nullopt;
}

std::optional<WeightPlace> PlaceOf(const WeightLayout& layout, const Dims& w) {
  if (w.size() < 2) return std::nullopt;
  if (!layout.is_window) return MatrixPlace(w, layout.rows_are_outputs());
  int64_t taps = 1;
  for (size_t a = 2; a < w.size(); ++a) taps *= w[a];
  const int64_t groups = layout.groups;
  return layout.outputs_in_groups ? TransposedPlace(w, groups, taps) : ConvPlace(w, groups, taps);
}

int64_t LayersInBodies(const Graph& g) {
  int64_t count = 0;
  for (const auto& n : g.nodes())
    for (const auto& [name, body] : n->subgraphs()) {
      count += LayersInBodies(*body);
      for (const auto& inner : body->nodes())
        count += PlaceOf(*inner, 1) || PlaceOf(*inner, 2) ? 1 : 0;
    }
  return count;
}

Status CheckNotQuantized(const Graph& g) {
  for (const auto& n : g.nodes())
    if (n->Is(Trait::kQuantization) || MakesStoredWeights(*n))
      return InvalidArgument(Cat("the model is quantized already (", Describe(*n),
                                 "): prune the f32 model, then quantize the result"));
  return {};
}

Result<std::vector<PrunableWeights>> FindPrunable(const Graph& g, const Graph& original,
                                                  const PruneScope& scope) {
  INFER_ASSIGN(NodeFilter include, NodeFilter::Compile(scope.include, &original));
  INFER_ASSIGN(NodeFilter exclude, NodeFilter::Compile(scope.exclude, &original));
  const Graph* graphs[] = {&g, &original};
  INFER_TRY(include.CheckEachMatches(graphs, "--include"));
  INFER_TRY(exclude.CheckEachMatches(graphs, "--exclude"));
  return PrunableFinder(g, std::move(include), std::move(exclude)).Find();
}

}  // namespace infer
