#pragma once
/// GroupQueryAttention for every backend: which forms kernels take, and where operands, caches and
/// results lie for given extents. How many tokens are older than the new ones comes with the run.
#include <array>

#include "lib/ops/attention/contrib_attention_common.h"
#include "runtime/plan_ir/groups/attention_plan.h"
#include "runtime/plan_ir/kernel.h"

namespace infer {

struct GroupQuery {
  /// The first operands of the operator (GroupInput), up to its positions: no others are taken.
  static constexpr size_t kTaken = GroupInput::kPositions + 1;

  int64_t batch = 0, queries = 0, heads = 0, groups = 0, size = 0;
  int64_t past = 0, cache = 0;                     ///< tokens in the caches that come in and go out
  int64_t window = -1, rotary = 0, positions = 0;  ///< half of the rotated elements; rows of cos
  bool packed = false, interleaved = false;
  float scale = 1;
  std::array<int, kTaken> at;  ///< operands; -1: not given
  /// Where the output and the two caches lie: position among the launch's arguments, and elements
  /// from there. What nobody reads lies in the scratch memory.
  struct Place {
    int arg = -1;
    int64_t offset = 0;
  };
  std::array<Place, 3> result;
  int scratch = 0;  ///< position of the scratch memory

  int64_t cache_floats() const { return batch * groups * cache * size; }
  /// Of the new queries (part 0), keys (1) or values (2): the operand they lie in, elements from
  /// token to token, and where the first head of a token begins.
  size_t SourceOf(int part) const { return packed ? 0 : static_cast<size_t>(part); }
  int64_t RowOf(int part) const {
    return (packed ? heads + 2 * groups : part == 0 ? heads : groups) * size;
  }
  int64_t FirstOf(int part) const {
    return !packed || part == 0 ? 0 : (part == 1 ? heads : heads + groups) * size;
  }
  /// Gives results that nobody reads a place in the scratch memory from element `begin`; returns
  /// where the rest begins.
  int64_t PlaceUnread(int64_t begin);
  /// The older tokens of a sample: `last` is its entry of seqlens_k.
  int64_t Before(int64_t last, int64_t total) const {
    return queries == total ? 0 : last + 1 - queries;
  }
  /// InvalidModel where the lengths of a run do not fit. `lengths`: seqlens_k by sample.
  Status Check(const int32_t* lengths, int64_t total) const;
};

/// Attention of the queries to the caches, by sample and head; scratch memory begins with the keys
/// that count, i64 by sample. `q` is the operand: a kernel that rotates queries says where they
/// lie.
AttentionGeometry GeometryOf(const GroupQuery& g);

/// "" or why no fast kernel takes the step.
std::string RefuseGroupQuery(const StepCall& call);

/// Of a step; without extents until they are given.
class GroupQueryReader {
 public:
  explicit GroupQueryReader(const StepCall& call);
  /// Unsupported says what does not fit, or that only the run knows how long the caches are.
  Result<GroupQuery> Read(std::span<const Operand> in, std::span<const Operand> out) const;

 private:
  GroupQuery g_;  // results by position among the step's
  bool rotates_ = false;
};

}  // namespace infer
