#include "runtime/plan_ir/groups/attention_plan.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "lib/ir/roles.h"
#include "lib/ops/common.h"
#include "lib/support/strings.h"
#include "runtime/plan_ir/groups/strided_view.h"

namespace infer {
namespace {

/// Extents of the values inside the step, from those of its operands and result.
class Extents {
 public:
  void Add(const Operand& o) {
    const Shape& shape = o.value->shape();
    if (!shape.has_rank() || shape.rank() != static_cast<int>(o.dims.size())) return;
    for (int i = 0; i < shape.rank(); ++i)
      if (shape[i].is_symbolic()) known_[shape[i].ToString()] = o.dims[static_cast<size_t>(i)];
  }
  /// `count`: elements, from which one extent may follow.
  Result<Dims> Of(const Value& v, int64_t count) const {
    if (!v.type().is_tensor() || !v.shape().has_rank()) return Unsupported("rank not known");
    Dims dims;
    size_t open = SIZE_MAX;
    int64_t product = 1;
    for (const Dim& d : v.shape().dims()) {
      int64_t n = d.is_static() ? d.value() : 0;
      if (d.is_symbolic())
        if (const auto it = known_.find(d.ToString()); it != known_.end()) n = it->second;
      if (n <= 0) {
        if (open != SIZE_MAX) return Unsupported("extents not known");
        open = dims.size();
      } else {
        product *= n;
      }
      dims.push_back(n);
    }
    if (open != SIZE_MAX) dims[open] = count / product;
    if (NumElements(dims) != count) return Unsupported("extents do not fit");
    return dims;
  }

 private:
  std::map<std::string, int64_t> known_;
};

class Planner {
 public:
  Planner(const AttentionGroup& group, std::span<const Operand> in, std::span<const Operand> out)
      : g_(group), in_(in), out_(out) {
    for (const Operand& o : in) extents_.Add(o);
    for (const Operand& o : out) extents_.Add(o);
  }

  Result<AttentionPlan> Run() {
    if (g_.block) return RunBlock();
    INFER_ASSIGN(const StridedView q, Resolve(g_.q));
    INFER_ASSIGN(const StridedView k, Resolve(g_.k));
    INFER_ASSIGN(const StridedView v, Resolve(g_.v));
    const Dims qd = q.dims(), kd = k.dims(), vd = v.dims();
    if (qd.size() < 2 || kd.size() < 2 || vd.size() < 2) return Unsupported("operands of rank 1");
    AttentionGeometry a;
    a.queries = qd[qd.size() - 2];
    a.depth = qd.back();
    a.keys = kd.back();
    a.values = vd.back();
    if (kd[kd.size() - 2] != a.depth || vd[vd.size() - 2] != a.keys)
      return Unsupported("extents do not fit");
    INFER_ASSIGN(Dims leads, Broadcast(LeadsOf(qd), LeadsOf(kd)));
    INFER_ASSIGN(leads, Broadcast(leads, LeadsOf(vd)));
    leads_ = leads;
    INFER_TRY(CheckLeads());
    a.leads = NumElements(leads);
    a.scale = g_.scale;
    INFER_ASSIGN(a.q, RowsOf(g_.q, q, g_.q_steps, false));
    INFER_ASSIGN(a.k, RowsOf(g_.k, k, g_.k_steps, true));
    INFER_ASSIGN(a.v, RowsOf(g_.v, v, g_.v_steps, false));
    INFER_TRY(PlaceResult(a));
    a.probability = g_.probability;
    INFER_TRY(AddMasks(a));
    return AttentionPlan{std::move(a), {}, 0};
  }

 private:
  Status AddMasks(AttentionGeometry& a) const {
    if (g_.added) {
      INFER_ASSIGN(a.added, MaskOf(a, *g_.added));
    }
    if (g_.condition) {
      INFER_ASSIGN(a.chosen, MaskOf(a, *g_.condition));
      a.chosen->is_choice = true;
      a.chosen->invert = g_.invert;
      a.chosen->hidden = g_.hidden;
    }
    return {};
  }

  // ---- The operator --------------------------------------------------------------------------

