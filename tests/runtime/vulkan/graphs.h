#pragma once
/// Graphs that reach every shader, and what runs them against the reference kernels.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "lib/ir/eval.h"
#include "lib/ir/text.h"
#include "lib/ops/registry.h"
#include "lib/support/random.h"
#include "lib/support/strings.h"
#include "runtime/api/program.h"
#include "runtime/cpu/backend.h"
#include "runtime/vulkan/backend.h"
#include "tests/runtime/vulkan/or_exit.h"

namespace infer {

inline constexpr const char* kShaderGraphs[] = {
    R"(graph g(x: f32[3,5]) -> (y) { y = Relu(x) })",
    R"(graph g(x: f32[70000]) -> (y) { y = Tanh(x) })",
    R"(graph g(x: f32[7000]) -> (y) { y = Exp(x) })",
    R"(graph g(x: f32[7000]) -> (y) { y = Erf(x) })",
    R"(graph g(x: f32[7000]) -> (y) { y = Sigmoid(x) })",
    R"(graph g(x: f32[7000]) -> (y) { a = Abs(x) y = Log(a) })",
    R"(graph g(x: f32[7000]) -> (y) { y = Softplus(x) })",
    R"(graph g(x: f32[7000]) -> (y) { k = const f32[] {30} a = Mul(x, k) s = Sin(a) c = Cos(a) y = Sub(s, c) })",
    R"(graph g(x: f32[2,3,6,5], p: f32[2,4,7,2]) -> (y) { y = GridSample(x, p) })",
    R"(graph g(x: f32[2,3,6,5], p: f32[2,4,7,2]) -> (y) { y = GridSample(x, p) {mode="cubic", padding_mode="reflection"} })",
    R"(graph g(x: f32[7000]) -> (y) { y = Gelu(x) })",
    R"(graph g(x: f32[7000]) -> (y) { y = Mish(x) })",
    R"(graph g(x: f32[3,5], z: f32[5]) -> (y) { y = Add(x, z) })",
    R"(graph g(x: f32[3,1,5], z: f32[4,1]) -> (y) { y = Sub(x, z) })",
    R"(graph g(x: f32[3,1,5], z: f32[4,1]) -> (y) { y = Less(x, z) })",
    R"(graph g(x: f32[3,4], z: f32[4]) -> (y) { c = Less(x, z) y = Where(c, x, z) })",
    R"(graph g(x: bool[3,5], z: bool[5]) -> (y) { a = Not(x) b = Xor(a, z) y = Not(b) })",
    R"(graph g(x: f32[3,4]) -> (y) { t = const f32[] {2.5} a = Abs(x) y = Pow(a, t) })",
    R"(graph g(x: f32[30,40], z: f32[40,50]) -> (y) { y = MatMul(x, z) })",
    R"(graph g(x: f32[2,3,130,70], z: f32[2,1,70,90]) -> (y) { y = MatMul(x, z) })",
    R"(graph g(x: f32[1,70], z: f32[70,90], b: f32[90]) -> (y) { y = Gemm(x, z, b) })",
    R"(graph g(x: f32[1,70], z: f32[90,70], b: f32[90]) -> (y) { y = Gemm(x, z, b) {transB=1,
      alpha=0.5, beta=2.0} })",
    R"(graph g(x: f32[50,70], z: f32[90,70], b: f32[90]) -> (y) { y = Gemm(x, z, b) {transB=1,
      alpha=0.5, beta=2.0} })",
    R"(graph g(x: f32[70,50], z: f32[70,90], b: f32[50,1]) -> (y) { y = Gemm(x, z, b)
      {transA=1} })",
    R"(graph g(x: f32[2,3,16,16]) -> (y) { w = const f32[20,3,3,3] ~1 b = const f32[20] ~2 y =
      Conv(x, w, b) {pads=[1,1,1,1]} })",
    R"(graph g(x: f32[1,64,16,17]) -> (y) { w = const f32[70,64,1,1] ~1 y = Conv(x, w) })",
    R"(graph g(x: f32[1,64,16,17]) -> (y) { w = const f32[64,1,3,3] ~1 y = Conv(x, w)
      {group=64, strides=[2,2], pads=[1,1,1,1]} })",
    R"(graph g(x: f32[2,8,9,11]) -> (y) { w = const f32[16,1,5,3] ~1 b = const f32[16] ~2 c =
      Conv(x, w, b) {group=8, pads=[2,1,2,1], strides=[1,2]} y = Relu(c) })",
    R"(graph g(x: f32[1,8,9,11]) -> (y) { w = const f32[8,1,3,3] ~1 y = Conv(x, w) {group=8,
      dilations=[1,2]} })",
    R"(graph g(x: f32[2,300,9,11]) -> (y) { w = const f32[37,300,3,3] ~1 b = const f32[37] ~2 c =
      Conv(x, w, b) {pads=[1,1,1,1], strides=[2,1]} y = Sigmoid(c) })",
    R"(graph g(x: f32[2,64,9,11], r: f32[2,72,9,11]) -> (y) { w = const f32[72,64,3,3] ~1 b = const
      f32[72] ~2 c = Conv(x, w, b) {pads=[1,1,1,1]} s = Add(c, r) y = Relu(s) })",
    R"(graph g(x: f32[1,8,16,17]) -> (y) { w = const f32[32,4,3,3] ~1 y = Conv(x, w) {group=2,
      dilations=[2,2], auto_pad="SAME_UPPER"} })",
    R"(graph g(x: f32[1,8,50]) -> (y) { w = const f32[32,8,5] ~1 y = Conv(x, w) {strides=[2],
      pads=[1,2]} })",
    R"(graph g(x: f32[1,3,6,7,8]) -> (y) { w = const f32[8,3,2,3,3] ~1 y = Conv(x, w) })",
    R"(graph g(x: f32[1,8,7,9]) -> (y) { w = const f32[8,5,3,3] ~1 b = const f32[5] ~2 y =
      ConvTranspose(x, w, b) {strides=[2,2], pads=[1,1,1,1], output_padding=[1,1]} })",
    R"(graph g(x: f32[1,8,7,9]) -> (y) { w = const f32[8,2,3,2] ~1 y = ConvTranspose(x, w)
      {group=2, strides=[2,3], dilations=[2,1]} })",
    R"(graph g(x: f32[2,3,17,18]) -> (y) { y = MaxPool(x) {kernel_shape=[3,3], strides=[2,2],
      pads=[1,1,1,1]} })",
    R"(graph g(x: f32[2,3,17,18]) -> (y) { y = AveragePool(x) {kernel_shape=[3,3],
      strides=[2,2], pads=[1,1,1,1], count_include_pad=1, ceil_mode=1} })",
    R"(graph g(x: f32[2,3,17,18]) -> (y) { y = AveragePool(x) {kernel_shape=[3,2],
      strides=[2,2], pads=[1,1,1,0], ceil_mode=1} })",
    R"(graph g(x: f32[2,3,17,18]) -> (y) { y = GlobalAveragePool(x) })",
    R"(graph g(x: f32[2,3,17,18]) -> (y) { y = Softmax(x) })",
    R"(graph g(x: f32[2,3,17,18]) -> (y) { y = Softmax(x) {axis=1} })",
    R"(graph g(x: f32[2,3,17,18]) -> (y) { y = LogSoftmax(x) {axis=2} })",
    R"(graph g(x: f32[2,3,48]) -> (y) { s = const f32[48] ~1  b = const f32[48] ~2 y =
      LayerNormalization(x, s, b) })",
    R"(graph g(x: f32[2,3,48]) -> (y) { s = const f32[48] ~1 y = RMSNormalization(x, s) })",
    R"(graph g(x: f32[2,6,5,7]) -> (y) { s = const f32[6] ~1  b = const f32[6] ~2 y =
      InstanceNormalization(x, s, b) })",
    R"(graph g(x: f32[2,6,5,7]) -> (y) { s = const f32[6] ~1  b = const f32[6] ~2 y =
      GroupNormalization(x, s, b) {num_groups=3} })",
    R"(graph g(x: f32[2,6,5,7], v0: f32[6]) -> (y) { s = const f32[6] ~1  b = const f32[6] ~2
      m = const f32[6] ~3 v = Abs(v0) y = BatchNormalization(x, s, b, m, v) })",
    R"(graph g(x: f32[2,6,5,7]) -> (y) { a = const i64[2] {1,3} y = ReduceSum(x, a) })",
    R"(graph g(x: f32[2,6,5,7]) -> (y) { a = const i64[1] {2} y = ReduceMean(x, a) {keepdims=0}
      })",
    R"(graph g(x: f32[2,6,5,7]) -> (y) { y = ReduceLogSumExp(x) })",
    R"(graph g(x: f32[2,6,5,7]) -> (y) { y = ReduceL2(x) })",
    R"(graph g(x: f32[2,6,5,7]) -> (y) { y = ReduceMax(x) })",
    R"(graph g(x: f32[2,6,5,7]) -> (y) { y = Transpose(x) {perm=[2,0,3,1]} })",
    R"(graph g(x: i64[2,6,5,7]) -> (y) { y = Transpose(x) {perm=[2,0,3,1]} })",
    R"(graph g(x: bool[2,6,5,7]) -> (y) { y = Transpose(x) {perm=[2,0,3,1]} })",
    R"(graph g(x: f16[2,6,5,7]) -> (y) { y = Transpose(x) {perm=[2,0,3,1]} })",
    R"(graph g(x: i64[2,7]) -> (y, b) { y = Cast(x) {to=1} b = Cast(y) {to=9} })",
    R"(graph g(x: f32[3,67]) -> (h, i, u) { h = Cast(x) {to=10} i = Cast(h) {to=6} u = Cast(x) {to=2} })",
    R"(graph g(x: f32[2,6,5,7], z: f32[2,3,5,7]) -> (y) { y = Concat(x, z) {axis=1} })",
    R"(graph g(x: f32[2,6,5,7]) -> (y) { b = const i64[2] {1,0} e = const i64[2] {5,100} a =
      const i64[2] {1,3} s = const i64[2] {2,3} y = Slice(x, b, e, a, s) })",
    R"(graph g(x: f32[2,6,5,7]) -> (y) { b = const i64[1] {-1} e = const i64[1] {-100} a =
      const i64[1] {3} s = const i64[1] {-2} y = Slice(x, b, e, a, s) })",
    R"(graph g(x: f32[2,6,5]) -> (y, z) { s = const i64[2] {2,4} y, z = Split(x, s) {axis=1} })",
    R"(graph g(x: f32[2,1,5]) -> (y) { s = const i64[4] {3,2,6,5} y = Expand(x, s) })",
    R"(graph g(x: f32[2,6,5]) -> (y) { p = const i64[6] {0,1,2,0,0,1} y = Pad(x, p)
      {mode="reflect"} })",
    R"(graph g(x: f32[2,6,5]) -> (y) { p = const i64[6] {0,1,2,0,0,1} c = const f32[] {7} y =
      Pad(x, p, c) })",
    R"(graph g(x: f32[9,6,5]) -> (y) { i = const i64[2,2] {0,3,8,-1} y = Gather(x, i) })",
    R"(graph g(x: f32[1,3,6,5]) -> (y) { s = const f32[4] {1,1,2,2} y = Resize(x, _, s)
      {mode="linear"} })",
    R"(graph g(x: f32[1,3,6,5]) -> (y) { s = const f32[4] {1,1,2,3} y = Resize(x, _, s)
      {mode="nearest"} })",
    R"(graph g(x: f32[1,3,6,5]) -> (y) { z = const i64[4] {1,3,9,13} y = Resize(x, _, _, z)
      {mode="linear", coordinate_transformation_mode="align_corners"} })",
    R"(graph g(x: f32[2,3,16,16]) -> (y) { w = const f32[20,3,3,3] ~1 b = const f32[20] ~2 c =
      Conv(x, w, b) {pads=[1,1,1,1]} d = Relu(c) v = const f32[20,20,1,1] ~3 e = Conv(d, v) f
      = Add(e, d) y = Sigmoid(f) })",
    R"(graph g(q: f32[2,2,3,20], k: f32[2,2,20,70], v: f32[2,2,70,9], m: f32[3,70]) -> (y) { s =
      MatMul(q, k) a = Add(s, m) p = Softmax(a) y = MatMul(p, v) })",
    R"(graph g(q: f32[2,2,40,20], k: f32[2,2,20,70], v: f32[2,2,70,9], m: bool[2,1,1,70]) -> (y) {
      h = const f32[] {-3e38} s = MatMul(q, k) a = Where(m, s, h) p = Softmax(a) y = MatMul(p, v)
      })",
    R"(graph g(q: f32[2,4,9,8], k: f32[2,2,9,8], v: f32[2,2,9,8], pk: f32[2,2,7,8],
      pv: f32[2,2,7,8]) -> (y, nk, nv) { y, nk, nv = Attention(q, k, v, _, pk, pv) {is_causal=1}
      })",
    R"(graph g(x: f32[3,4,40], z: f32[4,1], w: f32[40]) -> (y) { a = Sub(x, z) b = Mul(a, w) c =
      LeakyRelu(b) {alpha=0.2} y = Exp(c) })",
    R"(graph g(x: f32[9,6,5], i: i64[2,2]) -> (y) { y = Gather(x, i) {axis=1} })",
    R"(graph g(i: i32[3]) -> (y) { d = const u8[7,20] ~1 s = const f32[7,2] ~2 z = const u8[7,1] ~3
      y = com.microsoft::GatherBlockQuantized(d, i, s, z) {bits=4, block_size=32, gather_axis=0,
      quantize_axis=1} })",
    R"(graph g(x: f32[2,100]) -> (y) { w = const u8[33,4,16] ~1 s = const f32[132] ~2 z = const
      u8[66] ~3 y = com.microsoft::MatMulNBits(x, w, s, z) {K=100, N=33, bits=4, block_size=32} })",
    R"(graph g(x: f32[2,35,100]) -> (y) { w = const u8[33,4,32] ~1 s = const f32[132] ~2 y =
      com.microsoft::MatMulNBits(x, w, s) {K=100, N=33, bits=8, block_size=32} })",
    R"(graph g(x: f32[5,2,9], h0: f32[2,2,7], c0: f32[2,2,7]) -> (y, h, c) { w = const f32[2,28,9] ~1
      r = const f32[2,28,7] ~2 b = const f32[2,56] ~3 y, h, c = LSTM(x, w, r, b, _, h0, c0)
      {hidden_size=7, direction="bidirectional"} })",
    R"(graph g(x: f32[3,4,9]) -> (h) { w = const f32[1,28,9] ~1 r = const f32[1,28,7] ~2
      _, h = LSTM(x, w, r) {hidden_size=7, direction="reverse", layout=1} })",
    R"(graph g(q: f32[2,1,64], pk: f32[2,2,9,8], pv: f32[2,2,9,8]) -> (y, k2, v2) {
      l = const i32[2] {7, 4} t = const i32[] {9} c = const f32[10,3] ~1 s = const f32[10,3] ~2
      y, k2, v2 = com.microsoft::GroupQueryAttention(q, _, _, pk, pv, l, t, c, s) {num_heads=4,
      kv_num_heads=2, do_rotary=1} })",
};

