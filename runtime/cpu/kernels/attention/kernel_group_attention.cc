/// GroupQueryAttention of com.microsoft. A step of decoding goes query by query and reads the cache
/// once; more queries, as a prompt has them, run on the kernel of attention. Where the past and the
/// present are one buffer, which the caller may bind to both, only the new tokens are written; else
/// the past is copied.
#include <algorithm>
#include <cmath>

#include "lib/ops/attention/contrib_attention_common.h"
#include "lib/ops/common.h"
#include "lib/support/strings.h"
#include "runtime/cpu/kernels/attention/attention.h"
#include "runtime/cpu/kernels/common/kernels.h"
#include "runtime/cpu/launch/launch.h"
#include "runtime/cpu/simd/loops.h"
#include "runtime/cpu/simd/one_query.h"

namespace infer {
namespace {

/// The first operands of the operator (GroupInput), up to its positions: no others are taken.
constexpr size_t kTaken = GroupInput::kPositions + 1;

std::string RefuseGroup(const StepCall& call) {
  const Node& n = call.main();
  for (const Value* v : n.inputs())
    if (v && v->dtype() != DType::kF32 && v->dtype() != DType::kI32 && v->dtype() != DType::kI64)
      return Cat("operand '", v->name(), "' is ", ToString(v->type()));
  for (size_t i = kTaken; i < n.inputs().size(); ++i)
    if (n.input(i)) return Cat("'", n.def().inputs[i].name, "' is given");
  if (n.outputs().size() > 3 && n.output(3)) return "scores are a result";
  if (n.Attr<float>("softcap") != 0) return "softcap is set";
  if (n.Attr<int64_t>("smooth_softmax") == 1) return "smooth_softmax is set";
  if (n.Attr<int64_t>("local_window_size") == 0) return "the window is empty";
  if (n.Attr<int64_t>("causal") == 0) return "it is not causal";
  if (n.Attr<int64_t>("do_rotary") != 0 && n.input(GroupInput::kPositions))
    return "positions are given";
  return "";
}

/// What a launch needs beside its operands.
struct Group {
  int64_t batch = 0, queries = 0, heads = 0, groups = 0, size = 0;
  int64_t past = 0, cache = 0;                     ///< tokens in the caches that come in and go out
  int64_t window = -1, rotary = 0, positions = 0;  ///< half of the rotated elements; rows of cos
  bool packed = false, interleaved = false;
  float scale = 1;
  int at[kTaken];  ///< operands; -1: not given
  /// Where the output and the two caches lie: position among the launch's arguments, and elements
  /// from there. What nobody reads lies in the scratch memory.
  struct Place {
    int arg = -1;
    int64_t offset = 0;
  };
  Place result[3];
  int scratch = 0;  ///< position of the scratch memory

  int64_t scratch_floats() const { return cache + 16 + size; }
  int64_t cache_floats() const { return batch * groups * cache * size; }

  /// Gives results that nobody reads a place in the scratch memory from element `begin`; returns
  /// where the rest begins.
  int64_t PlaceUnread(int64_t begin) {
    for (int r = 0; r < 3; ++r) {
      if (result[r].arg >= 0) continue;
      result[r] = {scratch, begin};
      const int64_t floats = r == 0 ? batch * queries * heads * size : cache_floats();
      begin += (floats + 15) / 16 * 16;
    }
    return begin;
  }

  float* ResultAt(std::byte* const* args, int r) const {
    return As<float>(args[result[r].arg]) + result[r].offset;
  }

  /// The older tokens of sample b.
  int64_t Before(const int32_t* lengths, int32_t total, int64_t b) const {
    return queries == total ? 0 : int64_t{lengths[b]} + 1 - queries;
  }

