/// DeformConv of two dimensions and f32, plane by plane: the samples of a block of points lie as
/// panels of columns, and the weights, as they are, multiply them to rows of y. Nothing is brought
/// into another layout, which is what counts where few channels share an offset or meet few
/// weights.
#include <algorithm>
#include <array>

#include "lib/support/strings.h"
#include "runtime/cpu/kernels/common/appended.h"
#include "runtime/cpu/kernels/common/kernels.h"
#include "runtime/cpu/kernels/conv/deformed.h"
#include "runtime/cpu/launch/launch.h"
#include "runtime/cpu/simd/loops.h"

namespace infer {
namespace {

using simd::kPanel;
constexpr int64_t kPanels = simd::kSampleBlock / kPanel;  ///< of a block

struct PlaneOperands {
  const float *x, *w, *offset, *bias, *mask;  ///< bias, mask: nullptr for none
};

/// Blocks of points of all images.
class PlaneSamples {
 public:
  explicit PlaneSamples(const Deformed& d)
      : d_(d), loops_(simd::TheSamples()), multiply_(simd::TheLoops().multiply_panels) {}

  int64_t blocks() const { return BlocksOf(d_.outputs, simd::kSampleBlock); }
  int64_t units() const { return d_.batch * blocks(); }
  int64_t scratch_floats() const { return panel_floats() * d_.groups + rows() * kPanel; }

  void Unit(int64_t unit, const PlaneOperands& in, float* y, float* scratch) const {
    const int64_t image = unit / blocks(), first = unit % blocks() * simd::kSampleBlock;
    const int64_t count = std::min(simd::kSampleBlock, d_.outputs - first);
    DeformedBlock block(d_, image, first, count);
    Take(block, in, scratch);
    float* const tile = scratch + panel_floats() * d_.groups;
    for (int64_t g = 0; g < d_.groups; ++g)
      for (int64_t p = 0; p < kPanels && p * kPanel < count; ++p)
        Multiply(in, g, scratch + g * panel_floats() + p * d_.depth() * kPanel,
                 y + (image * d_.results + g * rows()) * d_.outputs + first + p * kPanel,
                 std::min(kPanel, count - p * kPanel), tile);
  }

 private:
  int64_t rows() const { return d_.results / d_.groups; }
  int64_t panel_floats() const { return kPanels * d_.depth() * kPanel; }

  /// to [group][panel][channel][position][kPanel]
  void Take(DeformedBlock& block, const PlaneOperands& in, float* to) const {
    const int64_t of_offset = d_.offset_channels(), of_group = d_.group_channels();
    const int64_t plane = d_.height * d_.width;
    for (int64_t k = 0; k < d_.offset_groups; ++k)
      for (int64_t position = 0; position < d_.positions; ++position) {
        block.Find(in.offset, in.mask, k, position);
        for (int64_t c = k * of_offset; c < (k + 1) * of_offset; ++c) {
          const float* const x = in.x + (block.image() * d_.channels + c) * plane;
          float* const at = to + c / of_group * panel_floats() +
                            (c % of_group * d_.positions + position) * kPanel;
          for (int64_t first = 0; first < block.count(); first += kPanel)
            Row(block, first, x, at + first * d_.depth());
        }
      }
  }

  /// One channel of the points of a panel.
  void Row(const DeformedBlock& block, int64_t first, const float* x, float* to) const {
    const int64_t n = std::min(kPanel, block.count() - first);
    loops_.read(x, block.at() + first, block.weight() + first, 4, n, to);
    std::fill(to + n, to + kPanel, 0.0f);  // what lies there may be subnormal, which takes long
    if (!block.factor()) return;
    for (int64_t i = 0; i < n; ++i) to[i] *= block.factor()[first + i];
  }

  /// `n` columns of the rows of a group; all of a panel go to y at once.
  void Multiply(const PlaneOperands& in, int64_t g, const float* panel, float* y, int64_t n,
                float* tile) const {
    const bool whole = n == kPanel;
    float* const to = whole ? y : tile;
    const int64_t pitch = whole ? d_.outputs : kPanel;
    for (int64_t r = 0; r < rows(); ++r)
      std::fill_n(to + r * pitch, kPanel, in.bias ? in.bias[g * rows() + r] : 0.0f);
    multiply_(in.w + g * rows() * d_.depth(), d_.depth(), rows(), panel, d_.depth(), 1, to, pitch);
    for (int64_t r = 0; r < rows() && !whole; ++r)
      std::copy_n(tile + r * kPanel, n, y + r * d_.outputs);
  }

  Deformed d_;
  const simd::Samples& loops_;
  decltype(simd::Loops::multiply_panels) multiply_;
};

class DeformPlanesKernel final : public Kernel {
 public:
  explicit DeformPlanesKernel(const StepCall& call)
      : node_(call.main()),
        threads_(call.options.threads > 0 ? call.options.threads : LaneBudget()) {
    for (size_t i = 0; i < 5; ++i) at_[i] = node_.input(i) ? call.operand(node_.input(i)) : -1;
  }

  Result<Prepared> Prepare(std::span<const Operand> in,
                           std::span<const Operand> out) const override {
    if (!NoneEmpty(in, out)) return Unsupported("an operand is empty");
    const auto dims = [&](size_t i) { return in[static_cast<size_t>(at_[i])].dims; };
    INFER_ASSIGN(const Deformed d, Deformed::Of(node_, dims(0), dims(1), out[0].dims));
    const PlaneSamples planes(d);
    const int64_t slots = std::min<int64_t>(threads_, planes.units());
    Prepared p;
    p.name = Cat("own:deform-planes:", simd::TheSamples().isa);
    p.scratch_bytes = slots * planes.scratch_floats() * 4;
    p.launch = LaunchOf([planes, slots, at = at_, operands = in.size()](std::byte* const* args) {
      const auto operand = [&](size_t i) {
        return at[i] < 0 ? nullptr : As<float>(static_cast<const std::byte*>(args[at[i]]));
      };
      const PlaneOperands of{operand(0), operand(1), operand(2), operand(3), operand(4)};
      float *const y = As<float>(args[operands]), *const scratch = As<float>(args[operands + 1]);
      ForRange(slots, 1, [&](int64_t begin, int64_t end) {
        for (int64_t slot = begin; slot < end; ++slot)
          for (int64_t unit = slot; unit < planes.units(); unit += slots)
            planes.Unit(unit, of, y, scratch + slot * planes.scratch_floats());
      });
    });
    return p;
  }

 private:
  const Node& node_;
  int threads_;
  std::array<int, 5> at_;  // operands, -1: none
};

std::unique_ptr<Kernel> MakeDeformPlanes(const StepCall& call) {
  return std::make_unique<DeformPlanesKernel>(call);
}

}  // namespace

KernelList DeformPlanesKernels() {
  return {{"DeformConv", "", "planes", RefuseDeformed, MakeDeformPlanes}};
}

}  // namespace infer