/// Quantized groups, one for each of their shaders, with what the CPU's kernels take, too.
inline constexpr const char* kCodeGraphs[] = {
    R"(graph g(x: f32[2,33,7,5]) -> (y) { s = const f32[] {0.013} z = const u8[] {117} y =
      QuantizeLinear(x, s, z) })",
    R"(graph g(q: i8[2,3,7,5]) -> (y) { s = const f32[3] {0.013, 0.5, 2} z = const i8[3] {1, -7,
      0} y = DequantizeLinear(q, s, z) {axis=1} })",
    R"(graph g(q: u8[2,16,7,9]) -> (y) { s = const f32[] {0.05} z = const u8[] {131} x =
      DequantizeLinear(q, s, z) w0 = const i8[40,16,3,3] ~1 ws = const f32[] {0.01} w =
      DequantizeLinear(w0, ws) b = const f32[40] ~3 c = Conv(x, w, b) {pads=[1,1,1,1]} r =
      Relu(c) t = const f32[] {0.09} y = QuantizeLinear(r, t, z) })",
    R"(graph g(q: i8[1,300,6,7]) -> (y) { s = const f32[] {0.05} z = const i8[] {-9} x =
      DequantizeLinear(q, s, z) w0 = const i8[40,300,1,1] ~1 ws = const f32[] {0.01} w =
      DequantizeLinear(w0, ws) c = Conv(x, w) t = const f32[] {0.09} y = QuantizeLinear(c, t, z)
      })",
    R"(graph g(q: u8[1,24,9,7], p: u8[1,24,9,7]) -> (y) { s = const f32[] {0.05} z = const u8[]
      {131} x = DequantizeLinear(q, s, z) w0 = const i8[24,24,1,1] ~1 ws = const f32[] {0.01} w =
      DequantizeLinear(w0, ws) c = Conv(x, w) t = const f32[] {0.09} d = QuantizeLinear(c, t, z)
      e = DequantizeLinear(d, t, z) o = DequantizeLinear(p, t, z) a = Add(e, o) r = Relu(a) y =
      QuantizeLinear(r, t, z) })",
    R"(graph g(q: u8[2,24,9,7]) -> (y) { s = const f32[] {0.05} z = const u8[] {131} x =
      DequantizeLinear(q, s, z) w0 = const i8[24,1,3,3] ~1 ws = const f32[] {0.01} w =
      DequantizeLinear(w0, ws) c = Conv(x, w) {group=24, strides=[2,2], pads=[1,1,1,1]} t = const
      f32[] {0.09} y = QuantizeLinear(c, t, z) })",
    R"(graph g(q: i8[2,10,9,7]) -> (y) { s = const f32[] {0.05} z = const i8[] {-3} x =
      DequantizeLinear(q, s, z) w0 = const i8[20,1,3,5] ~1 ws = const f32[] {0.01} w =
      DequantizeLinear(w0, ws) c = Conv(x, w) {group=10, pads=[1,1,1,2]} t = const f32[] {0.09} y =
      QuantizeLinear(c, t, z) })",
    R"(graph g(q: u8[33,50]) -> (y) { s = const f32[] {0.05} z = const u8[] {131} x =
      DequantizeLinear(q, s, z) w0 = const i8[50,70] ~1 ws = const f32[] {0.01} w =
      DequantizeLinear(w0, ws) y = MatMul(x, w) })",
    R"(graph g(q: u8[3,65], p: u8[65]) -> (y) { s = const f32[] {0.05} z = const u8[] {131} a =
      DequantizeLinear(q, s, z) b = DequantizeLinear(p, s, z) c = Add(a, b) t = const f32[] {0.09}
      y = QuantizeLinear(c, t, z) })",
    // Quotients at and next to halves, of both signs.
    R"(graph g(q: i8[9,65], p: i8[9,65]) -> (y) { s = const f32[] {0.1} z = const i8[] {3} a =
      DequantizeLinear(q, s, z) b = DequantizeLinear(p, s, z) c = Add(a, b) t = const f32[] {0.2}
      y = QuantizeLinear(c, t, z) })",
    R"(graph g(q: u8[9,65], p: u8[9,65]) -> (y) { s = const f32[] {0.7} z = const u8[] {131} a =
      DequantizeLinear(q, s, z) b = DequantizeLinear(p, s, z) c = Add(a, b) t = const f32[] {1.4}
      y = QuantizeLinear(c, t, z) })",
    R"(graph g(q: i8[3,65], p: i8[3,65]) -> (y) { s = const f32[] {0.05} z = const i8[] {-31} a =
      DequantizeLinear(q, s, z) b = DequantizeLinear(p, s, z) c = Mul(a, b) r = Relu(c) t = const
      f32[] {0.09} y = QuantizeLinear(r, t, z) })",
    R"(graph g(q: u8[3,85]) -> (y) { s = const f32[] {0.05} z = const u8[] {131} a =
      DequantizeLinear(q, s, z) c = Sigmoid(a) t = const f32[] {0.004} y = QuantizeLinear(c, t)
      })",
    R"(graph g(q: i8[2,5,9,7]) -> (y) { s = const f32[] {0.05} z = const i8[] {-31} a =
      DequantizeLinear(q, s, z) c = MaxPool(a) {kernel_shape=[3,3], strides=[2,2],
      pads=[1,1,1,1]} y = QuantizeLinear(c, s, z) })",
    R"(graph g(q: u8[2,5,9,7]) -> (y) { s = const f32[] {0.05} z = const u8[] {131} a =
      DequantizeLinear(q, s, z) c = AveragePool(a) {kernel_shape=[3,2], strides=[2,2],
      pads=[1,0,1,1]} t = const f32[] {0.04} y = QuantizeLinear(c, t, z) })",
    R"(graph g(q: u8[2,65,8,8]) -> (y) { s = const f32[] {0.05} z = const u8[] {131} a =
      DequantizeLinear(q, s, z) c = GlobalAveragePool(a) t = const f32[] {0.05} y =
      QuantizeLinear(c, t, z) })",
};

