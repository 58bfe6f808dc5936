#include "runtime/cpu/kernels/attention/byte_attention.h"

#include <algorithm>
#include <cstring>

#include "lib/support/parallel.h"
#include "runtime/cpu/launch/launch.h"

namespace infer {

using Kind = ElementStep::Kind;

/// Pointers of one chunk.
struct ByteAttention::Lane {
  std::byte* const* args = nullptr;
  uint8_t *q = nullptr, *probabilities = nullptr, *rows = nullptr;
  int32_t *keys = nullptr, *key_terms = nullptr, *values = nullptr, *scores = nullptr,
          *sums = nullptr;
  float* tile = nullptr;
  int64_t bytes = 0;  ///< of all of them
};

std::optional<ByteAttention::Bytes> ByteAttention::BytesOf(const HeadRows& h, bool wants_signed) {
  if (h.steps.empty() || h.steps.back().kind != Kind::kDequantize) return std::nullopt;
  const ElementStep& last = h.steps.back();
  Bytes b;
  b.steps.assign(h.steps.begin(), h.steps.end() - 1);
  b.scale = last.scale;
  b.flip = last.is_signed == wants_signed ? 0 : 0x80;
  b.zero = last.zero_point + (b.flip == 0 ? 0 : wants_signed ? -128 : 128);
  return b;
}

std::optional<ByteAttention> ByteAttention::Of(const Attention& attention) {
  ByteAttention b;
  b.attention_ = attention;
  b.loops_ = simd::TheByteAttentionLoops();
  const auto q = BytesOf(attention.q, false), k = BytesOf(attention.k, true),
             v = BytesOf(attention.v, true);
  const auto& p = attention.probability;
  if (!b.loops_ || !q || !k || !v || p.size() != 2 || p[0].is_signed || p[0].zero_point != 0 ||
      p[1].kind != Kind::kDequantize || p[1].is_signed || p[1].zero_point != 0 ||
      p[0].scale != p[1].scale)
    return std::nullopt;
  // Sums stay far below 2^31.
  if (attention.keys > (1 << 15) || attention.depth > (1 << 15)) return std::nullopt;
  b.q_ = *q;
  b.k_ = *k;
  b.v_ = *v;
  b.probability_ = p[0].scale;
  b.attention_.scale *= q->scale * k->scale;
  return b;
}

int64_t ByteAttention::runs() const {
  return (attention_.queries + simd::kByteRows - 1) / simd::kByteRows;
}

ByteAttention::Lane ByteAttention::LaneAt(std::byte* scratch) const {
  const int64_t width = simd::kByteWidth, depth = padded_depth();
  const int64_t longest = std::max(depth, attention_.values) + 64;
  Lane lane;
  const auto take = [&](auto*& p, int64_t n) {
    using T = std::remove_reference_t<decltype(*p)>;
    p = reinterpret_cast<T*>(scratch + lane.bytes);
    lane.bytes += (n * static_cast<int64_t>(sizeof(T)) + 63) / 64 * 64;
  };
  take(lane.q, simd::kByteRows * depth);
  take(lane.probabilities, simd::kByteRows * probability_stride());
  take(lane.rows, width * longest);
  take(lane.keys, panels(attention_.keys) * width * depth / 4);
  take(lane.key_terms, panels(attention_.keys) * width);
  take(lane.values, panels(attention_.values) * width * value_quads());
  take(lane.scores, simd::kByteRows * score_stride());
  take(lane.sums, simd::kByteRows * panels(attention_.values) * width);
  take(lane.tile, simd::kByteRows * longest);
  return lane;
}

int64_t ByteAttention::chunk_bytes() const {
  alignas(64) static std::byte nothing[64];
  return (LaneAt(nothing).bytes + 127) / 128 * 128;
}

/// Row i of a lead as the product wants it but for its sign; its own memory where it lies so.
const uint8_t* ByteAttention::Load(const HeadRows& h, const Bytes& b, int64_t lead, int64_t i,
                                   int64_t n, uint8_t* to, const Lane& lane) const {
  if (h.dtype != DType::kF32 && b.steps.empty() && h.element == 1)
    return As<uint8_t>(static_cast<const std::byte*>(lane.args[h.arg])) +
           h.offset[static_cast<size_t>(lead)] + i * h.row;
  LoadHeadRow(h, b.steps, lane.args[h.arg], lead, i, n, lane.tile, to);
  return to;
}

void ByteAttention::PackKeys(int64_t lead, const Lane& lane) const {
  const Attention& a = attention_;
  const int64_t width = simd::kByteWidth, depth = padded_depth(), quads = depth / 4;
  for (int64_t first = 0; first < a.keys; first += width) {
    const int64_t n = std::min(width, a.keys - first);
    for (int64_t j = 0; j < n; ++j) {
      uint8_t* to = lane.rows + j * depth;
      const uint8_t* from = Load(a.k, k_, lead, first + j, a.depth, to, lane);
      if (from != to) std::memcpy(to, from, static_cast<size_t>(a.depth));
      if (k_.flip)
        for (int64_t d = 0; d < a.depth; ++d) to[d] ^= 0x80;
      std::memset(to + a.depth, 0, static_cast<size_t>(depth - a.depth));
    }
    int32_t* panel = lane.keys + first * quads;
    a.loops->transpose_panel(reinterpret_cast<const float*>(lane.rows), quads, n, quads,
                             reinterpret_cast<float*>(panel));
    // What the zero point of q adds: its product with a row of ones.
    std::memset(lane.q, 0, static_cast<size_t>(depth));
    std::memset(lane.q, 1, static_cast<size_t>(a.depth));
    int32_t* terms = lane.key_terms + first;
    loops_->multiply(1, {lane.q, depth, panel, quads, terms, width});
    const auto both = static_cast<int32_t>(a.depth) * q_.zero * k_.zero;
    for (int64_t j = 0; j < width; ++j) terms[j] = both - q_.zero * terms[j];
  }
}

void ByteAttention::PackValues(int64_t lead, const Lane& lane) const {
  const Attention& a = attention_;
  const int64_t width = simd::kByteWidth, stride = (a.values + 63) / 64 * 64;
  for (int64_t quad = 0; quad < value_quads(); ++quad) {
    const uint8_t* rows[4];
    for (int64_t r = 0; r < 4; ++r) {
      // What is behind the last key meets a probability of 0.
      const int64_t j = std::min(quad * 4 + r, a.keys - 1);
      rows[r] = Load(a.v, v_, lead, j, a.values, lane.rows + r * stride, lane);
    }
    for (int64_t p = 0; p < panels(a.values); ++p) {
      const uint8_t* at[4];
      for (int r = 0; r < 4; ++r) at[r] = rows[r] + p * width;
      loops_->interleave(at, a.values - p * width, v_.flip,
                         lane.values + (p * value_quads() + quad) * width);
    }
  }
}

void ByteAttention::Rows(int64_t lead, int64_t first, int rows, const Lane& lane) const {
  const Attention& a = attention_;
  const int64_t width = simd::kByteWidth, depth = padded_depth();
  const int64_t seen = a.SeenBy(lead, first, rows, lane.args), stride = score_stride();
  const int64_t p_stride = probability_stride();
  int32_t row_term[simd::kByteRows];
  for (int r = 0; r < rows; ++r) {
    uint8_t* to = lane.q + r * depth;
    const uint8_t* from = Load(a.q, q_, lead, first + r, a.depth, to, lane);
    int32_t sum = 0;
    for (int64_t d = 0; d < a.depth; ++d) {
      to[d] = static_cast<uint8_t>(from[d] ^ q_.flip);
      sum += to[d];
    }
    std::memset(to + a.depth, 0, static_cast<size_t>(depth - a.depth));
    row_term[r] = -k_.zero * sum;
  }
  simd::ByteProduct product;
  product.a = lane.q;
  product.a_stride = depth;
  product.quads = depth / 4;
  product.d_stride = stride;
  for (int64_t at = 0; at < seen; at += width) {
    product.panel = lane.keys + at * (depth / 4);
    product.d = lane.scores + at;
    product.narrow = seen - at <= 16;
    loops_->multiply(rows, product);
  }
  int32_t sums[simd::kByteRows];
  for (int r = 0; r < rows; ++r) {
    int32_t* s = lane.scores + r * stride;
    loops_->widen(s, lane.key_terms, row_term[r], seen);
    auto* const e = reinterpret_cast<float*>(s);
    const double sum = a.loops->soften(a.MaskedRow(lead, first + r, seen, e, lane.args));
    uint8_t* p = lane.probabilities + r * p_stride;
    const double factor = sum == 0 ? 0 : 1 / (sum * static_cast<double>(probability_));
    sums[r] = loops_->round(e, seen, static_cast<float>(factor), p);
  }
  product.a = lane.probabilities;
  product.a_stride = p_stride;
  product.quads = (seen + 3) / 4;
  product.d_stride = panels(a.values) * width;
  for (int64_t at = 0; at < a.values; at += width) {
    product.panel = lane.values + at * value_quads();
    product.d = lane.sums + at;
    product.narrow = a.values - at <= 16;
    loops_->multiply(rows, product);
  }
  const float factor = probability_ * v_.scale;
  for (int r = 0; r < rows; ++r)
    loops_->finish(lane.sums + r * product.d_stride, v_.zero * sums[r], factor, a.values,
                   lane.tile + r * a.values);
  a.StoreResults(lead, first, rows, lane.tile, a.values, lane.rows, lane.args);
}

void ByteAttention::Run(std::byte* const* args, std::byte* scratch) const {
  const Attention& a = attention_;
  const int64_t units = a.leads * runs();
  ParallelFor(a.chunks, 1, [&](int64_t begin, int64_t end) {
    for (int64_t c = begin; c < end; ++c) {
      Lane lane = LaneAt(scratch + c * chunk_bytes());
      lane.args = args;
      int64_t key_at = -1, value_at = -1;
      for (int64_t u = units * c / a.chunks; u < units * (c + 1) / a.chunks; ++u) {
        const int64_t lead = u / runs(), run = u % runs();
        const auto l = static_cast<size_t>(lead);
        if (a.k.offset[l] != key_at) PackKeys(lead, lane);
        if (a.v.offset[l] != value_at) PackValues(lead, lane);
        key_at = a.k.offset[l];
        value_at = a.v.offset[l];
        const int64_t first = a.queries * run / runs();
        Rows(lead, first, static_cast<int>(a.queries * (run + 1) / runs() - first), lane);
      }
    }
  });
}

}  // namespace infer
