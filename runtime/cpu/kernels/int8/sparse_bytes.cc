#include "runtime/cpu/kernels/int8/sparse_bytes.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "lib/support/parallel.h"
#include "lib/support/readable.h"
#include "lib/support/strings.h"
#include "runtime/cpu/kernels/common/appended.h"

namespace infer {
namespace {

using simd::kByteQuad;
using simd::kSparseByteColumns;
using simd::kSparseByteRows;

constexpr int64_t kBlockBytes = int64_t{kSparseByteColumns} * kByteQuad;
/// Bytes of packed rows for which weights are read once, where these leave L2 no room.
constexpr int64_t kTogetherBytes = 256 << 10, kSparseWeightsInL2 = 512 << 10;
constexpr int64_t kMostWindow = 32;
/// Work that is left, of the dense product's, at most: what the estimate is off by.
constexpr double kByteGain = 0.85;
constexpr int64_t kLeastByteExtent = 16;

/// Fitted to times of products of 1 to 3136 rows (sparse_bench): what follows a vector of sums, and
/// rows at least for which a vector of weights is multiplied as long as it takes to read it.
constexpr double kOfByteResult = 9;
constexpr int64_t kByteRowsOfRead = 6;

/// Neighbouring weights that are stored together, or not at all.
struct ByteBlock {
  int64_t tap, quad;  ///< of the window; of all inputs
  int64_t channel, channels, column, columns;
};

/// Calls f for the blocks of one panel, in order of their inputs.
template <typename F>
void ForByteBlocks(const ByteMatrix& w, int64_t panel, const F& f) {
  const int64_t column = panel * kSparseByteColumns;
  const int64_t columns = std::min<int64_t>(kSparseByteColumns, w.columns - column);
  int64_t quad = 0;
  for (int64_t t = 0; t < w.taps; ++t)
    for (int64_t c = 0; c < w.channels; c += kByteQuad)
      f(ByteBlock{t, quad++, c, std::min<int64_t>(kByteQuad, w.channels - c), column, columns});
}

int64_t ZerosOfByteBlock(const ByteMatrix& w, const ByteBlock& b) {
  int64_t zeros = 0;
  for (int64_t j = 0; j < b.columns; ++j)
    for (int64_t i = 0; i < b.channels; ++i) zeros += w.at(b.tap, b.channel + i, b.column + j) == 0;
  return zeros;
}

}  // namespace

ByteMatrix ByteMatrix::Of(const Tensor& w, bool channels_first, bool convolution) {
  ByteMatrix m;
  m.from = w.data<int8_t>().data();
  m.columns = w.dim(channels_first ? 0 : 1);
  m.channels = w.dim(channels_first ? 1 : 0);
  if (convolution) m.taps = w.num_elements() / (m.columns * m.channels);
  m.tap_stride = 1;
  m.channel_stride = channels_first ? m.taps : m.columns;
  m.column_stride = channels_first ? m.channels * m.taps : 1;
  return m;
}

SparseByteCounts CountStored(const ByteMatrix& w) {
  SparseByteCounts s;
  for (int64_t p = 0; p < w.panels(); ++p)
    ForByteBlocks(w, p, [&](const ByteBlock& b) {
      const int64_t zeros = ZerosOfByteBlock(w, b);
      s.weights += b.channels * b.columns;
      s.zeros += zeros;
      s.stored += zeros < b.channels * b.columns;
    });
  return s;
}

SparseByteWeights SparseByteWeights::Pack(const ByteMatrix& w, int32_t zero, bool is_signed,
                                          std::span<const float> bias,
                                          std::span<const float> scales) {
  SparseByteWeights s;
  s.is_signed = is_signed;
  s.padding.assign(static_cast<size_t>(w.channels),
                   static_cast<uint8_t>(zero ^ (is_signed ? 128 : 0)));
  const auto padded = static_cast<size_t>(w.panels() * kSparseByteColumns);
  s.start.assign(padded, 0);
  s.bias.assign(padded, 0);
  s.scales.assign(padded, 0);
  std::vector<int8_t> codes;
  s.starts.push_back(0);
  for (int64_t p = 0; p < w.panels(); ++p) {
    ForByteBlocks(w, p, [&](const ByteBlock& b) {
      if (ZerosOfByteBlock(w, b) == b.channels * b.columns) return;
      int8_t block[kBlockBytes] = {};
      for (int64_t j = 0; j < b.columns; ++j)
        for (int64_t i = 0; i < b.channels; ++i) {
          const int8_t code = w.at(b.tap, b.channel + i, b.column + j);
          block[j * kByteQuad + i] = code;
          s.start[static_cast<size_t>(b.column + j)] -= zero * code;
        }
      codes.insert(codes.end(), block, block + kBlockBytes);
      s.at.push_back(static_cast<uint32_t>(b.quad));
    });
    s.starts.push_back(static_cast<int64_t>(s.at.size()));
  }
  auto buffer = Buffer::Allocate(codes.size());
  if (!codes.empty()) std::memcpy(buffer->mutable_data(), codes.data(), codes.size());
  s.codes = std::move(buffer);
  for (size_t n = 0; n < static_cast<size_t>(w.columns); ++n) {
    if (!bias.empty()) s.bias[n] = bias[n];
    s.scales[n] = scales[scales.size() == 1 ? 0 : n];
  }
  return s;
}

ByteWindows ByteWindows::Rows(int64_t rows) {
  ByteWindows w;
  w.images_ = rows;
  return w;
}

Result<ByteWindows> ByteWindows::Of(const Spatial& s, const Dims& x, const Dims& y) {
  const size_t rank = s.kernel.size();
  if (rank > 3) return Unsupported("more than three dimensions");
  ByteWindows w;
  w.images_ = x[0];
  int64_t window[3] = {1, 1, 1}, dilations[3] = {1, 1, 1};
  for (size_t i = 0; i < rank; ++i) {
    const size_t d = 3 - rank + i;  // the last ones
    if (s.kernel[i] > kMostWindow) return Unsupported("the window is too large");
    w.in_[d] = x[2 + i];
    w.out_[d] = y[2 + i];
    w.strides_[d] = s.strides[i];
    w.pads_[d] = s.pads_begin[i];
    window[d] = s.kernel[i];
    dilations[d] = s.dilations[i];
    w.plain_ &=
        s.kernel[i] == 1 && s.strides[i] == 1 && s.pads_begin[i] == 0 && x[2 + i] == y[2 + i];
    w.inside_[d].assign(static_cast<size_t>(y[2 + i]), 0);
    for (int64_t o = 0; o < y[2 + i]; ++o)
      for (int64_t k = 0; k < s.kernel[i]; ++k) {
        const int64_t at = o * s.strides[i] - s.pads_begin[i] + k * s.dilations[i];
        if (at >= 0 && at < x[2 + i]) w.inside_[d][static_cast<size_t>(o)] |= uint32_t{1} << k;
      }
  }
  w.taps_.clear();
  for (int64_t a = 0; a < window[0]; ++a)
    for (int64_t b = 0; b < window[1]; ++b)
      for (int64_t c = 0; c < window[2]; ++c)
        w.taps_.push_back(
            {(a * dilations[0] * w.in_[1] + b * dilations[1]) * w.in_[2] + c * dilations[2],
             {static_cast<uint8_t>(a), static_cast<uint8_t>(b), static_cast<uint8_t>(c)}});
  return w;
}

void ByteWindows::FindCorners(int64_t first, int count, Corner* to) const {
  int64_t at[3], rest = first;
  for (int d = 2; d >= 0; --d) {
    at[d] = rest % out_[d];
    rest /= out_[d];
  }
  int64_t image = rest;
  for (int r = 0; r < count; ++r) {
    Corner& c = to[r];
    c.pixel = image;
    for (int d = 0; d < 3; ++d) {
      c.pixel = c.pixel * in_[d] + at[d] * strides_[d] - pads_[d];
      c.in[d] = inside_[d][static_cast<size_t>(at[d])];
    }
    int d = 2;
    while (d >= 0 && ++at[d] == out_[d]) at[d--] = 0;
    image += d < 0;
  }
}

template <typename F>
void ByteWindows::ForTaps(int64_t first, int count, const F& f) const {
  int64_t places[kSparseByteRows];
  if (plain_) {
    for (int r = 0; r < count; ++r) places[r] = first + r;
    f(int64_t{0}, places);
    return;
  }
  Corner corners[kSparseByteRows];
  FindCorners(first, count, corners);
  for (size_t t = 0; t < taps_.size(); ++t) {
    const Tap& tap = taps_[t];
    for (int r = 0; r < count; ++r) {
      const Corner& c = corners[r];
      const bool inside = c.in[0] >> tap.at[0] & c.in[1] >> tap.at[1] & c.in[2] >> tap.at[2] & 1;
      places[r] = inside ? c.pixel + tap.pixels : -1;
    }
    f(static_cast<int64_t>(t), places);
  }
}

double DenseByteWork(int64_t rows, const ByteMatrix& w) {
  return static_cast<double>(std::max(rows, kByteRowsOfRead) * w.quads() * w.panels()) +
         kOfByteResult * static_cast<double>(rows * w.panels());
}

double SparseByteWork(int64_t rows, const ByteMatrix& w, int64_t stored) {
  constexpr double kOfBlock = 1.1, kOfCall = 20;
  // Rows of windows are put together from many places.
  const double of_quad = w.taps > 1 ? 1 : 0.6;
  const int64_t tiles = BlocksOf(rows, kSparseByteRows);
  return kOfBlock * static_cast<double>(std::max(rows, kByteRowsOfRead) * stored) +
         of_quad * static_cast<double>(rows * w.quads()) +
         kOfByteResult * static_cast<double>(rows * w.panels()) +
         kOfCall * static_cast<double>(tiles * w.panels());
}

Result<std::shared_ptr<const SparseByteWeights>> SparseByteChoice::Make(
    const ByteMatrix& w, int64_t rows, FunctionRef<SparseByteWeights()> pack) const {
  if (w.columns < kLeastByteExtent || w.channels < kLeastByteExtent)
    return Unsupported("the product is too small");
  std::lock_guard lock(mutex_);
  if (!counts_) counts_ = CountStored(w);
  const double left = SparseByteWork(rows, w, counts_->stored) / DenseByteWork(rows, w);
  const auto percent = [](double part) { return Cat(Rounded(100 * part, 3), " %"); };
  if (left > kByteGain)
    return Unsupported(
        Cat(percent(static_cast<double>(counts_->zeros) / static_cast<double>(counts_->weights)),
            " of the weights are zero, in blocks of 16x4 they leave ", percent(left),
            " of the dense product's work; worth it: ", percent(kByteGain)));
  if (!packed_) packed_ = std::make_shared<SparseByteWeights>(pack());
  return packed_;
}

int64_t SparseByteProduct::tiles() const { return BlocksOf(windows.rows(), kSparseByteRows); }

int64_t SparseByteProduct::together() const {
  if (w->bytes() <= kSparseWeightsInL2) return 1;
  return std::clamp<int64_t>(kTogetherBytes / tile_bytes(), 1, 8);
}

int64_t SparseByteProduct::scratch_bytes() const {
  return (few() ? tiles() : lanes * together()) * tile_bytes();
}

/// Rows behind the last one are those of the first: none of their results is kept.
void SparseByteProduct::PackTile(const OfRun& run, int64_t tile, uint8_t* to) const {
  const int64_t first = tile * kSparseByteRows;
  const auto count = static_cast<int>(std::min<int64_t>(kSparseByteRows, windows.rows() - first));
  const uint8_t flip = w->is_signed ? 128 : 0;
  const int64_t tap_bytes = quads() * step();
  windows.ForTaps(first, count, [&](int64_t tap, const int64_t* places) {
    const auto row = [&](int r) {
      return places[r] < 0 ? run.padding : run.x + places[r] * channels;
    };
    uint8_t* const tap_to = to + tap * tap_bytes;
    if (windows.rows() == 1) {
      for (int64_t k = 0; k < channels; ++k) tap_to[k] = row(0)[k] ^ flip;
      return;
    }
    const uint8_t* rows[kSparseByteRows];
    for (int r = 0; r < kSparseByteRows; ++r) rows[r] = row(r < count ? r : 0);
    loops->turn(rows, count, channels, flip, tap_to);
  });
}

void SparseByteProduct::Multiply(const OfRun& run, int64_t tile, const uint8_t* packed,
                                 int64_t panel) const {
  const int64_t first = tile * kSparseByteRows, column = panel * kSparseByteColumns;
  const auto rows = static_cast<int>(std::min<int64_t>(kSparseByteRows, windows.rows() - first));
  const int64_t begin = w->starts[static_cast<size_t>(panel)];
  simd::SparseByteCall call;
  call.x = packed;
  call.step = step();
  call.at = w->at.data() + begin;
  call.w = As<int8_t>(w->codes->data()) + begin * kBlockBytes;
  call.count = w->starts[static_cast<size_t>(panel) + 1] - begin;
  call.start = run.columns.start + column;
  call.bias = run.columns.bias + column;
  call.scale = run.columns.scales + column;
  call.plus = run.columns.plus ? run.columns.plus + column : nullptr;
  call.finish = &finish;
  call.d = run.y + (first * columns + column) * finish.result_bytes();
  call.d_stride = columns * finish.result_bytes();
  const int64_t wide = std::min<int64_t>(kSparseByteColumns, columns - column);
  if (wide == kSparseByteColumns) return loops->multiply(rows, call);
  // The last panel is wider than y.
  alignas(64) std::byte results[kSparseByteRows * kSparseByteColumns * 4] = {};
  std::byte* const d = call.d;
  const int64_t stride = call.d_stride, width = kSparseByteColumns * finish.result_bytes();
  const auto bytes = static_cast<size_t>(wide * finish.result_bytes());
  if (finish.form == simd::ByteFinish::Form::kResidual)
    for (int r = 0; r < rows; ++r) std::memcpy(results + r * width, d + r * stride, bytes);
  call.d = results;
  call.d_stride = width;
  loops->multiply(rows, call);
  for (int r = 0; r < rows; ++r) std::memcpy(d + r * stride, results + r * width, bytes);
}

void SparseByteProduct::Run(const OfRun& run, std::byte* scratch) const {
  uint8_t* const packed = As<uint8_t>(scratch);
  const int64_t bytes = tile_bytes();
  if (few()) {
    for (int64_t t = 0; t < tiles(); ++t) PackTile(run, t, packed + t * bytes);
    constexpr int64_t kLeastBlocks = 1 << 12;  // by rows of a tile that are worth a lane
    const int64_t grain = std::max<int64_t>(
        1, kLeastBlocks * panels() /
               std::max<int64_t>(1, tiles() * static_cast<int64_t>(w->at.size())));
    ForRange(panels(), grain, [&](int64_t begin, int64_t end) {
      for (int64_t p = begin; p < end; ++p)
        for (int64_t t = 0; t < tiles(); ++t) Multiply(run, t, packed + t * bytes, p);
    });
    return;
  }
  const int64_t most = together();
  ForRange(lanes, 1, [&](int64_t begin_lane, int64_t end_lane) {
    for (int64_t lane = begin_lane; lane < end_lane; ++lane) {
      uint8_t* const own = packed + lane * most * bytes;
      const int64_t end = tiles() * (lane + 1) / lanes;
      for (int64_t t = tiles() * lane / lanes; t < end; t += most) {
        const int64_t n = std::min(most, end - t);
        for (int64_t i = 0; i < n; ++i) PackTile(run, t + i, own + i * bytes);
        for (int64_t p = 0; p < panels(); ++p)
          for (int64_t i = 0; i < n; ++i) Multiply(run, t + i, own + i * bytes, p);
      }
    }
  });
}

}  // namespace infer
