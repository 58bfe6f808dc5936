#include "runtime/engine/batch_axes.h"

#include <algorithm>
#include <set>
#include <unordered_map>

#include "lib/ir/editor.h"
#include "lib/ir/inference.h"
#include "lib/support/strings.h"
#include "runtime/engine/open_extents.h"

namespace infer::engine {
namespace {

/// How a value hangs on the requests of a batch.
struct Role {
  enum class Kind : uint8_t {
    kFree,     ///< not at all
    kRows,     ///< its rows along `axis` belong to the requests, equally many to each, in order
    kAlike,    ///< as long as the batch, or a multiple, along `axis`; the same for each request
    kExtents,  ///< whole numbers made of extents alone
  };
  Kind kind = Kind::kFree;
  int axis = -1;
  /// So often the requests follow each other on the axis, all of them each time: 1 where it is
  /// [batch] or [batch, ...] merged, T where it is [T, batch, ...] merged. Unknown: all indices are
  /// alike, so that any number is right.
  Dim rounds = 1;
};

/// How many indices each request has on an axis of this extent: 1 where it is `batch`, k where it
/// is k of them merged with it. Unknown: the extent is no multiple of `batch`.
Dim IndicesEach(const Dim& extent, const std::string& batch) {
  const Dim each = extent.ExactDiv(Dim::Symbol(batch));
  return each.is_unknown() || HangsOn(each, batch) ? Dim() : each;
}

/// The axis whose extent is `batch` or a multiple of it, -1: none; nullopt where another extent
/// hangs on it, or two do.
std::optional<int> AxisOf(const Shape& shape, const std::string& batch) {
  int axis = -1;
  for (int i = 0; i < shape.rank(); ++i) {
    if (!HangsOn(shape[i], batch)) continue;
    if (axis >= 0 || IndicesEach(shape[i], batch).is_unknown()) return std::nullopt;
    axis = i;
  }
  return axis;
}

/// How many runs of what lies on `axis` and behind it there are.
Dim RunsOf(const Shape& shape, int axis) {
  Dim runs = 1;
  for (int i = 0; i < axis; ++i) runs = runs * shape[i];
  return runs;
}

class Proof {
 public:
  Proof(const Graph& graph, std::string batch) : graph_(graph), batch_(std::move(batch)) {}

  BatchAxes Run() {
    BatchAxes axes{.symbol = batch_};
    axes.reason = Inputs(axes.inputs);
    for (const auto& node : graph_.nodes()) {
      if (!axes.reason.empty()) return axes;
      extents_.Follow(*node);
      if (std::string why = Through(*node); !why.empty())
        axes.reason = Cat("node ", Describe(*node), ": ", why);
    }
    for (const Value* v : graph_.outputs()) {
      const Role role = RoleOf(v);
      if (axes.reason.empty() && role.kind == Role::Kind::kExtents)
        axes.reason = Cat("output ", Depends(*v));
      if (axes.reason.empty() && role.axis >= 0 && v->shape()[role.axis].symbol() != batch_)
        axes.reason = Cat("node ", Describe(*v->producer()), ": extents of output ", Quoted(*v),
                          " ", v->shape().ToString(), " mix ", batch_, " with others");
      axes.outputs.push_back(role.axis);
    }
    axes.proved = axes.reason.empty();
    return axes;
  }

 private:
  Role RoleOf(const Value* v) const {
    const auto it = roles_.find(v);
    return it == roles_.end() ? Role{} : it->second;
  }

  /// "'x' depends on ...", with the first of the nodes that made it so.
  std::string Depends(const Value& v) const {
    const auto it = made_by_.find(&v);
    return Cat(Quoted(v), " depends on how many requests share a run",
               it == made_by_.end() ? "" : Cat(" (made by node ", Describe(*it->second), ")"));
  }

  /// A number made of extents, by `node` or by one before it.
  Role MadeOfExtents(const Node& node, const Value& v) {
    const Node* first = &node;
    for (const Value* in : node.inputs())
      if (const auto it = made_by_.find(in); it != made_by_.end()) first = it->second;
    made_by_[&v] = first;
    return {Role::Kind::kExtents};
  }

  std::string Inputs(std::vector<int>& axes) {
    for (const Value* v : graph_.inputs()) {
      if (!v->type().is_tensor() || !v->shape().has_rank())
        return Cat("input ", Quoted(*v), " is ", ToString(v->type()),
                   ", no tensor of a known rank");
      if (!CanBeCut(v->dtype()))
        return Cat("input ", Quoted(*v), " is ", ToString(v->type()), ", which cannot be cut");
      const auto axis = AxisOf(v->shape(), batch_);
      if (!axis || *axis < 0 || v->shape()[*axis].symbol() != batch_)
        return Cat("input ", Quoted(*v), " is ", ToString(v->type()), ": it has not one axis of ",
                   batch_);
      roles_[v] = {.kind = Role::Kind::kRows, .axis = *axis};
      axes.push_back(*axis);
    }
    return "";
  }

