/// Instruction sets and activations of oneDNN. Descriptors, primitives and launches lie in
/// onednn_*.cc.
#include "runtime/cpu/onednn/onednn.h"

#include <algorithm>
#include <cstdlib>
#include <oneapi/dnnl/dnnl.hpp>

#include "lib/ir/roles.h"
#include "lib/support/strings.h"

namespace infer::onednn {

using Algorithm = dnnl::algorithm;

Status CapIsa() {
  const char* text = std::getenv("INFER_MAX_ISA");
  if (!text || !*text) return {};
  struct Cap {
    std::string_view name;
    dnnl::cpu_isa isa;
  };
  static constexpr Cap kCaps[] = {{"sse4", dnnl::cpu_isa::sse41},
                                  {"avx", dnnl::cpu_isa::avx},
                                  {"avx2", dnnl::cpu_isa::avx2},
                                  {"avx2_vnni", dnnl::cpu_isa::avx2_vnni},
                                  {"avx512", dnnl::cpu_isa::avx512_core},
                                  {"vnni", dnnl::cpu_isa::avx512_core_vnni},
                                  {"bf16", dnnl::cpu_isa::avx512_core_bf16},
                                  {"all", dnnl::cpu_isa::all}};
  for (const Cap& c : kCaps)
    if (c.name == text) {
      dnnl::set_max_cpu_isa(c.isa);  // refused after the first primitive: then it is set already
      return {};
    }
  return InvalidArgument(Cat("INFER_MAX_ISA is '", text,
                             "'; it can be sse4, avx, avx2, avx2_vnni, avx512, vnni, bf16 or all"));
}

namespace {

bool Runs(dnnl::cpu_isa wanted) {
  const auto isa = static_cast<unsigned>(dnnl::get_effective_cpu_isa());
  const auto w = static_cast<unsigned>(wanted);
  return (isa & w) == w;
}

}  // namespace

bool HasExactInt8() {
  return Runs(dnnl::cpu_isa::avx512_core_vnni) || Runs(dnnl::cpu_isa::avx2_vnni);
}

Bf16Unit Bf16UnitHere() {
  if (Runs(dnnl::cpu_isa::avx512_core_amx)) return Bf16Unit::kAmx;
  return Runs(dnnl::cpu_isa::avx512_core_bf16) ? Bf16Unit::kAvx512 : Bf16Unit::kNone;
}

PostOp Linear(float alpha, float beta) {
  return {PostOp::Kind::kEltwise, static_cast<int>(Algorithm::eltwise_linear), alpha, beta};
}

PostOp Clip(float lo, float hi) {
  return {PostOp::Kind::kEltwise, static_cast<int>(Algorithm::eltwise_clip_v2), lo, hi};
}

PostOp Relu() { return {PostOp::Kind::kEltwise, static_cast<int>(Algorithm::eltwise_relu)}; }

PostOp RoundHalfEven() {
  return {PostOp::Kind::kEltwise, static_cast<int>(Algorithm::eltwise_round)};
}

namespace {

struct Eltwise {
  std::string_view op, domain;
  Algorithm algorithm;
  float alpha = 0;  ///< where the operator has no attribute of this name
};
constexpr Eltwise kEltwise[] = {
    {"Relu", "", Algorithm::eltwise_relu},
    {"LeakyRelu", "", Algorithm::eltwise_relu},
    {"Elu", "", Algorithm::eltwise_elu},
    {"Sigmoid", "", Algorithm::eltwise_logistic},
    {"Tanh", "", Algorithm::eltwise_tanh},
    {"HardSwish", "", Algorithm::eltwise_hardswish},
    {"Abs", "", Algorithm::eltwise_abs},
    {"Gelu", "", Algorithm::eltwise_gelu_erf},
    {"Swish", "", Algorithm::eltwise_swish},
    {"QuickGelu", kMicrosoft, Algorithm::eltwise_swish},
    {"Silu", "infer", Algorithm::eltwise_swish, 1},
};

}  // namespace

std::optional<PostOp> EltwiseOf(const Node& n) {
  const auto* row = std::find_if(std::begin(kEltwise), std::end(kEltwise),
                                 [&](const Eltwise& e) { return n.Is(e.op, e.domain); });
  if (row == std::end(kEltwise)) {
    const auto bounds = ClampOf(n);
    if (!bounds || !IsF32(n.input(0)) || !(bounds->low <= bounds->high)) return {};
    return Clip(static_cast<float>(bounds->low), static_cast<float>(bounds->high));
  }
  const bool tanh = n.AttrOr<std::string>("approximate", "none") == "tanh";
  return PostOp{PostOp::Kind::kEltwise,
                static_cast<int>(tanh ? Algorithm::eltwise_gelu_tanh : row->algorithm),
                n.AttrOr("alpha", row->alpha)};
}

}  // namespace infer::onednn
