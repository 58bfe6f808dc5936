/// Attention and MultiHeadAttention of com.microsoft in terms of Attention of ai.onnx.
#include <limits>
#include <numeric>

#include "lib/ops/decomposition_text.h"
#include "lib/ops/decompositions.h"

namespace infer {
namespace {

/// A constant of the decomposition lists the places of so many keys.
constexpr int64_t kMostListedKeys = int64_t{1} << 20;

/// Letters as in contrib_attention.cc: B batch, N heads, S queries, P keys of the past, L new keys,
/// T = P + L, D hidden size of queries and keys, E hidden size of values.
class ContribAttentionText {
 public:
  static Result<std::string> OfMulti(const OpCall& call) {
    ContribAttentionText text(call);
    INFER_TRY(text.Start(3));
    INFER_TRY(text.MultiOperands());
    INFER_TRY(text.Mask(4, 5, false));
    INFER_ASSIGN(const std::string attrs, text.Attributes());
    text.Attend(call.has_input(6) ? "x6, x7" : "", attrs);
    return text.body_.Graph(text.Results());
  }

  static Result<std::string> OfSelf(const OpCall& call) {
    ContribAttentionText text(call);
    INFER_TRY(text.Start(2));
    INFER_TRY(text.Projection());
    INFER_TRY(text.Mask(3, 5, true));
    INFER_ASSIGN(const std::string attrs, text.Attributes());
    text.Attend(call.has_input(4) ? "past_key, past_value" : "", attrs);
    if (call.num_outputs() < 2) return text.body_.Graph("y");
    text.body_.Ints("first", {0});
    for (const char* part : {"key", "value"})
      text.body_.Line(Cat("one_", part, " = Unsqueeze(present_", part, ", first)"));
    text.body_.Line("present = Concat(one_key, one_value) {axis=0}");
    return text.body_.Graph("y, present");
  }

 private:
  explicit ContribAttentionText(const OpCall& call)
      : call_(call), body_(call), heads_(call.Int("num_heads")) {}

  Status Start(size_t results) {
    if (call_.num_outputs() > results) return Unsupported("scores are a result");
    INFER_ASSIGN(t_, KnownType(call_, 0));
    return KnownRank(call_, 0).status();
  }

  // ---- MultiHeadAttention --------------------------------------------------------------------

  /// Parts of [B, L, N, parts, size] as [B, L, N * size], under their names.
  void Unpack(std::string_view from, const std::vector<std::string>& names) {
    std::vector<std::string> apart;
    for (const std::string& name : names) apart.push_back(name + "_apart");
    body_.Ints("each", std::vector<int64_t>(names.size(), 1));
    body_.Ints("flat", {0, 0, -1});
    body_.Line(Cat(Join(apart, ", "), " = Split(", from, ", each) {axis=3}"));
    for (const std::string& name : names)
      body_.Line(Cat(name, " = Reshape(", name, "_apart, flat)"));
  }

  Status MultiOperands() {
    const Shape& query = call_.shape(0);
    queries_ = query[1];
    length_ = queries_;
    int key_rank = 3, value_rank = 3;
    if (query.rank() == 5) {
      Unpack("x0", {"q", "k", "v"});
      q_ = "q", k_ = "k", v_ = "v";
      hidden_ = query[2] * query[4];
      values_ = hidden_;
    } else {
      q_ = "x0", k_ = "x1", v_ = "x2";
      hidden_ = query[2];
      INFER_ASSIGN(key_rank, KnownRank(call_, 1));
      length_ = call_.shape(1)[key_rank == 4 ? 2 : 1];
      if (key_rank == 5) {
        Unpack("x1", {"k", "v"});
        k_ = "k", v_ = "v";
        values_ = hidden_;
      } else {
        INFER_ASSIGN(value_rank, KnownRank(call_, 2));
        values_ = value_rank == 4 ? call_.shape(2)[3] * Dim(heads_) : call_.shape(2)[2];
      }
    }
    length_of_ = {query.rank() == 5 ? "x0" : "x1", key_rank == 4 ? 2 : 1};
    past_ = Dim(0);
    if (call_.has_input(6)) {
      past_ = call_.shape(6).has_rank() ? call_.shape(6)[2] : Dim();
      past_of_ = "x6";
    }
    if (!call_.has_input(3)) return {};
    if (!hidden_.is_static() || !values_.is_static())
      return Unsupported("the hidden size is not known");
    body_.Ints("sizes", {hidden_.value(), hidden_.value(), values_.value()});
    body_.Line("q_bias, k_bias, v_bias = Split(x3, sizes)");
    Add(q_, "q_bias", "biased_q");
    if (key_rank != 4) Add(k_, "k_bias", "biased_k");  // a past has its bias
    if (value_rank != 4) Add(v_, "v_bias", "biased_v");
    return {};
  }