  /// As [batch, heads, length, size].
  Result<StridedView> ByHeads(const AttentionOperand& o, std::string_view heads) const {
    INFER_ASSIGN(StridedView view, Resolve(o));
    const Dims dims = view.dims();
    if (dims.size() == 4) return view;
    const OpCall attributes(g_.block->def(), g_.block->attrs(), 0, 0);
    if (dims.size() != 3 || !attributes.HasAttr(heads)) return Unsupported("heads not known");
    const int64_t n = attributes.Int(heads);
    if (n < 1 || dims[2] % n != 0) return Unsupported("extents do not fit");
    if (!view.Reshape({dims[0], dims[1], n, dims[2] / n}))
      return Unsupported("heads of what does not lie together");
    view.Permute({0, 2, 1, 3});
    return view;
  }

  Result<AttentionPlan> RunBlock() {
    const Node& n = *g_.block;
    AttentionPlan p;
    AttentionGeometry& a = p.attention;
    INFER_ASSIGN(const StridedView q, ByHeads(g_.q, "q_num_heads"));
    INFER_ASSIGN(StridedView k, ByHeads(g_.k, "kv_num_heads"));
    INFER_ASSIGN(StridedView v, ByHeads(g_.v, "kv_num_heads"));
    const Dims qd = q.dims(), kd = k.dims(), vd = v.dims();
    if (kd[0] != qd[0] || vd[0] != qd[0] || kd[3] != qd[3] || kd[1] != vd[1] || kd[2] != vd[2] ||
        qd[1] % kd[1] != 0)
      return Unsupported("extents do not fit");
    a.queries = qd[2];
    a.depth = qd[3];
    a.values = vd[3];
    leads_ = {qd[0], qd[1]};
    INFER_TRY(CheckLeads());
    a.leads = NumElements(leads_);
    int64_t past = 0;
    INFER_ASSIGN(a.q, RowsOf(g_.q, q, g_.q_steps, false));
    INFER_ASSIGN(a.k, KeyRows(g_.k, k, g_.k_steps, 1, p, past));
    INFER_ASSIGN(a.v, KeyRows(g_.v, v, g_.v_steps, 2, p, past));
    a.keys = kd[2] + past;
    INFER_TRY(PlaceResult(a));
    const OpCall attributes(n.def(), n.attrs(), 0, 0);
    a.scale = g_.scale * (attributes.HasAttr("scale")
                              ? attributes.Float("scale")
                              : static_cast<float>(1 / std::sqrt(static_cast<double>(a.depth))));
    a.softcap = attributes.Float("softcap");
    a.zero_where_none = true;
    a.band.left = attributes.Int("left_window_size");
    a.band.right = attributes.Int("right_window_size");
    if (attributes.Int("is_causal") != 0) a.band.right = 0;
    a.band.position = past;
    a.band.queries = a.queries;
    a.band.leads_per_sample = qd[1];
    if (n.input(6)) a.band.valid_arg = ArgOf(n.input(6));
    INFER_TRY(AddMasks(a));
    const Value* mask = n.input(3);
    // Keys that the mask does not reach are not seen.
    if (mask && OperandOf(mask).dims.back() < a.keys) a.band.keys = OperandOf(mask).dims.back();
    return p;
  }

