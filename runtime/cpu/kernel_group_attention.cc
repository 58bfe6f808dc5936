/// GroupQueryAttention of com.microsoft. A step of decoding goes query by query and reads the cache
/// once; more queries, as a prompt has them, run on the kernel of attention. Where the past and the
/// present are one buffer, which the caller may bind to both, only the new tokens are written; else
/// the past is copied.
#include <algorithm>
#include <cmath>

#include "lib/ops/common.h"
#include "lib/support/strings.h"
#include "runtime/cpu/attention.h"
#include "runtime/cpu/kernels.h"
#include "runtime/cpu/launch.h"
#include "runtime/cpu/simd/loops.h"
#include "runtime/cpu/simd/one_query.h"

namespace infer {
namespace {

/// Operands of the operator; kCount in number.
enum Input : size_t {
  kQuery,
  kKey,
  kValue,
  kPastKey,
  kPastValue,
  kLengths,
  kTotal,
  kCos,
  kSin,
  kPositions,
  kCount
};

std::string RefuseGroup(const StepCall& call) {
  const Node& n = call.main();
  for (const Value* v : n.inputs())
    if (v && v->dtype() != DType::kF32 && v->dtype() != DType::kI32 && v->dtype() != DType::kI64)
      return Cat("operand '", v->name(), "' is ", ToString(v->type()));
  for (size_t i = kCount; i < n.inputs().size(); ++i)
    if (n.input(i)) return Cat("'", n.def().inputs[i].name, "' is given");
  if (n.outputs().size() > 3 && n.output(3)) return "scores are a result";
  for (size_t i : {1, 2})
    if (n.outputs().size() <= i || !n.output(i)) return "a cache is no result";
  if (n.Attr<float>("softcap") != 0) return "softcap is set";
  if (n.Attr<int64_t>("smooth_softmax") == 1) return "smooth_softmax is set";
  if (n.Attr<int64_t>("local_window_size") == 0) return "the window is empty";
  if (n.Attr<int64_t>("causal") == 0) return "it is not causal";
  if (n.Attr<int64_t>("do_rotary") != 0 && n.input(kPositions)) return "positions are given";
  return "";
}

/// What a launch needs beside its operands.
struct Group {
  int64_t batch = 0, queries = 0, heads = 0, groups = 0, size = 0;
  int64_t past = 0, cache = 0;                     ///< tokens in the caches that come in and go out
  int64_t window = -1, rotary = 0, positions = 0;  ///< half of the rotated elements; rows of cos
  bool packed = false, interleaved = false;
  float scale = 1;
  int at[kCount];      ///< operands; -1: not given
  size_t results = 0;  ///< position of the first

  int64_t scratch_floats() const { return cache + 16 + size; }

  /// The older tokens of sample b.
  int64_t Before(const int32_t* lengths, int32_t total, int64_t b) const {
    return queries == total ? 0 : int64_t{lengths[b]} + 1 - queries;
  }

