#include "runtime/engine/batch_axes.h"

#include <algorithm>
#include <cctype>
#include <unordered_map>

#include "lib/support/strings.h"

namespace infer::engine {
namespace {

/// How a value hangs on the requests of a batch.
struct Role {
  enum class Kind : uint8_t {
    kFree,     ///< not at all
    kRows,     ///< its rows along `axis` belong to the requests
    kAlike,    ///< as long as the batch along `axis`, every row the same
    kExtents,  ///< whole numbers made of extents alone
  };
  Kind kind = Kind::kFree;
  int axis = -1;
};

std::string Named(const Value& v) { return Cat("'", v.name(), "'"); }

bool CanBeCut(DType t) { return BitWidth(t) >= 8; }

/// Symbols that stand for expressions are named by them: "floor((N+1)/2)" names N, "N_long" does
/// not.
bool Names(const std::string& expression, const std::string& symbol) {
  const auto is_part = [&](size_t i) {
    return i < expression.size() &&
           (std::isalnum(static_cast<unsigned char>(expression[i])) != 0 || expression[i] == '_');
  };
  for (size_t at = expression.find(symbol); at != std::string::npos;
       at = expression.find(symbol, at + 1))
    if (!is_part(at - 1) && !is_part(at + symbol.size())) return true;
  return false;
}

/// The axis whose extent is `batch`; nullopt where another extent hangs on it, or two do.
std::optional<int> AxisOf(const Shape& shape, const std::string& batch) {
  int axis = -1;
  for (int i = 0; i < shape.rank(); ++i) {
    if (shape[i].is_static() || shape[i].is_unknown()) continue;
    if (shape[i].symbol() == batch) {
      if (axis >= 0) return std::nullopt;
      axis = i;
      continue;
    }
    for (const auto& [monomial, factor] : shape[i].AsTerms())
      for (const std::string& symbol : monomial)
        if (Names(symbol, batch)) return std::nullopt;
  }
  return axis;
}

class Proof {
 public:
  Proof(const Graph& graph, std::string batch) : graph_(graph), batch_(std::move(batch)) {}

