/// What the standard defines as a function: the reference kernel gives what the decomposition
/// gives, and inference says the same of both.
#include "lib/ops/decompositions.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "lib/ir/body.h"
#include "tests/lib/ops/expect_decomposition.h"

namespace infer {
namespace {

TEST(Decompositions, GiveWhatTheReferenceGives) {
  for (std::string_view body : {
           "Gelu(x)",
           R"(Gelu(x) {approximate="tanh"})",
           "Mish(x)",
           "HardSwish(x)",
           "Swish(x)",
           "Swish(x) {alpha=0.5}",
           "LayerNormalization(x, s, b)",
           "LayerNormalization(x, s) {axis=2, epsilon=0.01}",
           "RMSNormalization(x, s)",
           "RMSNormalization(x, s) {axis=2, epsilon=0.5}",
       })
    for (std::string_view t : {"f32", "f16", "f64"})
      ExpectSame(Cat("graph g(x: ", t, "[2,3,4], s: ", t, "[4], b: ", t, "[4]) -> (y) { y = ", body,
                     " }"));
  ExpectSame("graph g(x: f32[2,3]) -> (y) { y = Celu(x) {alpha=2.0} }");
  for (std::string_view op : {"GreaterOrEqual", "LessOrEqual"})
    for (std::string_view t : {"f32", "i64", "u8"})
      ExpectSame(Cat("graph g(x: ", t, "[2,3], z: ", t, "[3]) -> (y) { y = ", op, "(x, z) }"));
  ExpectSame("graph g(x: f32[2,3], t: i32[]) -> (y) { y = CastLike(x, t) }");
  ExpectSame("graph g(x: f32[2,3], t: f16[]) -> (y) { y = CastLike(x, t) }");
}

TEST(Decompositions, OfNormalizations) {
  ExpectSame(R"(graph g(x: f32[2,3,4], s: f32[3,4], b: f32[3,4]) -> (y, m, d) {
    y, m, d = LayerNormalization(x, s, b) {axis=1} })");
  ExpectSame(R"(graph g(x: f32[2,3,4], s: f32[4]) -> (y, d) {
    y, _, d = LayerNormalization(x, s) })");
  for (std::string_view t : {"f32", "f16"}) {
    ExpectSame(Cat("graph g(x: ", t, "[2,4,3,2], s: ", t, "[4], b: ", t,
                   "[4]) -> (y) { y = GroupNormalization(x, s, b) {num_groups=2} }"));
    ExpectSame(Cat("graph g(x: ", t, "[2,4], s: ", t, "[4], b: ", t,
                   "[4]) -> (y) { y = GroupNormalization(x, s, b) {num_groups=1, epsilon=0.1} }"));
  }
}

TEST(GroupNorm, Groups) {
  CheckTypes({
      {"graph g(x: f32[N,C,3], s: f32[C]) -> (y) { y = GroupNormalization(x, s, s) "
       "{num_groups=3} }",
       "f32[N,C,3]"},
      {"graph g(x: f32[N,4,3], s: f32[4]) -> (y) { y = GroupNormalization(x, s, s) "
       "{num_groups=3} }",
       "3 groups"},
      {"graph g(x: f32[N,C,3], s: f32[C]) -> (y) { y = GroupNormalization(x, s, s) "
       "{num_groups=0} }",
       "0 groups"},
  });
}