  /// Rows of keys (part 1) or values (2) by query head. Where there is a past, or the caches are
  /// results, all of them are put together first and read from there.
  Result<HeadRows> KeyRows(const AttentionOperand& o, StridedView view,
                           const std::vector<ElementStep>& steps, size_t part, AttentionPlan& p,
                           int64_t& past) const {
    const Node& n = *g_.block;
    const Dims dims = view.dims();
    const Value *before = n.input(part + 3), *present = n.output(part);
    const int to = present ? ResultOf(present) : -1;
    HeadRows rows;
    if (before || to >= 0) {
      AttentionCache c;
      c.leads = dims[0] * dims[1];
      c.length = dims[2];
      c.size = dims[3];
      if (before) {
        const Dims& old = OperandOf(before).dims;
        if (old.size() != 4 || old[0] != dims[0] || old[1] != dims[1] || old[3] != dims[3] ||
            (part == 2 && old[2] != past))
          return Unsupported("the past does not fit");
        c.past = past = old[2];
        c.past_arg = ArgOf(before);
      }
      c.rows.arg = ArgOf(o.source);
      c.rows.dtype = o.source->dtype();
      c.rows.steps = steps;
      if (!view.StrideOf(2, c.rows.row) || !view.StrideOf(3, c.rows.element))
        return Unsupported("rows that do not lie evenly");
      c.rows.offset = view.Offsets(2, {dims[0], dims[1]});
      c.to_arg = to;
      c.at = p.own_floats;
      const Dims all = {dims[0], dims[1], c.past + c.length, c.size};
      if (to < 0) p.own_floats += (NumElements(all) + 15) / 16 * 16;
      view = StridedView::Dense(all);
      rows.arg = to < 0 ? static_cast<int>(in_.size() + out_.size()) : to;
      p.caches.push_back(std::move(c));
    } else {
      rows.arg = ArgOf(o.source);
      rows.dtype = o.source->dtype();
      rows.steps = steps;
    }
    const Dims all = view.dims();
    if (const int64_t sharing = leads_[1] / all[1]; sharing > 1) {
      Dims split = all, spread = all;
      split.insert(split.begin() + 2, 1);
      spread.insert(spread.begin() + 2, sharing);
      Dims joined = all;
      joined[1] = leads_[1];
      if (!view.Reshape(split) || !view.Expand(spread) || !view.Reshape(joined))
        return Unsupported("heads of what does not lie together");
    }
    INFER_TRY(SetStrides(view, false, rows));
    if ((before || to >= 0) && to < 0)
      for (int64_t& at : rows.offset) at += p.caches.back().at;
    return rows;
  }

  /// Its place among the launch's arguments; -1 where nobody reads it.
  int ResultOf(const Value* v) const {
    for (size_t i = 0; i < out_.size(); ++i)
      if (out_[i].value == v) return static_cast<int>(in_.size() + i);
    return -1;
  }

  static Dims LeadsOf(const Dims& dims) { return Dims(dims.begin(), dims.end() - 2); }

  int ArgOf(const Value* v) const {
    const auto at =
        std::find_if(in_.begin(), in_.end(), [v](const Operand& o) { return o.value == v; });
    return at == in_.end() ? -1 : static_cast<int>(at - in_.begin());
  }
  const Operand& OperandOf(const Value* v) const { return in_[static_cast<size_t>(ArgOf(v))]; }
  const Tensor* ConstantOf(const Value* v) const {
    if (const int i = ArgOf(v); i >= 0 && in_[static_cast<size_t>(i)].constant)
      return in_[static_cast<size_t>(i)].constant;
    return v ? v->known() : nullptr;
  }

  Result<StridedView> Resolve(const AttentionOperand& o) const {
    StridedView view = StridedView::Dense(OperandOf(o.source).dims);
    for (const auto& [n, result] : o.path) INFER_TRY(Apply(*n, result, view));
    return view;
  }

  Status Apply(const Node& n, size_t result, StridedView& view) const {
    const Dims dims = view.dims();
    if (n.Is(Trait::kPermutation)) {
      view.Permute(PermOf(n, static_cast<int>(dims.size())));
      return {};
    }
    if (n.Is("Slice")) return ApplySlice(n, view);
    if (n.Is("Split")) return ApplySplit(n, result, view);
    if (n.Is("Expand")) {
      const Tensor* to = ConstantOf(n.input(1));
      return to && view.Expand(to->ToInts()) ? Status() : Unsupported("Expand by unknown extents");
    }
    if (!n.Is(Trait::kView) || IsIdentity(n)) return {};
    INFER_ASSIGN(const Dims to, extents_.Of(*n.output(0), NumElements(dims)));
    return view.Reshape(to) ? Status() : Unsupported("Reshape of what does not lie together");
  }

