#include "quant/algorithm/fold_scales.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "lib/ir/editor.h"

namespace infer {
namespace {

/// A constant operand to divide along one axis.
struct Edit {
  Node* node;
  size_t operand;
  int from_end;  // the axis, 1 = last
};

bool IsConstant(const Value* v) { return v && v->is_constant() && v->dtype() == DType::kF32; }

/// `c` divided by `scale` along its axis `from_end`, broadcast to it where it has one element
/// there.
Tensor Divided(const Tensor& c, int from_end, std::span<const float> scale) {
  Dims from = c.dims();
  while (static_cast<int>(from.size()) < from_end) from.insert(from.begin(), 1);
  const size_t axis = from.size() - static_cast<size_t>(from_end);
  const auto n = static_cast<int64_t>(scale.size());
  const bool spread = from[axis] == 1 && n > 1;
  Dims to = from;
  to[axis] = n;
  int64_t inner = 1;
  for (size_t a = axis + 1; a < to.size(); ++a) inner *= to[a];
  Tensor out(DType::kF32, to);
  const auto in = c.data<float>();
  const auto result = out.mutable_data<float>();
  for (int64_t i = 0; i < out.num_elements(); ++i) {
    const int64_t k = i / inner % n;
    const int64_t source = spread ? i / (inner * n) * inner + i % inner : i;
    result[static_cast<size_t>(i)] =
        in[static_cast<size_t>(source)] / scale[static_cast<size_t>(k)];
  }
  return out;
}

/// Whether `c` has `depth` or one element along `from_end`.
bool Fits(const Tensor& c, int from_end, int64_t depth) {
  if (c.rank() < from_end) return true;
  const int64_t n = c.dim(-from_end);
  return n == depth || n == 1;
}

class SiteFinder {
 public:
  explicit SiteFinder(int64_t depth) : depth_(depth) {}

  /// The constants to divide so that axis `from_end` of `v` is divided; nullopt: there are none.
  std::optional<std::vector<Edit>> Find(const Value* v, int from_end) {
    edits_.clear();
    if (!Walk(v, from_end)) return std::nullopt;
    return edits_;
  }

 private:
  bool Walk(const Value* v, int from_end) {
    Node* n = v ? v->producer() : nullptr;
    if (!n || v->producer_index() != 0 || !v->type().is_tensor()) return false;
    if (n->Is(Trait::kRowNormalization)) return Normalization(*n, from_end);
    if (n->Is("BatchNormalization")) return BatchNorm(*n, *v, from_end);
    if (const auto layout = WeightLayoutOf(*n))
      return !layout->is_window && Product(*n, layout->rows_are_outputs(), from_end);
    if (n->Is(Trait::kElementwise)) return Elementwise(*n, from_end);
    if (n->Is(Trait::kUnary) && n->Is(Trait::kHomogeneous)) return Operand(*n, 0, from_end);
    if (n->IsAny(Trait::kView | Trait::kStrided)) return Moved(*n, *v, from_end);
    return false;
  }

  /// On through an operand that only `n` reads.
  bool Operand(const Node& n, size_t i, int from_end) {
    const Value* v = n.input(i);
    return v && v->has_one_use() && Walk(v, from_end);
  }

  bool Add(Node& n, size_t operand, int from_end) {
    const Value* c = n.input(operand);
    if (!IsConstant(c) || !Fits(*c->constant(), from_end, depth_)) return false;
    edits_.push_back({&n, operand, from_end});
    return true;
  }

  bool Normalization(Node& n, int from_end) {
    const auto axis = n.Attr<int64_t>("axis");
    const bool last =
        axis == -1 || (n.input(0)->shape().has_rank() && axis == n.input(0)->shape().rank() - 1);
    if (from_end != 1 || !last) return false;
    for (size_t i = 1; i < n.outputs().size(); ++i)
      if (n.output(i)) return false;
    return Add(n, 1, 1) && (!n.input(2) || Add(n, 2, 1));
  }

