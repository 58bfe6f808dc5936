/// Attention in terms of older operators.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "lib/ops/decomposition_text.h"
#include "lib/ops/decompositions.h"
#include "lib/ops/notes.h"
#include "lib/tensor/float_limits.h"

namespace infer {
namespace {

/// Letters as in attention_reference.h: B batch, H query heads, G key/value heads, S queries,
/// T keys, D head size, E value head size.
class AttentionText {
 public:
  static Result<std::string> Of(const OpCall& call) {
    INFER_ASSIGN(const DType t, KnownType(call, 0));
    INFER_ASSIGN(const DType value_type, KnownType(call, 2));
    AttentionText text(call, t, value_type);
    INFER_ASSIGN(text.q_heads_, text.HeadsOf(0, "q_num_heads"));
    INFER_ASSIGN(text.kv_heads_, text.HeadsOf(1, "kv_num_heads"));
    for (size_t i = 0; i < 3; ++i) INFER_TRY(KnownRank(call, i).status());
    text.Operands();
    INFER_TRY(text.Scores());
    INFER_TRY(text.Mask());
    INFER_TRY(text.Weights());
    return text.Outputs();
  }

 private:
  AttentionText(const OpCall& call, DType t, DType value_type)
      : call_(call), t_(t), value_type_(value_type), body_(call) {}

  Result<int64_t> HeadsOf(size_t i, std::string_view attr) {
    INFER_ASSIGN(const int rank, KnownRank(call_, i));
    return rank == 3 ? call_.Int(attr) : KnownExtent(call_, i, 1);
  }

  /// The extent of a head of operand i where it is known; -1 where it follows at the run.
  int64_t SizeOf(size_t i, int64_t heads) const {
    const Dim& last = call_.shape(i)[-1];
    if (!last.is_static()) return -1;
    return call_.shape(i).rank() == 3 ? last.value() / heads : last.value();
  }

  /// The name of operand i as [B, heads, length, size].
  std::string ByHeads(size_t i, int64_t heads, std::string_view name) {
    if (call_.shape(i).rank() == 4) return Cat("x", i);
    body_.Line(Cat(name, " = Transpose(", Rows(i, heads, name), ") {perm=[0, 2, 1, 3]}"));
    return std::string(name);
  }
  /// Nobody but the product reads the keys: they are transposed once.
  bool KeysAreRows() const {
    return call_.shape(1).rank() == 3 && !call_.has_input(4) && call_.num_outputs() < 2;
  }

  /// Operand i of rank 3 as [B, length, heads, size].
  std::string Rows(size_t i, int64_t heads, std::string_view name) {
    body_.Ints(Cat(name, "_split"), {0, 0, heads, SizeOf(i, heads)});
    body_.Line(Cat(name, "_rows = Reshape(x", i, ", ", name, "_split)"));
    return Cat(name, "_rows");
  }

  /// q_, keys_ and values_, the last two with what is past.
  void Operands() {
    q_ = ByHeads(0, q_heads_, "q");
    if (KeysAreRows())
      key_rows_ = Rows(1, kv_heads_, "k");
    else
      keys_ = ByHeads(1, kv_heads_, "k");
    values_ = ByHeads(2, kv_heads_, "v");
    if (!call_.has_input(4)) return;
    body_.Line(Cat("keys = Concat(x4, ", keys_, ") {axis=2}"));
    body_.Line(Cat("values = Concat(x5, ", values_, ") {axis=2}"));
    keys_ = "keys";
    values_ = "values";
  }

  bool grouped() const { return q_heads_ != kv_heads_; }
  bool WeightsAreRead() const {
    return call_.num_outputs() > 3 && call_.Int("qk_matmul_output_mode") == 3;
  }
  WithoutKeys without_keys() const { return static_cast<WithoutKeys>(call_.Int(kWithoutKeys)); }
  /// A query may see no key, and a Softmax is not enough then.
  bool TellsEmpty(WithoutKeys by) const { return may_be_empty_ && without_keys() == by; }

  /// [B, H, S, x] as [B, G, H / G * S, x]: the query heads of a key head become further queries, so
  /// that no key is copied.
  std::string Grouped(std::string_view from, std::string_view to) {
    if (!grouped()) return std::string(from);
    body_.Line(Cat(to, " = Reshape(", from, ", by_group)"));
    return std::string(to);
  }
  std::string Ungrouped(std::string_view from, std::string_view to) {
    if (!grouped()) return std::string(from);
    body_.Line(Cat(to, " = Reshape(", from, ", by_head)"));
    return std::string(to);
  }

