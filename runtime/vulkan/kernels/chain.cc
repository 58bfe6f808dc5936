/// Element-wise operators of one and two operands, one behind the other, as one dispatch
/// (runtime/plan_ir/groups/chains.h): what lies between them stays in registers.
#include <algorithm>
#include <bit>

#include "lib/ir/roles.h"
#include "lib/support/strings.h"
#include "runtime/plan_ir/groups/chains.h"
#include "runtime/plan_ir/groups/grouping.h"
#include "runtime/vulkan/kernels/functions.h"
#include "runtime/vulkan/kernels/kernels.h"
#include "runtime/vulkan/kernels/walk.h"

namespace infer::vulkan {
namespace {

/// Of shaders/chain.comp.
constexpr size_t kMostChained = 8, kMostChainOperands = 4, kMostChainAxes = 4, kMostParameters = 10;
constexpr int kChainArithmetic = 200;

struct ChainStep {
  int code = 0;
  int left = 0, right = 0;  ///< operands of the chain, then results of steps, then parameters
  int pair = 0;             ///< of parameters: the first; kMostParameters: zeros
};
struct ShaderChain {
  std::vector<ChainStep> steps;
  std::vector<float> parameters;  ///< of functions, and constants of one element
  std::vector<int> operands;      ///< of the plan's step
};

class ChainDecoder {
 public:
  explicit ChainDecoder(const StepCall& call)
      : call_(call), result_(*call.step.nodes.back()->output(0)) {}

  Result<ShaderChain> Run() {
    const auto& nodes = call_.step.nodes;
    if (nodes.size() > kMostChained) return Unsupported("more operators than a shader takes");
    if (call_.step.outputs != std::vector<int>{call_.plan.id(&result_)})
      return Unsupported("a value inside is read elsewhere");
    if (!IsF32(&result_) || !result_.shape().has_rank()) return Unsupported("rank not known");
    for (const Node* n : nodes) INFER_TRY(Add(*n));
    if (chain_.operands.empty()) return Unsupported("all operands are constant");
    if (chain_.parameters.size() > kMostParameters)
      return Unsupported("more parameters than a shader takes");
    return std::move(chain_);
  }

 private:
  Status Add(const Node& n) {
    if (!HasOneResult(n) || !IsF32(n.output(0)) || !SameShape(*n.output(0), result_))
      return Unsupported(Cat(n.op(), " has another shape"));
    ChainStep step;
    if (const int code = ArithmeticCodeOf(n); code > 0) {
      step.code = kChainArithmetic + code;
      INFER_ASSIGN(step.left, Read(n.input(0)));
      INFER_ASSIGN(step.right, Read(n.input(1)));
    } else {
      INFER_ASSIGN(const UnaryCode f, UnaryCodeOf(call_, n));
      step.code = f.code;
      INFER_ASSIGN(step.left, Read(n.input(0)));
      step.right = step.left;
      step.pair = PairOf(f);
    }
    made_[n.output(0)] = static_cast<int>(kMostChainOperands + chain_.steps.size());
    chain_.steps.push_back(step);
    return {};
  }

  int PairOf(const UnaryCode& f) {
    if (std::bit_cast<uint32_t>(f.a) == 0 && std::bit_cast<uint32_t>(f.b) == 0)
      return static_cast<int>(kMostParameters);
    chain_.parameters.insert(chain_.parameters.end(), {f.a, f.b});
    return static_cast<int>(chain_.parameters.size()) - 2;
  }