TEST(Decompositions, OfRotaryEmbedding) {
  for (std::string_view attrs : {"", "{interleaved=1}", "{rotary_embedding_dim=4}",
                                 "{interleaved=1, rotary_embedding_dim=4}"}) {
    const std::string_view half = attrs.find("dim") == attrs.npos ? "4" : "2";
    ExpectSame(Cat("graph g(x: f32[2,3,5,8], c: f32[2,5,", half, "], s: f32[2,5,", half,
                   "]) -> (y) { y = RotaryEmbedding(x, c, s) ", attrs, " }"));
    ExpectSame(Cat("graph g(x: f32[1,3,3,8], c: f32[6,", half, "], s: f32[6,", half,
                   R"(]) -> (y) { p = const i64[1,3] {0, 5, 2}
                   y = RotaryEmbedding(x, c, s, p) )",
                   attrs, " }"));
  }
  ExpectSame(R"(graph g(x: f32[2,5,24], c: f32[2,5,4], s: f32[2,5,4]) -> (y) {
    y = RotaryEmbedding(x, c, s) {num_heads=3} })");
  for (std::string_view attrs : {"", ", interleaved=1"}) {
    ExpectSame(Cat(R"(graph g(x: f32[2,5,24], c: f32[2,5,2], s: f32[2,5,2]) -> (y) {
      y = RotaryEmbedding(x, c, s) {num_heads=3, rotary_embedding_dim=4)",
                   attrs, "} }"));
    ExpectSame(Cat(R"(graph g(x: f32[2,3,5,D8], c: f32[2,5,2], s: f32[2,5,2]) -> (y) {
      y = RotaryEmbedding(x, c, s) {rotary_embedding_dim=4)",
                   attrs, "} }"));
    ExpectSame(Cat(R"(graph g(x: f32[2,3,5,8], c: f32[2,5,4], s: f32[2,5,4]) -> (y) {
      y = RotaryEmbedding(x, c, s) {rotary_embedding_dim=8)",
                   attrs, "} }"));
  }
}

/// A graph of one Attention; `operands` after q, k and v.
std::string AttentionGraph(std::string_view inputs, std::string_view operands,
                           std::string_view attrs, std::string_view outputs = "y") {
  return Cat("graph g(", inputs, ") -> (", outputs, ") { ", outputs, " = Attention(", operands,
             ") {", attrs, "} }");
}

TEST(Decompositions, OfAttention) {
  for (std::string_view t : {"f32", "f16", "bf16", "f64"}) {
    const std::string four = Cat("q: ", t, "[2,4,3,8], k: ", t, "[2,4,5,8], v: ", t, "[2,4,5,6]");
    const std::string groups = Cat("q: ", t, "[2,6,3,8], k: ", t, "[2,2,5,8], v: ", t, "[2,2,5,6]");
    const std::string three = Cat("q: ", t, "[2,3,24], k: ", t, "[2,5,8], v: ", t, "[2,5,4]");
    for (std::string_view attrs :
         {"", "is_causal=1", "scale=0.25", "scale=-0.5", "softcap=2.0", "softcap=1.5, is_causal=1",
          "softmax_precision=1", "left_window_size=1", "right_window_size=1",
          "left_window_size=0, right_window_size=0",
          "left_window_size=1, right_window_size=2, is_causal=1"}) {
      ExpectSame(AttentionGraph(four, "q, k, v", attrs));
      ExpectSame(AttentionGraph(groups, "q, k, v", attrs));
      ExpectSame(
          AttentionGraph(three, "q, k, v",
                         Cat("q_num_heads=6, kv_num_heads=2", attrs.empty() ? "" : ", ", attrs)));
    }
  }
}

TEST(Decompositions, OfAttentionWithOpenExtents) {
  for (std::string_view attrs : {"", ", is_causal=1", ", left_window_size=1"}) {
    for (std::string_view mask : {"m: bool[S3,T5]", "m: f32[B2,1,S3,T5]", "m: f32[1,T4]",
                                  "m: bool[6,1,T2]", "m: i32[S3,T5]"}) {
      ExpectSame(AttentionGraph(Cat("q: f32[B2,S3,24], k: f32[B2,T5,8], v: f32[B2,T5,4], ", mask),
                                "q, k, v, m", Cat("q_num_heads=6, kv_num_heads=2", attrs)));
      ExpectSame(AttentionGraph(
          Cat("q: f32[B2,6,S3,4], k: f32[B2,2,T3,4], v: f32[B2,2,T3,2], pk: f32[B2,2,P2,4], "
              "pv: f32[B2,2,P2,2], ",
              mask),
          "q, k, v, m, pk, pv", Cat("scale=0.5", attrs), "y, key, value"));
    }
  }
}

