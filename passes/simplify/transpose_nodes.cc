/// Which operators do not care about the order of axes, and what names axes in them.
#include <algorithm>
#include <string_view>

#include "passes/rewrite/queries.h"
#include "passes/simplify/transpose_region.h"

namespace infer {
namespace {

using Names = std::unordered_set<std::string_view>;

const Names& AlongOneAxis() {
  static const Names names = {
      "Concat", "Split", "Softmax", "LogSoftmax", "Hardmax",        "ArgMax",          "ArgMin",
      "Gather", "Slice", "Pad",     "Squeeze",    "QuantizeLinear", "DequantizeLinear"};
  return names;
}

int64_t Mapped(int64_t axis, const Perm& perm) { return perm[static_cast<size_t>(axis)]; }

/// The perm of a result without the axes `gone`.
Perm Without(const Perm& perm, const std::vector<int64_t>& gone) {
  std::vector<int64_t> left;  // of the moved operand, in the order of its axes
  Perm out;
  for (size_t i = 0; i < perm.size(); ++i)
    if (std::find(gone.begin(), gone.end(), static_cast<int64_t>(i)) == gone.end()) {
      out.push_back(perm[i]);
      left.push_back(perm[i]);
    }
  std::sort(left.begin(), left.end());
  for (int64_t& axis : out) axis = std::lower_bound(left.begin(), left.end(), axis) - left.begin();
  return out;
}

bool HasOneElement(const Value& v) {
  const Dim count = v.shape().num_elements();
  return count.is_static() && count.value() == 1;
}

/// Maps the attribute `axis`, which counts axes of an operand of perm's rank; the axis as it was.
std::optional<int64_t> MapAxis(MovedNode& moved, const Node& n, const Perm& perm) {
  const auto axis = NormalizeAxis(n.Attr<int64_t>("axis"), static_cast<int>(perm.size()));
  if (!axis.ok()) return std::nullopt;
  moved.attrs["axis"] = Mapped(*axis, perm);
  return *axis;
}

std::optional<MovedNode> MoveElementwise(const Node& n, const Perm& perm, MovedNode moved) {
  const int rank = static_cast<int>(perm.size());
  if (RankOf(*n.output()) != rank) return std::nullopt;
  moved.data.clear();
  for (size_t i = 0; i < n.inputs().size(); ++i) {
    const Value* v = n.input(i);
    if (!v || RankOf(*v) < 0) return std::nullopt;
    if (RankOf(*v) == rank || v->is_constant())
      moved.data.push_back(i);
    else if (!HasOneElement(*v))
      return std::nullopt;
  }
  return moved;
}

/// Axes that go or stay: reductions, Squeeze, ArgMax, Gather of one index.
std::optional<MovedNode> DropAxes(MovedNode moved, const Perm& perm,
                                  const std::vector<int64_t>& axes, bool keep) {
  if (!keep) moved.out_perm = Without(perm, axes);
  return moved;
}

std::optional<MovedNode> MoveReduction(const Node& n, const Perm& perm, MovedNode moved) {
  const auto given = ConstantInts(n, 1);
  const auto axes = given ? NormalAxes(*given, static_cast<int>(perm.size())) : std::nullopt;
  if (!axes || axes->empty()) return std::nullopt;
  std::vector<int64_t> mapped;
  for (const int64_t axis : *axes) mapped.push_back(Mapped(axis, perm));
  std::sort(mapped.begin(), mapped.end());
  moved.replaced[1] = Tensor::Int64s(mapped);
  return DropAxes(std::move(moved), perm, *axes,
                  !n.Is("Squeeze") && n.Attr<int64_t>("keepdims") != 0);
}

std::optional<MovedNode> MoveSlice(const Node& n, const Perm& perm, MovedNode moved) {
  std::vector<int64_t> axes;
  if (n.input(3)) {
    const auto given = ConstantInts(n, 3);
    const auto normal = given ? NormalAxes(*given, static_cast<int>(perm.size())) : std::nullopt;
    if (!normal) return std::nullopt;
    axes = *normal;
  } else {
    const auto count = StaticDim(*n.input(1), 0);
    if (!count || *count > static_cast<int64_t>(perm.size())) return std::nullopt;
    for (int64_t i = 0; i < *count; ++i) axes.push_back(i);
  }
  for (int64_t& axis : axes) axis = Mapped(axis, perm);
  moved.replaced[3] = Tensor::Int64s(axes);
  return moved;
}

std::optional<MovedNode> MovePad(const Node& n, const Perm& perm, MovedNode moved) {
  if (n.input(3)) {
    const auto given = ConstantInts(n, 3);
    auto axes = given ? NormalAxes(*given, static_cast<int>(perm.size())) : std::nullopt;
    if (!axes) return std::nullopt;
    for (int64_t& axis : *axes) axis = Mapped(axis, perm);
    moved.replaced[3] = Tensor::Int64s(*axes);
    return moved;
  }
  const auto pads = ConstantInts(n, 1);
  const size_t rank = perm.size();
  if (!pads || pads->size() != 2 * rank) return std::nullopt;
  std::vector<int64_t> mapped(2 * rank);
  for (size_t i = 0; i < rank; ++i) {
    mapped[static_cast<size_t>(perm[i])] = (*pads)[i];
    mapped[static_cast<size_t>(perm[i]) + rank] = (*pads)[i + rank];
  }
  moved.replaced[1] = Tensor::Int64s(mapped);
  return moved;
}

std::optional<MovedNode> MoveAlongAxis(const Node& n, const Perm& perm, MovedNode moved) {
  if (n.Is("Slice")) return MoveSlice(n, perm, std::move(moved));
  if (n.Is("Pad")) return MovePad(n, perm, std::move(moved));
  if (n.Is("Squeeze")) return MoveReduction(n, perm, std::move(moved));
  if (n.Is("QuantizeLinear") || n.Is("DequantizeLinear")) {
    if (RankOf(*n.input(1)) < 0 || n.Attr<int64_t>("block_size") != 0) return std::nullopt;
    if (RankOf(*n.input(1)) == 0 || HasOneElement(*n.input(1))) return moved;
  }
  if (n.Is("Concat")) {
    moved.data.clear();
    for (size_t i = 0; i < n.inputs().size(); ++i) {
      if (RankOf(*n.input(i)) != static_cast<int>(perm.size())) return std::nullopt;
      moved.data.push_back(i);
    }
  }
  const auto axis = MapAxis(moved, n, perm);
  if (!axis) return std::nullopt;
  if (n.Is("Gather")) {
    const int rank = RankOf(*n.input(1));
    if (rank != 0 && rank != 1) return std::nullopt;
    return DropAxes(std::move(moved), perm, {*axis}, rank == 1);
  }
  if (n.Is("ArgMax") || n.Is("ArgMin"))
    return DropAxes(std::move(moved), perm, {*axis}, n.Attr<int64_t>("keepdims") != 0);
  return moved;
}

}  // namespace

bool MayMove(const Node& n) {
  if (n.Is(Trait::kUnary)) return true;
  return n.def().domain.empty() &&
         (n.def().traits.HasAny(Trait::kElementwise | Trait::kReduction) ||
          AlongOneAxis().count(n.op()));
}

std::optional<MovedNode> MoveNode(const Node& n, const Perm& perm) {
  if (!MayMove(n) || !n.input(0)) return std::nullopt;
  for (const Value* v : n.inputs())
    if (v && !v->type().is_tensor()) return std::nullopt;
  MovedNode moved{.data = {0}, .attrs = n.attrs(), .replaced = {}, .out_perm = perm};
  if (n.Is(Trait::kElementwise)) return MoveElementwise(n, perm, std::move(moved));
  if (RankOf(*n.input(0)) != static_cast<int>(perm.size())) return std::nullopt;
  if (AlongOneAxis().count(n.op())) return MoveAlongAxis(n, perm, std::move(moved));
  if (n.Is(Trait::kReduction)) return MoveReduction(n, perm, std::move(moved));
  return moved;
}

}  // namespace infer