  BatchAxes Run() {
    BatchAxes axes{.symbol = batch_};
    axes.reason = Inputs(axes.inputs);
    for (const auto& node : graph_.nodes()) {
      if (!axes.reason.empty()) return axes;
      if (std::string why = Through(*node); !why.empty())
        axes.reason = Cat("node ", Describe(*node), ": ", why);
    }
    for (const Value* v : graph_.outputs()) {
      const Role role = RoleOf(v);
      if (axes.reason.empty() && role.kind == Role::Kind::kExtents)
        axes.reason = Cat("output ", Named(*v), " depends on how many requests share a run");
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

  std::string Inputs(std::vector<int>& axes) {
    for (const Value* v : graph_.inputs()) {
      if (!v->type().is_tensor() || !v->shape().has_rank())
        return Cat("input ", Named(*v), " is ", ToString(v->type()), ", no tensor of a known rank");
      if (!CanBeCut(v->dtype()))
        return Cat("input ", Named(*v), " is ", ToString(v->type()), ", which cannot be cut");
      const auto axis = AxisOf(v->shape(), batch_);
      if (!axis || *axis < 0)
        return Cat("input ", Named(*v), " is ", ToString(v->type()), ": it has not one axis of ",
                   batch_);
      roles_[v] = {Role::Kind::kRows, *axis};
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
      std::string why = v->elements() ? Extents(*v, role)
                        : rows        ? Rows(node, links, o, role)
                                      : Alike(node, links, o, role);
      if (!why.empty()) return why;
      roles_[v] = role;
    }
    return "";
  }

  /// A small integer tensor whose elements inference knows.
  std::string Extents(const Value& v, Role& role) const {
    role = {};
    for (const Dim& d : *v.elements()) {
      if (d.is_unknown()) return Cat("nothing is known of an element of ", Named(v));
      if (!d.is_static()) role.kind = Role::Kind::kExtents;
    }
    return "";
  }

  std::string Checked(const Value& v, int& axis) const {
    if (!v.type().is_tensor() || !v.shape().has_rank())
      return Cat("its result ", Named(v), " is ", ToString(v.type()));
    if (!CanBeCut(v.dtype())) return Cat("its result ", Named(v), " cannot be cut");
    const auto found = AxisOf(v.shape(), batch_);
    if (!found)
      return Cat("extents of its result ", Named(v), " ", v.shape().ToString(), " mix ", batch_,
                 " with others");
    axis = *found;
    return "";
  }

  /// Operands that only say how long the result is may hang on the extent.
  static bool OnlySaysLengths(const Node& node, size_t operand) {
    return operand > 0 && !node.Is(Trait::kLookup) && node.IsAny(Trait::kView | Trait::kStrided);
  }

  static bool Links(const AxisLinks& links, size_t in, int in_axis, size_t out, int out_axis) {
    return std::any_of(links.begin(), links.end(), [&](const AxisLink& l) {
      return l.kind == AxisLink::Kind::kSame && l.from.value == in && l.to.value == out &&
             l.from.axis == in_axis && l.to.axis == out_axis && l.from.is_whole() &&
             l.to.is_whole();
    });
  }

  std::string Rows(const Node& node, const AxisLinks& links, size_t o, Role& role) const {
    const Value& v = *node.output(o);
    int axis = -1;
    if (std::string why = Checked(v, axis); !why.empty()) return why;
    if (axis < 0) return Cat("its result ", Named(v), " has no axis of ", batch_);
    for (size_t i = 0; i < node.inputs().size(); ++i) {
      const Role in = RoleOf(node.input(i));
      if (in.kind == Role::Kind::kFree) continue;
      if (in.kind == Role::Kind::kExtents) {
        if (!OnlySaysLengths(node, i))
          return Cat("operand ", Named(*node.input(i)),
                     " depends on how many requests share a run");
        continue;
      }
      if (!Links(links, i, in.axis, o, axis))
        return Cat("axis ", in.axis, " of operand ", Named(*node.input(i)),
                   " does not stay apart in ", Named(v));
    }
    role = {Role::Kind::kRows, axis};
    return "";
  }

  /// Of constants and extents alone: the rows have to be alike.
  std::string Alike(const Node& node, const AxisLinks& links, size_t o, Role& role) const {
    const Value& v = *node.output(o);
    int axis = -1;
    if (std::string why = Checked(v, axis); !why.empty()) return why;
    const bool repeats = axis >= 0 && node.Is(Trait::kStrided) && Repeats(*node.input(0), v, axis);
    // One operand that names the extents, and no other: every element is the same.
    const bool fills = node.Is(Trait::kGenerator) && !node.Is(Trait::kShapeMath) &&
                       node.inputs().size() == 1 && node.input(0)->elements() &&
                       *node.input(0)->elements() == v.shape().dims();
    for (size_t i = 0; i < node.inputs().size(); ++i) {
      const Role in = RoleOf(node.input(i));
      if (in.kind == Role::Kind::kFree) continue;
      const bool lengths = in.kind == Role::Kind::kExtents && (fills || OnlySaysLengths(node, i));
      const bool linked =
          in.kind == Role::Kind::kAlike && axis >= 0 && Links(links, i, in.axis, o, axis);
      if (!lengths && !linked)
        return Cat("operand ", Named(*node.input(i)), " depends on how many requests share a run");
    }
    const bool linked =
        std::any_of(node.inputs().begin(), node.inputs().end(),
                    [&](const Value* in) { return RoleOf(in).kind == Role::Kind::kAlike; });
    if (axis >= 0 && !repeats && !fills && !linked)
      return Cat("rows of its result ", Named(v), " may differ");
    role = axis < 0 ? Role{} : Role{Role::Kind::kAlike, axis};
    return "";
  }

  /// Every index along `axis` of the result reads the one index that the operand has there.
  static bool Repeats(const Value& in, const Value& out, int axis) {
    if (!in.type().is_tensor() || !in.shape().has_rank()) return false;
    const int at = axis - (out.shape().rank() - in.shape().rank());
    return at < 0 || in.shape()[at].KnownEqual(1);
  }

  const Graph& graph_;
  std::string batch_;
  std::unordered_map<const Value*, Role> roles_;
};

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
  none.reason = Cat("input ", Named(first), " is ", ToString(first.type()),
                    ": it has no extent that the model leaves open and names");
  return none;
}

}  // namespace infer::engine
