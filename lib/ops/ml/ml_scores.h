#pragma once
/// What the models of ai.onnx.ml share: operands as rows, lists among the attributes, class labels
/// and the transform of scores.
#include <string_view>
#include <vector>

#include "lib/ops/common.h"

namespace infer {

inline constexpr TypeSet kMlNumbers{DType::kF32, DType::kF64, DType::kI64, DType::kI32};

/// A list attribute; empty where it is absent.
template <typename T>
const std::vector<T>& ListAttr(const OpCall& call, std::string_view name) {
  static const std::vector<T> none;
  return call.HasAttr(name) ? call.Attr<std::vector<T>>(name) : none;
}
/// FLOATS attribute `name`, or tensor attribute `name`_as_tensor, which has its place for doubles.
std::vector<double> NumbersAttr(const OpCall& call, std::string_view name);
/// InvalidModel where a tensor attribute holds no real numbers.
Status CheckTensorAttrs(const OpCall& call);

/// A row per sample: [N, F], or [F] for one sample.
struct Rows {
  int64_t count = 0, features = 0;
};
Rows RowsOf(const Tensor& x);
/// The extent of input 0's last axis, unknown where that is.
Dim FeaturesOf(const OpCall& call);
/// The number of rows of input 0. InvalidModel unless its rank may be 1 or 2.
Result<Dim> InferRows(const OpCall& call);

enum class PostTransform : uint8_t { kNone, kSoftmax, kLogistic, kSoftmaxZero, kProbit };
/// By its name in the standard. InvalidModel for another one.
Result<PostTransform> PostTransformOf(std::string_view name);
void Apply(PostTransform t, std::span<double> scores);

/// The labels of a classifier, by its two attributes. InvalidModel unless one of them is given.
Result<Tensor> ClassLabels(const OpCall& call, std::string_view ints, std::string_view strings);
/// y[i] = labels[k]. Pre: k is in range.
void SetLabel(Tensor& y, int64_t i, const Tensor& labels, int64_t k);

}  // namespace infer
