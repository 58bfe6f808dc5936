#include "runtime/cpu/kernels/recurrent/gate_activation.h"

#include <cmath>

namespace infer {
namespace {

struct GateLoop {
  std::string_view name;
  simd::Unary kind;
};
constexpr GateLoop kGateLoops[] = {{"relu", simd::Unary::kRelu},
                                   {"tanh", simd::Unary::kTanh},
                                   {"sigmoid", simd::Unary::kSigmoid},
                                   {"leakyrelu", simd::Unary::kLeakyRelu},
                                   {"thresholdedrelu", simd::Unary::kThresholdedRelu},
                                   {"hardsigmoid", simd::Unary::kHardSigmoid},
                                   {"elu", simd::Unary::kElu},
                                   {"softsign", simd::Unary::kSoftsign},
                                   {"softplus", simd::Unary::kSoftplus}};

}  // namespace

GateActivation::GateActivation(const RecurrentActivation& a)
    : exact_(a), a_(static_cast<float>(a.alpha)), b_(static_cast<float>(a.beta)) {
  for (const GateLoop& l : kGateLoops)
    if (l.name == a.name) loop_ = simd::TheLoops().unary[static_cast<int>(l.kind)];
}

void GateActivation::Run(float* x, int64_t n) const {
  if (!loop_) {
    for (int64_t j = 0; j < n; ++j) x[j] = static_cast<float>(exact_(static_cast<double>(x[j])));
    return;
  }
  if (std::isfinite(exact_.clip)) {
    const auto clip = static_cast<float>(exact_.clip);
    simd::TheLoops().unary[static_cast<int>(simd::Unary::kClip)](x, x, n, -clip, clip);
  }
  loop_(x, x, n, a_, b_);
}

}  // namespace infer
