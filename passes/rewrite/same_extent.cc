#include "passes/rewrite/same_extent.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <vector>

#include "lib/ir/roles.h"
#include "passes/rewrite/queries.h"

namespace infer {
namespace {

struct Axis {
  const Value* v;
  int axis;
  bool operator==(const Axis&) const = default;
};

/// Operators whose results have extents that follow from the extents of input 0 and from the values
/// of the other operands.
constexpr Traits kByExtents = Trait::kView | Trait::kMove | Trait::kStrided | Trait::kUnary |
                              Trait::kElementwise | Trait::kPermutation | Trait::kConcatenation |
                              Trait::kNormalization | Trait::kSoftmax | Trait::kConversion;
constexpr Traits kByElements = Trait::kSelection | Trait::kContainer | Trait::kText;

class Comparison {
 public:
  bool Same(Axis a, Axis b) {
    a = Source(a);
    b = Source(b);
    if (a == b) return true;
    if (a.v->shape()[a.axis].KnownEqual(b.v->shape()[b.axis])) return true;
    const Node *n = a.v->producer(), *m = b.v->producer();
    if (!n || !m || a.axis != b.axis || RankOf(*a.v) != RankOf(*b.v) || --left_ < 0) return false;
    if (n->Is(Trait::kConcatenation) && m->Is(Trait::kConcatenation))
      return SameParts(*n, *m, a.axis);
    if (!Alike(*n, *m) || !n->IsAny(kByExtents) || n->IsAny(kByElements) ||
        OutputOf(*n, *a.v) != OutputOf(*m, *b.v))
      return false;
    for (size_t k = 1; k < n->inputs().size(); ++k)
      if (!SameValue(n->input(k), m->input(k))) return false;
    return SameShape(*n->input(0), *m->input(0));
  }

  bool Fits(Axis a, Axis b) {
    if (StaticDim(*a.v, a.axis) == 1 || Same(a, b)) return true;
    if (--left_ < 0) return false;
    a = Source(a);
    b = Source(b);
    // An axis that fits one operand of a broadcast fits the result.
    for (const Axis& part : PartsOf(b))
      if (Fits(a, part)) return true;
    const std::vector<Axis> parts = PartsOf(a);
    return !parts.empty() &&
           std::all_of(parts.begin(), parts.end(), [&](const Axis& part) { return Fits(part, b); });
  }

 private:
  /// The axes that an axis is broadcast from; none where it is made otherwise.
  static std::vector<Axis> PartsOf(Axis at) {
    const Node* n = at.v->producer();
    std::vector<Axis> parts;
    if (!n || !n->Is(Trait::kElementwise) || n->output(0) != at.v) return parts;
    for (const Value* v : n->inputs()) {
      if (!v || RankOf(*v) < 0) return {};
      const int axis = at.axis - (RankOf(*at.v) - RankOf(*v));
      if (axis >= 0) parts.push_back({v, axis});
    }
    return parts;
  }

  /// Where an axis comes from, through operators that keep it.
  static Axis Source(Axis at) {
    for (;;) {
      const Node* n = at.v->producer();
      if (!n || n->inputs().empty() || !n->input(0)) return at;
      if (n->output(0) != at.v && !n->Is("Split")) return at;
      const std::optional<Axis> before = Before(*n, at);
      if (!before || RankOf(*before->v) <= before->axis) return at;
      at = *before;
    }
  }

  static std::optional<Axis> Before(const Node& n, Axis at) {
    const Value* x = n.input(0);
    const int rank = RankOf(*at.v);
    if (n.Is(Trait::kPermutation)) {
      const auto perm = PermOf(n, rank);
      return Axis{x, static_cast<int>(perm[static_cast<size_t>(at.axis)])};
    }
    if (n.IsAny(Trait::kUnary | Trait::kNormalization | Trait::kSoftmax) || n.Is("Cast") ||
        n.Is("RotaryEmbedding"))
      return RankOf(*x) == rank ? std::optional(Axis{x, at.axis}) : std::nullopt;
    if (n.Is("Split")) {
      const auto along = NormalAxes({n.Attr<int64_t>("axis")}, rank);
      return along && along->front() != at.axis ? std::optional(Axis{x, at.axis}) : std::nullopt;
    }
    if (n.Is("MatMul")) return BeforeProduct(n, at, rank);
    if (n.Is("Reshape")) return BeforeReshape(n, at);
    if (n.Is("Gemm") && at.axis == 0 && n.Attr<int64_t>("transA") == 0) return Axis{x, 0};
    if (n.Is(Trait::kElementwise)) return Broadcast(at);
    return std::nullopt;
  }

