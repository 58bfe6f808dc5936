#include "runtime/engine/padding.h"

#include <algorithm>
#include <set>
#include <unordered_map>

#include "lib/support/strings.h"
#include "runtime/engine/open_extents.h"
#include "runtime/engine/padding_facts.h"

namespace infer::engine {
namespace {

/// What stands behind the former end of an axis.
enum class Tail : uint8_t {
  kAny,     ///< numbers
  kZero,    ///< 0
  kHidden,  ///< what Softmax makes 0 of
};

/// The element of a mask, on one axis, decides the element of a value alone.
struct Pointwise {
  size_t input = 0;
  Tensor images = {};  ///< [2]: of 0 and of 1
};

struct OpenAxis {
  int at = 0;
  Tail tail = Tail::kAny;
  bool is_loose = false;  ///< the extent is the symbol or one, which inference does not know
};

/// How a value hangs on the extent.
struct PlaceRole {
  enum class Kind : uint8_t {
    kFree,     ///< not at all
    kPlaces,   ///< its first places along `axes` are what they were
    kExtents,  ///< numbers made of the extent
  };
  Kind kind = Kind::kFree;
  std::vector<OpenAxis> axes = {};
  std::optional<Pointwise> pointwise = {};

  const OpenAxis* At(int axis) const {
    const auto it =
        std::find_if(axes.begin(), axes.end(), [&](const OpenAxis& a) { return a.at == axis; });
    return it == axes.end() ? nullptr : &*it;
  }
};

class PaddingProof {
 public:
  PaddingProof(const Graph& graph, const std::string& symbol) : graph_(graph), symbol_(symbol) {}

  PaddedAxes Run() {
    out_.symbol = symbol_;
    out_.reason = Inputs();
    for (const auto& node : graph_.nodes()) {
      if (!out_.reason.empty()) return std::move(out_);
      extents_.Follow(*node);
      if (std::string why = Through(*node); !why.empty())
        out_.reason = Cat("node ", Describe(*node), ": ", why);
    }
    for (const Value* v : graph_.outputs()) {
      if (out_.reason.empty()) out_.reason = Output(*v);
    }
    out_.masks.assign(masks_.begin(), masks_.end());
    out_.proved = out_.reason.empty();
    return std::move(out_);
  }

 private:
  const PlaceRole& RoleOf(const Value* v) const {
    static const PlaceRole free;
    const auto it = roles_.find(v);
    return it == roles_.end() ? free : it->second;
  }

  std::string Inputs() {
    bool named = false;
    for (size_t i = 0; i < graph_.inputs().size(); ++i) {
      const Value* v = graph_.inputs()[i];
      out_.inputs.emplace_back();
      roles_[v] = {PlaceRole::Kind::kPlaces};
      if (!v->type().is_tensor() || !v->shape().has_rank()) continue;
      const auto axes = AxesNamed(v->shape(), symbol_);
      if (!axes)
        return Cat("input ", Quoted(*v), " is ", ToString(v->type()), ": an extent is made of ",
                   symbol_);
      if (axes->empty()) continue;
      if (!CanBeCut(v->dtype()) || v->dtype() == DType::kString)
        return Cat("input ", Quoted(*v), " is ", ToString(v->type()), ", which cannot be padded");
      named = true;
      for (int a : *axes) roles_[v].axes.push_back({a, Tail::kZero});
      if (axes->size() == 1) roles_[v].pointwise = Pointwise{i, ZeroAndOne(v->dtype())};
      out_.inputs[i] = *axes;
    }
    return named ? "" : Cat("no input has an extent ", symbol_);
  }

  static Tensor ZeroAndOne(DType type) {
    Tensor t = Tensor::Zeros(type, {2});
    t.Set(1, 1);
    return t;
  }

  std::string Output(const Value& v) {
    const PlaceRole& role = RoleOf(&v);
    auto& axes = out_.outputs.emplace_back();
    if (role.kind == PlaceRole::Kind::kExtents)
      return Cat("output ", Quoted(v), " depends on the extent ", symbol_);
    for (const OpenAxis& a : role.axes) {
      if (a.is_loose) return Cat("it is not known how long output ", Quoted(v), " is");
      axes.push_back(a.at);
    }
    if (!axes.empty() && !CanBeCut(v.dtype()))
      return Cat("output ", Quoted(v), " is ", ToString(v.type()), ", which cannot be cut");
    std::sort(axes.begin(), axes.end());
    return "";
  }

