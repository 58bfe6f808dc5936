#include "runtime/cpu/kernels/int8/int8_product.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "lib/ir/roles.h"
#include "runtime/cpu/kernels/common/epilogue.h"

namespace infer {
namespace {

/// The sum rounds each of the 65,536 pairs of quanta as the graph does, step by step in f32.
bool SumRoundsAsTheGraph(const QuantGroup& g) {
  const SumIn8Bits sum(g);
  const QuantParams8 &a = g.residual->between, &b = g.residual->other.params, &y = *g.output;
  const int32_t lo = SumIn8Bits::Lowest(y);
  const auto zero = static_cast<float>(y.zero_point());
  const auto quantum = [&](float v) {
    return std::clamp(std::nearbyint(g.residual->relu ? std::max(v, 0.0f) : v),
                      static_cast<float>(lo - y.zero_point()),
                      static_cast<float>(lo + 255 - y.zero_point()));
  };
  for (int i = 0; i < 256; ++i) {
    const auto u = static_cast<float>(SumIn8Bits::Lowest(a) + i - a.zero_point());
    const float left = u * (g.residual->linear ? sum.scale : a.scale()), folded = u * sum.scale;
    for (int j = 0; j < 256; ++j) {
      const auto v = static_cast<float>(SumIn8Bits::Lowest(b) + j - b.zero_point());
      const float right = v * (g.residual->linear ? sum.other_scale : b.scale());
      const float want = g.residual->linear ? std::nearbyint(left + right + zero) - zero
                                            : (left + right) / y.scale();
      if (quantum(want) != quantum(std::fma(v, sum.other_scale, folded))) return false;
    }
  }
  return true;
}

std::string RefuseResidual(const StepCall& call, const QuantGroup& g) {
  const QuantInput& other = g.residual->other;
  if (!IsConvolution(call.main())) return "a residual of a product that is no convolution";
  if (!other.params.per_tensor() || other.params.dtype != g.output->dtype || other.constant)
    return "what is added has another type";
  if (other.value == g.inputs[0]->value) return "the operand itself is added";
  if (!SameShape(*other.value, *call.step.nodes.back()->output(0))) return "it broadcasts";
  return SumRoundsAsTheGraph(g) ? "" : "the sum would round otherwise";
}

}  // namespace

bool PairsFit16Bits(const Tensor& w, int64_t channels, bool channels_first) {
  const int64_t n = w.num_elements(), inner = n / std::max<int64_t>(channels, 1);
  for (int64_t c = 0; c < channels; ++c) {
    int first = 0, second = 0;
    for (int64_t i = 0; i < inner; ++i) {
      const int v = std::abs(static_cast<int>(w.data<int8_t>()[static_cast<size_t>(
          channels_first ? c * inner + i : i * channels + c)]));
      if (v > first) {
        second = first;
        first = v;
      } else {
        second = std::max(second, v);
      }
    }
    if (255 * (first + second) > 32767) return false;
  }
  return true;
}

std::string RefuseProductGroup(const StepCall& call) {
  const auto folds = [](const Node& n) { return onednn::EltwiseOf(n).has_value(); };
  if (std::string why = RefuseQuantProduct(call, folds); !why.empty()) return why;
  const auto group = DecodeQuantGroup(call);
  return group->residual ? RefuseResidual(call, *group) : "";
}

}  // namespace infer
