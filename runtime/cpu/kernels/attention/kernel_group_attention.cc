/// GroupQueryAttention of com.microsoft. A step of decoding goes query by query and reads the cache
/// once; more queries, as a prompt has them, run on the kernel of attention. Where the past and the
/// present are one buffer, which the caller may bind to both, only the new tokens are written; else
/// the past is copied.
#include <algorithm>

#include "lib/ops/common.h"
#include "lib/support/strings.h"
#include "runtime/cpu/kernels/attention/attention.h"
#include "runtime/cpu/kernels/common/kernels.h"
#include "runtime/cpu/launch/launch.h"
#include "runtime/cpu/simd/loops.h"
#include "runtime/cpu/simd/one_query.h"
#include "runtime/plan_ir/groups/group_query.h"

namespace infer {
namespace {

/// What a launch needs beside its operands.
struct Group : GroupQuery {
  int64_t scratch_floats() const { return cache + 16 + size; }

  float* ResultAt(std::byte* const* args, size_t r) const {
    return As<float>(args[result[r].arg]) + result[r].offset;
  }

  const float* Rows(std::byte* const* args, size_t i) const {
    return at[i] < 0 ? nullptr : As<float>(static_cast<const std::byte*>(args[at[i]]));
  }

  /// A head of token (b, i) of the new queries (part 0), keys (1) or values (2).
  const float* New(std::byte* const* args, int part, int64_t b, int64_t i, int64_t head) const {
    return Rows(args, SourceOf(part)) + (b * queries + i) * RowOf(part) + FirstOf(part) +
           head * size;
  }

  void CopyRotated(std::byte* const* args, const float* from, int64_t position, float* to) const {
    if (rotary > 0)
      simd::TheOneQuery().rotate(from, Rows(args, GroupInput::kCos) + position * rotary,
                                 Rows(args, GroupInput::kSin) + position * rotary, rotary,
                                 interleaved, to);
    std::copy(from + 2 * rotary, from + size, to + 2 * rotary);
  }

  /// The caches of one group of heads, extended.
  void Extend(std::byte* const* args, int64_t b, int64_t g, int64_t before) const {
    for (int part : {1, 2}) {
      const int64_t lead = b * groups + g;
      const float* old = Rows(args, part == 1 ? GroupInput::kPastKey : GroupInput::kPastValue);
      float* present = ResultAt(args, static_cast<size_t>(part));
      float* to = present + lead * cache * size;
      if (old != present) {
        if (before > 0) std::copy_n(old + lead * past * size, before * size, to);
        std::fill(to + (before + queries) * size, to + cache * size, 0.0f);
      }
      for (int64_t i = 0; i < queries; ++i) {
        const float* row = New(args, part, b, i, g);
        float* at_row = to + (before + i) * size;
        if (part == 1)
          CopyRotated(args, row, before + i, at_row);
        else
          std::copy_n(row, size, at_row);
      }
    }
  }

  void Attend(std::byte* const* args, int64_t b, int64_t g, int64_t before, float* own) const {
    const simd::OneQuery& loops = simd::TheOneQuery();
    float* const q = own;
    float* const scores = own + size;
    const int64_t lead = (b * groups + g) * cache * size;
    for (int64_t head = g * (heads / groups); head < (g + 1) * (heads / groups); ++head)
      for (int64_t i = 0; i < queries; ++i) {
        const int64_t position = before + i;
        const int64_t first = window >= 0 ? std::max<int64_t>(0, position - window + 1) : 0;
        const int64_t keys = position + 1 - first, from = lead + first * size;
        CopyRotated(args, New(args, 0, b, i, head), position, q);
        loops.scores(q, ResultAt(args, 1) + from, size, keys, size, scale, scores);
        simd::TheLoops().softmax(scores, scores, keys, 1, false);
        loops.mix(scores, ResultAt(args, 2) + from, size, keys, size,
                  ResultAt(args, 0) + ((b * queries + i) * heads + head) * size);
      }
  }

  /// `unread`: elements of the scratch memory that results take which nobody reads.
  Status Run(std::byte* const* args, int64_t unread) const {
    const auto* lengths =
        As<int32_t>(static_cast<const std::byte*>(args[at[GroupInput::kLengths]]));
    const int32_t total = *As<int32_t>(static_cast<const std::byte*>(args[at[GroupInput::kTotal]]));
    INFER_TRY(Check(lengths, total));
    float* const own = As<float>(args[scratch]) + unread;
    // Lanes share what is worth it: some 10 us of reading.
    const int64_t work = queries * cache * size * (heads / groups + 1);
    ForRange(batch * groups, std::max<int64_t>(1, (int64_t{1} << 16) / work),
             [&](int64_t begin, int64_t end) {
               for (int64_t lead = begin; lead < end; ++lead) {
                 const int64_t b = lead / groups, g = lead % groups;
                 const int64_t before = Before(lengths[b], total);
                 Extend(args, b, g, before);
                 Attend(args, b, g, before, own + lead * scratch_floats());
               }
             });
    return {};
  }
};

class GroupLaunch final : public Launch {
 public:
  explicit GroupLaunch(const Group& g) : g_(g), unread_(g_.PlaceUnread(0)) {}
  int64_t scratch_bytes() const {
    return (unread_ + g_.batch * g_.groups * g_.scratch_floats()) * 4;
  }
  Status Run(std::byte* const* args, LaunchState*) const override { return g_.Run(args, unread_); }