  void Add(std::string& to, std::string_view bias, std::string_view name) {
    body_.Line(Cat(name, " = Add(", to, ", ", bias, ")"));
    to = name;
  }

  // ---- Attention -----------------------------------------------------------------------------

  Status Projection() {
    queries_ = length_ = call_.shape(0)[1];
    INFER_ASSIGN(const int64_t all, KnownExtent(call_, 1, 1));
    int64_t d = all / 3, e = all / 3;
    if (call_.HasAttr("qkv_hidden_sizes") && !call_.Ints("qkv_hidden_sizes").empty()) {
      d = call_.Ints("qkv_hidden_sizes")[0];
      e = call_.Ints("qkv_hidden_sizes")[2];
    }
    body_.Line("product = MatMul(x0, x1)");
    std::string rows = "product";
    if (call_.has_input(2)) Add(rows, "x2", "projected");
    body_.Ints("sizes", {d, d, e});
    body_.Line(Cat("q, k, v = Split(", rows, ", sizes) {axis=2}"));
    q_ = "q", k_ = "k", v_ = "v";
    length_of_ = {"x0", 1};
    past_ = Dim(0);
    if (!call_.has_input(4)) return {};
    past_ = call_.shape(4).has_rank() ? call_.shape(4)[3] : Dim();
    past_of_ = "x4";
    past_axis_ = 3;
    body_.Ints("each_part", {1, 1});
    body_.Ints("part_axis", {0});
    body_.Line("past_keys, past_values = Split(x4, each_part) {axis=0}");
    body_.Line("past_key = Squeeze(past_keys, part_axis)");
    body_.Line("past_value = Squeeze(past_values, part_axis)");
    return {};
  }

  // ---- Both ----------------------------------------------------------------------------------

  Dim total() const { return past_.is_unknown() || length_.is_unknown() ? Dim() : past_ + length_; }

  /// T as a scalar, and the positions of all keys.
  void Positions() {
    body_.Int("zero", 0);
    body_.Int("one", 1);
    body_.Ints("last_axis", {1});
    const auto extent = [&](std::string_view of, int axis, std::string_view name) {
      body_.Line(Cat(name, "_shape = Shape(", of, ")"));
      body_.Int(Cat(name, "_axis"), axis);
      body_.Line(Cat(name, " = Gather(", name, "_shape, ", name, "_axis)"));
    };
    extent(length_of_.first, length_of_.second, "new_keys");
    std::string total = "new_keys";
    if (!past_of_.empty()) {
      extent(past_of_, past_axis_, "old_keys");
      Add(total, "old_keys", "total");
    }
    body_.Line(Cat("positions = Range(zero, ", total, ", one)"));
  }

  /// From one length for each sample: [B, T].
  void VisibleByLengths(std::string_view lengths, std::string_view op, std::string_view to) {
    body_.Cast(Cat(to, "_wide"), lengths, DType::kI64);
    body_.Line(Cat(to, "_rows = Unsqueeze(", to, "_wide, last_axis)"));
    body_.Line(Cat(to, " = ", op, "(positions, ", to, "_rows)"));
  }

  /// What is added to the scores: the mask `at`, of i32, and the bias. `several`: the mask may also
  /// be ends and starts, or say nothing.
  Status Mask(size_t at, size_t bias, bool several) {
    if (call_.has_input(at)) {
      INFER_ASSIGN(const int rank, KnownRank(call_, at));
      const Shape& mask = call_.shape(at);
      const Dim batch = call_.shape(0)[0];
      std::vector<int64_t> beside = {1, 2};
      if (rank == 1) {
        const bool both = several && mask[0].KnownEqual(batch * Dim(2));
        if (several && !both && !mask[0].KnownEqual(batch))
          return Unsupported("whether the mask has starts is not known");
        Positions();
        std::string ends = Cat("x", at);
        if (both) {
          body_.Ints("two_rows", {2, -1});
          body_.Ints("each_row", {1, 1});
          body_.Ints("only_row", {-1});
          body_.Line(Cat("halves = Reshape(x", at, ", two_rows)"));
          body_.Line("first_half, second_half = Split(halves, each_row) {axis=0}");
          body_.Line("ends = Reshape(first_half, only_row)");
          body_.Line("starts = Reshape(second_half, only_row)");
          ends = "ends";
        }
        VisibleByLengths(ends, "Less", "visible");
        if (both) {
          VisibleByLengths("starts", "GreaterOrEqual", "begun");
          body_.Line("between = And(visible, begun)");
        }
        return Combine(both ? "between" : "visible", beside, bias);
      }
      if (rank == 2 && several && !mask[1].KnownEqual(total())) {
        if (!mask[1].KnownEqual(1) || !total().is_static())
          return Unsupported("what the mask says is not known");
        return Combine("", beside, bias);  // nothing
      }
      if (rank == 3) beside = {1};
      body_.Line("hides = const i32[] {0}");
      body_.Line(Cat("visible = Greater(x", at, ", hides)"));
      return Combine("visible", beside, bias);
    }
    return Combine("", {}, bias);
  }

