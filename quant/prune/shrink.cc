#include "quant/prune/shrink.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <set>

#include "lib/ir/editor.h"
#include "lib/ir/inference.h"
#include "lib/ops/narrow.h"
#include "lib/support/strings.h"

namespace infer {
namespace {

/// What stays of `extent` indices.
std::vector<int64_t> KeptOf(int64_t extent, const std::vector<int64_t>& removed) {
  std::vector<int64_t> all(static_cast<size_t>(extent)), kept;
  std::iota(all.begin(), all.end(), int64_t{0});
  std::set_difference(all.begin(), all.end(), removed.begin(), removed.end(),
                      std::back_inserter(kept));
  return kept;
}

/// The elements at `kept` along `axis`.
Tensor Selected(const Tensor& t, int axis, const std::vector<int64_t>& kept) {
  const auto a = static_cast<size_t>(axis);
  Dims dims = t.dims();
  const int64_t extent = dims[a];
  int64_t outer = 1, inner = 1;
  for (size_t i = 0; i < a; ++i) outer *= dims[i];
  for (size_t i = a + 1; i < dims.size(); ++i) inner *= dims[i];
  dims[a] = static_cast<int64_t>(kept.size());
  Tensor out(t.dtype(), dims);
  const auto row = static_cast<size_t>(inner * BitWidth(t.dtype()) / 8);
  const std::byte* const from = t.raw();
  std::byte* to = out.mutable_raw();
  for (int64_t o = 0; o < outer; ++o)
    for (const int64_t k : kept) {
      std::memcpy(to, from + static_cast<size_t>(o * extent + k) * row, row);
      to += row;
    }
  return out;
}

class Shrinker {
 public:
  Shrinker(Graph& g, const AxisCuts& cuts) : g_(g), cuts_(cuts) {}

  Status Run() {
    INFER_TRY(WriteOutOperands());
    INFER_TRY(Resolve());
    INFER_TRY(NarrowCalls());
    NarrowConstants();
    if (Status s = InferTypes(g_); !s.ok()) return Unsupported(s.message());
    INFER_TRY(CheckExtents());
    GraphEditor(g_).Sweep();
    return {};
  }

 private:
  struct NodeChange {
    Node* node;
    NarrowedCall to;
  };

  /// Operands that a node leaves to its default, and that the cut makes necessary, are written out
  /// as they are (the parts of a Split that are equal so far).
  Status WriteOutOperands() {
    std::set<Node*> touched;
    for (const auto& [key, removed] : cuts_) {
      const Value* v = g_.FindValue(key.first);
      if (!v) continue;
      if (v->producer()) touched.insert(v->producer());
      for (const Use& u : v->uses()) touched.insert(u.user);
    }
    for (Node* n : touched) {
      if (const auto gather = AsGather(CallOf(*n)); gather && IsCut(*n->input(0), gather->axis)) {
        INFER_TRY(WriteAsGather(*n, *gather));
        continue;
      }
      NarrowedCall as_it_is = AllKept(*n);
      if (!Narrow(CallOf(*n), as_it_is).ok()) continue;  // the cut itself will tell why
      const bool lacks = std::any_of(as_it_is.replaced.begin(), as_it_is.replaced.end(),
                                     [&](const auto& r) { return !n->input(r.first); });
      if (lacks && n->num_captures() == 0) INFER_TRY(Rewrite(*n, std::move(as_it_is)));
    }
    return {};
  }

  bool IsCut(const Value& v, int axis) const { return cuts_.contains({v.name(), axis}); }

  Status WriteAsGather(Node& old, const CallAsGather& to) {
    GraphEditor edit(g_);
    edit.InsertBefore(old);
    Value* const indices = edit.AddConstant(to.indices.Clone(), old.name());
    return ReplaceBy(old, *g_.ops().Find("Gather"), {old.input(0), indices},
                     {{"axis", static_cast<int64_t>(to.axis)}});
  }

  /// All axes of the cuts, with all their indices.
  NarrowedCall AllKept(const Node& n) const {
    NarrowedCall to;
    const auto add = [&](const Value* v, bool is_result, size_t position) {
      for (const auto& [key, removed] : cuts_) {
        if (!v || key.first != v->name() || !v->shape().has_rank() || key.second < 0 ||
            key.second >= v->shape().rank() || !v->shape()[key.second].is_static())
          continue;
        to.axes.push_back(
            {is_result, position, key.second, KeptOf(v->shape()[key.second].value(), {})});
      }
    };
    for (size_t i = 0; i < n.inputs().size(); ++i) add(n.inputs()[i], false, i);
    for (size_t i = 0; i < n.outputs().size(); ++i) add(n.outputs()[i], true, i);
    return to;
  }

