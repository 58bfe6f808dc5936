#include "runtime/cpu/kernels/common/bf16.h"

#include <algorithm>
#include <bit>

#include "lib/ir/roles.h"
#include "lib/support/readable.h"
#include "lib/support/strings.h"
#include "runtime/cpu/launch/launch.h"

namespace infer {
namespace {

bool IsConvolutionOrTransposed(const Node& n) {
  return IsConvolution(n) || IsTransposedConvolution(n);
}

std::optional<Dims> StaticDims(const Value* v) {
  if (!v || !v->type().is_tensor() || !v->tensor_type().is_static()) return std::nullopt;
  return v->shape().static_dims();
}

float RoundedOne(float x) {
  auto bits = std::bit_cast<uint32_t>(x);
  const bool is_nan = (bits & 0x7fffffffu) > 0x7f800000u;
  const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1)) & 0xffff0000u;
  bits = is_nan ? (bits | 0x00400000u) & 0xffff0000u : rounded;
  return std::bit_cast<float>(bits);
}

void RoundAll(const float* from, int64_t n, float* to) {
  ForRange(n, 1 << 14, [=](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) to[i] = RoundedOne(from[i]);
  });
}

class RoundedLaunch final : public Launch {
 public:
  RoundedLaunch(const Prepared& p, int operands, int x, int64_t x_bytes, int64_t y_bytes)
      : launch_(p.launch),
        rest_(p.scratch_bytes),
        x_(static_cast<size_t>(x)),
        y_(static_cast<size_t>(operands)),
        x_bytes_(x_bytes),
        y_bytes_(y_bytes) {}

  struct State final : LaunchState {
    std::unique_ptr<LaunchState> inner;
    std::vector<std::byte*> args;
  };
  std::unique_ptr<LaunchState> NewState() const override {
    auto state = std::make_unique<State>();
    state->inner = launch_->NewState();
    state->args.resize(y_ + 2);
    return state;
  }

  Status Run(std::byte* const* args, LaunchState* base) const override {
    auto& state = static_cast<State&>(*base);
    // Scratch of the product, then the rounded operand.
    std::copy_n(args, y_ + 2, state.args.begin());
    std::byte* const rounded = args[y_ + 1] + Aligned(rest_);
    RoundAll(As<float>(static_cast<const std::byte*>(args[x_])), x_bytes_ / 4, As<float>(rounded));
    state.args[x_] = rounded;
    INFER_TRY(launch_->Run(state.args.data(), state.inner.get()));
    if (y_bytes_ > 0) RoundAll(As<float>(args[y_]), y_bytes_ / 4, As<float>(args[y_]));
    return {};
  }

  static int64_t Aligned(int64_t bytes) { return (bytes + 63) / 64 * 64; }

 private:
  std::shared_ptr<const Launch> launch_;
  int64_t rest_;
  size_t x_, y_;
  int64_t x_bytes_, y_bytes_;
};

}  // namespace

Numbers Bf16Numbers() {
  return onednn::Bf16UnitHere() == onednn::Bf16Unit::kNone ? Numbers::kRounded : Numbers::kBf16;
}

int64_t MultiplicationsOf(const Node& node, const Dims& x, const Dims& w, const Dims& y) {
  // Each element of one side meets the weights of its channel or column.
  const Dims& side = IsTransposedConvolution(node) ? x : y;
  if (side.empty()) return 0;
  const int64_t channels = IsConvolutionOrTransposed(node) ? side[1] : side.back();
  return NumElements(side) / std::max<int64_t>(channels, 1) * NumElements(w);
}

Status CheckPaysInBf16(const Node& node, const Dims& x, const Dims& w, const Dims& y) {
  const int64_t n = MultiplicationsOf(node, x, w, y);
  const auto millions = [](int64_t v) { return Fixed(static_cast<double>(v) / 1e6, 2); };
  if (n < kLeastForBf16)
    return Unsupported(Cat(millions(n), " million multiplications; conversions take longer below ",
                           millions(kLeastForBf16)));
  const int64_t each = n / std::max<int64_t>(NumElements(x), 1);
  if (each < kLeastPerElement)
    return Unsupported(Cat(each,
                           " multiplications for each element; conversions take longer below ",
                           kLeastPerElement));
  return {};
}

std::string RefuseBf16(const StepCall& call) {
  if (call.options.compute != Compute::kBF16) return "f32 is asked for";
  if (call.options.level < 1) return "level 0 multiplies in f32";
  const Node& n = call.main();
  const Tensor* w = call.constant(n.input(1));
  if (!w) return "the weights are not constant";
  const auto x = StaticDims(n.input(0)), y = StaticDims(n.output(0));
  return x && y ? CheckPaysInBf16(n, *x, w->dims(), *y).message() : "";
}

Tensor RoundedToBf16(const Tensor& t) {
  Tensor rounded(DType::kF32, t.dims());
  RoundAll(t.data<float>().data(), t.num_elements(), rounded.mutable_data<float>().data());
  return rounded;
}

Prepared WithRounding(Prepared p, int operands, int x, int64_t x_bytes, int64_t y_bytes) {
  p.launch = std::make_shared<RoundedLaunch>(p, operands, x, x_bytes, y_bytes);
  p.scratch_bytes = RoundedLaunch::Aligned(p.scratch_bytes) + x_bytes;
  p.name = Cat("rounded:", p.name);
  p.precision = "bf16, rounded";
  return p;
}

}  // namespace infer