  Status Scores() {
    double scale = 0;
    if (call_.HasAttr("scale")) {
      scale = static_cast<double>(call_.Float("scale"));
    } else if (const int64_t size = SizeOf(0, q_heads_); size > 0) {
      scale = 1 / std::sqrt(static_cast<double>(size));
    } else {
      return Unsupported("the size of a head, which says the scale, is not known");
    }
    if (grouped()) {
      body_.Ints("by_group", {0, kv_heads_, -1, 0});
      body_.Ints("by_head", {0, q_heads_, -1, 0});
    }
    body_.Scalar("scale", t_, scale);
    body_.Line(Cat("scaled = Mul(", q_, ", scale)"));
    const std::string queries = Grouped("scaled", "grouped_queries");
    body_.Line(key_rows_.empty() ? Cat("columns = Transpose(", keys_, ") {perm=[0, 1, 3, 2]}")
                                 : Cat("columns = Transpose(", key_rows_, ") {perm=[0, 2, 3, 1]}"));
    body_.Line(Cat("products = MatMul(", queries, ", columns)"));
    raw_ = capped_ = Ungrouped("products", "scores");
    if (const float cap = call_.Float("softcap"); cap != 0) {
      body_.Scalar("cap", t_, static_cast<double>(cap));
      body_.Line(Cat("ratio = Div(", raw_, ", cap)"));
      body_.Line("bent = Tanh(ratio)");
      body_.Line("capped = Mul(bent, cap)");
      capped_ = "capped";
    }
    return {};
  }

  /// A further condition on queries and keys; true where the key counts.
  void Allow(const std::string& condition) {
    if (allowed_.empty()) {
      allowed_ = condition;
      return;
    }
    const std::string both = Cat(condition, "_too");
    body_.Line(Cat(both, " = And(", allowed_, ", ", condition, ")"));
    allowed_ = both;
  }

  /// The extents S and T at the run, as scalars, and the positions of all keys: [T].
  void Positions() {
    const bool rows = !key_rows_.empty();
    body_.Line(Cat("queries_shape = Shape(", q_, ")"));
    body_.Line("queries = Gather(queries_shape, two)");
    body_.Line(Cat("total_shape = Shape(", rows ? key_rows_ : keys_, ")"));
    body_.Line(Cat("total = Gather(total_shape, ", rows ? "one" : "two", ")"));
    body_.Line("positions = Range(zero, total, one)");
  }

  /// [count, 1]: first, first + 1 and so on.
  void Column(std::string_view name, int64_t count, int64_t first) {
    std::vector<int64_t> numbers(static_cast<size_t>(count));
    std::iota(numbers.begin(), numbers.end(), first);
    body_.Line(Cat(name, " = const i64[", count, ",1] {", Join(numbers, ", "), "}"));
  }
  /// The windows (-1: none) between extents that are known, by constants that all layers share.
  bool AllowByKnownPosition(int64_t right, int64_t left) {
    constexpr int64_t kMost = 4096;
    const Dim &queries = call_.shape(0)[-2], &keys = call_.shape(1)[-2];
    if (call_.has_input(4) || call_.has_input(6) || !queries.is_static() || !keys.is_static() ||
        std::max(queries.value(), keys.value()) > kMost)
      return false;
    std::vector<int64_t> positions(static_cast<size_t>(keys.value()));
    std::iota(positions.begin(), positions.end(), 0);
    body_.Ints("positions", positions);
    if (right >= 0) {
      Column("end", queries.value(), right + 1);
      body_.Line("is_before_end = Less(positions, end)");
      Allow("is_before_end");
    }
    if (left >= 0) {
      Column("begin", queries.value(), -left - 1);
      body_.Line("is_after_begin = Less(begin, positions)");
      Allow("is_after_begin");
    }
    return true;
  }