TEST(Decompositions, OfAttentionWithMasks) {
  const std::string_view x = "q: f32[2,4,3,8], k: f32[2,2,5,8], v: f32[2,2,5,6], ";
  for (std::string_view attrs : {"", "is_causal=1", "softcap=2.0, right_window_size=1"}) {
    for (std::string_view mask :
         {"m: f32[3,5]", "m: f32[2,4,3,5]", "m: f32[1,3,5]", "m: f32[1,5]", "m: f32[3,4]",
          "m: f32[2]", "m: bool[3,5]", "m: bool[2,1,3,5]", "m: bool[5]", "m: bool[3,4]",
          "m: bool[2,4,1,2]", "m: i64[3,5]", "m: f16[3,5]"})
      ExpectSame(AttentionGraph(Cat(x, mask), "q, k, v, m", attrs));
  }
  // A query that sees no key, scores that are no numbers, and a value under a closed key.
  ExpectSame(R"(graph g(q: f32[1,2,3,4], k: f32[1,2,2,4], v: f32[1,2,2,4]) -> (y, s) {
    m = const f32[3,2] {-inf, -inf, 0.5, -inf, -1, 2}
    y, _, _, s = Attention(q, k, v, m) {qk_matmul_output_mode=3} })");
  ExpectSame(R"(graph g(q: f32[1,1,2,2], v: f32[1,1,2,2]) -> (y, s) {
    m = const bool[2,2] {1, 0, 0, 0}  k = const f32[1,1,2,2] {1, 2, nan, 1}
    y, _, _, s = Attention(q, k, v, m) {qk_matmul_output_mode=2} })");
}

TEST(Decompositions, OfAttentionWithACache) {
  for (std::string_view mode : {"0", "1", "2", "3"})
    for (std::string_view attrs : {"", ", is_causal=1", ", softcap=3.0"}) {
      const std::string all = Cat("qk_matmul_output_mode=", mode, attrs);
      ExpectSame(AttentionGraph(
          "q: f32[2,4,3,8], k: f32[2,2,3,8], v: f32[2,2,3,6], m: f32[3,5], pk: f32[2,2,2,8], "
          "pv: f32[2,2,2,6]",
          "q, k, v, m, pk, pv", all, "y, key, value, scores"));
      ExpectSame(AttentionGraph(
          "q: f32[2,3,16], k: f32[2,3,8], v: f32[2,3,4], pk: f32[2,2,2,4], pv: f32[2,2,2,2]",
          "q, k, v, _, pk, pv", Cat("q_num_heads=4, kv_num_heads=2, ", all),
          "y, key, value, scores"));
    }
  ExpectSame(AttentionGraph("q: f32[1,2,3,4], k: f32[1,2,3,4], v: f16[1,2,3,4]", "q, k, v", "",
                            "y, key, value"));
  for (std::string_view attrs :
       {"", "is_causal=1", "is_causal=1, left_window_size=1", "right_window_size=1"})
    for (std::string_view counts : {"3, 5", "1, 4", "0, 2"})
      for (std::string_view mask : {"m: f32[3,5]", "m: bool[3,5]", "m: f32[2,4,3,5]"})
        ExpectSame(Cat("graph g(q: f32[2,4,3,8], k: f32[2,2,5,8], v: f32[2,2,5,6], ", mask,
                       ") -> (y) { n = const i64[2] {", counts, "} y = Attention(q, k, v, ",
                       attrs.empty() ? "m" : "_", ", _, _, n) {", attrs, "} }"));
}

TEST(Decompositions, OfAttentionWithoutKeysThatCount) {
  ExpectSame(R"(graph g(q: f32[2,4,3,8], k: f32[2,2,5,8], v: f32[2,2,5,6]) -> (y) {
    n = const i64[2] {0, 5} y = Attention(q, k, v, _, _, _, n) })");
}

