#include "runtime/engine/padding_facts.h"

#include "lib/ir/eval.h"

namespace infer::engine {
namespace {

/// A number that is added to a score and leaves nothing of it behind Softmax.
constexpr double kHides = -1e4;

std::optional<double> Scalar(const Value& v) {
  const Tensor* t = v.known();
  if (!t || t->dtype() == DType::kString || t->num_elements() != 1) return std::nullopt;
  return t->At(0);
}

/// The first result on the reference kernel.
std::optional<Tensor> Evaluated(const Node& node, const std::vector<Datum>& operands) {
  if (!node.def().reference || !node.subgraphs().empty()) return std::nullopt;
  std::vector<const Datum*> pointers;
  for (size_t i = 0; i < operands.size(); ++i)
    pointers.push_back(node.input(i) ? &operands[i] : nullptr);
  const auto results = EvaluateNode(node, pointers, OpRegistry({}));
  if (!results.ok() || results->empty() || !(*results)[0].is_tensor()) return std::nullopt;
  const Tensor& t = (*results)[0].tensor();
  return t.dtype() == DType::kString ? std::nullopt : std::optional(t);
}

/// Elements along `axis` of an operand 0 that has one place on all other axes; other operands are
/// constants.
std::optional<Tensor> Probed(const Node& node, int axis, const std::vector<double>& elements) {
  Dims dims(static_cast<size_t>(node.input(0)->shape().rank()), 1);
  dims[static_cast<size_t>(axis)] = static_cast<int64_t>(elements.size());
  Tensor probe = Tensor::Zeros(node.input(0)->dtype(), dims);
  for (size_t i = 0; i < elements.size(); ++i) probe.Set(static_cast<int64_t>(i), elements[i]);
  std::vector<Datum> operands(node.inputs().size());
  operands[0] = std::move(probe);
  for (size_t i = 1; i < operands.size(); ++i) {
    if (!node.input(i)) continue;
    if (!node.input(i)->known()) return std::nullopt;
    operands[i] = *node.input(i)->known();
  }
  return Evaluated(node, operands);
}

}  // namespace

int SoftmaxAxis(const Node& node) {
  if (!node.Is(Trait::kSoftmax)) return -1;
  const auto axis = NormalizeAxis(CallOf(node).Int("axis"), node.input(0)->shape().rank());
  return axis.ok() ? *axis : -1;
}

bool MakesZeroOfHidden(const Node& node) {
  const auto shares = Probed(node, SoftmaxAxis(node), {0, kHides});
  return shares && shares->num_elements() == 2 && shares->At(1) == 0;
}

bool SumSkipsZeros(const Node& node, int axis) {
  if (!node.Is(Trait::kReduction) || !node.Is(Trait::kAdditive)) return false;
  const auto alone = Probed(node, axis, {6}), padded = Probed(node, axis, {6, 0, 0});
  return alone && padded && alone->num_elements() == 1 && padded->num_elements() == 1 &&
         alone->At(0) == 6 && padded->At(0) == 6;
}

bool MovesElements(const Node& node) {
  if (node.Is(Trait::kConversion)) return false;
  return node.IsAny(Trait::kView | Trait::kPermutation) ||
         (node.Is(Trait::kStrided) && node.Is(Trait::kEnlarging));
}

std::optional<Tensor> ImagesOf(const Node& node, size_t operand, const Tensor& images) {
  std::vector<Datum> operands(node.inputs().size());
  for (size_t i = 0; i < operands.size(); ++i) {
    const Value* in = node.input(i);
    if (i == operand) operands[i] = images;
    if (i == operand || !in) continue;
    const auto number = Scalar(*in);
    if (!number) return std::nullopt;
    Tensor scalar(in->dtype(), {});
    scalar.Set(0, *number);
    operands[i] = std::move(scalar);
  }
  auto result = Evaluated(node, operands);
  return result && result->dims() == Dims{2} ? std::move(result) : std::nullopt;
}

bool HidesScores(const Node& node, size_t operand, const Tensor& images) {
  if (node.Is(Trait::kSum) && node.inputs().size() == 2)
    return images.At(0) <= kHides && images.At(1) == 0;
  if (!node.Is("Where") || operand != 0) return false;
  const bool at_zero = images.At(0) != 0, at_one = images.At(1) != 0;
  if (at_zero == at_one) return false;
  const auto low = Scalar(*node.input(at_zero ? 1 : 2));
  return low && *low <= kHides;
}

}  // namespace infer::engine
