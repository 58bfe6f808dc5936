#include "quant/algorithm/channel_stats.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "quant/calibrate/pieces.h"

namespace infer {
namespace {

/// `n` numbers of channel c, `stride` apart.
void AddChannel(const float* x, int64_t n, int64_t stride, size_t c, ChannelStats& s) {
  for (int64_t k = 0; k < n; ++k) {
    const double v = static_cast<double>(x[k * stride]);
    if (!std::isfinite(v)) continue;
    s.lo[c] = std::min(s.lo[c], v);
    s.hi[c] = std::max(s.hi[c], v);
    s.mean[c] += v;
    ++s.count[c];
  }
}

constexpr int64_t kLanes = 16;
struct LaneStats {
  std::array<float, kLanes> lo, hi;
  std::array<double, kLanes> sum{};
  bool finite = true;
};

/// Of `rows` >= 1 rows of kLanes numbers, `stride` apart.
LaneStats SumLanes(const float* x, int64_t rows, int64_t stride) {
  LaneStats s;
  std::array<float, kLanes> odd{};
  std::copy_n(x, kLanes, s.lo.begin());
  s.hi = s.lo;
  for (int64_t r = 0; r < rows; ++r, x += stride)
    for (size_t k = 0; k < kLanes; ++k) {
      s.lo[k] = x[k] < s.lo[k] ? x[k] : s.lo[k];
      s.hi[k] = x[k] > s.hi[k] ? x[k] : s.hi[k];
      odd[k] += x[k] * 0.0f;  // NaN from the first NaN or infinity on
      s.sum[k] += static_cast<double>(x[k]);
    }
  for (const float o : odd) s.finite &= !std::isnan(o);
  return s;
}

void Merge(const LaneStats& lanes, size_t k, int64_t count, size_t c, ChannelStats& s) {
  s.lo[c] = std::min(s.lo[c], static_cast<double>(lanes.lo[k]));
  s.hi[c] = std::max(s.hi[c], static_cast<double>(lanes.hi[k]));
  s.mean[c] += lanes.sum[k];
  s.count[c] += count;
}

/// Channel c as one row.
void AddPlain(const float* x, int64_t n, size_t c, ChannelStats& s) {
  const int64_t rows = n / kLanes;
  if (rows > 0) {
    const LaneStats lanes = SumLanes(x, rows, kLanes);
    if (!lanes.finite) return AddChannel(x, n, 1, c, s);
    for (size_t k = 0; k < kLanes; ++k) Merge(lanes, k, rows, c, s);
  }
  AddChannel(x + rows * kLanes, n - rows * kLanes, 1, c, s);
}

/// `count` channels from c on, beside each other at each of `n` positions.
void AddBeside(const float* x, int64_t n, int64_t stride, int64_t count, size_t c,
               ChannelStats& s) {
  for (int64_t at = 0; at < count; at += kLanes) {
    const size_t first = c + static_cast<size_t>(at);
    const int64_t width = std::min(kLanes, count - at);
    if (width == kLanes) {
      const LaneStats lanes = SumLanes(x + at, n, stride);
      if (lanes.finite) {
        for (size_t k = 0; k < kLanes; ++k) Merge(lanes, k, n, first + k, s);
        continue;
      }
    }
    for (int64_t k = 0; k < width; ++k)
      AddChannel(x + at + k, n, stride, first + static_cast<size_t>(k), s);
  }
}

/// Row-major.
std::vector<float> PlainCopy(const RawValue& v) {
  std::vector<float> plain(static_cast<size_t>(NumElements(v.dims)));
  const auto* x = reinterpret_cast<const float*>(v.data);
  const int64_t channels = v.dims[1];
  const int64_t spatial = NumElements(v.dims) / (v.dims[0] * channels);
  size_t at = 0;
  for (int64_t n = 0; n < v.dims[0]; ++n)
    for (int64_t c = 0; c < channels; ++c)
      for (int64_t k = 0; k < spatial; ++k) plain[at++] = x[RawOffset(v, spatial, n, c, k)];
  return plain;
}

/// False: the value does not have the channels of the runs before.
bool Add(const RawValue& v, int axis, ChannelStats& s) {
  const int rank = static_cast<int>(v.dims.size());
  const int at = axis < 0 ? rank + axis : axis;
  if (v.dtype != DType::kF32 || at < 0 || at >= rank) return false;
  const auto channels = static_cast<size_t>(v.dims[static_cast<size_t>(at)]);
  if (s.count.empty()) {
    s.lo.assign(channels, std::numeric_limits<double>::infinity());
    s.hi.assign(channels, -std::numeric_limits<double>::infinity());
    s.mean.assign(channels, 0.0);  // sums until the end
    s.count.assign(channels, 0);
  }
  if (s.count.size() != channels) return false;
  const int64_t all = NumElements(v.dims);
  if (all == 0) return true;
  if (at != 1 && v.channel_block > 0) {
    const std::vector<float> plain = PlainCopy(v);
    return Add({v.output, v.dtype, v.dims, reinterpret_cast<const std::byte*>(plain.data())}, at,
               s);
  }
  const auto* x = reinterpret_cast<const float*>(v.data);
  const auto count = static_cast<int64_t>(channels);
  int64_t inner = 1;
  for (int i = at + 1; i < rank; ++i) inner *= v.dims[static_cast<size_t>(i)];
  const int64_t outer = all / (inner * count);
  if (const int64_t block = v.channel_block; block > 0) {
    for (int64_t n = 0; n < outer; ++n)
      for (int64_t c = 0; c < count; c += block)
        AddBeside(x + RawOffset(v, inner, n, c, 0), inner, block, std::min(block, count - c),
                  static_cast<size_t>(c), s);
  } else if (inner == 1) {
    AddBeside(x, outer, count, count, 0, s);
  } else {
    for (int64_t n = 0; n < outer; ++n)
      for (int64_t c = 0; c < count; ++c)
        AddPlain(x + (n * count + c) * inner, inner, static_cast<size_t>(c), s);
  }
  return true;
}

}  // namespace

Result<std::map<std::string, ChannelStats>> ObserveChannels(
    const Graph& graph, const std::vector<ChannelRequest>& requests, const Samples& samples,
    const ChannelRun& run) {
  struct Seen {
    ChannelRequest request;
    bool usable = true;
    ChannelStats stats;
  };
  std::vector<Seen> all;
  std::vector<std::string> wanted;
  for (const ChannelRequest& r : requests) {
    all.push_back({r, true, {}});
    wanted.push_back(r.value);
  }
  CompileOptions compile;
  compile.level = run.level;
  compile.threads = run.threads;
  INFER_ASSIGN(Watch watch, Watch::Make(graph.Clone(), wanted, *run.backend, compile));
  for (int64_t i = 0; i < samples.count; ++i) {
    if (run.stop.stop_requested()) return Cancelled("was stopped");
    INFER_ASSIGN(std::vector<Datum> inputs, samples.get(i));
    const auto see = [&](size_t k, const RawValue& v) {
      if (all[k].usable) all[k].usable = Add(v, all[k].request.axis, all[k].stats);
    };
    INFER_TRY(watch.Run(std::move(inputs), see, run.stop));
  }
  std::map<std::string, ChannelStats> result;
  for (Seen& w : all) {
    if (!w.usable || w.stats.count.empty()) continue;
    for (size_t c = 0; c < w.stats.count.size(); ++c) {
      if (w.stats.count[c] == 0)
        w.stats.lo[c] = w.stats.hi[c] = 0;
      else
        w.stats.mean[c] /= static_cast<double>(w.stats.count[c]);
    }
    result[w.request.value] = std::move(w.stats);
  }
  return result;
}

}  // namespace infer
