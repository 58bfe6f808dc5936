/// GroupQueryAttention: caches are filled on the device, queries and keys turned by their position,
/// then attention runs on the caches. The host looks at the lengths of each run.
#include <algorithm>

#include "lib/support/strings.h"
#include "runtime/plan_ir/groups/group_query.h"
#include "runtime/vulkan/kernels/attention_dispatch.h"
#include "runtime/vulkan/kernels/kernels.h"

namespace infer::vulkan {
namespace {

/// A launch's own memory, in floats: by sample the keys that count (i64), rotated queries, results
/// that nobody reads.
struct GroupMemory {
  int64_t rotated_at = 0, floats = 0;
  GroupMemory(GroupQuery& g, bool rotates) {
    const auto padded = [](int64_t n) { return (n + 15) / 16 * 16; };
    rotated_at = padded(2 * g.batch);
    floats = rotated_at + (rotates ? padded(g.batch * g.queries * g.heads * g.size) : 0);
    floats = g.PlaceUnread(floats);
  }
};

/// Attention, with queries that were rotated head by head, to `rotated_at` floats of the scratch
/// memory.
AttentionGeometry DeviceGeometry(const GroupQuery& g, int64_t rotated_at) {
  AttentionGeometry a = GeometryOf(g);
  if (g.rotary == 0) return a;
  a.q.arg = g.scratch;
  a.q.row = g.size;
  for (int64_t lead = 0; lead < a.leads; ++lead)
    a.q.offset[static_cast<size_t>(lead)] = rotated_at + lead * g.queries * g.size;
  return a;
}

class GroupQueryKernel final : public Kernel {
 public:
  GroupQueryKernel(const StepCall& call, Facts facts) : reader_(call), facts_(std::move(facts)) {}

  Result<Prepared> Prepare(std::span<const Operand> in,
                           std::span<const Operand> out) const override {
    if (!NoneEmpty(in, out)) return Unsupported("an operand is empty");
    INFER_ASSIGN(GroupQuery g, reader_.Read(in, out));
    const GroupMemory own(g, g.rotary > 0);
    const AttentionGeometry a = DeviceGeometry(g, own.rotated_at);
    if (std::string r = RefuseManyKeys(a, *facts_); !r.empty()) return Unsupported(r);
    LaunchBuilder b(facts_, in, out);
    const LaunchBuilder::Arg scratch = b.Scratch(own.floats * 4);
    const int lengths = g.at[GroupInput::kLengths], total = g.at[GroupInput::kTotal];
    b.ReadOnHost(lengths);
    b.ReadOnHost(total);
    b.Before([g, lengths, total](Encoder& encoder, std::span<const BufferView> args) {
      return BringCounts(g, args[static_cast<size_t>(lengths)].host,
                         args[static_cast<size_t>(total)].host, encoder, args.back());
    });
    for (int part : {1, 2}) AddRows(g, part, scratch, b);
    if (g.rotary > 0)
      AddRows(g, 0, b.Part(scratch, own.rotated_at * 4, g.batch * g.queries * g.heads * g.size * 4),
              b);
    INFER_ASSIGN(const std::string shader, AddAttention(b, *facts_, a));
    return b.Finish(shader);
  }

  /// The length of the caches may hang on the total of the run, which GroupQuery::Check looks at.
  bool checks_extents() const override { return true; }

 private:
  static Status BringCounts(const GroupQuery& g, const std::byte* lengths, const std::byte* total,
                            Encoder& encoder, BufferView to) {
    const auto* last = reinterpret_cast<const int32_t*>(lengths);
    const int64_t all = *reinterpret_cast<const int32_t*>(total);
    INFER_TRY(g.Check(last, all));
    std::vector<int64_t> counts;
    for (int64_t b = 0; b < g.batch; ++b) counts.push_back(g.Before(last[b], all) + g.queries);
    to.bytes = g.batch * 8;
    return encoder.Upload(to, reinterpret_cast<const std::byte*>(counts.data()));
  }

  /// shaders/group_rows.comp: a cache (part 1: keys, 2: values), or the queries, turned.
  static void AddRows(const GroupQuery& g, int part, LaunchBuilder::Arg scratch, LaunchBuilder& b) {
    const bool queries = part == 0, rotates = g.rotary > 0 && part != 2;
    const int64_t heads = queries ? g.heads : g.groups, cache = queries ? g.queries : g.cache;
    const int64_t n = g.batch * heads * cache * g.size;
    const GroupQuery::Place& place = g.result[static_cast<size_t>(part)];
    LaunchBuilder::Arg to = scratch;
    if (!queries) to = LaunchBuilder::Part({place.arg, true}, place.offset * 4, n * 4);
    const int x = g.at[g.SourceOf(part)];
    const int past = g.at[part == 1 ? GroupInput::kPastKey : GroupInput::kPastValue];
    const auto angles = [&](size_t i) { return b.ReadOr(rotates ? g.at[i] : -1, x); };
    Push push;
    push.U(n).U(heads).U(cache).U(g.size).U(g.past).U(g.queries);
    push.U(g.RowOf(part)).U(g.FirstOf(part)).U(g.rotary);
    b.DispatchElements("group_rows", {queries, rotates, g.interleaved},
                       {b.ReadOr(queries ? -1 : past, x), b.Read(x), angles(GroupInput::kCos),
                        angles(GroupInput::kSin), b.Part(b.ScratchRead(), 0, g.batch * 8), to},
                       push, n);
  }

  GroupQueryReader reader_;
  Facts facts_;
};

std::string RefuseGroups(const StepCall& call, const DeviceFacts&) {
  return RefuseGroupQuery(call);
}

std::unique_ptr<Kernel> MakeGroups(const StepCall& call, const Facts& facts) {
  return std::make_unique<GroupQueryKernel>(call, facts);
}

}  // namespace

KernelList GroupAttentionKernels(const Facts& facts) {
  return {
      Def(facts, "GroupQueryAttention", "com.microsoft", "attention", RefuseGroups, MakeGroups)};
}

}  // namespace infer::vulkan