/// Where a Softmax stood before fusion, what it made of queries without keys is free: the nodes are
/// those of the Softmax, not of the guards around it.
TEST(Decompositions, OfAttentionThatASoftmaxWas) {
  const auto nodes = [](const std::string& text, std::string_view op) {
    const Graph g = *ParseGraph(text, TestOps());
    const auto body = DecompositionOf(CallOf(*g.nodes().front()), TestOps());
    EXPECT_TRUE(body.ok()) << body.status().message();
    return std::count_if(body->nodes().begin(), body->nodes().end(),
                         [&](const auto& n) { return op.empty() || n->Is(op); });
  };
  for (std::string_view mask : {"m: f32[3,5]", "m: f32[2,1,3,5]", "m: f32[5]"})
    for (std::string_view note :
         {"without_keys=1", "without_keys=1, is_causal=1", "without_keys=1, softcap=2.0"})
      for (std::string_view outputs : {"y", "y, k2, v2", "y, k2, v2, s"}) {
        ExpectSame(AttentionGraph(Cat("q: f32[2,4,3,8], k: f32[2,2,5,8], v: f32[2,2,5,6], ", mask),
                                  "q, k, v, m", note, outputs));
        ExpectSame(AttentionGraph(Cat("q: f32[2,3,16], k: f32[2,5,8], v: f32[2,5,6], ", mask),
                                  "q, k, v, m", Cat("q_num_heads=4, kv_num_heads=2, ", note),
                                  outputs));
      }
  for (std::string_view note : {"", ", is_causal=1"})
    ExpectSame(Cat("graph g(q: f32[2,4,3,8], k: f32[2,2,5,8], v: f32[2,2,5,6]) -> (y) {",
                   " m = const bool[3,5] {1,0,1,1,0,1,1,0,0,0,1,0,0,0,0}",
                   " y = Attention(q, k, v, m) {without_keys=1", note, "} }"));
  const std::string heads = AttentionGraph(
      "q: f32[2,4,3,8], k: f32[2,4,5,8], v: f32[2,4,5,8], m: f32[3,5]", "q, k, v, m", "");
  const std::string noted =
      AttentionGraph("q: f32[2,4,3,8], k: f32[2,4,5,8], v: f32[2,4,5,8], m: f32[3,5]", "q, k, v, m",
                     "without_keys=1");
  EXPECT_GT(nodes(heads, "Where"), 0) << "the standard's own makes 0 of such queries";
  EXPECT_EQ(nodes(noted, ""), 6) << "Mul, Transpose, MatMul, Add, Softmax, MatMul";
  EXPECT_EQ(nodes(AttentionGraph("q: f32[2,3,16], k: f32[2,5,16], v: f32[2,5,16], m: f32[3,5]",
                                 "q, k, v, m", "q_num_heads=2, kv_num_heads=2, without_keys=1"),
                  "Transpose"),
            4)
      << "of queries, keys, values and the result, once each";
}

/// Where the NaN of such queries became 0, a Softmax and one Where are enough.
TEST(Decompositions, OfAttentionWhoseNanBecameZero) {
  for (std::string_view mask : {"const bool[3,5] {1,0,1,1,0,0,0,0,0,0,1,1,1,1,1}",
                                "const f32[3,5] {0,1,0,-inf,0,-inf,-inf,-inf,-inf,-inf,0,0,2,0,0}"})
    for (std::string_view outputs : {"y", "y, k2, v2, s"}) {
      const std::string text =
          Cat("graph g(q: f32[2,4,3,8], k: f32[2,2,5,8], v: f32[2,2,5,6]) -> (", outputs,
              ") { m = ", mask, " ", outputs, " = Attention(q, k, v, m) {without_keys=2} }");
      ExpectSame(text);
      const Graph g = *ParseGraph(text, TestOps());
      const auto body = DecompositionOf(CallOf(*g.nodes().back()), TestOps());
      ASSERT_TRUE(body.ok()) << body.status().message();
      const auto count = [&](std::string_view op) {
        return std::count_if(body->nodes().begin(), body->nodes().end(),
                             [&](const auto& n) { return n->Is(op); });
      };
      EXPECT_EQ(count("IsNaN"), 1);
      EXPECT_EQ(count("ReduceMax"), 0);
    }
}