  /// is_causal, the windows and nonpad_kv_seqlen.
  void AllowByPosition() {
    const bool valid = call_.has_input(6), causal = call_.Int("is_causal") != 0;
    constexpr int64_t kFar = int64_t{1} << 40;  // more keys than there are
    const int64_t left = std::min(call_.Int("left_window_size"), kFar);
    const int64_t right = std::min(call_.Int("right_window_size"), kFar);
    if (!valid && !causal && left < 0 && right < 0) return;
    // Else every query sees at least the first key.
    may_be_empty_ |= valid || left >= 0;
    if (AllowByKnownPosition(causal ? 0 : right, left)) return;
    for (const auto& [name, value] :
         {std::pair("zero", 0), std::pair("one", 1), std::pair("two", 2)})
      body_.Int(name, value);
    Positions();
    if (valid) {
      body_.Ints("beside_batch", {1, 2, 3});
      body_.Line("valid = Unsqueeze(x6, beside_batch)");
      body_.Line("is_valid = Less(positions, valid)");
      Allow("is_valid");
    }
    if (!causal && left < 0 && right < 0) return;
    body_.Line("query_positions = Range(zero, queries, one)");
    body_.Ints("beside", {1});
    body_.Line("at = Unsqueeze(query_positions, beside)");
    std::string at = "at";
    if (valid) {
      body_.Line("offset = Sub(valid, queries)");
    } else if (call_.has_input(4)) {
      body_.Line("past_shape = Shape(x4)");
      body_.Line("offset = Gather(past_shape, two)");
    }
    if (valid || call_.has_input(4)) {
      body_.Line("moved = Add(at, offset)");
      at = "moved";
    }
    if (causal || right >= 0) {
      body_.Int("ahead", causal ? 1 : right + 1);
      body_.Line(Cat("end = Add(", at, ", ahead)"));
      body_.Line("is_before_end = Less(positions, end)");
      Allow("is_before_end");
    }
    if (left >= 0) {
      body_.Int("behind", left + 1);
      body_.Line(Cat("begin = Sub(", at, ", behind)"));
      body_.Line("is_after_begin = Less(begin, positions)");
      Allow("is_after_begin");
    }
  }

  /// The mask may have fewer keys than there are; the others are forbidden. Not so where it was
  /// added to the scores of a Softmax.
  bool MaskMayBeShort() const {
    if (without_keys() != WithoutKeys::kZero) return false;
    const Shape &k = call_.shape(1), &past = call_.has_input(4) ? call_.shape(4) : k;
    if (!past.has_rank()) return true;
    Dim all = k[k.rank() - 2];
    if (call_.has_input(4)) all = all.is_unknown() || past[2].is_unknown() ? Dim() : all + past[2];
    return all.is_unknown() || !(call_.shape(3)[-1] == all);
  }

  /// `name`, as long as the keys, with `fill` in what is added.
  std::string Padded(std::string_view name, std::string_view fill) {
    body_.Ints("first_axis", {0});
    const int64_t axis = key_rows_.empty() ? 2 : 1;
    body_.Ints("key_axis", {axis});
    body_.Ints("after_key_axis", {axis + 1});
    body_.Ints("last_axis", {-1});
    body_.Ints("no_end", {INT64_MAX});
    body_.Ints("no_pads", std::vector<int64_t>(static_cast<size_t>(2 * call_.shape(3).rank() - 1)));
    body_.Line(Cat("shape_of_keys = Shape(", key_rows_.empty() ? keys_ : key_rows_, ")"));
    body_.Line("key_count = Slice(shape_of_keys, key_axis, after_key_axis, first_axis)");
    body_.Line("shape_of_mask = Shape(x3)");
    body_.Line("mask_count = Slice(shape_of_mask, last_axis, no_end, first_axis)");
    body_.Line("missing = Sub(key_count, mask_count)");
    body_.Line("pads = Concat(no_pads, missing) {axis=0}");
    body_.Line(Cat("padded = Pad(", name, ", pads, ", fill, ")"));
    return "padded";
  }

  /// attn_mask: a condition, or an addend (bias_) and where it is above -inf.
  Status AllowByMask() {
    if (!call_.has_input(3)) return {};
    may_be_empty_ = true;
    INFER_ASSIGN(const int rank, KnownRank(call_, 3));
    if (rank < 1 || rank > 4) return Unsupported(Cat("attn_mask has rank ", rank));
    INFER_ASSIGN(const DType mask, KnownType(call_, 3));
    const bool pad = MaskMayBeShort();
    if (mask == DType::kBool) {
      if (!pad) {
        Allow("x3");
        return {};
      }
      body_.Scalar("closed", DType::kU8, 0);  // Pad takes bool since opset 13 only
      body_.Cast("mask_bytes", "x3", DType::kU8);
      body_.Cast("is_open", Padded("mask_bytes", "closed"), DType::kBool);
      Allow("is_open");
      return {};
    }
    const std::string addend = body_.CastTo("mask", "x3", mask, t_);
    bias_ = pad ? Padded(addend, "forbidden") : addend;
    // The sum is -inf where the score is a number.
    if (without_keys() != WithoutKeys::kZero) return {};
    body_.Line(Cat("is_closed = Less(", bias_, ", lowest)"));
    body_.Line("is_open = Not(is_closed)");
    Allow("is_open");
    return {};
  }