  Status Combine(std::string_view visible, const std::vector<int64_t>& beside, size_t bias) {
    if (!visible.empty()) {
      body_.Ints("beside", beside);
      body_.Line(Cat("is_seen = Unsqueeze(", visible, ", beside)"));
      body_.Scalar("as_is", t_, 0);
      body_.Scalar("filter", t_, static_cast<double>(call_.Float("mask_filter_value")));
      body_.Line("mask = Where(is_seen, as_is, filter)");
      added_ = "mask";
    }
    if (!call_.has_input(bias)) return {};
    const std::string x = Cat("x", bias);
    if (added_.empty())
      added_ = x;
    else
      Add(added_, x, "mask_and_bias");
    return {};
  }

  /// Adds to the scores what hides key j from query i where j > past + i, but for the last query.
  void HideLaterKeys(int64_t queries, int64_t past, int64_t keys) {
    std::vector<int64_t> last_seen(static_cast<size_t>(queries)), all(static_cast<size_t>(keys));
    std::iota(last_seen.begin(), last_seen.end(), past);
    last_seen.back() = keys;
    std::iota(all.begin(), all.end(), int64_t{0});
    body_.Ints("all_keys", all);
    body_.Line(Cat("last_seen = const i64[", queries, ",1] {", Join(last_seen, ", "), "}"));
    body_.Line("is_later = Greater(all_keys, last_seen)");
    body_.Scalar("stays", t_, 0);
    body_.Scalar("hidden", t_, -std::numeric_limits<double>::infinity());
    body_.Line("causal = Where(is_later, hidden, stays)");
    if (added_.empty())
      added_ = "causal";
    else
      Add(added_, "causal", "causal_and_mask");
  }

  Result<std::string> Attributes() {
    std::string attrs = Cat("q_num_heads=", heads_, ", kv_num_heads=", heads_);
    if (const float scale = call_.Float("scale"); scale != 0)
      attrs += Cat(", scale=", FormatDouble(static_cast<double>(scale)));
    if (call_.Int("unidirectional") == 0 || queries_.KnownEqual(1)) return attrs;
    // The newest query sees all keys, which is_causal says as well where there are no more keys.
    if (queries_.KnownEqual(length_)) return Cat(attrs, ", is_causal=1");
    if (!queries_.is_static() || !length_.is_static())
      return Unsupported("it is not known that keys are no more than queries");
    if (queries_.value() == 0) return attrs;  // nobody from whom to hide
    if (length_.value() > queries_.value()) {
      if (!past_.is_static()) return Unsupported("how many keys are older is not known");
      if (past_.value() + length_.value() > kMostListedKeys)
        return Unsupported("the keys are too many to be listed");
      HideLaterKeys(queries_.value(), past_.value(), past_.value() + length_.value());
      return attrs;
    }
    return Cat(attrs, ", is_causal=1");
  }

  void Attend(std::string_view past, std::string_view attrs) {
    std::string operands = Cat(q_, ", ", k_, ", ", v_);
    if (!added_.empty() || !past.empty()) operands += Cat(", ", added_.empty() ? "_" : added_);
    if (!past.empty()) operands += Cat(", ", past);
    std::vector<std::string> results = {"y"};
    if (call_.num_outputs() > 1) results.push_back("present_key");
    if (call_.num_outputs() > 1) results.push_back("present_value");
    body_.Line(Cat(Join(results, ", "), " = Attention(", operands, ") {", attrs, "}"));
  }

  std::string Results() const {
    constexpr std::string_view kNames[] = {"y", "y, present_key", "y, present_key, present_value"};
    return std::string(kNames[call_.num_outputs() - 1]);
  }

  const OpCall& call_;
  BodyText body_;
  const int64_t heads_;
  DType t_ = DType::kF32;
  std::string q_, k_, v_, added_;
  Dim queries_, length_, past_, hidden_, values_;
  std::pair<std::string, int> length_of_;  // operand and axis that tell L
  std::string past_of_;                    // and P; "": there is none
  int past_axis_ = 2;
};

}  // namespace

Result<std::string> DecomposeMultiHeadAttention(const OpCall& call) {
  return ContribAttentionText::OfMulti(call);
}
Result<std::string> DecomposeContribAttention(const OpCall& call) {
  return ContribAttentionText::OfSelf(call);
}

}  // namespace infer