TEST(Decompositions, OfMultiHeadAttention) {
  const auto check = [](std::string_view inputs, std::string_view operands, std::string_view attrs,
                        std::string_view outputs = "y") {
    ExpectSame(Cat("graph g(", inputs, ") -> (", outputs, ") { b = const f32[22] ~4 ", outputs,
                   " = com.microsoft::MultiHeadAttention(", operands, ") {num_heads=2", attrs,
                   "} }"));
  };
  for (std::string_view attrs : {"", ", scale=0.2", ", unidirectional=1"}) {
    const int keys = attrs == ", unidirectional=1" ? 4 : 5;  // of more the last query sees all
    const std::string x = Cat("q: f32[3,4,8], k: f32[3,", keys, ",8], v: f32[3,", keys, ",6]");
    check(x, "q, k, v", attrs);
    check(x, "q, k, v, b", attrs);
    for (const std::string& mask :
         {std::string("m: i32[3]"), Cat("m: i32[3,", keys, "]"), Cat("m: i32[3,4,", keys, "]")}) {
      check(Cat(x, ", ", mask), "q, k, v, b, m", attrs);
      check(Cat(x, ", ", mask, ", s: f32[1,2,4,", keys, "]"), "q, k, v, _, m, s",
            Cat(attrs, ", mask_filter_value=-2.5"));
    }
    check(Cat(x, ", s: f32[3,1,4,", keys, "]"), "q, k, v, _, _, s", attrs);
    for (std::string_view outputs : {"y", "y, pk2", "y, pk2, pv2"})
      check(Cat(x, ", pk: f32[3,2,2,4], pv: f32[3,2,2,3], m: i32[3]"), "q, k, v, b, m, _, pk, pv",
            attrs, outputs);
    check("q: f32[3,1,8], k: f32[3,5,8], v: f32[3,5,6]", "q, k, v", attrs);
    check(Cat("q: f32[3,4,8], k: f32[3,2,", keys, ",4], v: f32[3,2,", keys, ",3]"), "q, k, v, b",
          attrs);
  }
  for (std::string_view t : {"f32", "f16"}) {
    ExpectSame(Cat("graph g(q: ", t, "[2,3,2,3,4], b: ", t,
                   "[24]) -> (y) { y = com.microsoft::MultiHeadAttention(q, _, _, b) "
                   "{num_heads=2, unidirectional=1} }"));
    ExpectSame(Cat("graph g(q: ", t, "[2,3,8], k: ", t, "[2,5,2,2,4], b: ", t,
                   "[24]) -> (y, k2, v2) { y, k2, v2 = com.microsoft::MultiHeadAttention(q, k, _, "
                   "b) {num_heads=2} }"));
  }
  check("q: f32[B3,S4,8], k: f32[B3,S4,8], v: f32[B3,S4,6], m: i32[B3]", "q, k, v, b, m",
        ", unidirectional=1");
}

TEST(Decompositions, OfContribAttention) {
  const auto check = [](std::string_view inputs, std::string_view operands,
                        std::string_view attrs = "", std::string_view outputs = "y") {
    ExpectSame(Cat("graph g(x: f32[3,4,5], w: f32[5,24], b: f32[24]", inputs, ") -> (", outputs,
                   ") { ", outputs, " = com.microsoft::Attention(x, w", operands, ") {num_heads=2",
                   attrs, "} }"));
  };
  check("", "");
  check("", ", b", ", scale=0.3");
  check("", ", b", ", unidirectional=1", "y, present");
  for (std::string_view mask : {"[3]", "[6]", "[3,4]", "[3,4,4]", "[3,1]", "[1,1]"}) {
    check(Cat(", m: i32", mask), ", b, m", ", mask_filter_value=-3.0");
    check(Cat(", m: i32", mask, ", s: f32[1,2,4,4]"), ", b, m, _, s", ", mask_filter_value=-3.0");
  }
  // Where a query sees no key, f32 rounds its scores beside the default filter of -10000.
  for (std::string_view mask : {"[3]", "[6]", "[3,6]", "[3,4,6]", "[3,1]"})
    check(Cat(", m: i32", mask, ", p: f32[2,3,2,2,4]"), ", b, m, p",
          ", unidirectional=1, mask_filter_value=-3.0", "y, present");
  ExpectSame(R"(graph g(x: f32[3,4,5], w: f32[5,22], b: f32[22]) -> (y) {
    y = com.microsoft::Attention(x, w, b) {num_heads=2, qkv_hidden_sizes=[8, 8, 6]} })");
}