  Status Rewrite(Node& old, NarrowedCall to) {
    GraphEditor edit(g_);
    edit.InsertBefore(old);
    std::vector<Value*> inputs = old.inputs();
    for (auto& [operand, t] : to.replaced) {
      if (operand >= inputs.size()) inputs.resize(operand + 1);
      if (!inputs[operand]) inputs[operand] = edit.AddConstant(std::move(t), old.name());
    }
    return ReplaceBy(old, old.def(), std::move(inputs), std::move(to.attrs));
  }

  /// Its results keep their names.
  Status ReplaceBy(Node& old, const OpDef& def, std::vector<Value*> inputs, AttrMap attrs) {
    GraphEditor edit(g_);
    edit.InsertBefore(old);
    NodeOptions options{.name = old.name(),
                        .num_outputs = old.outputs().size(),
                        .fused_from = old.fused_from(),
                        .extra = old.extra()};
    INFER_ASSIGN(Node * written,
                 edit.AddNode(def, std::move(inputs), std::move(attrs), std::move(options)));
    std::vector<std::pair<Value*, std::string>> names;
    for (size_t i = 0; i < old.outputs().size(); ++i) {
      Value* const v = old.output(i);
      if (!v) continue;
      names.emplace_back(written->output(i), v->name());
      INFER_TRY(edit.ReplaceAllUses(v, written->output(i)));
    }
    edit.Erase(old);
    for (auto& [v, name] : names)
      if (v->name() != name && !g_.FindValue(name)) edit.Rename(v, name);
    return {};
  }

  Status Resolve() {
    for (const auto& [key, removed] : cuts_) {
      const Value* v = g_.FindValue(key.first);
      if (!v || !v->type().is_tensor() || !v->shape().has_rank() || key.second < 0 ||
          key.second >= v->shape().rank() || !v->shape()[key.second].is_static())
        return InvalidArgument(Cat("'", key.first, "' has no axis ", key.second, " to cut"));
      if (v->is_constant() && BitWidth(v->dtype()) % 8 != 0)
        return Unsupported(Cat("'", key.first, "' is of packed elements"));
      const int64_t extent = v->shape()[key.second].value();
      if (removed.empty() || removed.front() < 0 || removed.back() >= extent ||
          !std::is_sorted(removed.begin(), removed.end()) ||
          static_cast<int64_t>(removed.size()) >= extent)
        return InvalidArgument(Cat("axis ", key.second, " of '", key.first, "' has ", extent,
                                   " indices: ", removed.size(), " of them cannot go"));
      kept_[v].emplace_back(key.second, KeptOf(extent, removed));
    }
    return {};
  }

  /// Asks every operator that reads or makes a value that shrinks.
  Status NarrowCalls() {
    for (const auto& n : g_.nodes()) {
      NarrowedCall to;
      for (size_t i = 0; i + n->num_captures() < n->inputs().size(); ++i)
        AddAxes(n->inputs()[i], false, i, to);
      for (size_t i = 0; i < n->outputs().size(); ++i) AddAxes(n->outputs()[i], true, i, to);
      if (to.axes.empty()) continue;
      if (n->Is("ConstantOfShape")) {
        fills_.push_back(n.get());
        continue;
      }
      if (Status s = Narrow(CallOf(*n), to); !s.ok()) return std::move(s).In(Describe(*n));
      changes_.push_back({n.get(), std::move(to)});
    }
    GraphEditor edit(g_);
    for (NodeChange& c : changes_) {
      for (const auto& [name, value] : c.to.attrs) edit.SetAttr(*c.node, name, value);
      std::vector<std::string> gone;
      for (const auto& [name, value] : c.node->attrs())
        if (!c.to.attrs.contains(name)) gone.push_back(name);
      for (const std::string& name : gone) edit.EraseAttr(*c.node, name);
      for (auto& [operand, t] : c.to.replaced) {
        const Tensor* before = OperandConstant(*c.node, operand);
        if (before && BitEqual(*before, t)) continue;
        edit.SetOperand(*c.node, operand, edit.AddConstant(std::move(t), c.node->name()));
      }
    }
    for (Node* n : fills_) INFER_TRY(CutBehind(*n));
    return {};
  }