  /// "" or why the node stands against it.
  std::string Through(const Node& node) {
    if (!node.def().deterministic) return "it draws random numbers";
    bool places = false, extents = false;
    for (const Value* v : node.inputs()) {
      places |= RoleOf(v).kind == PlaceRole::Kind::kPlaces;
      extents |= RoleOf(v).kind == PlaceRole::Kind::kExtents;
    }
    if (!places && !extents) return "";
    const OpCall call = CallOf(node);
    const AxisLinks links = AxesOf(call);
    for (size_t o = 0; o < node.outputs().size(); ++o) {
      const Value* v = node.output(o);
      if (!v) continue;
      PlaceRole role;
      if (const auto* elements = KnownElements(*v)) {
        for (const Dim& d : *elements)
          if (HangsOn(d, symbol_)) role.kind = PlaceRole::Kind::kExtents;
      } else if (places) {
        if (std::string why = Places(node, links, o, role); !why.empty()) return why;
      } else {
        Made(node, *v, role);
      }
      roles_[v] = std::move(role);
    }
    return "";
  }

  // ---- of constants and the extent alone --------------------------------------------------------

  /// The first places of a constant, a constant repeated or filled with, or numbers.
  void Made(const Node& node, const Value& v, PlaceRole& role) {
    role.kind = PlaceRole::Kind::kPlaces;
    if (IsPrefix(node, role)) return;
    role.axes.clear();
    if (!HasUnknownExtent(v)) {
      const auto axes = AxesNamed(v.shape(), symbol_);
      if (axes && (Repeats(node, v, *axes) || Fills(node, v))) {
        for (int a : *axes) role.axes.push_back({a});
        return;
      }
    }
    role.kind = PlaceRole::Kind::kExtents;
  }

  bool IsPrefix(const Node& node, PlaceRole& role) const {
    const auto prefixes = PrefixesOf(node, extents_);
    if (!prefixes || RoleOf(node.input(0)).kind != PlaceRole::Kind::kFree) return false;
    for (const Prefix& p : *prefixes) {
      if (!HangsOn(p.end, symbol_)) continue;
      if (p.end.symbol() != symbol_) return false;
      // Of one index there is nothing to be longer.
      if (!node.input(0)->shape()[p.axis].KnownEqual(1))
        role.axes.push_back({.at = p.axis, .is_loose = true});
    }
    return true;
  }

  /// Every place along `axes` of the result reads the one that the free operand has there.
  bool Repeats(const Node& node, const Value& v, const std::vector<int>& axes) const {
    if (!node.Is(Trait::kStrided) || RoleOf(node.input(0)).kind != PlaceRole::Kind::kFree ||
        !LengthsOnly(node))
      return false;
    return std::all_of(axes.begin(), axes.end(),
                       [&](int a) { return HasOne(*node.input(0), v, a); });
  }

  bool LengthsOnly(const Node& node) const {
    for (size_t i = 0; i < node.inputs().size(); ++i)
      if (RoleOf(node.input(i)).kind == PlaceRole::Kind::kExtents && !OnlySaysLengths(node, i))
        return false;
    return true;
  }

  static bool HasOne(const Value& in, const Value& out, int axis) {
    if (!in.type().is_tensor() || !in.shape().has_rank()) return false;
    const int at = axis - (out.shape().rank() - in.shape().rank());
    return at < 0 || in.shape()[at].KnownEqual(1);
  }

  /// One operand that names the extents: every element is the same. Or numbers from a constant on,
  /// at constant distances.
  static bool Fills(const Node& node, const Value& v) {
    if (node.Is("ConstantOfShape"))
      return node.input(0)->elements() && *node.input(0)->elements() == v.shape().dims();
    return node.Is("Range") && node.input(0)->known() && node.input(2)->known();
  }

  // ---- of inputs --------------------------------------------------------------------------------