  /// Rows of input 0, columns of input 1; further axes where input 1 is a matrix.
  static std::optional<Axis> BeforeProduct(const Node& n, Axis at, int rank) {
    const Value &x = *n.input(0), &y = *n.input(1);
    if (at.axis == rank - 1)
      return RankOf(y) >= 2 ? std::optional(Axis{&y, RankOf(y) - 1}) : std::nullopt;
    const bool is_row = at.axis == rank - 2 || RankOf(y) == 2;
    return is_row && RankOf(x) == rank ? std::optional(Axis{&x, at.axis}) : std::nullopt;
  }

  /// An axis that the target copies, by 0 or from a Shape; or the -1 of a constant target where all
  /// that is left besides one axis of the input is as large as the numbers of the target.
  static std::optional<Axis> BeforeReshape(const Node& n, Axis at) {
    const Value& x = *n.input(0);
    if (n.Attr<int64_t>("allowzero") != 0 || RankOf(x) < 0 || !n.input(1)) return std::nullopt;
    const auto target = ConstantInts(n, 1);
    if (!target) return AskedFor(*n.input(1), at.axis);
    const int64_t asked = (*target)[static_cast<size_t>(at.axis)];
    if (asked == 0) return Axis{&x, at.axis};
    if (asked != -1) return std::nullopt;
    int64_t of_input = 1, of_target = 1;
    std::optional<Axis> left;
    for (const int64_t extent : *target)
      if (extent > 0) of_target *= extent;
    for (int k = 0; k < RankOf(x); ++k) {
      const auto i = static_cast<size_t>(k);
      if (i < target->size() && (*target)[i] == 0) continue;
      if (const auto extent = StaticDim(x, k)) {
        of_input *= *extent;
      } else if (left) {
        return std::nullopt;
      } else {
        left = Axis{&x, k};
      }
    }
    return of_input == of_target && of_input > 0 ? left : std::nullopt;
  }

  /// The axis whose extent is element `k` (negative: from the end) of integers that are picked and
  /// joined from Shapes. An extent of 0 is not told apart, of which Reshape would copy another
  /// axis: the tensor it came from is empty then.
  static std::optional<Axis> AskedFor(const Value& v, int64_t k) {
    const Node* n = v.producer();
    if (!n || n->inputs().empty() || !n->input(0) || RankOf(v) < 0 || RankOf(v) > 1)
      return std::nullopt;
    const Value& x = *n->input(0);
    if (n->Is(Trait::kConcatenation)) return AskedForPart(*n, k);
    if (n->IsAny(Trait::kConversion | Trait::kView)) return AskedFor(x, k);
    if (n->Is("Gather")) {
      const auto picked = ConstantInts(*n, 1);
      if (!picked || k < 0 || k >= static_cast<int64_t>(picked->size())) return std::nullopt;
      return AskedFor(x, (*picked)[static_cast<size_t>(k)]);
    }
    if (n->Is("Slice")) {
      const auto starts = ConstantInts(*n, 1), steps = ConstantInts(*n, 4);
      const bool is_plain = starts && starts->size() == 1 && starts->front() >= 0 && k >= 0 &&
                            (!n->input(4) || (steps && steps->front() == 1));
      return is_plain ? AskedFor(x, starts->front() + k) : std::nullopt;
    }
    if (!n->Is("Shape") || RankOf(x) < 0) return std::nullopt;
    const int64_t rank = RankOf(x);
    const auto bound = [&](int64_t at) {
      return std::clamp(at < 0 ? at + rank : at, int64_t{0}, rank);
    };
    const int64_t begin = bound(n->Attr<int64_t>("start"));
    const int64_t end = bound(n->AttrOr<int64_t>("end", rank));
    const int64_t axis = k < 0 ? end + k : begin + k;
    return axis >= begin && axis < end ? std::optional(Axis{&x, static_cast<int>(axis)})
                                       : std::nullopt;
  }

