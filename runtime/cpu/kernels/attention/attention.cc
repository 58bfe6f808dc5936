#include "runtime/cpu/kernels/attention/attention.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "lib/support/parallel.h"
#include "runtime/cpu/launch/launch.h"
#include "runtime/cpu/simd/loops.h"

namespace infer {
namespace {

constexpr int64_t kMostRows = 16;
/// What is below adds nothing beside what is above kSeen: their exponentials are 0.
constexpr float kHidden = -1e30f, kSeen = -1e20f;

/// `x` through `steps`, which may quantize it to `bytes` in between. An 8-bit operand starts there.
void Apply(const std::vector<ElementStep>& steps, float* x, uint8_t* bytes, int64_t n) {
  const simd::Loops& loops = simd::TheLoops();
  for (const ElementStep& s : steps) {
    auto* const signed_bytes = reinterpret_cast<int8_t*>(bytes);
    switch (s.kind) {
      case ElementStep::Kind::kFactor:
        loops.binary_scalar[static_cast<int>(simd::Binary::kMul)](x, &s.scale, x, n);
        break;
      case ElementStep::Kind::kQuantize:
        s.is_signed ? loops.quantize_s8(x, signed_bytes, n, s.scale, s.zero_point)
                    : loops.quantize_u8(x, bytes, n, s.scale, s.zero_point);
        break;
      case ElementStep::Kind::kDequantize:
        s.is_signed ? loops.dequantize_s8(signed_bytes, x, n, s.scale, s.zero_point)
                    : loops.dequantize_u8(bytes, x, n, s.scale, s.zero_point);
        break;
    }
  }
}

template <typename T>
void CopyRow(const T* from, int64_t step, int64_t n, T* to) {
  if (step == 1) return (void)std::copy_n(from, n, to);
  for (int64_t i = 0; i < n; ++i) to[i] = from[i * step];
}

template <typename T>
void StoreRow(const T* from, int64_t n, int64_t step, T* to) {
  if (step == 1) return (void)std::copy_n(from, n, to);
  for (int64_t i = 0; i < n; ++i) to[i * step] = from[i];
}

}  // namespace

void LoadHeadRow(const HeadRows& h, const std::vector<ElementStep>& steps, const std::byte* base,
                 int64_t lead, int64_t i, int64_t n, float* to, uint8_t* bytes) {
  const int64_t at = h.offset[static_cast<size_t>(lead)] + i * h.row;
  if (h.dtype == DType::kF32)
    CopyRow(As<float>(base) + at, h.element, n, to);
  else
    CopyRow(As<uint8_t>(base) + at, h.element, n, bytes);
  Apply(steps, to, bytes, n);
}

/// Pointers of one chunk.
struct Attention::Lane {
  std::byte* const* args;
  float *q, *keys, *values, *scores, *tile;
  uint8_t* bytes;
  const std::byte* of(const HeadRows& h) const { return args[h.arg]; }
};

int64_t Attention::scratch_floats() const {
  const int64_t longest = std::max({keys, depth, values});
  const int64_t floats = kMostRows * depth + panels(keys) * width() * depth +
                         panels(values) * width() * keys + kMostRows * score_stride() +
                         std::max(kMostRows * panels(values) * width(), width() * depth) +
                         std::max(longest, kMostRows * values) / 4 + 16;
  return (floats + 31) / 32 * 32;
}

void Attention::PackKeys(int64_t lead, int64_t seen, const Lane& lane) const {
  const bool as_is = k.dtype == DType::kF32 && k.steps.empty();
  const float* from = As<float>(lane.of(k)) + (as_is ? k.offset[static_cast<size_t>(lead)] : 0);
  for (int64_t p = 0; p < panels(seen); ++p) {
    const int64_t first = p * width(), n = std::min(width(), keys - first);
    float* to = lane.keys + first * depth;
    if (as_is && k.element == 1) {
      loops->transpose_panel(from + first * k.row, k.row, n, depth, to);
    } else if (as_is && k.row == 1) {  // they lie transposed already
      for (int64_t d = 0; d < depth; ++d, to += width()) {
        std::copy_n(from + d * k.element + first, n, to);
        std::fill(to + n, to + width(), 0.0f);
      }
    } else {
      for (int64_t j = 0; j < n; ++j)
        LoadHeadRow(k, k.steps, lane.of(k), lead, first + j, depth, lane.tile + j * depth,
                    lane.bytes);
      loops->transpose_panel(lane.tile, depth, n, depth, to);
    }
  }
}

void Attention::PackValues(int64_t lead, int64_t seen, const Lane& lane) const {
  const int64_t count = panels(values), last = values - (count - 1) * width();
  const bool as_is = v.dtype == DType::kF32 && v.steps.empty() && v.element == 1;
  const float* from = As<float>(lane.of(v)) + v.offset[static_cast<size_t>(lead)];
  for (int64_t j = 0; j < seen; ++j) {
    const float* row = from + j * v.row;
    if (!as_is) {
      LoadHeadRow(v, v.steps, lane.of(v), lead, j, values, lane.tile, lane.bytes);
      row = lane.tile;
    }
    for (int64_t p = 0; p < count; ++p) {
      float* to = lane.values + (p * keys + j) * width();
      const int64_t n = p + 1 < count ? width() : last;
      std::copy_n(row + p * width(), n, to);
      std::fill(to + n, to + width(), 0.0f);
    }
  }
}

void Attention::FindSeen() {
  const ScoreMask* mask = chosen && chosen->constant.defined() ? &*chosen
                          : added && added->constant.defined() ? &*added
                                                               : nullptr;
  if (!mask || (mask->is_choice && !(mask->hidden <= kHidden))) return;
  std::map<int64_t, int32_t> known;
  for (int64_t offset : mask->offset) {
    const auto [it, is_new] = known.emplace(offset, static_cast<int32_t>(known.size()));
    seen_of_.push_back(it->second);
    if (!is_new) continue;
    const int64_t count = std::min(keys, band.keys);
    for (int64_t i = 0; i < queries; ++i) {
      int64_t end = 0;
      bool sure = false, nothing_between = true;
      for (int64_t j = 0; j < count; ++j) {
        const int64_t at = offset + i * mask->row + j;
        float value = 0;
        if (!mask->is_choice)
          value = mask->constant.data<float>()[static_cast<size_t>(at)];
        else if ((As<uint8_t>(mask->constant.raw())[at] != 0) == mask->invert)
          value = mask->hidden;
        if (value <= kHidden) continue;
        end = j + 1;
        sure |= value >= kSeen;
        nothing_between &= !std::isnan(value);
      }
      seen_.push_back(sure && nothing_between ? end : keys);
    }
  }
}

int64_t Attention::SeenBy(int64_t lead, int64_t first, int rows, std::byte* const* args) const {
  int64_t seen = keys;
  if (!seen_.empty()) {
    const auto begin = seen_.begin() + seen_of_[static_cast<size_t>(lead)] * queries + first;
    seen = *std::max_element(begin, begin + rows);
  }
  if (!band.hides()) return seen;
  int64_t end = 0;
  for (int r = 0; r < rows; ++r) end = std::max(end, band.Of(lead, first + r, seen, args).end);
  return end;
}

int64_t Attention::SeenByAll(int64_t lead, std::byte* const* args) const {
  // Masks may differ between heads that share keys, positions do not; the last query sees most.
  return band.hides() ? band.Of(lead, queries - 1, keys, args).end : keys;
}

double Attention::Soften(int64_t lead, int64_t i, int64_t n, float* scores,
                         std::byte* const* args) const {
  simd::ScoreRow row = MaskedRow(lead, i, n, scores, args);
  if (!band.hides() && softcap == 0) return loops->soften(row);
  const KeyRange range = band.Of(lead, i, n, args);
  row.scores += range.begin;
  row.n = range.end - range.begin;
  if (row.add) row.add += range.begin;
  if (row.keep) row.keep += range.begin;
  double sum = 0;
  if (row.n > 0) {
    if (softcap != 0) {
      const simd::Loops& elements = simd::TheLoops();
      const float factor = scale / softcap;
      elements.binary_scalar[static_cast<int>(simd::Binary::kMul)](row.scores, &factor, row.scores,
                                                                   row.n);
      elements.unary[static_cast<int>(simd::Unary::kTanh)](row.scores, row.scores, row.n, 0, 0);
      row.scale = softcap;
    }
    sum = loops->soften(row);
  }
  std::fill(scores, scores + range.begin, 0.0f);
  std::fill(scores + range.end, scores + n, 0.0f);
  return sum;
}

simd::ScoreRow Attention::MaskedRow(int64_t lead, int64_t i, int64_t n, float* scores,
                                    std::byte* const* args) const {
  simd::ScoreRow row;
  row.scores = scores;
  row.n = n;
  row.scale = scale;
  row.zero_where_none = zero_where_none;
  auto at = [&](const ScoreMask& m) {
    const std::byte* base = m.constant.defined() ? m.constant.raw() : args[m.arg];
    const int64_t element = m.offset[static_cast<size_t>(lead)] + i * m.row;
    return base + element * (m.is_choice ? 1 : 4);
  };
  if (added) row.add = As<float>(at(*added));
  if (chosen) {
    row.keep = As<uint8_t>(at(*chosen));
    row.hidden = chosen->hidden;
    row.invert = chosen->invert;
  }
  return row;
}

void Attention::Rows(int64_t lead, int64_t first, int rows, const Lane& lane) const {
  const int64_t seen = SeenBy(lead, first, rows, lane.args), stride = score_stride();
  for (int r = 0; r < rows; ++r)
    LoadHeadRow(q, q.steps, lane.of(q), lead, first + r, depth, lane.q + r * depth, lane.bytes);
  simd::RowsByPanel product;
  product.a = lane.q;
  product.a_stride = product.depth = depth;
  product.d_stride = stride;
  for (int64_t at = 0; at < seen; at += width()) {
    product.panel = lane.keys + at * depth;
    product.d = lane.scores + at;
    product.narrow = seen - at <= loops->lanes;
    loops->multiply(rows, product);
  }
  float factors[kMostRows];
  for (int r = 0; r < rows; ++r) {
    float* const scores = lane.scores + r * stride;
    const double sum = Soften(lead, first + r, seen, scores, lane.args);
    factors[r] = static_cast<float>(sum == 0 ? 0 : 1 / sum);
    if (probability.empty()) continue;
    simd::TheLoops().binary_scalar[static_cast<int>(simd::Binary::kMul)](scores, &factors[r],
                                                                         scores, seen);
    Apply(probability, scores, lane.bytes, seen);
  }
  const bool direct =
      y.dtype == DType::kF32 && y.element == 1 && y.steps.empty() && values % loops->lanes == 0;
  const int64_t columns = panels(values) * width();
  float* to = lane.tile;
  product.a = lane.scores;
  product.a_stride = stride;
  product.depth = seen;
  product.d_stride = columns;
  product.factors = probability.empty() ? factors : nullptr;
  if (direct) {
    to = As<float>(lane.args[y.arg]) + y.offset[static_cast<size_t>(lead)] + first * y.row;
    product.d_stride = y.row;
  }
  for (int64_t at = 0; at < values; at += width()) {
    product.panel = lane.values + at * keys;
    product.d = to + at;
    product.narrow = values - at <= loops->lanes;
    loops->multiply(rows, product);
  }
  if (!direct) StoreResults(lead, first, rows, lane.tile, columns, lane.bytes, lane.args);
}

void Attention::StoreResults(int64_t lead, int64_t first, int rows, float* tile, int64_t stride,
                             uint8_t* bytes, std::byte* const* args) const {
  const bool at_once = stride == values;
  if (at_once) Apply(y.steps, tile, bytes, rows * values);
  for (int r = 0; r < rows; ++r) {
    const int64_t at = y.offset[static_cast<size_t>(lead)] + (first + r) * y.row;
    if (!at_once) Apply(y.steps, tile + r * stride, bytes, values);
    if (y.dtype == DType::kF32)
      StoreRow(tile + r * stride, values, y.element, As<float>(args[y.arg]) + at);
    else
      StoreRow(bytes + (at_once ? r * values : 0), values, y.element,
               As<uint8_t>(args[y.arg]) + at);
  }
}

/// Rows first, first + 1, ... of a lead on their way to L2.
void Attention::Fetch(const HeadRows& h, int64_t lead, int64_t first, int64_t end, int64_t n,
                      const Lane& lane) const {
  const int64_t bytes = h.dtype == DType::kF32 ? 4 : 1;
  if (h.element != 1) return;
  for (int64_t i = first; i < end; ++i) {
    const int64_t at = h.offset[static_cast<size_t>(lead)] + i * h.row;
    for (int64_t b = 0; b < n * bytes; b += 64)
      __builtin_prefetch(lane.of(h) + at * bytes + b, 0, 2);
  }
}

void Attention::Run(std::byte* const* args, std::byte* scratch) const {
  const int64_t units = leads * runs();
  ParallelFor(chunks, 1, [&](int64_t begin, int64_t end) {
    for (int64_t c = begin; c < end; ++c) {
      Lane lane;
      lane.args = args;
      lane.q = As<float>(scratch) + c * scratch_floats();
      lane.keys = lane.q + kMostRows * depth;
      lane.values = lane.keys + panels(keys) * width() * depth;
      lane.scores = lane.values + panels(values) * width() * keys;
      lane.tile = lane.scores + kMostRows * score_stride();
      lane.bytes = reinterpret_cast<uint8_t*>(
          lane.tile + std::max(kMostRows * panels(values) * width(), width() * depth));
      int64_t key_at = -1, value_at = -1;
      for (int64_t u = units * c / chunks; u < units * (c + 1) / chunks; ++u) {
        const int64_t lead = u / runs(), run = u % runs();
        const auto l = static_cast<size_t>(lead);
        // Query heads of one group share keys and values.
        if (k.offset[l] != key_at) PackKeys(lead, SeenByAll(lead, args), lane);
        if (v.offset[l] != value_at) PackValues(lead, SeenByAll(lead, args), lane);
        key_at = k.offset[l];
        value_at = v.offset[l];
        const int64_t first = queries * run / runs();
        if (lead + 1 < leads) {
          Fetch(k, lead + 1, keys * run / runs(), keys * (run + 1) / runs(), depth, lane);
          Fetch(v, lead + 1, keys * run / runs(), keys * (run + 1) / runs(), values, lane);
          Fetch(q, lead + 1, first, queries * (run + 1) / runs(), depth, lane);
        }
        Rows(lead, first, static_cast<int>(queries * (run + 1) / runs() - first), lane);
      }
    }
  });
}

}  // namespace infer