/// Under sanitizers, where a driver for the CPU takes a second for each shader that it compiles,
/// only every `every`-th form runs (counted from 0). The release build runs all.
inline bool IsLeftToRelease(size_t form, size_t every) {
  static const bool sanitized = std::getenv("INFER_SANITIZED") != nullptr;
  return sanitized && form % every != 0;
}

inline const OpRegistry& VulkanTestOps() {
  static const OpRegistry ops = AllOps();
  return ops;
}

inline Graph ParsedGraph(std::string_view text) {
  auto g = ParseGraph(text, VulkanTestOps());
  EXPECT_TRUE(g.ok()) << g.status().message() << text;
  return *std::move(g);
}

inline std::vector<Datum> InputsOf(const Graph& g) {
  Random random(1);
  std::vector<Datum> inputs;
  for (const Value* v : g.inputs()) {
    Tensor t(v->dtype(), v->shape().static_dims());
    for (int64_t i = 0; i < t.num_elements(); ++i)
      if (v->dtype() == DType::kU8 || v->dtype() == DType::kI8)
        t.SetInt(i, IntegerMin(v->dtype()) + random.Below(256));
      else
        t.Set(i, IsFloat(v->dtype()) ? random.Normal() : random.Below(2));
    inputs.emplace_back(std::move(t));
  }
  return inputs;
}

