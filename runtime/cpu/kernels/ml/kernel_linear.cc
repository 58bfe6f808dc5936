/// LinearClassifier and LinearRegressor in f32.
#include <algorithm>

#include "lib/ops/ml/ml_scores.h"
#include "lib/support/strings.h"
#include "runtime/cpu/kernels/common/kernels.h"
#include "runtime/cpu/kernels/common/step_results.h"
#include "runtime/cpu/launch/launch.h"
#include "runtime/cpu/simd/loops.h"
#include "runtime/cpu/simd/models.h"

namespace infer {
namespace {

/// Rows that are multiplied, transformed and decided on before the next.
constexpr int64_t kLinearRows = 64;

/// The products, the bias and what makes scores of them.
struct LinearModel {
  std::vector<float> weights, bias;  // [outputs, features], [outputs]
  int64_t features = 0, outputs = 0;
  PostTransform transform = PostTransform::kNone;
  std::vector<int64_t> labels;  // of a classifier

  /// One function decides between two classes.
  bool is_binary() const { return outputs == 1 && labels.size() == 2; }
  int64_t columns() const { return is_binary() ? 2 : outputs; }

  void Products(const float* x, int64_t rows, float* y) const {
    simd::TheModelLoops().linear(x, rows, features, weights.data(), bias.data(), outputs, y);
  }
  void Transform(float* y, int64_t rows) const {
    const simd::Loops& loops = simd::TheLoops();
    if (transform == PostTransform::kSoftmax)
      loops.softmax(y, y, outputs, rows, false);
    else if (transform == PostTransform::kLogistic)
      loops.unary[static_cast<int>(simd::Unary::kSigmoid)](y, y, rows * outputs, 0, 0);
  }
};

std::string RefuseLinear(const StepCall& call) {
  if (call.step.nodes.size() > 1) return "it has no epilogue";
  const Node& n = call.main();
  const OpCall of = CallOf(n);
  if (ElementTypeOf(n.input(0)) != DType::kF32)
    return Cat("elements of ", Name(ElementTypeOf(n.input(0))));
  const auto transform = PostTransformOf(of.Str("post_transform"));
  if (!transform.ok() || *transform == PostTransform::kProbit ||
      *transform == PostTransform::kSoftmaxZero)
    return Cat("post_transform is ", of.Str("post_transform"));
  return of.HasAttr("classlabels_strings") &&
                 !ListAttr<std::string>(of, "classlabels_strings").empty()
             ? "the labels are text"
             : "";
}

/// Unsupported: the attributes are no model of so many features.
Result<LinearModel> ReadLinear(const OpCall& call, int64_t features, int64_t columns) {
  LinearModel m;
  m.weights = ListAttr<float>(call, "coefficients");
  m.bias = ListAttr<float>(call, "intercepts");
  m.features = features;
  m.outputs = static_cast<int64_t>(m.weights.size()) / features;
  INFER_ASSIGN(m.transform, PostTransformOf(call.Str("post_transform")));
  if (m.bias.empty()) m.bias.resize(static_cast<size_t>(m.outputs));
  if (call.def().FindAttr("classlabels_ints"))
    m.labels = ListAttr<int64_t>(call, "classlabels_ints");
  if (m.outputs < 1 || static_cast<int64_t>(m.weights.size()) != m.outputs * features ||
      static_cast<int64_t>(m.bias.size()) != m.outputs || m.columns() != columns)
    return Unsupported("another number of features");
  return m;
}

Prepared PreparedLinear(const LinearModel& m) {
  Prepared p;
  p.name = Cat("own:", simd::TheModelLoops().isa);
  p.weight_bytes = static_cast<int64_t>(4 * (m.weights.size() + m.bias.size()));
  return p;
}

int64_t GrainOf(const LinearModel& m) {
  return std::max<int64_t>(4, kElementGrain / (m.features * m.outputs));
}

std::unique_ptr<Kernel> MakeLinearRegressor(const StepCall& call) {
  const Node* const n = &call.main();
  return KernelOf(
      [n](std::span<const Operand> in, std::span<const Operand> out) -> Result<Prepared> {
        INFER_ASSIGN(auto model, ReadLinear(CallOf(*n), in[0].dims.back(), out[0].dims.back()));
        const auto m = std::make_shared<const LinearModel>(std::move(model));
        const int64_t rows = out[0].dims[0];
        Prepared p = PreparedLinear(*m);
        p.launch = LaunchOf([m, rows](std::byte* const* args) {
          const auto* const x = As<float>(static_cast<const std::byte*>(args[0]));
          float* const y = As<float>(args[1]);
          ForRange(rows, GrainOf(*m), [&](int64_t begin, int64_t end) {
            m->Products(x + begin * m->features, end - begin, y + begin * m->outputs);
            m->Transform(y + begin * m->outputs, end - begin);
          });
        });
        return p;
      });
}

/// The classes and scores of some rows. Two classes by one function: a positive value means the
/// second, whose score is the value; the first has what it lacks to one.
void Classify(const LinearModel& m, const float* x, int64_t rows, int64_t* y, float* z) {
  const int64_t columns = m.columns();
  if (m.is_binary()) {
    float values[kLinearRows];
    m.Products(x, rows, values);
    for (int64_t r = 0; r < rows; ++r) y[r] = m.labels[values[r] > 0 ? 1 : 0];
    if (m.transform == PostTransform::kLogistic) m.Transform(values, rows);
    for (int64_t r = 0; r < rows; ++r) {
      z[2 * r] = 1 - values[r];
      z[2 * r + 1] = values[r];
    }
    return;
  }
  m.Products(x, rows, z);
  for (int64_t r = 0; r < rows; ++r) {
    const float* const row = z + r * columns;
    y[r] = m.labels[static_cast<size_t>(std::max_element(row, row + columns) - row)];
  }
  m.Transform(z, rows);
}

std::unique_ptr<Kernel> MakeLinearClassifier(const StepCall& call) {
  const Node* const n = &call.main();
  const int label = ResultOf(call, 0), score = ResultOf(call, 1);
  return KernelOf(
      [=](std::span<const Operand> in, std::span<const Operand> out) -> Result<Prepared> {
        const auto classes =
            static_cast<int64_t>(ListAttr<int64_t>(CallOf(*n), "classlabels_ints").size());
        INFER_ASSIGN(auto model, ReadLinear(CallOf(*n), in[0].dims.back(), classes));
        const auto m = std::make_shared<const LinearModel>(std::move(model));
        const int64_t rows = out[0].dims[0], columns = m->columns();
        const int64_t blocks = (rows + kLinearRows - 1) / kLinearRows;
        const int scratch = static_cast<int>(in.size() + out.size());
        Prepared p = PreparedLinear(*m);
        // Results that nobody reads.
        const int64_t label_bytes = label < 0 ? 8 * rows : 0;
        p.scratch_bytes = label_bytes + (score < 0 ? 4 * rows * columns : 0);
        p.launch = LaunchOf([=](std::byte* const* args) {
          const auto* const x = As<float>(static_cast<const std::byte*>(args[0]));
          auto* const y = As<int64_t>(label < 0 ? args[scratch] : args[1 + label]);
          auto* const z = As<float>(score < 0 ? args[scratch] + label_bytes : args[1 + score]);
          ForRange(blocks, std::max<int64_t>(1, GrainOf(*m) / kLinearRows),
                   [&](int64_t begin, int64_t end) {
                     for (int64_t b = begin; b < end; ++b) {
                       const int64_t row = b * kLinearRows;
                       Classify(*m, x + row * m->features, std::min(kLinearRows, rows - row),
                                y + row, z + row * columns);
                     }
                   });
        });
        return p;
      });
}

}  // namespace

KernelList LinearModelKernels() {
  return {{"LinearRegressor", "ai.onnx.ml", "own", RefuseLinear, MakeLinearRegressor},
          {"LinearClassifier", "ai.onnx.ml", "own", RefuseLinear, MakeLinearClassifier}};
}

}  // namespace infer
