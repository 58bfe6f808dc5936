/// Attention as one dispatch: products, scale, masks and softmax, found around a Softmax, or the
/// operator Attention with its caches (runtime/plan_ir/groups/attention_group.h). Scores never lie
/// in memory.
#include <algorithm>

#include "lib/support/strings.h"
#include "runtime/vulkan/kernels/attention_dispatch.h"
#include "runtime/vulkan/kernels/kernels.h"
#include "runtime/vulkan/kernels/strided_copy.h"

namespace infer::vulkan {
namespace {

/// Columns of V that a workgroup makes: shaders/attention.comp and attention_row.comp.
constexpr int64_t kTileColumns = 64, kRowColumns = 256;
/// Up to so many queries go row by row.
constexpr int64_t kFewQueries = 4;
/// Positions and windows beyond are as good as none: shaders add a few of them up in 32 bits.
constexpr int64_t kFar = int64_t{1} << 28;

/// How attention is cut into workgroups.
struct AttentionTiling {
  std::string shader;
  int64_t tiles = 1, chunks = 1;  ///< of queries, and of columns of V
  int64_t rounds = 0;             ///< of all loops of an invocation
};

int64_t UpTo(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// As TileRounds has it for the two products, then the rows of scores, unrolled or not.
int64_t AttentionRounds(int64_t tile, const AttentionGeometry& a) {
  return UpTo(a.keys, tile) *
         ((UpTo(a.depth, 16) + tile / 16) * (tile == 64 ? 128 : 48) + 2 * tile + kFewRounds);
}

AttentionTiling AttentionTilingOf(const DeviceFacts& facts, const AttentionGeometry& a) {
  AttentionTiling t;
  if (a.queries <= kFewQueries) {
    t.shader = "attention_row";
    t.tiles = a.queries;
    t.chunks = UpTo(a.values, kRowColumns);
    t.rounds = UpTo(a.keys, 64) * (a.depth + 4 * 65 + kFewRounds);
    return t;
  }
  t.chunks = UpTo(a.values, kTileColumns);
  int64_t tile = a.queries > 32 ? 64 : 32;
  if (UpTo(a.queries, tile) * t.chunks * a.leads < facts.busy_groups ||
      AttentionRounds(tile, a) > facts.max_iterations)
    tile = 32;
  const bool wide = facts.max_invocations >= 256 && facts.busy_groups > 1;
  t.shader = Cat("attention", tile, wide ? "w" : "");
  t.tiles = UpTo(a.queries, tile);
  t.rounds = AttentionRounds(tile, a);
  return t;
}

/// "" or why no shader takes attention of these extents.
std::string RefuseExtents(const AttentionPlan& plan, const DeviceFacts& facts) {
  const AttentionGeometry& a = plan.attention;
  const auto moves_only = [](const HeadRows& h) {
    return h.dtype == DType::kF32 && h.steps.empty();
  };
  if (!moves_only(a.q) || !moves_only(a.k) || !moves_only(a.v) || !moves_only(a.y) ||
      !std::all_of(plan.caches.begin(), plan.caches.end(),
                   [&](const AttentionCache& c) { return moves_only(c.rows); }))
    return "operands or results that are quantized or multiplied on their way";
  if (!a.probability.empty()) return "its probabilities are quantized";
  return RefuseManyKeys(a, facts);
}

std::string RefuseAttention(const StepCall& call, const DeviceFacts& facts) {
  const bool is_operator = call.main().Is("Attention");
  if (!is_operator && call.options.level < 2) return "level 2 only: it rounds otherwise";
  const auto group = DecodeAttention(call);
  if (!group.ok()) return group.status().message();
  if (is_operator && call.step.nodes.size() == 1) return "";  // extents are seen to at the run
  const auto plan = PlanAttention(*group, call);
  return plan.ok() ? RefuseExtents(*plan, facts) : plan.status().message();
}

/// Two strides that give all offsets of leads; Unsupported: there are none.
struct LeadStrides {
  Dims extents = {1, 1}, strides = {0, 0};
  static Result<LeadStrides> Of(const std::vector<int64_t>& offsets) {
    const auto n = static_cast<int64_t>(offsets.size());
    const auto at = [&](int64_t i) { return offsets[static_cast<size_t>(i)] - offsets[0]; };
    LeadStrides s;
    s.strides[1] = n > 1 ? at(1) : 0;
    int64_t inner = 1;
    while (inner < n && at(inner) == inner * s.strides[1]) ++inner;
    s.strides[0] = inner < n ? at(inner) : 0;
    s.extents = {n / inner, inner};
    if (n % inner != 0) return Unsupported("heads that do not lie evenly");
    for (int64_t i = 0; i < n; ++i)
      if (at(i) != i / inner * s.strides[0] + i % inner * s.strides[1])
        return Unsupported("heads that do not lie evenly");
    return s;
  }
};

LaunchBuilder::Arg Reads(int arg) { return {arg, false}; }

class AttentionKernel final : public Kernel {
 public:
  AttentionKernel(const StepCall& call, Facts facts)
      : group_(*DecodeAttention(call)), facts_(std::move(facts)) {}

  Result<Prepared> Prepare(std::span<const Operand> in,
                           std::span<const Operand> out) const override {
    for (const Operand& o : in)
      if (NumElements(o.dims) == 0 && !IsPast(o.value)) return Unsupported("an operand is empty");
    INFER_ASSIGN(const AttentionPlan plan, PlanAttention(group_, in, out));
    if (std::string r = RefuseExtents(plan, *facts_); !r.empty()) return Unsupported(r);
    const AttentionGeometry& a = plan.attention;
    if (NumElements(Dims{a.leads, a.queries, a.keys, a.depth, a.values}) == 0)
      return Unsupported("an operand is empty");
    LaunchBuilder b(facts_, in, out);
    if (plan.own_floats > 0) b.Scratch(plan.own_floats * 4);
    for (const AttentionCache& c : plan.caches) INFER_TRY(FillCache(c, in.size() + out.size(), b));
    INFER_ASSIGN(const std::string shader, AddAttention(b, *facts_, a));
    return b.Finish(shader);
  }

 private:
  bool IsPast(const Value* v) const {
    return group_.block && (v == group_.block->input(4) || v == group_.block->input(5));
  }

  /// The past and the new rows together.
  static Status FillCache(const AttentionCache& c, size_t scratch, LaunchBuilder& b) {
    const LaunchBuilder::Arg to{c.to_arg < 0 ? static_cast<int>(scratch) : c.to_arg, true};
    const int64_t at = c.to_arg < 0 ? c.at : 0, old = c.past * c.size,
                  all = old + c.length * c.size;
    if (c.past > 0)
      INFER_TRY(AddCopy(b, Reads(c.past_arg), to, {{c.leads, old}, {old, 1}, {all, 1}, 0, at}, 4));
    INFER_ASSIGN(const LeadStrides leads, LeadStrides::Of(c.rows.offset));
    const int64_t inner = leads.extents[1];
    return AddCopy(b, Reads(c.rows.arg), to,
                   {{leads.extents[0], inner, c.length, c.size},
                    {leads.strides[0], leads.strides[1], c.rows.row, c.rows.element},
                    {inner * all, all, c.size, 1},
                    c.rows.offset[0],
                    at + old},
                   4);
  }

  AttentionGroup group_;
  Facts facts_;
};

std::unique_ptr<Kernel> MakeAttention(const StepCall& call, const Facts& facts) {
  return std::make_unique<AttentionKernel>(call, facts);
}

Push AttentionConstants(const AttentionGeometry& a, const AttentionTiling& t) {
  const auto far = [](int64_t n) { return n < 0 ? -1 : std::min(n, kFar); };
  Push push;
  push.U(a.leads).U(a.queries).U(a.depth).U(a.values).U(t.tiles).U(t.chunks);
  for (const HeadRows* h : {&a.q, &a.k, &a.v, &a.y}) push.U(h->row).U(h->element);
  push.U(a.added ? a.added->row : 0).U(a.chosen ? a.chosen->row : 0);
  push.U(std::clamp<int64_t>(a.band.keys, 0, a.keys)).U(a.band.position);
  push.U(far(a.band.left)).U(far(a.band.right)).U(a.band.leads_per_sample);
  push.F(a.scale).F(a.softcap).F(a.chosen ? a.chosen->hidden : 0);
  return push;
}

/// By lead: where its rows of q, k, v, y and of the masks begin.
Result<std::vector<int32_t>> OffsetsOf(const AttentionGeometry& a) {
  std::vector<int32_t> table;
  for (size_t l = 0; l < static_cast<size_t>(a.leads); ++l) {
    const int64_t begins[] = {a.q.offset[l],
                              a.k.offset[l],
                              a.v.offset[l],
                              a.y.offset[l],
                              a.added ? a.added->offset[l] : 0,
                              a.chosen ? a.chosen->offset[l] : 0};
    for (int64_t at : begins) {
      if (at < 0 || at > INT32_MAX) return Unsupported("more than 2^31 elements");
      table.push_back(static_cast<int32_t>(at));
    }
  }
  return table;
}

}  // namespace

std::string RefuseManyKeys(const AttentionGeometry& a, const DeviceFacts& facts) {
  if (std::max({a.queries, a.keys, a.band.position}) > kFar) return "too many keys";
  const int64_t rounds = AttentionTilingOf(facts, a).rounds;
  if (rounds > facts.max_iterations)
    return Cat("loops of ", rounds, " rounds, this driver ends them after ", facts.max_iterations);
  return "";
}

Result<std::string> AddAttention(LaunchBuilder& b, const DeviceFacts& facts,
                                 const AttentionGeometry& a) {
  const AttentionTiling t = AttentionTilingOf(facts, a);
  b.Iterations(t.rounds);
  INFER_ASSIGN(auto table, OffsetsOf(a));
  const auto mask = [&](const std::optional<ScoreMask>& m) {
    return b.ReadOr(m ? m->arg : -1, a.q.arg);
  };
  b.Dispatch(t.shader,
             {a.added.has_value(), a.chosen ? (a.chosen->invert ? 2 : 1) : 0, a.band.valid_arg >= 0,
              a.softcap != 0, a.zero_where_none},
             {Reads(a.q.arg),
              Reads(a.k.arg),
              Reads(a.v.arg),
              b.Table(std::move(table)),
              mask(a.added),
              mask(a.chosen),
              b.ReadOr(a.band.valid_arg, a.q.arg),
              {a.y.arg, true}},
             AttentionConstants(a, t), a.leads * t.tiles * t.chunks);
  return t.shader;
}

KernelList AttentionKernels(const Facts& facts) {
  return {Def(facts, "Softmax", "", "attention", RefuseAttention, MakeAttention),
          Def(facts, "Attention", "", "attention", RefuseAttention, MakeAttention)};
}

}  // namespace infer::vulkan