  Status Check(const int32_t* lengths, int32_t total) const {
    if (total < queries || total > past + queries)
      return InvalidModel(Cat("total_sequence_length is ", total, " with ", queries,
                              " new tokens and a past of ", past));
    if (std::max<int64_t>(total, past) != cache)
      return InvalidModel(Cat("the model says that ", cache,
                              " tokens are cached, running it gives ",
                              std::max<int64_t>(total, past)));
    for (int64_t b = 0; b < batch; ++b) {
      const int64_t before = Before(lengths, total, b);
      if (lengths[b] < 0 || before < 0 || (queries != total && before > past) ||
          before + queries > cache)
        return InvalidModel(Cat("seqlens_k[", b, "] is ", lengths[b], " with ", queries,
                                " new tokens, a past of ", past, " and a total of ", total));
      if (rotary > 0 && before + queries > positions)
        return InvalidModel(Cat("position ", before + queries - 1, " is outside cos_cache"));
    }
    return {};
  }

  const float* Rows(std::byte* const* args, size_t i) const {
    return at[i] < 0 ? nullptr : As<float>(static_cast<const std::byte*>(args[at[i]]));
  }

  /// A head of token (b, i) of the new queries (part 0), keys (1) or values (2).
  const float* New(std::byte* const* args, int part, int64_t b, int64_t i, int64_t head) const {
    const int64_t token = b * queries + i;
    if (packed) {
      const int64_t skipped = part == 0 ? 0 : part == 1 ? heads : heads + groups;
      return Rows(args, GroupInput::kQuery) +
             (token * (heads + 2 * groups) + skipped + head) * size;
    }
    return Rows(args, static_cast<size_t>(part)) +
           (token * (part == 0 ? heads : groups) + head) * size;
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
      float* present = ResultAt(args, part);
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
        simd::TheLoops().softmax(scores, scores, keys, false);
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
                 const int64_t before = Before(lengths, total, b);
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
    const Group& g = g_;
    a_.loops = simd::TheAttentionLoops();
    a_.leads = g.batch * g.heads;
    a_.queries = g.queries;
    a_.keys = g.cache;
    a_.depth = a_.values = g.size;
    a_.scale = g.scale;
    a_.chunks = lanes;
    a_.band.left = g.window > 0 ? g.window - 1 : -1;
    a_.band.right = 0;
    a_.band.valid_arg = g.scratch;
    a_.band.queries = g.queries;
    a_.band.leads_per_sample = g.heads;
    const bool rotates = g.rotary > 0;
    a_.q.arg = rotates ? g.scratch : g.at[GroupInput::kQuery];
    a_.k.arg = g.result[1].arg;
    a_.v.arg = g.result[2].arg;
    a_.y.arg = g.result[0].arg;
    a_.y.row = g.heads * g.size;
    a_.q.row = a_.y.row + (g.packed && !rotates ? 2 * g.groups * g.size : 0);
    a_.k.row = a_.v.row = g.size;
    for (int64_t b = 0; b < g.batch; ++b)
      for (int64_t h = 0; h < g.heads; ++h) {
        const int64_t kv = b * g.groups + h / (g.heads / g.groups);
        a_.k.offset.push_back(g.result[1].offset + kv * g.cache * g.size);
        a_.v.offset.push_back(g.result[2].offset + kv * g.cache * g.size);
        a_.y.offset.push_back(g.result[0].offset + b * g.queries * a_.y.row + h * g.size);
        a_.q.offset.push_back(b * g.queries * a_.q.row + h * g.size +
                              (rotates ? counts_floats() : 0));
      }
  }

  int64_t scratch_bytes() const { return own_floats_ * 4 + a_.scratch_bytes(); }

