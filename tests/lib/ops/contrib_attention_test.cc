/// Laws that tie the attention operators of com.microsoft to each other, and what they refuse.
#include <gmock/gmock.h>

#include "tests/lib/ops/run_op.h"

namespace infer {
namespace {

using ::testing::HasSubstr;

/// The inputs of an operator by their names; `attrs` as RunOp takes them.
OpResult RunNamed(std::string_view op, const AttrMap& attrs,
                  const std::map<std::string_view, Tensor>& inputs, size_t outputs = 1) {
  const OpDef* def = TestOps().Find(kMicrosoft, op);
  if (!def) return {Internal("no such operator"), {}, {}};
  std::vector<Tensor> operands;
  size_t last = 0;
  for (size_t i = 0; i < def->inputs.size(); ++i) {
    const auto it = inputs.find(def->inputs[i].name);
    operands.push_back(it == inputs.end() ? Tensor() : it->second);
    if (it != inputs.end()) last = i + 1;
  }
  operands.resize(last);
  return RunOp(*def, attrs, operands, outputs);
}

Tensor Normal(Random& r, Dims dims) { return RandomTensor(r, DType::kF32, std::move(dims)); }

/// Elements [begin, end) of axis 1 of a tensor of rank 3.
Tensor Tokens(const Tensor& t, int64_t begin, int64_t end) {
  Tensor out(t.dtype(), {t.dim(0), end - begin, t.dim(2)});
  for (int64_t b = 0, at = 0; b < t.dim(0); ++b)
    for (int64_t i = begin * t.dim(2); i < end * t.dim(2); ++i)
      out.Set(at++, t.At(b * t.dim(1) * t.dim(2) + i));
  return out;
}

/// [B, L, N, parts, H] from as many [B, L, N H].
Tensor Packed(const std::vector<Tensor>& parts, int64_t heads) {
  const int64_t b = parts[0].dim(0), l = parts[0].dim(1), h = parts[0].dim(2) / heads;
  const auto n = static_cast<int64_t>(parts.size());
  Tensor out(parts[0].dtype(), {b, l, heads, n, h});
  for (int64_t i = 0; i < out.num_elements(); ++i) {
    const int64_t e = i % h, part = i / h % n, row = i / h / n;  // row: token and head
    out.Set(i, parts[static_cast<size_t>(part)].At(row * h + e));
  }
  return out;
}

TEST(MultiHeadAttention, PackedOperandsMeanTheSame) {
  Random r(1);
  const Tensor q = Normal(r, {2, 3, 8}), k = Normal(r, {2, 3, 8}), v = Normal(r, {2, 3, 8});
  const Tensor bias = Normal(r, {24});
  const AttrMap attrs = {{"num_heads", int64_t{2}}};
  const OpResult want = RunNamed("MultiHeadAttention", attrs,
                                 {{"query", q}, {"key", k}, {"value", v}, {"bias", bias}}, 3);
  ASSERT_TRUE(want.status.ok()) << want.status.message();
  const OpResult all =
      RunNamed("MultiHeadAttention", attrs, {{"query", Packed({q, k, v}, 2)}, {"bias", bias}}, 3);
  ASSERT_TRUE(all.status.ok()) << all.status.message();
  const OpResult keys = RunNamed("MultiHeadAttention", attrs,
                                 {{"query", q}, {"key", Packed({k, v}, 2)}, {"bias", bias}}, 3);
  ASSERT_TRUE(keys.status.ok()) << keys.status.message();
  for (size_t i = 0; i < 3; ++i) {
    ExpectClose(all.outputs[i], want.outputs[i], 0, 0);
    ExpectClose(keys.outputs[i], want.outputs[i], 0, 0);
  }
  // 2 batches, 2 heads, 3 x 3 scores: two products of 4 elements, and five more.
  EXPECT_EQ(want.cost.flops, 2 * 2 * 9 * (2 * 8 + 5));
}

TEST(MultiHeadAttention, APastIsWhatCameBefore) {
  Random r(2);
  const Tensor q = Normal(r, {2, 5, 8}), k = Normal(r, {2, 5, 8}), v = Normal(r, {2, 5, 8});
  const AttrMap attrs = {{"num_heads", int64_t{2}}, {"unidirectional", int64_t{1}}};
  const auto run = [&](int64_t begin, int64_t end, std::map<std::string_view, Tensor> more) {
    more["query"] = Tokens(q, begin, end);
    more["key"] = Tokens(k, begin, end);
    more["value"] = Tokens(v, begin, end);
    OpResult got = RunNamed("MultiHeadAttention", attrs, more, 3);
    EXPECT_TRUE(got.status.ok()) << got.status.message();
    return got.outputs;
  };
  const auto whole = run(0, 5, {}), first = run(0, 3, {});
  const auto second = run(3, 5, {{"past_key", first[1]}, {"past_value", first[2]}});
  ExpectClose(second[0], Tokens(whole[0], 3, 5));
  ExpectClose(second[1], whole[1], 0, 0);
  ExpectClose(second[2], whole[2], 0, 0);
}

TEST(MultiHeadAttention, RefusesByName) {
  Random r(3);
  const Tensor q = Normal(r, {2, 3, 4});
  const auto status = [&](std::string_view name, Tensor t) {
    return RunNamed("MultiHeadAttention", {{"num_heads", int64_t{2}}},
                    {{"query", q}, {"key", q}, {"value", q}, {name, std::move(t)}})
        .status;
  };
  const Status shared = status("past_sequence_length", Tensor::Of<int32_t>({1}, {1}));
  EXPECT_EQ(shared.code(), Code::kUnsupported);
  EXPECT_THAT(shared.message(), HasSubstr("'past_sequence_length'"));
  const Status mask = status("key_padding_mask", Tensor(DType::kI32, {8}));
  EXPECT_EQ(mask.code(), Code::kUnsupported);
  EXPECT_THAT(mask.message(), HasSubstr("cumulative"));
  EXPECT_THAT(status("attention_bias", Normal(r, {2, 3, 3, 3})).message(),
              HasSubstr("attention_bias"));
  EXPECT_THAT(status("past_key", Normal(r, {2, 2, 1, 2})).message(), HasSubstr("together"));
}

TEST(ContribAttention, IsAProjectionAndMultiHeadAttention) {
  Random r(4);
  const Tensor x = Normal(r, {2, 3, 5}), w = Normal(r, {5, 24}),
               zero = Tensor::Zeros(DType::kF32, {24});
  const Tensor rows = Call("MatMul", {x, w});
  Tensor parts[3];
  for (int64_t k = 0; k < 3; ++k) {
    Tensor& t = parts[k] = Tensor(DType::kF32, {2, 3, 8});
    for (int64_t i = 0; i < 48; ++i) t.Set(i, rows.At(i / 8 * 24 + k * 8 + i % 8));
  }
  const AttrMap attrs = {{"num_heads", int64_t{2}}};
  const OpResult want = RunNamed("MultiHeadAttention", attrs,
                                 {{"query", parts[0]}, {"key", parts[1]}, {"value", parts[2]}});
  const OpResult got = RunNamed("Attention", attrs, {{"input", x}, {"weights", w}}, 2);
  ASSERT_TRUE(got.status.ok()) << got.status.message();
  ExpectClose(got.y(), want.y());
  const OpResult biased =
      RunNamed("Attention", attrs, {{"input", x}, {"weights", w}, {"bias", zero}}, 2);
  ExpectClose(got.y(), biased.y(), 0, 0);
  ExpectClose(got.outputs[1], biased.outputs[1], 0, 0);
  const Status rotary =
      RunNamed("Attention", {{"num_heads", int64_t{2}}, {"do_rotary", int64_t{1}}},
               {{"input", x}, {"weights", w}})
          .status;
  EXPECT_EQ(rotary.code(), Code::kUnsupported);
  EXPECT_THAT(rotary.message(), HasSubstr("do_rotary"));
}

std::map<std::string_view, Tensor> GroupInputs(Random& r, int64_t tokens) {
  return {{"query", Normal(r, {1, tokens, 32})},
          {"key", Normal(r, {1, tokens, 16})},
          {"value", Normal(r, {1, tokens, 16})},
          {"cos_cache", Normal(r, {9, 4})},
          {"sin_cache", Normal(r, {9, 4})}};
}

const AttrMap& GroupAttrs() {
  static const AttrMap attrs = {{"num_heads", int64_t{4}},
                                {"kv_num_heads", int64_t{2}},
                                {"do_rotary", int64_t{1}},
                                {"local_window_size", int64_t{3}}};
  return attrs;
}

TEST(GroupQueryAttention, StepsGiveWhatThePromptGives) {
  Random r(5);
  const auto all = GroupInputs(r, 6);
  const auto run = [&](int64_t begin, int64_t end, const std::vector<Tensor>& past) {
    auto in = all;
    for (const char* name : {"query", "key", "value"}) in[name] = Tokens(all.at(name), begin, end);
    in["seqlens_k"] = Tensor::Of<int32_t>({1}, {static_cast<int32_t>(end - 1)});
    in["total_sequence_length"] = Tensor::Scalar(static_cast<int32_t>(end));
    if (!past.empty()) {
      in["past_key"] = past[1];
      in["past_value"] = past[2];
    }
    OpResult got = RunNamed("GroupQueryAttention", GroupAttrs(), in, 3);
    EXPECT_TRUE(got.status.ok()) << got.status.message();
    return got.outputs;
  };
  const auto whole = run(0, 6, {});
  auto part = run(0, 3, {});
  for (int64_t i = 3; i < 6; ++i) {
    part = run(i, i + 1, part);
    ExpectClose(part[0], Tokens(whole[0], i, i + 1));
  }
  ExpectClose(part[1], whole[1]);
  ExpectClose(part[2], whole[2]);
}

TEST(GroupQueryAttention, RefusesByName) {
  Random r(6);
  auto in = GroupInputs(r, 2);
  in["seqlens_k"] = Tensor::Of<int32_t>({1}, {1});
  in["total_sequence_length"] = Tensor::Scalar<int32_t>(2);
  EXPECT_TRUE(RunNamed("GroupQueryAttention", GroupAttrs(), in).status.ok());
  const auto with_attr = [&](const char* name, AttrValue value) {
    AttrMap attrs = GroupAttrs();
    attrs[name] = std::move(value);
    return RunNamed("GroupQueryAttention", attrs, in).status;
  };
  for (const Status& s : {with_attr("k_quant_type", std::string("PER_TENSOR")),
                          with_attr("sliding_window_cache", int64_t{1})}) {
    EXPECT_EQ(s.code(), Code::kUnsupported);
    EXPECT_THAT(s.message(),
                ::testing::AnyOf(HasSubstr("k_quant_type"), HasSubstr("sliding_window_cache")));
  }
  auto normed = in;
  normed["q_norm_weight"] = Normal(r, {8});
  EXPECT_THAT(RunNamed("GroupQueryAttention", GroupAttrs(), normed).status.message(),
              HasSubstr("'q_norm_weight'"));
  in["seqlens_k"] = Tensor::Of<int32_t>({1}, {-7});
  EXPECT_THAT(RunNamed("GroupQueryAttention", GroupAttrs(), in).status.message(),
              HasSubstr("seqlens_k[0] is -7"));
  for (const int32_t total : {1, 3, 1 << 30}) {
    in["total_sequence_length"] = Tensor::Scalar(total);
    EXPECT_THAT(RunNamed("GroupQueryAttention", GroupAttrs(), in).status.message(),
                HasSubstr("total_sequence_length"));
  }
}

TEST(ContribRotaryEmbedding, OnePositionIsThatOfTheFirstToken) {
  Random r(7);
  const Tensor x = Normal(r, {2, 3, 16}), cos = Normal(r, {9, 4}), sin = Normal(r, {9, 4});
  const auto run = [&](Tensor positions) {
    const OpResult got =
        RunOp("RotaryEmbedding", {}, {x, std::move(positions), cos, sin}, 1, kMicrosoft);
    EXPECT_TRUE(got.status.ok()) << got.status.message();
    return got.y();
  };
  const Tensor each = Tensor::Of<int64_t>({2, 3}, {4, 5, 6, 4, 5, 6});
  const Tensor y = run(each);
  ExpectClose(run(Tensor::Of<int64_t>({1}, {4})), y, 0, 0);
  // The standard operator's meaning, with the heads told.
  const OpResult standard =
      RunOp("RotaryEmbedding", {{"num_heads", int64_t{2}}}, {x, cos, sin, each});
  ASSERT_TRUE(standard.status.ok()) << standard.status.message();
  ExpectClose(standard.y(), y, 0, 0);
  const OpResult scaled =
      RunOp("RotaryEmbedding", {{"scale", 2.0f}}, {x, each, cos, sin}, 1, kMicrosoft);
  EXPECT_EQ(scaled.status.code(), Code::kUnsupported);
}

}  // namespace
}  // namespace infer