  std::string Places(const Node& node, const AxisLinks& links, size_t o, PlaceRole& role) {
    const Value& v = *node.output(o);
    role.kind = PlaceRole::Kind::kPlaces;
    bool touched = false;
    for (size_t i = 0; i < node.inputs().size(); ++i) {
      const PlaceRole& in = RoleOf(node.input(i));
      if (in.kind == PlaceRole::Kind::kExtents) {
        if (!OnlySaysLengths(node, i))
          return Cat("operand ", Quoted(*node.input(i)), " depends on the extent ", symbol_);
        if (HasUnknownExtent(v))
          return Cat("it is not known how long its result ", Quoted(v), " is");
      }
      touched |= !in.axes.empty() || in.kind == PlaceRole::Kind::kExtents;
    }
    if (!touched) return "";  // numbers that are as they were
    if (!v.type().is_tensor() || !v.shape().has_rank())
      return Cat("its result ", Quoted(v), " is ", ToString(v.type()));
    const auto axes = AxesNamed(v.shape(), symbol_);
    if (!axes)
      return Cat("extents of its result ", Quoted(v), " ", v.shape().ToString(), " are made of ",
                 symbol_);
    for (int a : *axes) role.axes.push_back({a});
    std::set<int> reached;
    for (size_t i = 0; i < node.inputs().size(); ++i)
      for (const OpenAxis& a : RoleOf(node.input(i)).axes)
        if (std::string why = Follow(node, links, i, a, o, role, reached); !why.empty()) return why;
    for (int a : *axes)
      if (!reached.contains(a) && !(node.Is(Trait::kStrided) && HasOne(*node.input(0), v, a)))
        return Cat("places along axis ", a, " of its result ", Quoted(v), " are not followed");
    SetTails(node, links, o, role);
    return "";
  }

  /// Where an axis of an operand goes.
  std::string Follow(const Node& node, const AxisLinks& links, size_t i, const OpenAxis& a,
                     size_t o, PlaceRole& role, std::set<int>& reached) {
    const Value& operand = *node.input(i);
    const Value& v = *node.output(o);
    for (const OpenAxis& to : role.axes) {
      const bool aligned = a.is_loose && BroadcastTo(node, operand, a.at, v) == to.at;
      if (!aligned && (a.is_loose || !AreLinked(links, i, a.at, o, to.at))) continue;
      reached.insert(to.at);
      return "";
    }
    if (a.is_loose) return Cat("it is not known how long operand ", Quoted(operand), " is");
    if (IsHiddenAlong(node, i, a)) {
      out_.takes_finite = true;
      reached.insert(a.at);
      return "";
    }
    if (VanishesInProduct(links, node, i, a) ||
        (i == 0 && a.tail == Tail::kZero && SumSkipsZeros(node, a.at))) {
      out_.takes_finite = true;
      return "";
    }
    if (IsPicked(node, i, a)) return "";
    return Cat("axis ", a.at, " of operand ", Quoted(operand), " does not stay apart in ",
               Quoted(v));
  }

  /// The axis of the result that an operand that broadcasts has there; -1: it does not.
  static int BroadcastTo(const Node& node, const Value& operand, int axis, const Value& result) {
    const bool broadcasts =
        node.IsAny(Trait::kElementwise | Trait::kUnary) ||
        (node.IsAny(Trait::kStrided) && node.Is(Trait::kEnlarging) && &operand == node.input(0));
    return broadcasts ? axis + result.shape().rank() - operand.shape().rank() : -1;
  }

  /// Softmax along the axis, and nothing is left there of what was added.
  static bool IsHiddenAlong(const Node& node, size_t i, const OpenAxis& a) {
    return i == 0 && a.tail == Tail::kHidden && SoftmaxAxis(node) == a.at;
  }

  bool VanishesInProduct(const AxisLinks& links, const Node& node, size_t i,
                         const OpenAxis& a) const {
    return std::any_of(links.begin(), links.end(), [&](const AxisLink& l) {
      if (l.kind != AxisLink::Kind::kContracted || !l.from.is_whole() || !l.to.is_whole())
        return false;
      const bool is_from = l.from.value == i && l.from.axis == a.at;
      if (!is_from && !(l.to.value == i && l.to.axis == a.at)) return false;
      const LabelledAxis& other = is_from ? l.to : l.from;
      const OpenAxis* b = RoleOf(node.input(other.value)).At(other.axis);
      return b && !b->is_loose && (a.tail == Tail::kZero || b->tail == Tail::kZero);
    });
  }

  /// Fixed places from the front.
  bool IsPicked(const Node& node, size_t i, const OpenAxis& a) {
    if (i != 0 || !node.Is(Trait::kSliceLookup) || !node.input(1)->known()) return false;
    const auto axis = NormalizeAxis(CallOf(node).Int("axis"), node.input(0)->shape().rank());
    if (!axis.ok() || *axis != a.at) return false;
    for (int64_t index : node.input(1)->known()->ToInts()) {
      if (index < 0) return false;
      out_.least = std::max(out_.least, index + 1);
    }
    return true;
  }