  Status Mask() {
    biased_ = capped_;
    if (call_.has_input(3) || call_.has_input(6) || call_.Int("is_causal") != 0 ||
        call_.Int("left_window_size") >= 0 || call_.Int("right_window_size") >= 0) {
      body_.Scalar("forbidden", t_, -std::numeric_limits<double>::infinity());
      body_.Scalar("lowest", t_, LowestFinite(t_));
    }
    AllowByPosition();
    INFER_TRY(AllowByMask());
    if (!bias_.empty()) {
      body_.Line(Cat("summed = Add(", capped_, ", ", bias_, ")"));
      biased_ = "summed";
    }
    if (!allowed_.empty()) {
      // Also where the score is not a number.
      body_.Line(Cat("masked = Where(", allowed_, ", ", biased_, ", forbidden)"));
      biased_ = "masked";
    }
    return {};
  }

  Status Weights() {
    DType precision = t_;
    if (call_.HasAttr("softmax_precision")) {
      const int64_t asked = call_.Int("softmax_precision");
      if (asked < 0 || asked >= kNumDTypes || !kFloatsBF16.Has(static_cast<DType>(asked)))
        return Unsupported(Cat("softmax_precision ", asked, " is no type of floats"));
      precision = static_cast<DType>(asked);
    }
    const bool guarded = TellsEmpty(WithoutKeys::kZero);
    // Groups before the Softmax, as the scores of heads that are folded otherwise: fusions know it.
    const bool early = grouped() && !WeightsAreRead();
    const std::string scores = early ? Grouped(biased_, "grouped_scores") : biased_;
    const std::string in = body_.CastTo("exact", scores, t_, precision);
    body_.Line(Cat("exact_weights = Softmax(", in, ")"));
    weights_ = body_.CastTo("weights", "exact_weights", precision, t_);
    if (guarded) {
      // A query that sees no key gives zeros, not NaN.
      body_.Ints("over_keys", {-1});
      body_.Line(Cat("top = ReduceMax(", scores, ", over_keys)"));
      ZeroWhere("Less(top, lowest)");
    } else if (TellsEmpty(WithoutKeys::kNanIsZero)) {
      ZeroWhere(Cat("IsNaN(", weights_, ")"));
    }
    if (early) grouped_weights_ = weights_;
    return {};
  }

  void ZeroWhere(std::string_view condition) {
    body_.Scalar("nothing", t_, 0);
    body_.Line(Cat("sees_none = ", condition));
    body_.Line(Cat("seen = Where(sees_none, nothing, ", weights_, ")"));
    weights_ = "seen";
  }

  /// A result is not an operand itself.
  std::string AsResult(const std::string& name, std::string_view copy) {
    if (name[0] != 'x') return name;
    body_.Line(Cat(copy, " = Identity(", name, ")"));
    return std::string(copy);
  }

  Result<std::string> Outputs() {
    const std::string weights =
        grouped_weights_.empty() ? Grouped(weights_, "grouped_weights") : grouped_weights_;
    const std::string values = body_.CastTo("cast_values", values_, value_type_, t_);
    body_.Line(Cat("sums = MatMul(", weights, ", ", values, ")"));
    std::string y = Ungrouped("sums", "attended");
    if (call_.shape(0).rank() == 3) {
      const int64_t size = SizeOf(2, kv_heads_);
      body_.Ints("joined", {0, 0, size > 0 ? q_heads_ * size : -1});
      body_.Line(Cat("rows = Transpose(", y, ") {perm=[0, 2, 1, 3]}"));
      body_.Line("y = Reshape(rows, joined)");
      y = "y";
    }
    std::vector<std::string> outputs = {y};
    if (call_.num_outputs() > 1) outputs.push_back(AsResult(keys_, "present_key"));
    if (call_.num_outputs() > 2) outputs.push_back(AsResult(values_, "present_value"));
    if (call_.num_outputs() > 3) {
      const int64_t mode = call_.Int("qk_matmul_output_mode");
      const std::string* stages[] = {&raw_, &capped_, &biased_, &weights_};
      if (mode < 0 || mode > 3) return Unsupported(Cat("qk_matmul_output_mode is ", mode));
      outputs.push_back(*stages[mode]);
    }
    return body_.Graph(Join(outputs, ", "));
  }

  const OpCall& call_;
  const DType t_, value_type_;
  BodyText body_;
  int64_t q_heads_ = 0, kv_heads_ = 0;
  std::string q_, keys_, values_;
  std::string key_rows_;                         // [B, T, G, E], instead of keys_
  std::string raw_, capped_, biased_, weights_;  // the stages of the scores
  std::string grouped_weights_;                  // where the Softmax is of groups, not of heads
  std::string allowed_, bias_;
  bool may_be_empty_ = false;  // a query may see no key
};

}  // namespace

Result<std::string> DecomposeAttention(const OpCall& call) { return AttentionText::Of(call); }

}  // namespace infer