  Status Check(const int32_t* lengths, int32_t total) const {
    if (total < queries || total > past + queries)
      return InvalidModel(Cat("total_sequence_length is ", total, " with ", queries,
                              " new tokens and a past of ", past));
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

  const float* Rows(std::byte* const* args, Input i) const {
    return at[i] < 0 ? nullptr : As<float>(static_cast<const std::byte*>(args[at[i]]));
  }

  /// A head of token (b, i) of the new queries (part 0), keys (1) or values (2).
  const float* New(std::byte* const* args, int part, int64_t b, int64_t i, int64_t head) const {
    const int64_t token = b * queries + i;
    if (packed) {
      const int64_t skipped = part == 0 ? 0 : part == 1 ? heads : heads + groups;
      return Rows(args, kQuery) + (token * (heads + 2 * groups) + skipped + head) * size;
    }
    return Rows(args, static_cast<Input>(part)) +
           (token * (part == 0 ? heads : groups) + head) * size;
  }

  void CopyRotated(std::byte* const* args, const float* from, int64_t position, float* to) const {
    if (rotary > 0)
      simd::TheOneQuery().rotate(from, Rows(args, kCos) + position * rotary,
                                 Rows(args, kSin) + position * rotary, rotary, interleaved, to);
    std::copy(from + 2 * rotary, from + size, to + 2 * rotary);
  }

  /// The caches of one group of heads, extended.
  void Extend(std::byte* const* args, int64_t b, int64_t g, int64_t before) const {
    for (int part : {1, 2}) {
      const int64_t lead = b * groups + g;
      const float* old = Rows(args, part == 1 ? kPastKey : kPastValue);
      float* present = As<float>(args[results + static_cast<size_t>(part)]);
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

  void Attend(std::byte* const* args, int64_t b, int64_t g, int64_t before, float* scratch) const {
    const simd::OneQuery& loops = simd::TheOneQuery();
    float* const q = scratch;
    float* const scores = scratch + size;
    const int64_t lead = (b * groups + g) * cache * size;
    for (int64_t head = g * (heads / groups); head < (g + 1) * (heads / groups); ++head)
      for (int64_t i = 0; i < queries; ++i) {
        const int64_t position = before + i;
        const int64_t first = window >= 0 ? std::max<int64_t>(0, position - window + 1) : 0;
        const int64_t keys = position + 1 - first, from = lead + first * size;
        CopyRotated(args, New(args, 0, b, i, head), position, q);
        loops.scores(q, As<float>(args[results + 1]) + from, size, keys, size, scale, scores);
        simd::TheLoops().softmax(scores, scores, keys, false);
        loops.mix(scores, As<float>(args[results + 2]) + from, size, keys, size,
                  As<float>(args[results]) + ((b * queries + i) * heads + head) * size);
      }
  }

  Status Run(std::byte* const* args) const {
    const auto* lengths = As<int32_t>(static_cast<const std::byte*>(args[at[kLengths]]));
    const int32_t total = *As<int32_t>(static_cast<const std::byte*>(args[at[kTotal]]));
    INFER_TRY(Check(lengths, total));
    float* const scratch = As<float>(args[results + 3]);
    // Lanes share what is worth it: some 10 us of reading.
    const int64_t work = queries * cache * size * (heads / groups + 1);
    ForRange(batch * groups, std::max<int64_t>(1, (int64_t{1} << 16) / work),
             [&](int64_t begin, int64_t end) {
               for (int64_t lead = begin; lead < end; ++lead) {
                 const int64_t b = lead / groups, g = lead % groups;
                 const int64_t before = Before(lengths, total, b);
                 Extend(args, b, g, before);
                 Attend(args, b, g, before, scratch + lead * scratch_floats());
               }
             });
    return {};
  }
};

class GroupLaunch final : public Launch {
 public:
  explicit GroupLaunch(const Group& g) : g_(g) {}
  Status Run(std::byte* const* args, LaunchState*) const override { return g_.Run(args); }

 private:
  Group g_;
};

/// More queries are faster together.
constexpr int64_t kMostQueries = 3;

/// Its memory: by sample the keys that count, rotated queries, then that of attention.
class PromptLaunch final : public Launch {
 public:
  PromptLaunch(const Group& g, int lanes) : g_(g), scratch_(g.results + 3) {
    a_.loops = simd::TheAttentionLoops();
    a_.leads = g.batch * g.heads;
    a_.queries = g.queries;
    a_.keys = g.cache;
    a_.depth = a_.values = g.size;
    a_.scale = g.scale;
    a_.chunks = lanes;
    a_.band.left = g.window > 0 ? g.window - 1 : -1;
    a_.band.right = 0;
    a_.band.valid_arg = static_cast<int>(scratch_);
    a_.band.queries = g.queries;
    a_.band.leads_per_sample = g.heads;
    const bool rotates = g.rotary > 0;
    a_.q.arg = rotates ? static_cast<int>(scratch_) : g.at[kQuery];
    a_.k.arg = static_cast<int>(g.results) + 1;
    a_.v.arg = static_cast<int>(g.results) + 2;
    a_.y.arg = static_cast<int>(g.results);
    a_.y.row = g.heads * g.size;
    a_.q.row = a_.y.row + (g.packed && !rotates ? 2 * g.groups * g.size : 0);
    a_.k.row = a_.v.row = g.size;
    for (int64_t b = 0; b < g.batch; ++b)
      for (int64_t h = 0; h < g.heads; ++h) {
        const int64_t kv = b * g.groups + h / (g.heads / g.groups);
        a_.k.offset.push_back(kv * g.cache * g.size);
        a_.y.offset.push_back(b * g.queries * a_.y.row + h * g.size);
        a_.q.offset.push_back(b * g.queries * a_.q.row + h * g.size +
                              (rotates ? counts_floats() : 0));
      }
    a_.v.offset = a_.k.offset;
  }

  int64_t scratch_bytes() const { return own_floats() * 4 + a_.scratch_bytes(); }

  Status Run(std::byte* const* args, LaunchState*) const override {
    const auto* lengths = As<int32_t>(static_cast<const std::byte*>(args[g_.at[kLengths]]));
    const int32_t total = *As<int32_t>(static_cast<const std::byte*>(args[g_.at[kTotal]]));
    INFER_TRY(g_.Check(lengths, total));
    auto* const counts = As<int64_t>(args[scratch_]);
    for (int64_t b = 0; b < g_.batch; ++b) counts[b] = g_.Before(lengths, total, b) + g_.queries;
    ForRange(g_.batch * g_.groups, 1, [&](int64_t begin, int64_t end) {
      for (int64_t lead = begin; lead < end; ++lead)
        g_.Extend(args, lead / g_.groups, lead % g_.groups, counts[lead / g_.groups] - g_.queries);
    });
    if (g_.rotary > 0) RotateQueries(args, counts);
    a_.Run(args, args[scratch_] + own_floats() * 4);
    return {};
  }

 private:
  void RotateQueries(std::byte* const* args, const int64_t* counts) const {
    float* const to = As<float>(args[scratch_]) + counts_floats();
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
  int64_t own_floats() const {
    const int64_t rotated = g_.rotary > 0 ? g_.batch * g_.queries * g_.heads * g_.size : 0;
    return counts_floats() + (rotated + 15) / 16 * 16;
  }

  Group g_;
  size_t scratch_;
  Attention a_;
};

std::unique_ptr<Kernel> MakeGroup(const StepCall& call) {
  const Node& n = call.main();
  Group g;
  g.heads = n.Attr<int64_t>("num_heads");
  g.groups = n.Attr<int64_t>("kv_num_heads");
  g.window = n.Attr<int64_t>("local_window_size");
  g.scale = n.Attr<float>("scale");
  g.interleaved = n.Attr<int64_t>("rotary_interleaved") != 0;
  g.packed = !n.input(kKey);
  const bool rotates = n.Attr<int64_t>("do_rotary") != 0;
  for (size_t i = 0; i < kCount; ++i) g.at[i] = call.operand(n.input(i));
  const int lanes = call.options.threads > 0 ? call.options.threads : LaneBudget();
  return KernelOf([g, rotates, lanes](std::span<const Operand> in,
                                      std::span<const Operand> out) -> Result<Prepared> {
    Group made = g;
    const auto dims = [&](Input i) { return in[static_cast<size_t>(g.at[i])].dims; };
    if (in[static_cast<size_t>(g.at[kLengths])].dtype != DType::kI32)
      return Unsupported("seqlens_k is no i32");
    made.batch = dims(kQuery)[0];
    made.queries = dims(kQuery)[1];
    made.size = dims(kQuery)[2] / (g.packed ? g.heads + 2 * g.groups : g.heads);
    made.past = g.at[kPastKey] < 0 ? 0 : dims(kPastKey)[2];
    made.cache = out[1].dims[2];
    if (NumElements(dims(kLengths)) != made.batch) return Unsupported("extents do not fit");
    if (made.scale == 0) made.scale = 1 / std::sqrt(static_cast<float>(made.size));
    if (rotates) {
      made.rotary = dims(kCos).back();
      made.positions = NumElements(dims(kCos)) / made.rotary;
      if (dims(kSin) != dims(kCos) || 2 * made.rotary > made.size)
        return Unsupported("cos_cache and sin_cache do not fit");
    }
    made.results = in.size();
    Prepared p;
    if (made.queries > kMostQueries && simd::TheAttentionLoops()) {
      auto launch = std::make_shared<PromptLaunch>(made, lanes);
      p.name = Cat("own:attention:", simd::TheAttentionLoops()->isa);
      p.scratch_bytes = launch->scratch_bytes();
      p.launch = std::move(launch);
      return p;
    }
    p.name = Cat("own:", simd::TheOneQuery().isa);
    p.scratch_bytes = made.batch * made.groups * made.scratch_floats() * 4;
    p.launch = std::make_shared<GroupLaunch>(made);
    return p;
  });
}

}  // namespace

KernelList GroupAttentionKernels() {
  return {{"GroupQueryAttention", "com.microsoft", "one-query", RefuseGroup, MakeGroup}};
}

}  // namespace infer