  Status ApplySlice(const Node& n, StridedView& view) const {
    const Dims dims = view.dims();
    std::vector<int64_t> spec[4];
    for (size_t i = 0; i < 4; ++i) {
      const Tensor* t = ConstantOf(n.input(i + 1));
      if (n.input(i + 1) && !t) return Unsupported("bounds of Slice not known");
      if (t) spec[i] = t->ToInts();
    }
    for (size_t i = 0; i < spec[0].size(); ++i) {
      const int64_t at = spec[2].empty() ? static_cast<int64_t>(i) : spec[2][i];
      INFER_ASSIGN(const int axis, NormalizeAxis(at, static_cast<int>(dims.size())));
      const int64_t extent = dims[static_cast<size_t>(axis)];
      const int64_t step = spec[3].empty() ? 1 : spec[3][i];
      if (step < 1) return Unsupported("Slice backwards");
      auto clamp = [extent](int64_t p) {
        return std::clamp<int64_t>(p < 0 ? p + extent : p, 0, extent);
      };
      const int64_t begin = clamp(spec[0][i]), end = clamp(spec[1][i]);
      if (end <= begin) return Unsupported("an empty slice");
      if (!view.Slice(static_cast<size_t>(axis), begin, step, (end - begin + step - 1) / step))
        return Unsupported("Slice of what does not lie together");
    }
    return {};
  }

  Status ApplySplit(const Node& n, size_t result, StridedView& view) const {
    const Dims dims = view.dims();
    INFER_ASSIGN(const int axis,
                 NormalizeAxis(n.Attr<int64_t>("axis"), static_cast<int>(dims.size())));
    std::vector<int64_t> sizes;
    if (const Tensor* t = ConstantOf(n.input(1))) {
      sizes = t->ToInts();
    } else {
      const auto count = static_cast<int64_t>(n.outputs().size());
      const int64_t extent = dims[static_cast<size_t>(axis)];
      if (n.input(1) || extent % count != 0) return Unsupported("sizes of Split not known");
      sizes.assign(n.outputs().size(), extent / count);
    }
    int64_t start = 0;
    for (size_t i = 0; i < result; ++i) start += sizes[i];
    return view.Slice(static_cast<size_t>(axis), start, 1, sizes[result])
               ? Status()
               : Unsupported("Split of what does not lie together");
  }

  Result<HeadRows> RowsOf(const AttentionOperand& o, const StridedView& view,
                          const std::vector<ElementStep>& steps, bool transposed) const {
    HeadRows h;
    h.arg = ArgOf(o.source);
    h.dtype = o.source->dtype();
    h.steps = steps;
    INFER_TRY(SetStrides(view, transposed, h));
    return h;
  }

  /// Each has an entry in several tables; extents may be no more than declared.
  Status CheckLeads() const {
    constexpr int64_t kMostLeads = int64_t{1} << 26;
    const auto n = CheckedNumElements(leads_);
    return n && *n <= kMostLeads ? Status() : Unsupported("too many samples and heads");
  }

  Status SetStrides(const StridedView& view, bool transposed, HeadRows& h) const {
    const size_t rank = view.rank();
    if (!view.StrideOf(rank - (transposed ? 1 : 2), h.row) ||
        !view.StrideOf(rank - (transposed ? 2 : 1), h.element))
      return Unsupported("rows that do not lie evenly");
    h.offset = view.Offsets(rank - 2, leads_);
    return {};
  }

