/// Attention as one step: products, scale, mask and softmax, found around a Softmax
/// (attention_group.h).
#include <iterator>
#include <map>

#include "lib/support/parallel.h"
#include "lib/support/strings.h"
#include "runtime/cpu/attention_group.h"
#include "runtime/cpu/byte_attention.h"
#include "runtime/cpu/kernels.h"
#include "runtime/cpu/launch.h"
#include "runtime/cpu/row_attention.h"
#include "runtime/cpu/simd/one_query.h"

namespace infer {
namespace {

/// Operands as they could be, each symbol by a prime: what fits these fits nearly always.
class Imagined {
 public:
  Result<std::vector<Operand>> Operands(const StepCall& call, const std::vector<int>& ids) {
    std::vector<Operand> list;
    for (int id : ids) {
      const Value* v = call.plan.values[static_cast<size_t>(id)];
      if (!v->type().is_tensor() || !v->shape().has_rank()) return Unsupported("rank not known");
      Operand& o = list.emplace_back();
      o.value = v;
      o.dtype = v->dtype();
      o.constant = call.constant(v);
      for (const Dim& d : v->shape().dims()) {
        if (d.is_unknown()) return Unsupported("extents not known");
        o.dims.push_back(d.is_static() ? d.value() : ExtentOf(d));
      }
    }
    return list;
  }

 private:
  int64_t ExtentOf(const Dim& d) {
    static constexpr int64_t kPrimes[] = {3, 5, 7, 11, 13, 17, 19, 23};
    const int64_t next = kPrimes[extents_.size() % std::size(kPrimes)];
    return extents_.try_emplace(d.ToString(), next).first->second;
  }
  std::map<std::string, int64_t> extents_;
};

std::string RefuseAttention(const StepCall& call) {
  if (call.options.level < 2) return "level 2 only: it rounds otherwise";
  if (!simd::TheAttentionLoops()) return "no kernel for this instruction set";
  const auto group = DecodeAttention(call);
  if (!group.ok()) return group.status().message();
  Imagined imagined;
  const auto in = imagined.Operands(call, call.step.inputs);
  const auto out = imagined.Operands(call, call.step.outputs);
  if (!in.ok()) return in.status().message();
  if (!out.ok()) return out.status().message();
  const auto planned = PlanAttention(*group, *in, *out);
  return planned.ok() ? "" : planned.status().message();
}

std::unique_ptr<Kernel> MakeAttention(const StepCall& call) {
  const AttentionGroup group = *DecodeAttention(call);
  const int lanes = call.options.threads > 0 ? call.options.threads : LaneBudget();
  return KernelOf([group, lanes](std::span<const Operand> in,
                                 std::span<const Operand> out) -> Result<Prepared> {
    INFER_ASSIGN(Attention attention, PlanAttention(group, in, out));
    attention.chunks = lanes;
    attention.FindSeen();
    Prepared p;
    p.name = Cat("own:attention:", attention.loops->isa);
    p.scratch_bytes = attention.scratch_bytes();
    p.unused.assign(in.size(), true);
    for (const HeadRows* h : {&attention.q, &attention.k, &attention.v})
      p.unused[static_cast<size_t>(h->arg)] = false;
    for (const auto* mask : {&attention.added, &attention.chosen})
      if (*mask && (*mask)->arg >= 0) p.unused[static_cast<size_t>((*mask)->arg)] = false;
    const size_t scratch = in.size() + 1;
    if (auto rows = RowAttention::Of(attention)) {
      p.name = Cat("own:attention:row:", simd::TheOneQuery().isa);
      p.scratch_bytes = rows->scratch_bytes();
      p.launch = LaunchOf([rows = std::move(*rows), scratch](std::byte* const* args) {
        rows.Run(args, args[scratch]);
      });
      return p;
    }
    if (auto bytes = ByteAttention::Of(attention)) {
      p.name = "own:attention:vnni";
      p.scratch_bytes = bytes->scratch_bytes();
      p.launch = LaunchOf([bytes = std::move(*bytes), scratch](std::byte* const* args) {
        bytes.Run(args, args[scratch]);
      });
      return p;
    }
    p.launch = LaunchOf([attention = std::move(attention), scratch](std::byte* const* args) {
      attention.Run(args, args[scratch]);
    });
    return p;
  });
}

}  // namespace

KernelList AttentionKernels() {
  return {{"Softmax", "", "attention", RefuseAttention, MakeAttention}};
}

}  // namespace infer