  bool BatchNorm(Node& n, const Value& v, int from_end) {
    if (!v.shape().has_rank() || v.shape().rank() - from_end != 1) return false;
    return Add(n, 1, 1) && Add(n, 2, 1);
  }

  bool Elementwise(Node& n, int from_end) {
    const bool scales = n.Is(Trait::kProduct);
    if (!scales && (!n.Is(Trait::kAdditive) || n.inputs().size() != 2)) return false;
    for (const size_t i : {size_t{0}, size_t{1}}) {
      if (!n.input(i) || !n.input(i)->is_constant()) continue;
      if (scales) return Add(n, i, from_end);
      return Add(n, i, from_end) && Operand(n, 1 - i, from_end);
    }
    if (!scales) return false;  // both operands would have to be scaled
    for (const size_t i : {size_t{0}, size_t{1}}) {
      const size_t kept = edits_.size();
      // The operand must have the whole axis: it may be broadcast to it.
      const Value* v = n.input(i);
      if (v && v->type().is_tensor() && v->shape().has_rank() && v->shape().rank() >= from_end &&
          v->shape()[-from_end].is_static() && v->shape()[-from_end].value() == depth_ &&
          Operand(n, i, from_end))
        return true;
      edits_.resize(kept);
    }
    return false;
  }

  bool Product(Node& n, bool turned, int from_end) {
    const Value* w = n.input(1);
    if (from_end != 1 || !IsConstant(w) || w->constant()->rank() != 2 || w->uses().size() != 1)
      return false;
    if (w->constant()->dim(turned ? 0 : 1) != depth_) return false;
    if (!Add(n, 1, turned ? 2 : 1)) return false;
    return !n.input(2) || Add(n, 2, 1);
  }

  /// To the axis that runs like this one in what is moved.
  bool Moved(const Node& n, const Value& v, int from_end) {
    if (!v.shape().has_rank() || !n.input(0)->shape().has_rank()) return false;
    const auto axis = OperandAxis(CallOf(n), 0, 0, v.shape().rank() - from_end);
    return axis && Operand(n, 0, n.input(0)->shape().rank() - *axis);
  }

