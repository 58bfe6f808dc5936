/// Linear Resize in f32, axis by axis: y[o] = x[i] (1 - w) + x[i + 1] w. Where output o lies on an
/// axis is asked of the reference kernel, once per shape: it resizes the ramp 0, 1, 2, ... in f64,
/// whose value there is the (clamped) coordinate. So all coordinate modes are the reference's.
#include <algorithm>
#include <cmath>

#include "lib/ops/common.h"
#include "lib/support/strings.h"
#include "runtime/cpu/kernels/common/kernels.h"
#include "runtime/cpu/launch/launch.h"
#include "runtime/plan_ir/known_operands.h"

namespace infer {
namespace {

/// The ramps are tensors of the operand's size, in f64.
constexpr int64_t kMostInRamps = int64_t{1} << 24;

std::string RefuseResize(const StepCall& call) {
  const Node& n = call.main();
  const Value* x = n.input(0);
  if (call.step.nodes.size() > 1) return "it has no epilogue";
  if (!x->type().is_tensor() || x->dtype() != DType::kF32) return "the operand is not f32";
  if (n.Attr<std::string>("mode") != "linear") return "it is not linear";
  if (n.Attr<int64_t>("antialias") != 0) return "antialias";
  if (n.Attr<int64_t>("exclude_outside") != 0) return "exclude_outside";
  if (n.Attr<std::string>("coordinate_transformation_mode") == "tf_crop_and_resize")
    return "tf_crop_and_resize";
  return call.operand(x) == 0 ? "" : "the operand is not the first";
}

/// One axis of [outer, in, inner] to [outer, out, inner].
struct Pass {
  int64_t outer = 1, in = 1, out = 1, inner = 1;
  std::vector<int64_t> first, second;  // of the neighbours
  std::vector<float> weight;           // of the second
  void Run(const float* x, float* y) const {
    const int64_t rows = inner == 1 ? outer : outer * out;
    const int64_t row = inner == 1 ? out : inner;
    ForRange(rows, std::max<int64_t>(1, kElementGrain / row), [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r)
        inner == 1 ? Along(x + r * in, y + r * out) : Across(x, y, r);
    });
  }

 private:
  void Along(const float* x, float* y) const {
    for (int64_t o = 0; o < out; ++o) {
      const auto k = static_cast<size_t>(o);
      const float a = x[first[k]], b = x[second[k]];
      y[o] = a * (1.0f - weight[k]) + b * weight[k];
    }
  }
  void Across(const float* x, float* y, int64_t r) const {
    const auto k = static_cast<size_t>(r % out);
    const float* a = x + (r / out * in + first[k]) * inner;
    const float* b = x + (r / out * in + second[k]) * inner;
    const float w = weight[k], v = 1.0f - w;
    float* to = y + r * inner;
    for (int64_t i = 0; i < inner; ++i) to[i] = a[i] * v + b[i] * w;
  }
};

class ResizeKernel final : public Kernel {
 public:
  explicit ResizeKernel(const StepCall& call) : node_(call.main()), ops_(call.plan.graph.ops()) {
    for (const Value* v : node_.inputs()) operand_.push_back(call.operand(v));
  }

  Result<Prepared> Prepare(std::span<const Operand> in,
                           std::span<const Operand> out) const override {
    if (!NoneEmpty(in, out)) return Unsupported("an operand is empty");
    const Dims &from = in[0].dims, &to = out[0].dims;
    if (std::max(NumElements(from), NumElements(to)) > kMostInRamps)
      return Unsupported("too large for its coordinates to be asked for");
    std::vector<Pass> passes;
    Dims now = from;
    int64_t largest = 0;
    for (size_t axis = 0; axis < from.size(); ++axis) {
      INFER_ASSIGN(const std::vector<double> at, Coordinates(in, to, axis));
      Pass p;
      for (size_t o = 0; o < at.size(); ++o) {
        const double low = std::min(std::floor(at[o]), static_cast<double>(from[axis] - 1));
        p.first.push_back(static_cast<int64_t>(low));
        p.second.push_back(std::min(p.first.back() + 1, from[axis] - 1));
        p.weight.push_back(static_cast<float>(at[o] - low));
      }
      bool same = from[axis] == to[axis];
      for (size_t o = 0; same && o < at.size(); ++o) same = at[o] == static_cast<double>(o);
      if (same) continue;
      p.outer = NumElements(Dims(now.begin(), now.begin() + static_cast<int64_t>(axis)));
      p.inner = NumElements(Dims(now.begin() + static_cast<int64_t>(axis) + 1, now.end()));
      p.in = from[axis];
      p.out = now[axis] = to[axis];
      largest = std::max(largest, NumElements(now));
      passes.push_back(std::move(p));
    }
    if (passes.empty()) return Unsupported("nothing is resized");
    const size_t y = in.size();
    Prepared p;
    p.name = "own:resize";
    p.unused.assign(in.size(), true);
    p.unused[0] = false;
    // Every pass but the last writes scratch: two halves in turn.
    if (passes.size() > 1) p.scratch_bytes = 2 * largest * 4;
    p.launch = LaunchOf([passes = std::move(passes), largest, y](std::byte* const* args) {
      const float* x = As<float>(static_cast<const std::byte*>(args[0]));
      for (size_t k = 0; k < passes.size(); ++k) {
        float* z = k + 1 == passes.size() ? As<float>(args[y])
                                          : As<float>(args[y + 1]) + (k % 2 == 0 ? 0 : largest);
        passes[k].Run(x, z);
        x = z;
      }
    });
    return p;
  }

 private:
  /// Where the outputs along `axis` lie.
  Result<std::vector<double>> Coordinates(std::span<const Operand> in, const Dims& to,
                                          size_t axis) const {
    const Dims& from = in[0].dims;
    Tensor ramp(DType::kF64, from);
    const int64_t inner =
        NumElements(Dims(from.begin() + static_cast<int64_t>(axis) + 1, from.end()));
    auto data = ramp.mutable_data<double>();
    for (size_t i = 0; i < data.size(); ++i)
      data[i] = static_cast<double>(static_cast<int64_t>(i) / inner % from[axis]);
    const auto stand_in = [&](size_t i) { return i == 0 ? std::optional(ramp) : std::nullopt; };
    INFER_ASSIGN(const auto results, EvaluateKnown(node_, ops_, in, operand_, stand_in));
    const Tensor& y = results[0].tensor();
    if (y.dims() != to) return Unsupported("extents");
    std::vector<double> at;
    const int64_t step = NumElements(Dims(to.begin() + static_cast<int64_t>(axis) + 1, to.end()));
    for (int64_t o = 0; o < to[axis]; ++o)
      at.push_back(y.data<double>()[static_cast<size_t>(o * step)]);
    return at;
  }

  const Node& node_;
  const OpRegistry& ops_;
  std::vector<int> operand_;  // by input of the node
};

std::unique_ptr<Kernel> MakeResize(const StepCall& call) {
  return std::make_unique<ResizeKernel>(call);
}

}  // namespace

KernelList ResizeKernels() { return {{"Resize", "", "own", RefuseResize, MakeResize}}; }

}  // namespace infer