  Result<int> Read(const Value* v) {
    if (const auto it = made_.find(v); it != made_.end()) return it->second;
    const int operand = call_.operand(v);
    if (operand < 0 || !IsF32(v) || !v->shape().has_rank()) return Unsupported("no f32 operand");
    if (const Tensor* c = call_.constant(v); c && c->num_elements() == 1) {
      chain_.parameters.push_back(c->data<float>()[0]);
      return made_[v] =
                 static_cast<int>(kMostChainOperands + kMostChained + chain_.parameters.size()) - 1;
    }
    // More axes may join to few, which only extents tell.
    if (!SameShape(*v, result_) && result_.shape().rank() > static_cast<int>(kMostChainAxes))
      return Unsupported("it broadcasts over more than four axes");
    chain_.operands.push_back(operand);
    if (chain_.operands.size() > kMostChainOperands)
      return Unsupported("more operands than a shader takes");
    return made_[v] = static_cast<int>(chain_.operands.size()) - 1;
  }

  const StepCall& call_;
  const Value& result_;
  ShaderChain chain_;
  std::unordered_map<const Value*, int> made_;  // where a step finds it
};

Result<ShaderChain> ChainOf(const StepCall& call) {
  if (call.step.borrowed > 0 || !call.step.nodes.back()->output(0)) return Unsupported("a group");
  return ChainDecoder(call).Run();
}

std::string RefuseChain(const StepCall& call, const DeviceFacts&) {
  if (call.step.nodes.size() == 1) return "a single operator";
  const auto chain = ChainOf(call);
  return chain.ok() ? "" : chain.status().message();
}

Result<Prepared> PrepareChain(const ShaderChain& chain, const Facts& facts,
                              std::span<const Operand> in, std::span<const Operand> out) {
  const Dims& dims = out[0].dims;
  std::vector<Dims> operands;
  for (int i : chain.operands) operands.push_back(in[static_cast<size_t>(i)].dims);
  const Walk w = BroadcastWalk(dims, operands);
  const int64_t n = NumElements(dims);
  int flat = 0;
  for (size_t i = 0; i < operands.size(); ++i) flat |= int{NumElements(operands[i]) == n} << i;
  const bool all_flat = flat == (1 << operands.size()) - 1;
  if (!all_flat && w.dims.size() > kMostChainAxes)
    return Unsupported("it broadcasts over more than four axes");
  Push push;
  push.U(n).List(all_flat ? Dims() : w.dims, kMostChainAxes, 1);
  for (size_t i = 0; i < kMostChainOperands; ++i)
    push.List(all_flat || i >= operands.size() ? Dims() : w.strides[i], kMostChainAxes, 0);
  for (float f : chain.parameters) push.F(f);
  std::vector<int32_t> constants = {static_cast<int32_t>(chain.steps.size()),
                                    static_cast<int32_t>(operands.size()), flat};
  for (const ChainStep& s : chain.steps)
    constants.insert(constants.end(), {s.code, s.left, s.right, s.pair});
  LaunchBuilder b(facts, in, out);
  std::vector<LaunchBuilder::Arg> args;
  for (size_t i = 0; i < kMostChainOperands; ++i)
    args.push_back(b.Read(chain.operands[std::min(i, operands.size() - 1)]));
  args.push_back(b.Write());
  // Drivers look at all that a shader might do before they know what it does.
  const size_t most = chain.steps.size() <= 2 ? 2 : chain.steps.size() <= 4 ? 4 : kMostChained;
  b.DispatchElements(Cat("chain", most), constants, args, push, n);
  INFER_ASSIGN(Prepared p, b.Finish("chain"));
  p.in_place = true;
  return p;
}

std::unique_ptr<Kernel> MakeChain(const StepCall& call, const Facts& facts) {
  return KernelOf(
      [chain = *ChainOf(call), facts](std::span<const Operand> in, std::span<const Operand> out) {
        return PrepareChain(chain, facts, in, out);
      });
}

}  // namespace

KernelList ChainKernels(const Facts& facts) {
  KernelList list;
  for (const auto& [op, domain] : UnaryOperators())
    list.push_back(Def(facts, op, domain, kDeviceChainKernel, RefuseChain, MakeChain));
  for (std::string_view op : ArithmeticOperators())
    list.push_back(Def(facts, op, "", kDeviceChainKernel, RefuseChain, MakeChain));
  return list;
}

}  // namespace infer::vulkan