 private:
  Group g_;
  int64_t unread_;
};

/// More queries are faster together.
constexpr int64_t kMostQueries = 3;

/// Its memory: by sample the keys that count, rotated queries, results that nobody reads, then that
/// of attention.
class PromptLaunch final : public Launch {
 public:
  PromptLaunch(const Group& group, int lanes) : g_(group) {
    own_floats_ = g_.PlaceUnread(counts_floats() + rotated_floats());
    a_ = Attention(GeometryOf(g_));
    a_.chunks = lanes;
    if (g_.rotary == 0) return;
    // Rotated queries lie token by token.
    a_.q.arg = g_.scratch;
    a_.q.row = a_.y.row;
    for (int64_t lead = 0; lead < a_.leads; ++lead)
      a_.q.offset[static_cast<size_t>(lead)] =
          counts_floats() + lead / g_.heads * g_.queries * a_.q.row + lead % g_.heads * g_.size;
  }

  int64_t scratch_bytes() const { return own_floats_ * 4 + a_.scratch_bytes(); }

  Status Run(std::byte* const* args, LaunchState*) const override {
    const auto* lengths =
        As<int32_t>(static_cast<const std::byte*>(args[g_.at[GroupInput::kLengths]]));
    const int32_t total =
        *As<int32_t>(static_cast<const std::byte*>(args[g_.at[GroupInput::kTotal]]));
    INFER_TRY(g_.Check(lengths, total));
    auto* const counts = As<int64_t>(args[g_.scratch]);
    for (int64_t b = 0; b < g_.batch; ++b) counts[b] = g_.Before(lengths[b], total) + g_.queries;
    ForRange(g_.batch * g_.groups, 1, [&](int64_t begin, int64_t end) {
      for (int64_t lead = begin; lead < end; ++lead)
        g_.Extend(args, lead / g_.groups, lead % g_.groups, counts[lead / g_.groups] - g_.queries);
    });
    if (g_.rotary > 0) RotateQueries(args, counts);
    a_.Run(args, args[g_.scratch] + own_floats_ * 4);
    return {};
  }

 private:
  void RotateQueries(std::byte* const* args, const int64_t* counts) const {
    float* const to = As<float>(args[g_.scratch]) + counts_floats();
    ForRange(g_.batch * g_.queries, std::max<int64_t>(1, kElementGrain / a_.q.row),
             [&](int64_t begin, int64_t end) {
               for (int64_t t = begin; t < end; ++t) {
                 const int64_t b = t / g_.queries, i = t % g_.queries;
                 for (int64_t h = 0; h < g_.heads; ++h)
                   g_.CopyRotated(args, g_.New(args, 0, b, i, h), counts[b] - g_.queries + i,
                                  to + t * a_.q.row + h * g_.size);
               }
             });
  }

  int64_t counts_floats() const { return (2 * g_.batch + 15) / 16 * 16; }
  int64_t rotated_floats() const {
    const int64_t rotated = g_.rotary > 0 ? g_.batch * g_.queries * g_.heads * g_.size : 0;
    return (rotated + 15) / 16 * 16;
  }

  Group g_;
  int64_t own_floats_ = 0;
  Attention a_;
};

class GroupKernel final : public Kernel {
 public:
  explicit GroupKernel(const StepCall& call)
      : reader_(call), lanes_(call.options.threads > 0 ? call.options.threads : LaneBudget()) {}

  Result<Prepared> Prepare(std::span<const Operand> in,
                           std::span<const Operand> out) const override {
    if (!NoneEmpty(in, out)) return Unsupported("an operand is empty");
    INFER_ASSIGN(const GroupQuery read, reader_.Read(in, out));
    const Group made{read};
    Prepared p;
    if (made.queries > kMostQueries && simd::TheAttentionLoops()) {
      auto launch = std::make_shared<PromptLaunch>(made, lanes_);
      p.name = Cat("own:attention:", simd::TheAttentionLoops()->isa);
      p.scratch_bytes = launch->scratch_bytes();
      p.launch = std::move(launch);
      return p;
    }
    auto launch = std::make_shared<GroupLaunch>(made);
    p.name = Cat("own:", simd::TheOneQuery().isa);
    p.scratch_bytes = launch->scratch_bytes();
    p.launch = std::move(launch);
    return p;
  }

  /// The length of the caches may hang on the total of the run, which Group::Check looks at.
  bool checks_extents() const override { return true; }

 private:
  GroupQueryReader reader_;
  int lanes_ = 1;
};

std::unique_ptr<Kernel> MakeGroup(const StepCall& call) {
  return std::make_unique<GroupKernel>(call);
}

}  // namespace

KernelList GroupAttentionKernels() {
  return {{"GroupQueryAttention", "com.microsoft", "one-query", RefuseGroupQuery, MakeGroup}};
}

}  // namespace infer
