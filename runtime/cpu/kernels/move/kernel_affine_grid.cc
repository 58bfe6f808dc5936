/// AffineGrid of a constant size: a row of the grid is one product and one sum per number. Its
/// parts (Gather, Reshape, Mul, Add) took ten steps and 6.5 times ONNX Runtime's time for 56x56
/// points (tools/infer_bench/operator_map.py --filter AffineGrid).
#include <algorithm>
#include <array>
#include <vector>

#include "lib/support/strings.h"
#include "runtime/cpu/kernels/common/kernels.h"
#include "runtime/cpu/launch/launch.h"

namespace infer {
namespace {

/// Numbers of a grid that are worth a lane.
constexpr int64_t kGridGrain = 1 << 14;
/// Points side by side.
constexpr int64_t kGridPoints = 8;

constexpr int64_t kMostOfRow = 1 << 20;  // points, which have a table

/// The position of point `i` of `n` along an axis.
double PositionOf(int64_t i, int64_t n, bool align) {
  const auto at = static_cast<double>(i), extent = static_cast<double>(n);
  if (!align) return (2 * at + 1) / extent - 1;
  return n > 1 ? 2 * at / (extent - 1) - 1 : 0;
}

/// kAxes: 2 or 3.
template <int64_t kAxes>
class GridRows {
 public:
  /// `dims`: [N, (D,) H, W, kAxes].
  GridRows(const Dims& dims, bool align) : dims_(dims), align_(align) {
    const int64_t n = dims[kAxes];
    for (int64_t i = 0; i < n; ++i)
      across_.insert(across_.end(), kAxes, static_cast<float>(PositionOf(i, n, align)));
  }

  void Run(const float* theta, float* y) const {
    int64_t rows = 1;
    for (size_t i = 1; i < kAxes; ++i) rows *= dims_[i];
    const auto floats = std::ssize(across_);
    ForRange(dims_[0] * rows, std::max<int64_t>(1, kGridGrain / floats),
             [&](int64_t begin, int64_t end) {
               for (int64_t i = begin; i < end; ++i)
                 Row(theta + i / rows * kAxes * (kAxes + 1), i % rows, y + i * floats);
             });
  }

 private:
  void Row(const float* theta, int64_t row, float* y) const {
    constexpr int64_t kBlock = kAxes * kGridPoints;
    float by[kBlock], plus[kBlock];
    for (int64_t k = 0; k < kAxes; ++k) {
      const float* const of = theta + k * (kAxes + 1);
      auto sum = static_cast<double>(of[kAxes]);
      int64_t rest = row;
      for (int64_t axis = 1; axis < kAxes; ++axis) {  // innermost first, behind the row's own
        const int64_t n = dims_[static_cast<size_t>(kAxes - axis)];
        sum += static_cast<double>(of[axis]) * PositionOf(rest % n, n, align_);
        rest /= n;
      }
      for (int64_t i = k; i < kBlock; i += kAxes) {
        by[i] = of[0];
        plus[i] = static_cast<float>(sum);
      }
    }
    const float* const x = across_.data();
    const auto n = std::ssize(across_);
    int64_t i = 0;
    for (; i + kBlock <= n; i += kBlock)
      for (int64_t j = 0; j < kBlock; ++j) y[i + j] = by[j] * x[i + j] + plus[j];
    for (int64_t j = 0; i < n; ++i, ++j) y[i] = by[j] * x[i] + plus[j];
  }

  Dims dims_;
  bool align_;
  std::vector<float> across_;  ///< of each number of a row
};

std::string RefuseAffineGrid(const StepCall& call) {
  if (call.step.nodes.size() > 1) return "it has no epilogue";
  const Node& n = call.main();
  if (ElementTypeOf(n.input(0)) != DType::kF32) return "not f32";
  return call.constant(n.input(1)) ? "" : "the size comes with the run";
}

template <int64_t kAxes>
std::shared_ptr<const Launch> LaunchGrid(const Dims& dims, bool align, size_t theta, size_t y) {
  return LaunchOf([rows = GridRows<kAxes>(dims, align), theta, y](std::byte* const* args) {
    rows.Run(As<float>(static_cast<const std::byte*>(args[theta])), As<float>(args[y]));
  });
}

std::unique_ptr<Kernel> MakeAffineGrid(const StepCall& call) {
  const Node& n = call.main();
  const auto theta = static_cast<size_t>(call.operand(n.input(0)));
  const bool align = n.Attr<int64_t>("align_corners") != 0;
  return KernelOf(
      [=](std::span<const Operand> in, std::span<const Operand> out) -> Result<Prepared> {
        if (!NoneEmpty(in, out)) return Unsupported("an operand is empty");
        const Dims& y = out[0].dims;
        const auto axes = std::ssize(y) - 2;
        if ((axes != 2 && axes != 3) || in[theta].dims != Dims{y[0], axes, axes + 1})
          return Unsupported("theta does not fit the size");
        if (y[static_cast<size_t>(axes)] > kMostOfRow)
          return Unsupported("rows of over a million points");
        Prepared p;
        p.name = "own:rows";
        p.in_layouts.resize(in.size());
        p.unused.assign(in.size(), true);
        p.unused[theta] = false;
        p.launch = axes == 2 ? LaunchGrid<2>(y, align, theta, in.size())
                             : LaunchGrid<3>(y, align, theta, in.size());
        return p;
      });
}

}  // namespace

KernelList AffineGridKernels() {
  return {{"AffineGrid", "", "own", RefuseAffineGrid, MakeAffineGrid}};
}

}  // namespace infer