  static std::optional<Axis> AskedForPart(const Node& concat, int64_t k) {
    for (const Value* part : concat.inputs()) {
      const auto count = RankOf(*part) == 1 ? StaticDim(*part, 0) : std::nullopt;
      if (!count || k < 0) return std::nullopt;
      if (k < *count) return AskedFor(*part, k);
      k -= *count;
    }
    return std::nullopt;
  }

  /// The only operand whose axis is not 1.
  static std::optional<Axis> Broadcast(Axis at) {
    std::optional<Axis> wide;
    for (const Axis& part : PartsOf(at)) {
      if (StaticDim(*part.v, part.axis) == 1) continue;
      if (wide) return std::nullopt;
      wide = part;
    }
    return wide;
  }

  static size_t OutputOf(const Node& n, const Value& v) {
    return static_cast<size_t>(std::find(n.outputs().begin(), n.outputs().end(), &v) -
                               n.outputs().begin());
  }

  static bool Alike(const Node& n, const Node& m) {
    return &n.def() == &m.def() && n.def().deterministic && !n.inputs().empty() &&
           n.inputs().size() == m.inputs().size() && n.input(0) && m.input(0) &&
           n.subgraphs().empty() && m.subgraphs().empty() && n.attrs() == m.attrs();
  }

  bool SameShape(const Value& x, const Value& y) {
    if (&x == &y) return true;
    if (RankOf(x) < 0 || RankOf(x) != RankOf(y)) return false;
    for (int k = 0; k < RankOf(x); ++k)
      if (!Same({&x, k}, {&y, k})) return false;
    return true;
  }

  /// Along the axis of a Concat: the parts one by one; along others any of them.
  bool SameParts(const Node& n, const Node& m, int axis) {
    const auto along = [&](const Node& concat) {
      const auto axes = NormalAxes({concat.Attr<int64_t>("axis")}, RankOf(*n.output()));
      return axes ? axes->front() : -1;  // of a sequence, along a new axis
    };
    if (along(n) != along(m) || n.inputs().size() != m.inputs().size()) return false;
    const size_t parts = along(n) == axis ? n.inputs().size() : 1;
    for (size_t k = 0; k < parts; ++k)
      if (RankOf(*n.input(k)) <= axis || RankOf(*m.input(k)) <= axis ||
          !Same({n.input(k), axis}, {m.input(k), axis}))
        return false;
    return true;
  }

  /// Operands that say how many or where: equal in every run.
  bool SameValue(const Value* x, const Value* y) {
    if (x == y) return true;
    if (!x || !y || --left_ < 0) return false;
    if (x->constant() && y->constant()) {
      const Tensor &s = *x->constant(), &t = *y->constant();
      return s.dtype() == t.dtype() && s.dims() == t.dims() && s.dtype() != DType::kString &&
             std::memcmp(s.raw(), t.raw(), static_cast<size_t>(s.byte_size())) == 0;
    }
    const Node *n = x->producer(), *m = y->producer();
    if (!n || !m || !Alike(*n, *m) || OutputOf(*n, *x) != OutputOf(*m, *y)) return false;
    if (n->Is("Shape")) return SameShape(*n->input(0), *m->input(0));
    for (size_t k = 0; k < n->inputs().size(); ++k)
      if (!SameValue(n->input(k), m->input(k))) return false;
    return true;
  }

  int left_ = 1000;  // comparisons: those of deep graphs give up
};

std::optional<Axis> AxisOf(const Value& v, int axis) {
  if (axis < 0) axis += RankOf(v);
  return axis >= 0 && axis < RankOf(v) ? std::optional(Axis{&v, axis}) : std::nullopt;
}

}  // namespace

bool SameExtent(const Value& a, int i, const Value& b, int j) {
  const auto x = AxisOf(a, i), y = AxisOf(b, j);
  return x && y && Comparison().Same(*x, *y);
}

bool FitsExtent(const Value& a, int i, const Value& b, int j) {
  const auto x = AxisOf(a, i), y = AxisOf(b, j);
  return x && y && Comparison().Fits(*x, *y);
}

}  // namespace infer
