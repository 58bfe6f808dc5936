#include "quant/algorithm/channel_stats.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "lib/support/strings.h"

namespace infer {
namespace {

/// False: the tensor does not have the channels of the runs before.
bool Add(const Tensor& t, int axis, ChannelStats& s) {
  const int at = axis < 0 ? t.rank() + axis : axis;
  if (t.dtype() != DType::kF32 || at < 0 || at >= t.rank()) return false;
  const auto channels = static_cast<size_t>(t.dim(at));
  if (s.count.empty()) {
    s.lo.assign(channels, std::numeric_limits<double>::infinity());
    s.hi.assign(channels, -std::numeric_limits<double>::infinity());
    s.mean.assign(channels, 0.0);  // sums until the end
    s.count.assign(channels, 0);
  }
  if (s.count.size() != channels) return false;
  int64_t inner = 1;
  for (int i = at + 1; i < t.rank(); ++i) inner *= t.dim(i);
  const auto x = t.data<float>();
  const size_t stride = static_cast<size_t>(inner);
  for (size_t i = 0; i < x.size(); i += stride) {
    const size_t c = i / stride % channels;
    for (size_t k = i; k < i + stride; ++k) {
      const double v = static_cast<double>(x[k]);
      if (!std::isfinite(v)) continue;
      s.lo[c] = std::min(s.lo[c], v);
      s.hi[c] = std::max(s.hi[c], v);
      s.mean[c] += v;
      ++s.count[c];
    }
  }
  return true;
}

}  // namespace

Result<std::map<std::string, ChannelStats>> ObserveChannels(
    const Graph& graph, const std::vector<ChannelRequest>& requests, const Samples& samples,
    const ChannelRun& run) {
  struct Watch {
    ChannelRequest request;
    bool is_input = false, usable = true;
    size_t index = 0;
    ChannelStats stats;
  };
  std::vector<Watch> watches;
  std::vector<std::string> taps;
  for (const ChannelRequest& r : requests) {
    const Value* v = graph.FindValue(r.value);
    if (!v) return InvalidArgument(Cat("the graph has no value '", r.value, "'"));
    Watch w{r};
    w.is_input = v->is_input();
    if (w.is_input) {
      while (graph.inputs()[w.index] != v) ++w.index;
    } else {
      w.index = graph.outputs().size() + taps.size();
      taps.push_back(r.value);
    }
    watches.push_back(std::move(w));
  }
  CompileOptions compile;
  compile.level = run.level;
  compile.threads = run.threads;
  INFER_ASSIGN(TappedProgram t, CompileWithTaps(graph, taps, *run.backend, compile));
  for (int64_t i = 0; i < samples.count; ++i) {
    if (run.stop.stop_requested()) return Cancelled("was stopped");
    INFER_ASSIGN(std::vector<Datum> inputs, samples.get(i));
    INFER_TRY(RunInputs(*t.context, inputs, run.stop));
    for (Watch& w : watches) {
      const Datum& d = w.is_input ? inputs[w.index] : t.context->output(w.index);
      if (w.usable) w.usable = Add(d.tensor(), w.request.axis, w.stats);
    }
  }
  std::map<std::string, ChannelStats> result;
  for (Watch& w : watches) {
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