TEST(Decompositions, OfLosses) {
  for (std::string_view op : {"NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"})
    for (std::string_view t : {"f32", "f16", "f64"})
      for (std::string_view label : {"i64", "i32"})
        for (std::string_view extents : {"", ",2", ",2,5", ",N2"})
          for (std::string_view weights : {"", ", w"})
            for (std::string_view attrs :
                 {"", R"(reduction="none")", R"(reduction="sum")", "ignore_index=1",
                  R"(ignore_index=1, reduction="none")", R"(ignore_index=-5, reduction="sum")"})
              ExpectSame(Cat("graph g(x: ", t, "[6,3", extents, "], labels: ", label, "[6", extents,
                             "], w: ", t, "[3]) -> (y) { y = ", op, "(x, labels", weights, ") {",
                             attrs, "} }"));
  ExpectSame(R"(graph g(x: f32[2,3,4], labels: i64[2,4]) -> (y, p) {
    y, p = SoftmaxCrossEntropyLoss(x, labels) {reduction="none"} })");
  ExpectSame(R"(graph g() -> (y) { x = const f32[2,2] {-inf, -1, -2, -3}
    t = const i64[2] {0, 1}
    y = NegativeLogLikelihoodLoss(x, t) {reduction="sum", ignore_index=0} })");
}

TEST(Decompositions, OfWindows) {
  for (std::string_view op : {"HannWindow", "HammingWindow", "BlackmanWindow"})
    for (int to : {1, 10, 11, 16, 6})
      for (int periodic : {0, 1}) {
        const std::string attrs = Cat("(n) {output_datatype=", to, ", periodic=", periodic, "} }");
        for (int size : {0, 1, 2, 3, 10, 401})
          ExpectSame(Cat("graph g() -> (y) { n = const i64[] {", size, "} y = ", op, attrs));
        ExpectSame(Cat("graph g() -> (y) { n = const i32[1] {7} y = ", op, attrs));
      }
}

TEST(Decompositions, OfCenterCropPad) {
  for (std::string_view shape : {"{2, 7}", "{5, 4}", "{8, 1}", "{0, 5}", "{6, 6}"}) {
    for (std::string_view x : {"f32[5,4]", "i64[5,4]", "f32[N5,M4]"})
      ExpectSame(Cat("graph g(x: ", x, ") -> (y) { s = const i64[2] ", shape,
                     " y = CenterCropPad(x, s) }"));
    for (std::string_view axes : {"[0, 2]", "[2, 1]", "[-1, -3]"})
      for (std::string_view x : {"f32[5,4,3]", "f32[N5,M4,3]"})
        ExpectSame(Cat("graph g(x: ", x, ") -> (y) { s = const i32[2] ", shape,
                       " y = CenterCropPad(x, s) {axes=", axes, "} }"));
  }
}

TEST(Decompositions, OfAffineGrid) {
  for (std::string_view t : {"f32", "f16", "f64"})
    for (int align : {0, 1}) {
      for (std::string_view size : {"{2, 1, 3, 4}", "{2, 5, 1, 6}", "{2, 1, 7, 1}"})
        for (std::string_view batch : {"2", "N2"})
          ExpectSame(Cat("graph g(t: ", t, "[", batch, ",2,3]) -> (y) { s = const i64[4] ", size,
                         " y = AffineGrid(t, s) {align_corners=", align, "} }"));
      for (std::string_view size : {"{2, 1, 3, 4, 5}", "{2, 5, 1, 6, 1}"})
        ExpectSame(Cat("graph g(t: ", t, "[2,3,4]) -> (y) { s = const i64[5] ", size,
                       " y = AffineGrid(t, s) {align_corners=", align, "} }"));
    }
}