  /// "" or why the node stands against a batch.
  std::string Through(const Node& node) {
    if (!node.def().deterministic) return "it draws random numbers";
    bool rows = false, extents = false;
    for (const Value* v : node.inputs()) {
      const Role::Kind kind = RoleOf(v).kind;
      rows |= kind == Role::Kind::kRows;
      extents |= kind != Role::Kind::kFree && kind != Role::Kind::kRows;
    }
    if (!rows && !extents) return "";
    const OpCall call = CallOf(node);
    const AxisLinks links = AxesOf(call);
    for (size_t o = 0; o < node.outputs().size(); ++o) {
      const Value* v = node.output(o);
      if (!v) continue;
      Role role;
      if (const auto* elements = KnownElements(*v)) {
        for (const Dim& d : *elements)
          if (HangsOn(d, batch_)) role.kind = Role::Kind::kExtents;
      } else {
        std::string why = rows ? Rows(node, links, o, role) : Alike(node, links, o, role);
        if (!why.empty()) return why;
      }
      roles_[v] = role;
    }
    return "";
  }

  std::string Checked(const Value& v, int& axis) const {
    if (!v.type().is_tensor() || !v.shape().has_rank())
      return Cat("its result ", Quoted(v), " is ", ToString(v.type()));
    if (!CanBeCut(v.dtype())) return Cat("its result ", Quoted(v), " cannot be cut");
    const auto found = AxisOf(v.shape(), batch_);
    if (!found)
      return Cat("extents of its result ", Quoted(v), " ", v.shape().ToString(), " mix ", batch_,
                 " with others");
    axis = *found;
    return "";
  }

  std::string Rows(const Node& node, const AxisLinks& links, size_t o, Role& role) const {
    const Value& v = *node.output(o);
    int axis = -1;
    if (std::string why = Checked(v, axis); !why.empty()) return why;
    if (axis < 0) return Cat("its result ", Quoted(v), " has no axis of ", batch_);
    Dim rounds;
    for (size_t i = 0; i < node.inputs().size(); ++i) {
      const Role in = RoleOf(node.input(i));
      if (in.kind == Role::Kind::kFree) continue;
      if (in.kind == Role::Kind::kExtents) {
        if (!OnlySaysLengths(node, i)) return Cat("operand ", Depends(*node.input(i)));
        if (HasUnknownExtent(v))
          return Cat("how long its result ", Quoted(v), " is depends on how many requests share a ",
                     "run: ", v.shape().ToString());
        continue;
      }
      const auto here = Rounds(node, links, i, o, axis);
      const auto agreed = here ? Agreed(rounds, *here) : std::nullopt;
      if (!agreed)
        return Cat("axis ", in.axis, " of operand ", Quoted(*node.input(i)),
                   " does not stay apart in ", Quoted(v));
      rounds = *agreed;
    }
    role = {Role::Kind::kRows, axis, rounds.is_unknown() ? Dim(1) : rounds};
    return "";
  }

  /// Rounds on the axis of the result, where the indices of a request on the axis of operand `i`
  /// reach its own indices there alone; nullopt: they may reach those of others.
  std::optional<Dim> Rounds(const Node& node, const AxisLinks& links, size_t i, size_t o,
                            int axis) const {
    const Role in = RoleOf(node.input(i));
    if (AreLinked(links, i, in.axis, o, axis)) return in.rounds;
    if (!node.Is(Trait::kView) || i != 0) return std::nullopt;
    // Elements keep their order: as many requests lie before each of them as before.
    const Shape &from = node.input(i)->shape(), &to = node.output(o)->shape();
    const Dim runs = RunsOf(to, axis);
    if (runs.KnownEqual(0)) return std::nullopt;
    const Dim rounds =
        (RunsOf(from, in.axis) * (in.rounds.is_unknown() ? 1 : in.rounds)).ExactDiv(runs);
    if (rounds.is_unknown() || rounds.KnownEqual(0) ||
        IndicesEach(to[axis], batch_).ExactDiv(rounds).is_unknown())
      return std::nullopt;
    return rounds;
  }

  /// Both are right of one axis; nullopt: they contradict each other.
  static std::optional<Dim> Agreed(const Dim& a, const Dim& b) {
    if (a.is_unknown() || b.is_unknown()) return a.is_unknown() ? b : a;
    return a.KnownEqual(b) ? std::optional(a) : std::nullopt;
  }

