#include "lib/ops/narrow.h"

#include <algorithm>
#include <iterator>

#include "lib/ops/axes.h"
#include "lib/ops/move/move.h"
#include "lib/support/strings.h"

namespace infer {
namespace {

int RankOfOperand(const OpCall& call, size_t i) {
  return call.has_input(i) && call.type(i).is_tensor() && call.shape(i).has_rank()
             ? call.shape(i).rank()
             : 0;
}

/// Groups of a convolution: channels of the operand over those that one filter reads (Conv), of the
/// result over those that one group makes (ConvTranspose).
template <bool kTransposed>
Status NarrowConv(const OpCall& call, NarrowedCall& to) {
  const Dim channels = to.ExtentOf(call, kTransposed, 0, 1);
  const Dim per_group = to.ExtentOf(call, false, 1, 1);
  if (!channels.is_static() || !per_group.is_static() || per_group.value() < 1 ||
      channels.value() % per_group.value() != 0)
    return Unsupported(Cat(channels.ToString(), " channels are no whole number of groups of ",
                           per_group.ToString()));
  if (const int64_t groups = channels.value() / per_group.value(); groups != call.Int("group"))
    to.attrs["group"] = groups;
  return {};
}

/// The extents that operand 1 asks for, where it names those of the result. An extent that is open
/// stays as it is written where a constant says so, is copied (0) from the same axis of the operand
/// where `zero_copies`, or is the one that follows (-1).
Status NarrowWantedShape(const OpCall& call, NarrowedCall& to, bool zero_copies) {
  const auto wanted = call.elements(1);
  const Shape& x = call.shape(0);
  if (!wanted) return Unsupported("the shape that it asks for is made at run time");
  const Tensor* constant = call.constant(1);
  const Shape& y = call.out(0).shape;
  if (!y.has_rank()) return Unsupported("the rank of its result is not known");
  const auto lead = static_cast<size_t>(y.rank()) - std::min<size_t>(wanted->size(), y.rank());
  std::vector<int64_t> shape;
  int open = 0;
  for (size_t i = 0; i < wanted->size(); ++i) {
    const Dim& d = (*wanted)[i];
    const int axis = static_cast<int>(lead + i);
    const Dim after = to.ExtentOf(call, true, 0, axis);
    const bool narrows = to.Find(true, 0, axis) != nullptr;
    const bool can_copy = zero_copies && axis < x.rank() && !to.Find(false, 0, axis) && !narrows;
    if (constant && (constant->IntAt(static_cast<int64_t>(i)) <= 0 || !narrows)) {
      shape.push_back(constant->IntAt(static_cast<int64_t>(i)));
    } else if (after.is_static() && (narrows || d.is_static())) {
      shape.push_back(after.value());
    } else if (can_copy && x[axis].KnownEqual(y[axis])) {
      shape.push_back(0);
    } else {
      shape.push_back(-1);
    }
    open += shape.back() == -1 ? 1 : 0;
  }
  if (open > 1) return Unsupported("more than one extent of the shape that it asks for is open");
  to.replaced[1] = Tensor::Int64s(shape);
  return {};
}

bool ResultNarrows(const NarrowedCall& to) {
  return std::any_of(to.axes.begin(), to.axes.end(),
                     [](const KeptIndices& k) { return k.is_result; });
}

Status NarrowReshape(const OpCall& call, NarrowedCall& to) {
  return NarrowWantedShape(call, to, call.Int("allowzero") == 0);
}

Status NarrowExpand(const OpCall& call, NarrowedCall& to) {
  return ResultNarrows(to) ? NarrowWantedShape(call, to, false) : Status();
}

Status NarrowSplit(const OpCall& call, NarrowedCall& to) {
  INFER_ASSIGN(const int axis, NormalizeAxis(call.Int("axis"), RankOfOperand(call, 0)));
  if (!to.Find(false, 0, axis)) return {};
  std::vector<int64_t> sizes;
  for (size_t i = 0; i < call.num_outputs(); ++i) {
    if (!call.out_type(i).is_tensor() || !call.out(i).shape.has_rank())
      return Unsupported("the extent of a part is not known");
    const Dim d = to.ExtentOf(call, true, i, axis);
    if (!d.is_static()) return Unsupported("the extent of a part is not known");
    sizes.push_back(d.value());
  }
  to.attrs.erase("num_outputs");
  to.replaced[1] = Tensor::Int64s(sizes);
  return {};
}

int64_t CountBelow(const std::vector<int64_t>& sorted, int64_t limit) {
  return std::lower_bound(sorted.begin(), sorted.end(), limit) - sorted.begin();
}

/// Starts and ends move by what is gone before them. Only with steps of 1.
Status NarrowSlice(const OpCall& call, NarrowedCall& to) {
  const auto starts = KnownInts(call, 1), ends = KnownInts(call, 2);
  if (!starts || !ends) return Unsupported("it cuts at positions that are made at run time");
  const int rank = RankOfOperand(call, 0);
  std::vector<int64_t> given(starts->size());
  for (size_t i = 0; i < given.size(); ++i) given[i] = static_cast<int64_t>(i);
  if (call.has_input(3)) given = KnownInts(call, 3).value_or(std::vector<int64_t>());
  const auto steps = call.has_input(4) ? KnownInts(call, 4) : std::nullopt;
  INFER_ASSIGN(const auto axes, NormalizeAxes(given, rank));
  if (axes.size() != starts->size()) return Unsupported("its axes are made at run time");
  std::vector<int64_t> begin = *starts, end = *ends;
  for (size_t i = 0; i < axes.size(); ++i) {
    const KeptIndices* const k = to.Find(false, 0, axes[i]);
    if (!k) continue;
    const Dim extent = call.shape(0)[axes[i]], after = to.ExtentOf(call, true, 0, axes[i]);
    if (!extent.is_static() || !after.is_static()) return Unsupported("an extent is not known");
    if (call.has_input(4) && (!steps || (*steps)[i] != 1))
      return Unsupported("it takes every other index, not a range");
    const int64_t n = extent.value();
    const int64_t from = std::clamp<int64_t>(begin[i] < 0 ? begin[i] + n : begin[i], 0, n);
    begin[i] = CountBelow(k->kept, from);
    end[i] = begin[i] + after.value();
  }
  to.replaced[1] = Tensor::Int64s(begin);
  to.replaced[2] = Tensor::Int64s(end);
  return {};
}

/// Positions move by what is gone before them.
Status NarrowGather(const OpCall& call, NarrowedCall& to) {
  INFER_ASSIGN(const int axis, NormalizeAxis(call.Int("axis"), RankOfOperand(call, 0)));
  const KeptIndices* const from = to.Find(false, 0, axis);
  const KeptIndices* const made = to.Find(true, 0, axis);
  if (!from) return {};
  const auto indices = KnownInts(call, 1);
  if (!indices || call.shape(1).rank() != 1 || !call.shape(0)[axis].is_static())
    return Unsupported("it takes positions that are made at run time");
  std::vector<int64_t> after;
  for (size_t i = 0; i < indices->size(); ++i) {
    if (made && !std::binary_search(made->kept.begin(), made->kept.end(), static_cast<int64_t>(i)))
      continue;
    const int64_t n = call.shape(0)[axis].value();
    const int64_t at = (*indices)[i] < 0 ? (*indices)[i] + n : (*indices)[i];
    if (!std::binary_search(from->kept.begin(), from->kept.end(), at))
      return Unsupported("what it takes would be gone");
    after.push_back(CountBelow(from->kept, at));
  }
  to.replaced[1] = Tensor::Int64s(after);
  return {};
}

Status NarrowResize(const OpCall& call, NarrowedCall& to) {
  if (!call.has_input(3)) return {};
  const auto sizes = KnownInts(call, 3);
  if (!sizes) return Unsupported("its sizes are made at run time");
  const int rank = RankOfOperand(call, 0);
  std::vector<int64_t> given;
  if (call.HasAttr("axes"))
    given = call.Ints("axes");
  else
    for (int a = 0; a < rank; ++a) given.push_back(a);
  INFER_ASSIGN(const auto axes, NormalizeAxes(given, rank));
  std::vector<int64_t> after = *sizes;
  for (size_t i = 0; i < axes.size() && i < after.size(); ++i)
    if (to.Find(true, 0, axes[i])) after[i] = to.ExtentOf(call, true, 0, axes[i]).value();
  to.replaced[3] = Tensor::Int64s(after);
  return {};
}

/// Blocks of `width` of which one index is kept; Unsupported where they do not keep equally many.
Result<int64_t> BlocksLeft(const std::vector<int64_t>& kept, int64_t width) {
  std::map<int64_t, int64_t> left;
  for (const int64_t i : kept) ++left[i / width];
  for (const auto& [block, count] : left)
    if (count != left.begin()->second) return Unsupported("its groups would differ in size");
  return static_cast<int64_t>(left.size());
}

/// Attribute `name` counts blocks along an axis of operand `i`.
Status NarrowCount(const OpCall& call, size_t i, int axis, std::string_view name,
                   NarrowedCall& to) {
  const KeptIndices* const k = to.Find(false, i, axis);
  if (!k || !call.HasAttr(name) || call.Int(name) < 1) return {};
  const Dim& extent = call.shape(i)[axis];
  if (!extent.is_static() || extent.value() % call.Int(name) != 0)
    return Unsupported(Cat(name, " does not divide its channels"));
  INFER_ASSIGN(const int64_t left, BlocksLeft(k->kept, extent.value() / call.Int(name)));
  to.attrs[std::string(name)] = left;
  return {};
}

Status NarrowGroupNorm(const OpCall& call, NarrowedCall& to) {
  return NarrowCount(call, 0, 1, "num_groups", to);
}

Status NarrowAttention(const OpCall& call, NarrowedCall& to) {
  if (RankOfOperand(call, 0) != 3) return {};
  INFER_TRY(NarrowCount(call, 0, 2, "q_num_heads", to));
  return NarrowCount(call, 1, 2, "kv_num_heads", to);
}

Status NarrowMultiHead(const OpCall& call, NarrowedCall& to) {
  return NarrowCount(call, 0, 2, "num_heads", to);
}

Status NarrowGroupQuery(const OpCall& call, NarrowedCall& to) {
  INFER_TRY(NarrowCount(call, 0, 2, "num_heads", to));
  return NarrowCount(call, 1, 2, "kv_num_heads", to);
}

Status NarrowRotary(const OpCall& call, NarrowedCall& to) {
  return RankOfOperand(call, 0) == 3 ? NarrowCount(call, 0, 2, "num_heads", to) : Status();
}

Status NarrowRecurrent(const OpCall&, NarrowedCall& to) {
  return to.Find(false, 1, 0) ? Unsupported("its directions go only together") : Status();
}

struct NarrowRule {
  std::string_view name;
  Status (*narrow)(const OpCall& call, NarrowedCall& to);
  std::string_view domain = {};
};

constexpr NarrowRule kNarrowRules[] = {
    {"Conv", NarrowConv<false>},
    {"ConvTranspose", NarrowConv<true>},
    {"Reshape", NarrowReshape},
    {"Expand", NarrowExpand},
    {"Split", NarrowSplit},
    {"Slice", NarrowSlice},
    {"Gather", NarrowGather},
    {"Resize", NarrowResize},
    {"Attention", NarrowAttention},
    {"RotaryEmbedding", NarrowRotary},
    {"LSTM", NarrowRecurrent},
    {"GRU", NarrowRecurrent},
    {"RNN", NarrowRecurrent},
    {"GroupNormalization", NarrowGroupNorm},
    {"MultiHeadAttention", NarrowMultiHead, kMicrosoft},
    {"GroupQueryAttention", NarrowGroupQuery, kMicrosoft},
};

}  // namespace

const KeptIndices* NarrowedCall::Find(bool is_result, size_t value, int axis) const {
  for (const KeptIndices& k : axes)
    if (k.is_result == is_result && k.value == value && k.axis == axis) return &k;
  return nullptr;
}

Dim NarrowedCall::ExtentOf(const OpCall& call, bool is_result, size_t value, int axis) const {
  if (const KeptIndices* k = Find(is_result, value, axis))
    return static_cast<int64_t>(k->kept.size());
  return is_result ? call.out(value).shape[axis] : call.shape(value)[axis];
}

Status Narrow(const OpCall& call, NarrowedCall& to) {
  to.attrs = call.attrs();
  to.replaced.clear();
  const auto* const rule =
      std::find_if(std::begin(kNarrowRules), std::end(kNarrowRules), [&](const NarrowRule& r) {
        return r.name == call.def().name && r.domain == call.def().domain;
      });
  if (rule == std::end(kNarrowRules)) return {};
  INFER_TRY(rule->narrow(call, to));
  // Where others have the type of the operand, too, it stays as it was: i32 of Slice.
  for (auto& [operand, t] : to.replaced)
    if (call.has_input(operand) && call.dtype(operand) != t.dtype())
      t = t.Cast(call.dtype(operand));
  return {};
}

std::optional<CallAsGather> AsGather(const OpCall& call) {
  if (!call.def().domain.empty() || call.def().name != "Slice") return std::nullopt;
  const auto starts = KnownInts(call, 1);
  if (!starts || starts->size() != 1) return std::nullopt;
  for (const AxisLink& l : AxesOf(call)) {
    if (l.from.count < 0 || l.from.step == 1) continue;
    std::vector<int64_t> indices;
    for (int64_t i = 0; i < l.from.count; ++i) indices.push_back(l.from.begin + i * l.from.step);
    return CallAsGather{l.from.axis, Tensor::Int64s(indices)};
  }
  return std::nullopt;
}

}  // namespace infer