TEST(Decompositions, OfLinearAttention) {
  for (std::string_view t : {"f32", "f16", "bf16"})
    for (std::string_view batch : {"2", "B2"}) {
      const std::string x =
          Cat("q: ", t, "[", batch, ",3,8], k: ", t, "[", batch, ",3,4], v: ", t, "[", batch,
              ",3,6], s: f32[", batch, ",2,2,3], d: ", t, "[", batch, ",3,2], dk: ", t, "[", batch,
              ",3,4], b: ", t, "[", batch, ",3,2], b1: ", t, "[", batch, ",3,1]");
      for (std::string_view call : {
               R"((q, k, v, s, d, b) {)",
               R"((q, k, v, s, dk, b1) {update_rule="gated_delta", scale=0.3, )",
               R"((q, k, v, _, d) {update_rule="gated", )",
               R"((q, k, v, s, dk) {update_rule="gated", )",
               R"((q, k, v, _, _, b) {update_rule="delta", )",
               R"((q, k, v) {update_rule="linear", )",
               R"((q, k, v, s) {update_rule="linear", )",
           })
        ExpectSame(Cat("graph g(", x, ") -> (y, present) { y, present = LinearAttention", call,
                       "q_num_heads=4, kv_num_heads=2} }"));
    }
}

TEST(Decompositions, OfCausalConv) {
  for (std::string_view t : {"f32", "f16", "bf16"})
    for (std::string_view length : {"5", "1", "N5"})
      for (int kernel : {1, 3, 4})
        for (std::string_view operands : {"x, w", "x, w, b", "x, w, _, past", "x, w, b, past"})
          for (std::string_view activation : {"none", "silu", "swish"})
            ExpectSame(Cat("graph g(x: ", t, "[2,3,", length, "], w: ", t, "[3,1,", kernel,
                           "], b: ", t, "[3], past: ", t, "[2,3,", kernel - 1,
                           "]) -> (y, present) { y, present = CausalConvWithState(", operands,
                           R"() {activation=")", activation, R"("} })"));
}

TEST(Decompositions, AreOfTheSameOperatorsAsTheirExamples) {
  std::set<std::string_view> names;
  for (const OpDef* def : TestOps().all()) {
    if (!def->decompose) continue;
    names.insert(def->name);
    ExpectSame(def->example);
  }
  EXPECT_TRUE(names.contains("LayerNormalization") && names.contains("CastLike"));
  EXPECT_GE(names.size(), 22u);
}

TEST(Decompositions, SayWhatTheyDoNotKnow) {
  auto g = ParseGraph(
      "graph g(x: f32[*], s: f32[4]) -> (y) { y = LayerNormalization(x, s) {axis=1} }", TestOps());
  ASSERT_TRUE(g.ok()) << g.status().message();
  const auto body = DecompositionOf(CallOf(*g->nodes().front()), TestOps());
  EXPECT_EQ(body.status().code(), Code::kUnsupported);
  EXPECT_THAT(body.status().message(), ::testing::HasSubstr("rank of 'X'"));

  for (const auto& [text, why] :
       {std::pair("q: f32[2,?,3,8], k: f32[2,2,5,8]) -> (y) { y = Attention(q, k, k)",
                  "extent 1 of 'Q'"),
        std::pair("q: f32[2,2,3,?], k: f32[2,2,5,?]) -> (y) { y = Attention(q, k, k)",
                  "the size of a head"),
        std::pair("q: f32[*], k: f32[2,2,5,8]) -> (y) { y = Attention(q, k, k)", "rank of 'Q'"),
        std::pair("q: f32[1,2,4], k: f32[1,N,4]) -> (y) { y = com.microsoft::MultiHeadAttention("
                  "q, k, k) {num_heads=2, unidirectional=1}",
                  "no more than queries"),
        std::pair("t: f32[2,?,3], s: i64[4]) -> (y) { y = AffineGrid(t, s)",
                  "extent 1 of 'theta'")}) {
    g = ParseGraph(Cat("graph g(", text, " }"), TestOps());
    ASSERT_TRUE(g.ok()) << g.status().message();
    const auto other = DecompositionOf(CallOf(*g->nodes().front()), TestOps());
    EXPECT_EQ(other.status().code(), Code::kUnsupported);
    EXPECT_THAT(other.status().message(), ::testing::HasSubstr(why));
  }
  // No attention at all, as for the reference kernel.
  g = ParseGraph("graph g(q: f32[2,2,3,8], m: f32[]) -> (y) { y = Attention(q, q, q, m) }",
                 TestOps());
  EXPECT_THAT(g.status().message(), ::testing::HasSubstr("attn_mask [] does not broadcast"));
}

}  // namespace
}  // namespace infer
