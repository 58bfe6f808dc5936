/// LinearAttention and CausalConvWithState in terms of older operators.
#include <cmath>

#include "lib/ops/decomposition_text.h"
#include "lib/ops/decompositions.h"

namespace infer {
namespace {

/// One token of LinearAttention: s [B, G, D, E] is the state before it. Operands are one token's
/// [B, packed heads]; the result is [B, H * E], not scaled.
std::string TokenText(bool gated, bool delta, int64_t heads, int64_t groups) {
  std::string out =
      Cat("graph(s, q, k, v", gated ? ", g" : "", delta ? ", b" : "", ") -> (next, read) {\n");
  const auto line = [&](std::string_view text) { out += Cat("    ", text, "\n"); };
  const auto shape = [&](std::string_view name, const std::vector<int64_t>& values) {
    line(Cat(name, " = const i64[", values.size(), "] {", Join(values, ", "), "}"));
  };
  shape("as_columns", {0, groups, -1, 1});
  shape("as_rows", {0, groups, 1, -1});
  shape("by_group", {0, groups, heads / groups, -1});
  shape("packed", {0, -1});
  line("column = Reshape(k, as_columns)");
  line("value = Reshape(v, as_rows)");
  std::string kept = "s", fresh = "value";
  if (gated) {
    line("decay = Exp(g)");
    line("decays = Reshape(decay, as_columns)");
    line("kept = Mul(s, decays)");
    kept = "kept";
  }
  if (delta) {
    shape("per_head", {0, -1, 1, 1});
    line("row = Reshape(k, as_rows)");
    line(Cat("said = MatMul(row, ", kept, ")"));
    line("news = Sub(value, said)");
    line("rate = Reshape(b, per_head)");
    line("fresh = Mul(news, rate)");
    fresh = "fresh";
  }
  line(Cat("outer = Mul(column, ", fresh, ")"));
  line(Cat("next = Add(", kept, ", outer)"));
  line("queries = Reshape(q, by_group)");
  line("answers = MatMul(queries, next)");
  line("read = Reshape(answers, packed)");
  return out + "  }";
}

}  // namespace

/// A Scan over the tokens, in f32.
Result<std::string> DecomposeLinearAttention(const OpCall& call) {
  const int64_t heads = call.Int("q_num_heads"), groups = call.Int("kv_num_heads");
  INFER_ASSIGN(const DType t, KnownType(call, 0));
  INFER_ASSIGN(const int64_t packed_keys, KnownExtent(call, 1, 2));
  const int64_t key_size = packed_keys / groups;
  const bool gated = call.has_input(4), delta = call.has_input(5);
  constexpr DType kWide = DType::kF32;
  BodyText body(call);
  DType state_type = t;
  std::string state;
  if (call.has_input(3)) {
    INFER_ASSIGN(state_type, KnownType(call, 3));
    state = body.CastTo("past", "x3", state_type, kWide);
  } else {
    INFER_ASSIGN(const int64_t packed_values, KnownExtent(call, 2, 2));
    body.Ints("begin", {0});
    body.Ints("end", {1});
    body.Ints("extents", {groups, key_size, packed_values / groups});
    body.Line("shape = Shape(x0)");
    body.Line("batch = Slice(shape, begin, end, begin)");
    body.Line("state_shape = Concat(batch, extents) {axis=0}");
    body.Line("zeros = ConstantOfShape(state_shape)");
    state = "zeros";
  }
  std::vector<std::string> operands = {state}, ones;
  for (const size_t i : {0, 1, 2, 4, 5}) {
    if (!call.has_input(i)) continue;
    operands.push_back(body.CastTo(Cat("wide", i), Cat("x", i), t, kWide));
    ones.emplace_back("1");
  }
  body.Line(Cat("last, read = Scan(", Join(operands, ", "), ") {num_scan_inputs=", ones.size(),
                ", scan_input_axes=[", Join(ones, ", "),
                "], scan_output_axes=[1], body=", TokenText(gated, delta, heads, groups), "}"));
  const auto asked = static_cast<double>(call.Float("scale"));
  body.Scalar("scale", kWide, asked == 0 ? 1 / std::sqrt(static_cast<double>(key_size)) : asked);
  body.Line("scaled = Mul(read, scale)");
  const std::string y = body.CastTo("y", "scaled", kWide, t);
  return body.Graph(Cat(y, ", ", body.CastTo("present", "last", kWide, state_type)));
}

/// Conv over what came before and the input. bf16 is computed in f32: Conv takes it since opset 22.
Result<std::string> DecomposeCausalConv(const OpCall& call) {
  INFER_ASSIGN(const DType t, KnownType(call, 0));
  INFER_ASSIGN(const int64_t channels, KnownExtent(call, 1, 0));
  INFER_ASSIGN(const int64_t kernel, KnownExtent(call, 1, 2));
  const DType wide = t == DType::kBF16 ? DType::kF32 : t;
  const std::string& activation = call.Str("activation");
  BodyText body(call);
  std::string line = "x0";
  if (kernel > 1 && call.has_input(3)) {
    body.Line("line = Concat(x3, x0) {axis=2}");
    line = "line";
  } else if (kernel > 1) {
    body.Ints("pads", {0, 0, kernel - 1, 0, 0, 0});
    body.Line("line = Pad(x0, pads)");
    line = "line";
  }
  std::string operands = body.CastTo("wide_line", line, t, wide);
  operands += ", " + body.CastTo("wide_weight", "x1", t, wide);
  if (call.has_input(2)) operands += ", " + body.CastTo("wide_bias", "x2", t, wide);
  body.Line(Cat("sums = Conv(", operands, ") {group=", channels, "}"));
  std::string y = "sums";
  if (activation != "none") {
    body.Line("gate = Sigmoid(sums)");
    body.Line("open = Mul(sums, gate)");
    y = "open";
  }
  y = body.CastTo("y", y, wide, t);
  if (call.num_outputs() < 2) return body.Graph(y);
  body.Ints("begin", {kernel > 1 ? 1 - kernel : INT64_MAX});
  body.Ints("end", {INT64_MAX});
  body.Ints("axis", {2});
  body.Line(Cat("present = Slice(", line, ", begin, end, axis)"));
  return body.Graph(Cat(y, ", present"));
}

}  // namespace infer