  /// Where the result of the second product goes, backwards from where the step's result lies.
  Status PlaceResult(AttentionGeometry& a) const {
    const int result = ResultOf(g_.result);
    if (result < 0) return Unsupported("the result is not wanted");
    const Dims& wanted = out_[static_cast<size_t>(result) - in_.size()].dims;
    bool joins = false;
    if (g_.block) {
      const Shape& s = g_.block->output(0)->shape();
      if (!s.has_rank() && !g_.on_result.empty()) return Unsupported("rank not known");
      joins = (s.has_rank() ? static_cast<size_t>(s.rank()) : wanted.size()) == 3;
    }
    std::vector<Dims> dims = {leads_};
    dims[0].push_back(a.queries);
    dims[0].push_back(a.values);
    if (joins) dims[0] = {leads_[0], a.queries, leads_[1] * a.values};
    for (const Node* n : g_.on_result) {
      Dims next = dims.back();
      if (n->Is(Trait::kPermutation)) {
        const auto perm = PermOf(*n, static_cast<int>(next.size()));
        for (size_t i = 0; i < perm.size(); ++i)
          next[i] = dims.back()[static_cast<size_t>(perm[i])];
      } else if (n->Is(Trait::kView) && !IsIdentity(*n)) {
        INFER_ASSIGN(next, extents_.Of(*n->output(0), NumElements(dims.back())));
      }
      dims.push_back(std::move(next));
    }
    if (dims.back() != wanted) return Unsupported("extents of the result do not fit");
    StridedView view = StridedView::Dense(dims.back());
    for (size_t i = g_.on_result.size(); i-- > 0;) {
      const Node& n = *g_.on_result[i];
      if (n.Is(Trait::kPermutation)) {
        const auto perm = PermOf(n, static_cast<int>(dims[i].size()));
        std::vector<int64_t> back(perm.size());
        for (size_t j = 0; j < perm.size(); ++j)
          back[static_cast<size_t>(perm[j])] = static_cast<int64_t>(j);
        view.Permute(back);
      } else if (!view.Reshape(dims[i])) {
        return Unsupported("a result that does not lie evenly");
      }
    }
    if (joins) {
      if (!view.Reshape({leads_[0], a.queries, leads_[1], a.values}))
        return Unsupported("a result that does not lie evenly");
      view.Permute({0, 2, 1, 3});
    }
    a.y.arg = result;
    a.y.dtype = g_.result->dtype();
    a.y.steps = g_.y_steps;
    return SetStrides(view, false, a.y);
  }

  Result<ScoreMask> MaskOf(const AttentionGeometry& a, const Value& mask) const {
    ScoreMask m;
    m.arg = ArgOf(&mask);
    const Dims dims = OperandOf(&mask).dims;
    Dims scores = leads_;
    scores.push_back(a.queries);
    // The operator takes a mask of fewer keys.
    const int64_t keys = g_.block && !dims.empty() ? std::min(dims.back(), a.keys) : a.keys;
    scores.push_back(keys);
    INFER_ASSIGN(const Dims both, Broadcast(dims, scores));
    if (both != scores) return Unsupported("the mask is larger than the scores");
    if (dims.empty() || dims.back() != keys) return Unsupported("one mask for all keys");
    StridedView view = StridedView::Dense(dims);
    if (dims.size() == 1) INFER_CHECK(view.Reshape({1, dims[0]}));
    int64_t element = 0;
    INFER_CHECK(view.StrideOf(view.rank() - 2, m.row) && view.StrideOf(view.rank() - 1, element));
    m.offset = view.Offsets(view.rank() - 2, leads_);
    if (const Tensor* t = OperandOf(&mask).constant) m.constant = *t;
    return m;
  }

  const AttentionGroup& g_;
  std::span<const Operand> in_, out_;
  Extents extents_;
  Dims leads_;
};

}  // namespace

KeyRange KeyBand::Of(int64_t lead, int64_t i, int64_t n, std::byte* const* args) const {
  // Attributes and tensors may hold any number, and these sums go beyond them.
  __extension__ using Wide = __int128;
  KeyRange range{0, std::min(n, keys)};
  Wide at = Wide{i} + position;
  if (valid_arg >= 0) {
    const int64_t valid =
        reinterpret_cast<const int64_t*>(args[valid_arg])[lead / leads_per_sample];
    range.end = std::min(range.end, valid);
    at = Wide{i} + valid - queries;
  }
  if (left >= 0) range.begin = static_cast<int64_t>(std::clamp<Wide>(at - left, 0, n));
  if (right >= 0)
    range.end =
        static_cast<int64_t>(std::clamp<Wide>(at + right + 1, 0, std::max<int64_t>(0, range.end)));
  range.end = std::max<int64_t>(0, range.end);
  range.begin = std::min(range.begin, range.end);
  return range;
}

Result<AttentionPlan> PlanAttention(const AttentionGroup& group, std::span<const Operand> in,
                                    std::span<const Operand> out) {
  return Planner(group, in, out).Run();
}

}  // namespace infer
