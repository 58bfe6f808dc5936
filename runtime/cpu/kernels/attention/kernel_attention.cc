/// Attention as one step: products, scale, mask and softmax, found around a Softmax, or the
/// operator Attention with its caches (runtime/plan_ir/groups/attention_group.h).
#include "lib/support/parallel.h"
#include "lib/support/strings.h"
#include "runtime/cpu/kernels/attention/byte_attention.h"
#include "runtime/cpu/kernels/attention/row_attention.h"
#include "runtime/cpu/kernels/common/kernels.h"
#include "runtime/cpu/launch/launch.h"
#include "runtime/cpu/simd/one_query.h"
#include "runtime/plan_ir/groups/attention_plan.h"

namespace infer {
namespace {

/// The longest row of a head that a cache takes.
constexpr int64_t kMostBytes = 4096;

/// Puts past and new rows together.
void FillCache(const AttentionCache& c, std::byte* const* args, float* own) {
  float* const to = c.to_arg < 0 ? own + c.at : As<float>(args[c.to_arg]);
  const auto* past =
      c.past == 0 ? nullptr : As<float>(static_cast<const std::byte*>(args[c.past_arg]));
  const int64_t all = (c.past + c.length) * c.size;
  const auto copy = [&](int64_t begin, int64_t end) {
    uint8_t bytes[kMostBytes];
    for (int64_t lead = begin; lead < end; ++lead) {
      float* row = to + lead * all;
      if (past) row = std::copy_n(past + lead * c.past * c.size, c.past * c.size, row);
      for (int64_t i = 0; i < c.length; ++i, row += c.size)
        LoadHeadRow(c.rows, c.rows.steps, args[c.rows.arg], lead, i, c.size, row, bytes);
    }
  };
  ForRange(c.leads, std::max<int64_t>(1, (int64_t{1} << 16) / std::max<int64_t>(1, all)), copy);
}

std::string RefuseAttention(const StepCall& call) {
  const bool is_operator = call.main().Is("Attention");
  if (!is_operator && call.options.level < 2) return "level 2 only: it rounds otherwise";
  if (!simd::TheAttentionLoops()) return "no kernel for this instruction set";
  const auto group = DecodeAttention(call);
  if (!group.ok()) return group.status().message();
  if (is_operator && call.step.nodes.size() == 1) return "";  // extents are seen to at the run
  const auto planned = PlanAttention(*group, call);
  return planned.ok() ? "" : planned.status().message();
}

/// Runs caches, where there are some, and then `attention` on the memory behind them.
template <typename T>
std::shared_ptr<const Launch> LaunchAfter(std::vector<AttentionCache> caches, int64_t own_floats,
                                          T attention, size_t scratch) {
  return LaunchOf([caches = std::move(caches), own_floats, attention = std::move(attention),
                   scratch](std::byte* const* args) {
    for (const AttentionCache& c : caches) FillCache(c, args, As<float>(args[scratch]));
    attention.Run(args, args[scratch] + own_floats * 4);
  });
}

class AttentionKernel final : public Kernel {
 public:
  AttentionKernel(AttentionGroup group, int lanes) : group_(std::move(group)), lanes_(lanes) {}

  Result<Prepared> Prepare(std::span<const Operand> in,
                           std::span<const Operand> out) const override {
    for (const Operand& o : in)
      if (NumElements(o.dims) == 0 && !IsPast(o.value)) return Unsupported("an operand is empty");
    INFER_ASSIGN(AttentionPlan plan, PlanAttention(group_, in, out));
    Attention attention(std::move(plan.attention));
    if (NumElements(Dims{attention.leads, attention.queries, attention.keys, attention.depth,
                         attention.values}) == 0)
      return Unsupported("an operand is empty");
    attention.chunks = lanes_;
    attention.FindSeen();
    Prepared p;
    p.unused.assign(in.size(), true);
    const auto reads = [&](int arg) {
      if (arg >= 0 && arg < static_cast<int>(in.size())) p.unused[static_cast<size_t>(arg)] = false;
    };
    for (const HeadRows* h : {&attention.q, &attention.k, &attention.v}) reads(h->arg);
    for (const auto* mask : {&attention.added, &attention.chosen})
      if (*mask && !(*mask)->constant.defined()) reads((*mask)->arg);
    reads(attention.band.valid_arg);
    for (const AttentionCache& c : plan.caches) {
      if (c.size > kMostBytes) return Unsupported("heads are too large");
      reads(c.rows.arg);
      if (c.past > 0) reads(c.past_arg);
    }
    const size_t scratch = in.size() + out.size();
    const auto with = [&](const std::string& name, auto made) {
      p.name = name;
      p.scratch_bytes = made.scratch_bytes() + plan.own_floats * 4;
      p.launch = LaunchAfter(std::move(plan.caches), plan.own_floats, std::move(made), scratch);
      return p;
    };
    if (auto rows = RowAttention::Of(attention))
      return with(Cat("own:attention:row:", simd::TheOneQuery().isa), std::move(*rows));
    if (auto bytes = ByteAttention::Of(attention))
      return with("own:attention:vnni", std::move(*bytes));
    const std::string name = Cat("own:attention:", attention.loops->isa);
    return with(name, std::move(attention));
  }

 private:
  bool IsPast(const Value* v) const {
    return group_.block && (v == group_.block->input(4) || v == group_.block->input(5));
  }

  AttentionGroup group_;
  int lanes_;
};

std::unique_ptr<Kernel> MakeAttention(const StepCall& call) {
  const int lanes = call.options.threads > 0 ? call.options.threads : LaneBudget();
  return std::make_unique<AttentionKernel>(*DecodeAttention(call), lanes);
}

}  // namespace

KernelList AttentionKernels() {
  return {{"Softmax", "", "attention", RefuseAttention, MakeAttention},
          {"Attention", "", "attention", RefuseAttention, MakeAttention}};
}

}  // namespace infer