  /// Of constants and extents alone: rows that are alike, or numbers that depend on the extents.
  std::string Alike(const Node& node, const AxisLinks& links, size_t o, Role& role) {
    const Value& v = *node.output(o);
    if (IsFreePrefix(node)) return "";
    int axis = -1;
    if (std::string why = Checked(v, axis); !why.empty()) return why;
    const bool repeats = axis >= 0 && node.Is(Trait::kStrided) && Repeats(*node.input(0), v, axis);
    // One operand that names the extents, and no other: every element is the same.
    const bool fills = node.Is("ConstantOfShape") && node.input(0)->elements() &&
                       *node.input(0)->elements() == v.shape().dims();
    // A table once for each request.
    const bool tiles = axis >= 0 && node.Is("Tile");
    bool linked = false, lengths = false;
    Dim rounds = tiles ? 1 : Dim();
    for (size_t i = 0; i < node.inputs().size(); ++i) {
      const Role in = RoleOf(node.input(i));
      if (in.kind == Role::Kind::kFree) continue;
      const bool length = in.kind == Role::Kind::kExtents && (fills || OnlySaysLengths(node, i));
      const auto here = in.kind == Role::Kind::kAlike && axis >= 0 ? Rounds(node, links, i, o, axis)
                                                                   : std::nullopt;
      const auto agreed = here ? Agreed(rounds, *here) : std::nullopt;
      if (agreed) rounds = *agreed;
      linked |= agreed.has_value();
      lengths |= length;
      if (!length && !agreed) return role = MadeOfExtents(node, v), "";
    }
    const bool alike = axis < 0 || repeats || fills || linked || tiles;
    if (!alike || (lengths && HasUnknownExtent(v)))
      role = MadeOfExtents(node, v);
    else
      role = axis < 0 ? Role{} : Role{Role::Kind::kAlike, axis, rounds};
    return "";
  }

  /// The first elements of a constant, of which as many are read whatever the batch is.
  bool IsFreePrefix(const Node& node) {
    const auto prefixes = PrefixesOf(node, extents_);
    if (!prefixes || RoleOf(node.input(0)).kind != Role::Kind::kFree) return false;
    for (const Prefix& p : *prefixes) {
      const bool one = node.input(0)->shape()[p.axis].KnownEqual(1);
      if (HangsOn(p.end, batch_) && !(one && p.end.symbol() == batch_)) return false;
      if (one) single_.emplace(node.output(), p.axis);
    }
    return true;
  }

  /// Every index along `axis` of the result reads the one index that the operand has there.
  bool Repeats(const Value& in, const Value& out, int axis) const {
    if (!in.type().is_tensor() || !in.shape().has_rank()) return false;
    const int at = axis - (out.shape().rank() - in.shape().rank());
    return at < 0 || in.shape()[at].KnownEqual(1) || single_.contains({&in, at});
  }

  const Graph& graph_;
  std::string batch_;
  LeastExtents extents_;
  std::unordered_map<const Value*, Role> roles_;
  std::unordered_map<const Value*, const Node*>
      made_by_;                                    // of kExtents: the first that was no shape
  std::set<std::pair<const Value*, int>> single_;  // axes of one index that seem to be open
};

constexpr const char* kRows = "rows";

/// The graph with a name for the first extent of its only input, where the model leaves it open
/// without one, as exporters of classical models do. Of several inputs nothing says that they have
/// equally many rows.
std::optional<Graph> WithNamedRows(const Graph& graph) {
  const Value& input = *graph.inputs()[0];
  if (graph.inputs().size() > 1 || !input.type().is_tensor() || !input.shape().has_rank() ||
      input.shape().rank() == 0)
    return std::nullopt;
  std::vector<Dim> dims = input.shape().dims();
  if (dims[0].is_static() ||
      std::ranges::any_of(dims, [](const Dim& d) { return !d.symbol().empty(); }))
    return std::nullopt;
  dims[0] = Dim::Symbol(kRows);
  Graph named = graph.Clone();
  GraphEditor(named).SetType(named.inputs()[0], TensorType{input.dtype(), Shape(std::move(dims))});
  if (!RefineTypes(named).ok()) return std::nullopt;
  return named;
}

}  // namespace

BatchAxes ProveBatchAxes(const Graph& graph) {
  BatchAxes none;
  if (graph.inputs().empty()) {
    none.reason = "the model has no inputs";
    return none;
  }
  const Value& first = *graph.inputs()[0];
  BatchAxes best;
  for (const Dim& d : first.shape().dims()) {
    if (d.is_static() || d.symbol().empty()) continue;
    BatchAxes axes = Proof(graph, d.symbol()).Run();
    if (axes.proved) return axes;
    if (best.reason.empty()) best = std::move(axes);
  }
  if (!best.reason.empty()) return best;
  if (const auto named = WithNamedRows(graph)) return Proof(*named, kRows).Run();
  none.reason = Cat("input ", Quoted(first), " is ", ToString(first.type()),
                    ": it has no extent that the model leaves open and names");
  return none;
}

}  // namespace infer::engine