/// max |d| / max |want| within 1e-5.
inline void ExpectCloseTo(const Tensor& got, const Tensor& want, const std::string& what) {
  ASSERT_EQ(ToString(got.type()), ToString(want.type())) << what;
  double worst = 0, most = 0;
  for (int64_t i = 0; i < want.num_elements(); ++i) {
    worst = std::max(worst, std::abs(got.At(i) - want.At(i)));
    most = std::max(most, std::abs(want.At(i)));
  }
  EXPECT_LE(worst, 1e-5 * most + 1e-30) << what;
}

inline std::unique_ptr<Backend> VulkanOver(VulkanOptions options = {}, bool keep_all = true) {
  // Dispatches of so few numbers are not worth the threads of a driver on the CPU.
  setenv("LP_NUM_THREADS", "0", 0);
  static const bool has_device = OrExit(MakeVulkanBackend({.behind = CpuHost()})) != nullptr;
  INFER_CHECK(has_device);
  return MakeVulkanBackend(
      {.device = std::move(options), .behind = CpuHost(), .keep_all = keep_all});
}

/// Compiles and runs once; the kernels that ran.
inline std::vector<std::string> RunAndCompare(const Backend& backend, const Graph& g) {
  const std::vector<Datum> inputs = InputsOf(g);
  const auto want = Evaluate(g, inputs);
  EXPECT_TRUE(want.ok()) << want.status().message();
  const auto program = backend.Compile(g, {});
  EXPECT_TRUE(program.ok()) << program.status().message();
  if (!want.ok() || !program.ok()) return {};
  const auto made = (*program)->pipelines();
  const auto got = RunOnce(**program, inputs);
  if (made) {
    EXPECT_EQ((*program)->pipelines()->made, made->made) << "a run waited for a driver's compiler";
  }
  EXPECT_TRUE(got.ok()) << got.status().message();
  if (!got.ok()) return {};
  std::vector<std::string> kernels;
  for (const StepInfo& s : (*program)->steps()) kernels.push_back(s.kernel);
  for (size_t i = 0; i < want->size(); ++i)
    ExpectCloseTo((*got)[i].tensor(), (*want)[i].tensor(), Join(kernels, ", "));
  return kernels;
}

}  // namespace infer