  // ---- what stands behind the former end --------------------------------------------------------

  void SetTails(const Node& node, const AxisLinks& links, size_t o, PlaceRole& role) {
    if (o > 0) return;
    const Value& v = *node.output(o);
    role.pointwise = MaskThrough(node, v);
    for (OpenAxis& to : role.axes) {
      if (role.pointwise) {
        to.tail = role.pointwise->images.At(0) == 0 ? Tail::kZero : Tail::kAny;
        continue;
      }
      for (size_t i = 0; i < node.inputs().size(); ++i)
        for (const OpenAxis& a : RoleOf(node.input(i)).axes)
          if (!a.is_loose && AreLinked(links, i, a.at, o, to.at))
            to.tail = std::max(to.tail, TailThrough(node, i, a));
      if (SoftmaxAxis(node) == to.at && MakesZeroOfHidden(node)) to.tail = Tail::kZero;
    }
  }

  /// The result is a function of the elements of one mask, too.
  std::optional<Pointwise> MaskThrough(const Node& node, const Value& v) const {
    size_t from = node.inputs().size();
    for (size_t i = 0; i < node.inputs().size(); ++i) {
      if (!node.input(i)) continue;
      const PlaceRole& in = RoleOf(node.input(i));
      if (in.pointwise && from == node.inputs().size())
        from = i;
      else if (in.kind == PlaceRole::Kind::kPlaces)
        return std::nullopt;
    }
    if (from == node.inputs().size()) return std::nullopt;
    const Pointwise& mask = *RoleOf(node.input(from)).pointwise;
    if (MovesElements(node)) return from == 0 ? std::optional(mask) : std::nullopt;
    if (!node.IsAny(Trait::kUnary | Trait::kElementwise) || v.dtype() == DType::kString)
      return std::nullopt;
    auto images = ImagesOf(node, from, mask.images);
    return images ? std::optional(Pointwise{mask.input, *std::move(images)}) : std::nullopt;
  }

  Tail TailThrough(const Node& node, size_t i, const OpenAxis& a) {
    const PlaceRole& in = RoleOf(node.input(i));
    if (in.pointwise && HidesScores(node, i, in.pointwise->images)) {
      masks_.insert(in.pointwise->input);
      return Tail::kHidden;
    }
    if (node.Is(Trait::kProduct) && a.tail == Tail::kZero) return Tail::kZero;
    return i == 0 && MovesElements(node) ? a.tail : Tail::kAny;
  }

  const Graph& graph_;
  const std::string symbol_;
  PaddedAxes out_;
  LeastExtents extents_;
  std::unordered_map<const Value*, PlaceRole> roles_;
  std::set<size_t> masks_;
};

}  // namespace

PaddedAxes ProvePadding(const Graph& graph, const std::string& symbol) {
  return PaddingProof(graph, symbol).Run();
}

std::vector<PaddedAxes> ProvePaddings(const Graph& graph, const std::string& batch) {
  std::vector<PaddedAxes> all;
  std::set<std::string> seen = {batch};
  for (const Value* v : graph.inputs()) {
    if (!v->type().is_tensor() || !v->shape().has_rank()) continue;
    for (const Dim& d : v->shape().dims())
      if (!d.is_static() && !d.symbol().empty() && seen.insert(d.symbol()).second)
        all.push_back(ProvePadding(graph, d.symbol()));
  }
  return all;
}

bool MasksAllowPadding(const PaddedAxes& axes, std::span<const Datum> inputs) {
  for (size_t m : axes.masks) {
    const Tensor& t = inputs[m].tensor();
    const int axis = axes.inputs[m][0];
    int64_t inner = 1;
    for (int a = axis + 1; a < t.rank(); ++a) inner *= t.dim(a);
    const int64_t length = t.dim(axis), rows = t.num_elements() / std::max<int64_t>(length, 1);
    for (int64_t row = 0; row < rows; ++row) {
      const int64_t first = row / inner * inner * length + row % inner;
      bool shows = false;
      for (int64_t k = 0; k < length; ++k) {
        shows |= t.At(first + k * inner) == 1;
      }
      if (!shows) return false;
    }
  }
  return true;
}

}  // namespace infer::engine