  Status Run(std::byte* const* args, LaunchState*) const override {
    const auto* lengths =
        As<int32_t>(static_cast<const std::byte*>(args[g_.at[GroupInput::kLengths]]));
    const int32_t total =
        *As<int32_t>(static_cast<const std::byte*>(args[g_.at[GroupInput::kTotal]]));
    INFER_TRY(g_.Check(lengths, total));
    auto* const counts = As<int64_t>(args[g_.scratch]);
    for (int64_t b = 0; b < g_.batch; ++b) counts[b] = g_.Before(lengths, total, b) + g_.queries;
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
  explicit GroupKernel(const StepCall& call) {
    const Node& n = call.main();
    g_.heads = n.Attr<int64_t>("num_heads");
    g_.groups = n.Attr<int64_t>("kv_num_heads");
    g_.window = n.Attr<int64_t>("local_window_size");
    g_.scale = n.Attr<float>("scale");
    g_.interleaved = n.Attr<int64_t>("rotary_interleaved") != 0;
    g_.packed = !n.input(GroupInput::kKey);
    rotates_ = n.Attr<int64_t>("do_rotary") != 0;
    for (size_t i = 0; i < kTaken; ++i) g_.at[i] = call.operand(n.input(i));
    const auto& made = call.step.outputs;
    for (size_t r = 0; r < 3 && r < n.outputs().size(); ++r) {
      const Value* v = n.output(r);
      const auto it = v ? std::find(made.begin(), made.end(), call.plan.id(v)) : made.end();
      if (it != made.end()) g_.result[r].arg = static_cast<int>(it - made.begin());
    }
    lanes_ = call.options.threads > 0 ? call.options.threads : LaneBudget();
  }

  Result<Prepared> Prepare(std::span<const Operand> in,
                           std::span<const Operand> out) const override {
    if (!NoneEmpty(in, out)) return Unsupported("an operand is empty");
    INFER_ASSIGN(const Group made, GroupOf(in, out));
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
  Result<Group> GroupOf(std::span<const Operand> in, std::span<const Operand> out) const {
    Group made = g_;
    const auto operand = [&](size_t i) -> const Operand& {
      return in[static_cast<size_t>(g_.at[i])];
    };
    const auto dims = [&](size_t i) -> const Dims& { return operand(i).dims; };
    if (operand(GroupInput::kLengths).dtype != DType::kI32)
      return Unsupported("seqlens_k is no i32");
    made.batch = dims(GroupInput::kQuery)[0];
    made.queries = dims(GroupInput::kQuery)[1];
    made.size = dims(GroupInput::kQuery)[2] / (g_.packed ? g_.heads + 2 * g_.groups : g_.heads);
    made.past = g_.at[GroupInput::kPastKey] < 0 ? 0 : dims(GroupInput::kPastKey)[2];
    made.cache = -1;
    if (const Tensor* total = operand(GroupInput::kTotal).constant)
      made.cache = std::max(made.past, total->IntAt(0));
    for (int r : {1, 2}) {
      if (g_.result[r].arg < 0) continue;
      const Dims& cache = out[static_cast<size_t>(g_.result[r].arg)].dims;
      if (made.cache < 0) made.cache = cache[2];
      if (cache != Dims{made.batch, made.groups, made.cache, made.size})
        return Unsupported("extents do not fit");
    }
    if (made.cache < 0) return Unsupported("only the run knows how many tokens are cached");
    if (NumElements(dims(GroupInput::kLengths)) != made.batch)
      return Unsupported("extents do not fit");
    if (made.scale == 0) made.scale = 1 / std::sqrt(static_cast<float>(made.size));
    if (rotates_) {
      made.rotary = dims(GroupInput::kCos).back();
      made.positions = NumElements(dims(GroupInput::kCos)) / made.rotary;
      if (dims(GroupInput::kSin) != dims(GroupInput::kCos) || 2 * made.rotary > made.size)
        return Unsupported("cos_cache and sin_cache do not fit");
    }
    for (Group::Place& place : made.result)
      if (place.arg >= 0) place.arg += static_cast<int>(in.size());
    made.scratch = static_cast<int>(in.size() + out.size());
    return made;
  }

  Group g_;  // without extents; results by position among the step's
  bool rotates_ = false;
  int lanes_ = 1;
};

std::unique_ptr<Kernel> MakeGroup(const StepCall& call) {
  return std::make_unique<GroupKernel>(call);
}

}  // namespace

KernelList GroupAttentionKernels() {
  return {{"GroupQueryAttention", "com.microsoft", "one-query", RefuseGroup, MakeGroup}};
}

}  // namespace infer