  int64_t depth_;
  std::vector<Edit> edits_;
};

bool TurnedWeights(const Node& n) { return WeightLayoutOf(n)->rows_are_outputs(); }

/// Weights as [rows, depth].
std::vector<float> RowsOfWeights(const Node& n) {
  const Tensor& w = *n.input(1)->constant();
  const auto values = w.data<float>();
  if (TurnedWeights(n)) return {values.begin(), values.end()};
  std::vector<float> rows(values.size());
  const int64_t depth = w.dim(0), count = w.dim(1);
  for (int64_t k = 0; k < depth; ++k)
    for (int64_t r = 0; r < count; ++r)
      rows[static_cast<size_t>(r * depth + k)] = values[static_cast<size_t>(k * count + r)];
  return rows;
}

/// An operand that can be scaled, with all who read it.
struct ScaledSite {
  RowSource source;
  std::vector<ScaledProduct> readers;
  std::vector<Edit> edits;
};

std::vector<ScaledSite> FindScaledSites(const Graph& g, std::span<const ScaledProduct> products,
                                        const std::set<const Value*>& frozen) {
  std::vector<ScaledSite> sites;
  for (const ScaledProduct& p : products) {
    const Value* x = p.node->input(0);
    if (x->is_output() || x->is_constant() ||
        std::any_of(sites.begin(), sites.end(),
                    [&](const ScaledSite& s) { return s.source.value == x->name(); }))
      continue;
    const auto source = SourceOf(*p.node);
    if (!source.ok() || source->conv || source->depth < 2 || g.FindValue(x->name()) != x) continue;
    ScaledSite site{*source, {}, {}};
    for (const ScaledProduct& q : products)
      if (q.node->input(0) == x && IsConstant(q.node->input(1)) &&
          q.node->input(1)->uses().size() == 1)
        site.readers.push_back(q);
    if (site.readers.size() != x->uses().size()) continue;
    auto edits = SiteFinder(source->depth).Find(x, 1);
    if (!edits || std::any_of(edits->begin(), edits->end(), [&](const Edit& e) {
          return frozen.contains(e.node->input(e.operand));
        }))
      continue;
    site.edits = *std::move(edits);
    sites.push_back(std::move(site));
  }
  return sites;
}

void SetDivided(GraphEditor& editor, const Edit& e, std::span<const float> scale) {
  Value* c = e.node->input(e.operand);
  Tensor t = Divided(*c->constant(), e.from_end, scale);
  if (c->uses().size() == 1 && !c->is_output() && t.dims() == c->constant()->dims()) {
    editor.SetConstant(c, std::move(t));
  } else {
    editor.SetOperand(*e.node, e.operand, editor.AddConstant(std::move(t), c->name()));
  }
}

/// Searches one site and, where scales gain, folds them.
void ScaleSite(GraphEditor& editor, const ScaledSite& site, const HessianPair& h,
               const ScaleRounder& round, std::map<std::string, FoldedScale>& folded) {
  if (!h.fit.finite() || !h.held_out.finite()) return;
  std::vector<std::vector<float>> rows;
  std::vector<ScaleReader> readers;
  for (const ScaledProduct& p : site.readers) rows.push_back(RowsOfWeights(*p.node));
  for (size_t i = 0; i < rows.size(); ++i) {
    const auto count = static_cast<int64_t>(rows[i].size()) / site.source.depth;
    readers.push_back({{rows[i], count, site.source.depth}, site.readers[i].grid});
  }
  const InputScales found = SearchInputScales(readers, h, round);
  if (found.scale.empty()) return;
  std::vector<float> inverse;
  for (const float s : found.scale) inverse.push_back(1 / s);
  const Hessian& judge = h.held_out.rows > 0 ? h.held_out : h.fit;
  for (size_t i = 0; i < readers.size(); ++i) {
    const ScaleReader& r = readers[i];
    const double energy = OutputEnergy(r.w, judge.sum);
    const double error = OutputError(r.w, QuantizeNearest(r.w, r.grid), judge.sum);
    Node& n = *site.readers[i].node;
    folded[n.input(1)->name()] = {found.exponent, energy > 0 ? std::sqrt(error / energy) : 0};
    SetDivided(editor, {&n, 1, TurnedWeights(n) ? 1 : 2}, inverse);
  }
  for (const Edit& e : site.edits) SetDivided(editor, e, found.scale);
}

}  // namespace

Result<std::map<std::string, FoldedScale>> FoldInputScales(
    Graph& g, std::span<const ScaledProduct> products, const std::set<const Value*>& frozen,
    const Samples& samples, const Backend& backend, const ScaleRounder& round,
    const HessianOptions& options) {
  std::map<std::string, FoldedScale> folded;
  const std::vector<ScaledSite> sites = FindScaledSites(g, products, frozen);
  GraphEditor editor(g);
  for (size_t begin = 0; begin < sites.size();) {
    std::vector<RowSource> sources;
    int64_t bytes = 0;
    size_t end = begin;
    while (end < sites.size() &&
           (end == begin || bytes + HessianBytes(sites[end].source) <= options.max_bytes)) {
      bytes += HessianBytes(sites[end].source);
      sources.push_back(sites[end++].source);
    }
    INFER_ASSIGN(const auto moments, SumHessians(g, sources, samples, backend, options));
    // Scaling one operand leaves the others as they are: the graph computes the same.
    for (; begin < end; ++begin)
      ScaleSite(editor, sites[begin], moments.at(sites[begin].source.Key()), round, folded);
  }
  return folded;
}

}  // namespace infer
