#pragma once
/// Net: what the architectures are written with. The first failure sticks: later calls do nothing
/// and return some value, so that an architecture reads as one chain. Weights are named by their
/// order and depend on (seed, order, extents) only.
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "lib/ir/editor.h"
#include "lib/support/strings.h"
#include "tools/zoo/zoo.h"

namespace infer {

using Values = std::vector<Value*>;
using Ints = std::vector<int64_t>;

struct ConvOptions {
  int64_t stride = 1;
  int64_t pad = -1;  ///< -1: kernel / 2
  int64_t groups = 1;
  bool bias = false;
  double gain = 2;  ///< weight variance * fan-in: 2 keeps the variance through ReLU (He, 2015)
};

struct BatchNormOptions {
  float epsilon = 1e-5f;
  float momentum = 0.9f;
  double scale = 1;  ///< mean of gamma; below 1 at the end of a residual branch
};

class Net {
 public:
  Net(const ZooOptions& options, const OpRegistry& ops, std::string_view name)
      : graph_(ops, std::string(name)), editor_(graph_), options_(options) {}
  Net(const Net&) = delete;
  Net& operator=(const Net&) = delete;

  const ZooOptions& options() const { return options_; }
  void Fail(Status s) {
    if (status_.ok()) status_ = std::move(s);
  }
  const Status& status() const { return status_; }
  Graph Take() { return std::move(graph_); }

  /// options().batch as an extent, and as an entry of Reshape's shape (0 copies the input's).
  Dim BatchDim() const;
  int64_t batch() const { return options_.batch; }
  /// Extent of a value where it must be known; 1 after a failure.
  int64_t Extent(const Value* v, int axis) const;

  Value* Input(std::string_view name, DType dtype, std::vector<Dim> dims);
  Value* Image(int64_t channels = 3);  ///< f32 [batch, channels, resolution, resolution]
  void Output(Value* v, std::string_view name);

  /// `op` may be "domain::operator".
  Value* Op(std::string_view op, Values inputs, AttrMap attrs = {});
  Values OpN(std::string_view op, Values inputs, size_t outputs, AttrMap attrs = {});
  Value* Const(Tensor t) { return editor_.AddConstant(std::move(t)); }
  Value* JsonNumber(float v) { return Const(Tensor::Scalar<float>(v)); }
  Value* List(const Ints& v) { return Const(Tensor::Int64s(v)); }
  /// Bell-shaped random weights with this mean and standard deviation.
  Value* Weight(Dims dims, double std, double mean = 0) {
    return Named(WeightTensor(std::move(dims), std, mean));
  }

  Value* Conv(Value* x, int64_t outputs, int64_t kernel, const ConvOptions& o = {});
  Value* BatchNorm(Value* x, const BatchNormOptions& o = {});
  Value* Relu(Value* x) { return Op("Relu", {x}); }
  Value* Relu6(Value* x) { return Op("Clip", {x, JsonNumber(0), JsonNumber(6)}); }
  Value* MaxPool(Value* x, int64_t kernel, int64_t stride, int64_t pad = 0, bool ceil = false);
  Value* Reshape(Value* x, const Ints& shape) { return Op("Reshape", {x, List(shape)}); }
  Value* Transpose(Value* x, Ints perm) {
    return Op("Transpose", {x}, {{"perm", std::move(perm)}});
  }
  Value* Add(Value* a, Value* b) { return Op("Add", {a, b}); }
  Value* Mul(Value* a, Value* b) { return Op("Mul", {a, b}); }
  /// Flatten from axis 1.
  Value* Flatten(Value* x) { return Op("Flatten", {x}, {{"axis", int64_t{1}}}); }
  /// x [n, k] * W[outputs, k]^T + b.
  Value* Gemm(Value* x, int64_t outputs);
  /// x [.., tokens, k] * W[k, outputs] + b: what nn.Linear becomes on rank 3. Weight variance * k
  /// is `gain`.
  Value* Linear(Value* x, int64_t outputs, double gain = 1);
  /// x [.., k] * W[k, outputs] (+ b) as MatMulNBits: 4 bits, blocks of 32, rounded to nearest.
  /// Weight variance * k is `gain`.
  Value* LinearInt4(Value* x, int64_t outputs, double gain, bool bias);
  /// Rows of a table of 4-bit codes [rows, width] by `indices` (GatherBlockQuantized, blocks of
  /// 32).
  Value* EmbeddingInt4(Value* indices, int64_t rows, int64_t width, double std);
  /// GlobalAveragePool, Flatten and Gemm: the usual classifier.
  Value* Classifier(Value* x, int64_t classes);
  /// (x - mean) / sqrt(mean((x - mean)^2) + epsilon) * gamma + beta over the last axis.
  Value* LayerNorm(Value* x, float epsilon);

 private:
  /// The next weight's numbers, and a tensor under the next weight's name.
  Tensor WeightTensor(Dims dims, double std, double mean);
  /// [rows, width] as codes [rows, width / 32, 16] and scales [rows * width / 32].
  std::pair<Tensor, Tensor> CodesInt4(int64_t rows, int64_t width, double std);
  Value* Named(Tensor t) { return editor_.AddConstant(std::move(t), Cat("weight_", weights_++)); }

  Graph graph_;
  GraphEditor editor_;
  ZooOptions options_;
  Status status_;
  uint64_t weights_ = 0, nodes_ = 0;
};

/// One function per architecture; each ends in Output calls.
void BuildResnet18(Net& net);
void BuildResnet50(Net& net);
void BuildVgg16(Net& net);
void BuildSqueezenet11(Net& net);
void BuildMobilenetV2(Net& net);
void BuildMobilenetV3Small(Net& net);
void BuildEfficientnetLite0(Net& net);
void BuildYolo(Net& net);
void BuildBertBase(Net& net);
void BuildVitB16(Net& net);
void BuildGpt2Small(Net& net);
void BuildGpt2SmallKv(Net& net);
void BuildGpt2SmallKvInt4(Net& net);
void BuildGpt2SmallGqaInt4(Net& net);
void BuildTinyLlamaInt4(Net& net);
void BuildQwen2SmallInt4(Net& net);

}  // namespace infer
