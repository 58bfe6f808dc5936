/// Instruction sets and activations of oneDNN. Descriptors, primitives and launches lie in
/// onednn_*.cc.
#include "runtime/cpu/onednn/onednn.h"

#include <cstdlib>
#include <oneapi/dnnl/dnnl.hpp>

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
                                  {"all", dnnl::cpu_isa::all}};
  for (const Cap& c : kCaps)
    if (c.name == text) {
      dnnl::set_max_cpu_isa(c.isa);  // refused after the first primitive: then it is set already
      return {};
    }
  return InvalidArgument(Cat("INFER_MAX_ISA is '", text,
                             "'; it can be sse4, avx, avx2, avx2_vnni, avx512, vnni or all"));
}

bool HasExactInt8() {
  const auto isa = static_cast<unsigned>(dnnl::get_effective_cpu_isa());
  auto has = [isa](dnnl::cpu_isa wanted) {
    const auto w = static_cast<unsigned>(wanted);
    return (isa & w) == w;
  };
  return has(dnnl::cpu_isa::avx512_core_vnni) || has(dnnl::cpu_isa::avx2_vnni);
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

std::optional<PostOp> EltwiseOf(const Node& n) {
  auto eltwise = [](Algorithm a, float alpha = 0, float beta = 0) {
    return PostOp{PostOp::Kind::kEltwise, static_cast<int>(a), alpha, beta};
  };
  const bool microsoft = n.def().domain == "com.microsoft";
  if (!n.def().domain.empty() && n.def().domain != "infer" && !microsoft) return {};
  if (n.Is("Clip")) {
    float bound[2] = {-std::numeric_limits<float>::max(), std::numeric_limits<float>::max()};
    for (size_t i = 1; i <= 2; ++i) {
      const Value* v = n.input(i);
      if (!v) continue;
      if (!v->constant() || v->dtype() != DType::kF32 || v->constant()->num_elements() != 1)
        return {};
      bound[i - 1] = static_cast<float>(v->constant()->At(0));
    }
    if (!(bound[0] <= bound[1])) return {};
    return eltwise(Algorithm::eltwise_clip_v2, bound[0], bound[1]);
  }
  if (n.inputs().size() != 1) return {};
  if (n.Is("Relu")) return eltwise(Algorithm::eltwise_relu);
  if (n.Is("LeakyRelu")) return eltwise(Algorithm::eltwise_relu, n.Attr<float>("alpha"));
  if (n.Is("Elu")) return eltwise(Algorithm::eltwise_elu, n.Attr<float>("alpha"));
  if (n.Is("Sigmoid")) return eltwise(Algorithm::eltwise_logistic);
  if (n.Is("Tanh")) return eltwise(Algorithm::eltwise_tanh);
  if (n.Is("HardSwish")) return eltwise(Algorithm::eltwise_hardswish);
  if (n.Is("Abs")) return eltwise(Algorithm::eltwise_abs);
  if (n.Is("Gelu"))
    return eltwise(n.Attr<std::string>("approximate") == "tanh" ? Algorithm::eltwise_gelu_tanh
                                                                : Algorithm::eltwise_gelu_erf);
  if (n.Is("Swish") || n.Is("QuickGelu", "com.microsoft"))
    return eltwise(Algorithm::eltwise_swish, n.Attr<float>("alpha"));
  if (n.Is("Silu", "infer")) return eltwise(Algorithm::eltwise_swish, 1.0f);
  return {};
}

}  // namespace infer::onednn