  /// A Slice takes as much as stays: extents of a fill are in part those of the run, so that there
  /// is no constant in which one could be lowered. All of its numbers are alike.
  Status CutBehind(Node& fill) {
    Value* const v = fill.output(0);
    std::vector<int64_t> starts, ends, axes;
    for (const auto& [axis, kept] : kept_.at(v)) {
      starts.push_back(0);
      ends.push_back(static_cast<int64_t>(kept.size()));
      axes.push_back(axis);
    }
    GraphEditor edit(g_);
    edit.InsertAfter(fill);
    const auto numbers = [&](const std::vector<int64_t>& list) {
      return edit.AddConstant(
          Tensor::Of<int64_t>({static_cast<int64_t>(list.size())}, std::span<const int64_t>(list)),
          fill.name());
    };
    INFER_ASSIGN(Node * cut, edit.AddNode(*g_.ops().Find("Slice"),
                                          {v, numbers(starts), numbers(ends), numbers(axes)}, {}));
    // Readers are inferred again with all that is cut.
    const std::vector<Use> uses(v->uses().begin(), v->uses().end());
    for (const Use& use : uses)
      if (use.user != cut) edit.SetOperand(*use.user, use.operand, cut->output(0));
    const std::string name = v->name();
    edit.Rename(v, edit.FreshName(name));
    edit.Rename(cut->output(0), name);
    kept_[cut->output(0)] = kept_.at(v);
    kept_.erase(v);
    return {};
  }

  static const Tensor* OperandConstant(const Node& n, size_t i) {
    return n.input(i) ? n.input(i)->constant() : nullptr;
  }

  void AddAxes(const Value* v, bool is_result, size_t position, NarrowedCall& to) const {
    if (!v) return;
    if (const auto it = kept_.find(v); it != kept_.end())
      for (const auto& [axis, kept] : it->second)
        to.axes.push_back({is_result, position, axis, kept});
  }

  void NarrowConstants() {
    GraphEditor edit(g_);
    for (const auto& [v, axes] : kept_) {
      std::vector<Dim> dims = v->shape().dims();
      for (const auto& [axis, kept] : axes)
        dims[static_cast<size_t>(axis)] = static_cast<int64_t>(kept.size());
      expected_.emplace_back(v->name(), Shape(std::move(dims)));
      if (!v->is_constant()) continue;
      Tensor t = *v->constant();
      for (const auto& [axis, kept] : axes) t = Selected(t, axis, kept);
      edit.SetConstant(g_.FindValue(v->name()), std::move(t));
    }
    // Values that no cut names keep their extents, but for results that nobody reads: a mask of
    // Dropout.
    for (const auto& v : g_.values())
      if (!kept_.contains(v.get()) && v->producer() && v->type().is_tensor() &&
          v->shape().has_rank() && (v->is_output() || !v->uses().empty()))
        expected_.emplace_back(v->name(), v->shape());
  }

  Status CheckExtents() const {
    for (const auto& [name, shape] : expected_) {
      const Value* v = g_.FindValue(name);
      if (!v || !v->producer() || !v->shape().has_rank()) continue;
      const Shape& now = v->shape();
      if (now.rank() != shape.rank()) return DoesNotFollow(*v, shape);
      for (int a = 0; a < now.rank(); ++a)
        if (shape[a].is_static() && !now[a].KnownEqual(shape[a])) return DoesNotFollow(*v, shape);
    }
    return {};
  }
  static Status DoesNotFollow(const Value& v, const Shape& wanted) {
    return Unsupported(Cat(Describe(*v.producer()), " does not follow: its result would be ",
                           v.shape().ToString(), " instead of ", wanted.ToString()));
  }

  Graph& g_;
  const AxisCuts& cuts_;
  std::map<const Value*, std::vector<std::pair<int, std::vector<int64_t>>>> kept_;
  std::vector<NodeChange> changes_;
  std::vector<Node*> fills_;
  std::vector<std::pair<std::string, Shape>> expected_;
};

}  // namespace

Result<Graph> Shrink(const Graph& g, const AxisCuts& cuts) {
  Graph out = g.Clone();
  INFER_TRY(Shrinker(out, cuts).Run());
  return out;
}

}  // namespace infer
