#include "quant/target/ort_work.h"

#include <algorithm>
#include <numeric>

#include "lib/ir/roles.h"

namespace infer::target {
namespace {

/// Elements of the largest window that its convolutions in f32 are fast with.
constexpr int64_t kUsualWindow = 9;
/// Channels of a block: convolutions in f32 are computed in whole ones, and read inputs of fewer
/// channels as they are.
constexpr int64_t kBlock = 16;
/// Convolutions of codes have another kernel for fewer channels.
constexpr int64_t kFewCodes = 8;
/// Columns of an integer product beyond whole vectors of 16 take as long as this many.
constexpr int64_t kRestColumns = 48;
/// Operations that a row of a sum or a normalization takes besides its elements, and of a softmax.
constexpr double kRowOperations = 100, kSoftmaxOperations = 400;

/// Channels in whole blocks, over those that there are.
double OverWhole(int64_t channels) {
  if (channels <= 0) return 1;
  const int64_t blocks = (channels + kBlock - 1) / kBlock;
  return static_cast<double>(blocks * kBlock) / static_cast<double>(channels);
}

}  // namespace

double ElementsOf(const Value* v) {
  if (!v || !v->type().is_tensor() || !v->tensor_type().is_static()) return 0;
  double n = 1;
  for (const Dim& d : v->shape().dims()) n *= static_cast<double>(d.value());
  return n;
}
int64_t ExtentOf(const Value* v, size_t axis) {
  if (!v || !v->shape().has_rank() || v->shape().dims().size() <= axis) return 0;
  const Dim& d = v->shape().dims()[axis];
  return d.is_static() ? d.value() : 0;
}
size_t RankOf(const Value* v) { return v && v->shape().has_rank() ? v->shape().dims().size() : 0; }

double Touched(const Node& n) {
  double all = 0;
  for (const Value* v : n.inputs()) all += ElementsOf(v);
  for (const Value* v : n.outputs()) all += ElementsOf(v);
  return all;
}

double WindowsOf(const Node& n) {
  if (!n.def().FindAttr("kernel_shape")) return ElementsOf(n.input(0));
  double window = 1;
  for (const int64_t k : n.AttrOr<std::vector<int64_t>>("kernel_shape", {}))
    window *= static_cast<double>(k);
  return window * ElementsOf(n.output(0));
}

double GroupsOf(const Node& n) { return static_cast<double>(n.AttrOr<int64_t>("group", 1)); }

double ScaledPartsOf(const Node& n) {
  const Value *x = n.input(0), *scale = n.input(1);
  if (ElementsOf(scale) <= 1) return 1;
  const int64_t rank = static_cast<int64_t>(RankOf(x)), axis = n.AttrOr<int64_t>("axis", 1);
  double parts = 1;
  for (int64_t a = 0; a <= (axis < 0 ? axis + rank : axis) && a < rank; ++a)
    parts *= static_cast<double>(ExtentOf(x, static_cast<size_t>(a)));
  return parts;
}

bool IsAddedByGemm(const Value& product, const Value& other) {
  return RankOf(&product) == 2 && RankOf(&other) == 2 &&
         ElementsOf(&product) == ElementsOf(&other) && ExtentOf(&product, 0) == ExtentOf(&other, 0);
}

bool SwapsLastAxes(const Node& n) {
  std::vector<int64_t> swapped(RankOf(n.output(0)));
  if (swapped.size() < 2) return false;
  std::iota(swapped.begin(), swapped.end(), 0);
  std::swap(swapped[swapped.size() - 1], swapped[swapped.size() - 2]);
  return PermOf(n) == swapped;
}

bool IsOfOneRow(const Node& n) {
  const Value* const y = n.output(0);
  return RankOf(y) > 0 && ElementsOf(y) == static_cast<double>(ExtentOf(y, RankOf(y) - 1));
}

bool IsDepthwise(const Node& n) {
  const int64_t channels = ExtentOf(n.input(0), 1);
  return channels > 1 && ExtentOf(n.input(1), 1) == 1 && ExtentOf(n.output(0), 1) == channels;
}

bool HasWholeBlocks(const Node& n) {
  return std::all_of(n.inputs().begin(), n.inputs().end(),
                     [](const Value* v) { return !v || ExtentOf(v, 1) % kBlock == 0; });
}

ColumnWork ColumnsOf(const Node& n) {
  const Value *w = n.input(1), *y = n.output(0);
  const double outs = static_cast<double>(std::max<int64_t>(ExtentOf(w, 0), 1));
  const double channels = static_cast<double>(std::max<int64_t>(ExtentOf(w, 1), 1));
  if (IsPointwise(w) || IsDepthwise(n)) return {};
  const double elements = ElementsOf(y) / outs * ElementsOf(w) / outs * GroupsOf(n);
  return {elements, elements / channels};
}

double FilledBlocks(const Node& n, std::string_view family) {
  const bool each_way = family != "few-channel conv f32" && family != "depthwise f32";
  const double ins = each_way ? OverWhole(ExtentOf(n.input(0), 1)) : 1;
  return ins * OverWhole(ExtentOf(n.output(0), 1));
}

double FilledColumns(const Node& n) {
  const int64_t columns = ExtentOf(n.input(1), 0), rest = columns % kBlock;
  if (columns <= 0) return 1;
  return static_cast<double>(columns - rest + (rest > 0 ? kRestColumns : 0)) /
         static_cast<double>(columns);
}

double RowOperationsOf(const Node& n) {
  const Value* const x = n.input(0);
  if (n.Is(Trait::kReduction)) return kRowOperations * ElementsOf(n.output(0));
  if (!n.IsAny(Trait::kSoftmax | Trait::kNormalization) || !n.def().FindAttr("axis")) return 0;
  const int64_t rank = static_cast<int64_t>(RankOf(x)), axis = n.AttrOr<int64_t>("axis", -1);
  if (axis < -rank || axis >= rank) return 0;
  const int64_t extent = ExtentOf(x, static_cast<size_t>(axis < 0 ? axis + rank : axis));
  const double rows = extent > 0 ? ElementsOf(x) / static_cast<double>(extent) : 0;
  return (n.Is(Trait::kSoftmax) ? kSoftmaxOperations : kRowOperations) * rows;
}

std::string_view FloatConvFamily(const Node& n) {
  if (IsTransposedConvolution(n)) return "transposed conv f32";
  const Value *x = n.input(0), *w = n.input(1);
  const bool depthwise = IsDepthwise(n);
  if (RankOf(x) != 4) return depthwise ? "depthwise 1-d f32" : "conv 1-d f32";
  if (depthwise) return "depthwise f32";
  if (ExtentOf(w, 1) == 1 && ExtentOf(x, 1) > 1) return "multiplied depthwise f32";
  if (n.Attr<int64_t>("group") > 1) return "grouped conv f32";
  if (ExtentOf(x, 1) < kBlock) return "few-channel conv f32";
  if (IsPointwise(w)) return "conv1x1 f32";
  return ExtentOf(w, 2) * ExtentOf(w, 3) > kUsualWindow ? "wide conv f32" : "conv f32";
}

bool IsPointwise(const Value* w) {
  for (size_t axis = 2; axis < RankOf(w); ++axis)
    if (ExtentOf(w, axis) != 1) return false;
  return true;
}

std::string_view FloatFamily(const Node& n) {
  if (n.Is(Trait::kView)) return "view";
  if (n.Is(Trait::kPooling))
    return n.def().FindAttr("kernel_shape") ? "pool f32" : "global pool f32";
  if (n.IsAny(Trait::kContraction | Trait::kRecurrent)) return "product f32";
  if (n.Is(Trait::kSoftmax)) return "softmax f32";
  if (n.Is(Trait::kElementwise) || ClampOf(n) || IsCast(n)) return "elements f32";
  if (n.Is(Trait::kUnary)) return "functions f32";
  return n.IsAny(Trait::kMove | Trait::kStrided | Trait::kLookup | Trait::kSliceLookup)
             ? "move"
             : "rows f32";
}

std::string_view IntegerConvFamily(const Node& n) {
  if (IsDepthwise(n)) return "depthwise int8";
  if (GroupsOf(n) > 1)
    return ExtentOf(n.input(1), 1) == 1 ? "multiplied depthwise int8" : "grouped conv int8";
  if (IsPointwise(n.input(1))) return "conv1x1 int8";
  return ExtentOf(n.input(0), 1) < kFewCodes ? "few-channel conv int8" : "conv int8";
}

std::string_view IntegerFamily(const Node& n) {
  if (n.Is(Trait::kView)) return "view";
  if (n.Is(Trait::kConcatenation)) return "concat int8";
  if (n.Is(Trait::kSoftmax)) return "softmax int8";
  if (n.Is(Trait::kElementwise)) return "elements int8";
  if (n.Is(Trait::kPooling) && !n.def().FindAttr("kernel_shape")) return "global pool int8";
  if (n.Is(Trait::kPooling)) return n.Is(Trait::kAdditive) ? "average pool int8" : "max pool int8";
  return n.Is(Trait::kUnary) ? "table int8" : "move int8";
}

ScoresWork ScoresOf(const Node& n) {
  constexpr double kOfElement = 5;
  const Value *q = n.input(0), *k = n.input(1);
  if (RankOf(q) != RankOf(k) || RankOf(q) < 3) return {};
  const std::string_view named = n.def().FindAttr("q_num_heads") ? "q_num_heads" : "num_heads";
  const int64_t heads = RankOf(q) == 4 ? ExtentOf(q, 1) : n.AttrOr<int64_t>(named, 1);
  const size_t axis = RankOf(q) - 2;
  const double rows = static_cast<double>(ExtentOf(q, 0)) * static_cast<double>(heads) *
                      static_cast<double>(ExtentOf(q, axis));
  const double elements = rows * static_cast<double>(ExtentOf(k, axis));
  return {elements, kOfElement * elements + kSoftmaxOperations * rows};
}

bool IsPool(std::string_view family) { return family.find("pool") != family.npos; }

}  // namespace infer::target
