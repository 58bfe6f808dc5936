#include "tools/infer_bench/load/device_use.h"

#include <algorithm>
#include <map>
#include <utility>

#include "lib/support/file.h"
#include "lib/support/readable.h"
#include "lib/support/strings.h"

namespace infer::bench {
namespace {

/// Of a trace: what browsers show.
constexpr size_t kMostShown = 200'000;

using Interval = std::pair<double, double>;

/// Disjoint, in order; `spans` by their ends, of which `wanted` says which count.
template <typename Wanted>
std::vector<Interval> Union(const std::vector<DeviceSpan>& spans, const Wanted& wanted) {
  std::vector<Interval> all;
  for (const DeviceSpan& s : spans)
    if (wanted(s)) all.emplace_back(s.begin_ms, s.end_ms);
  std::sort(all.begin(), all.end());
  std::vector<Interval> merged;
  for (const Interval& i : all) {
    if (merged.empty() || i.first > merged.back().second)
      merged.push_back(i);
    else
      merged.back().second = std::max(merged.back().second, i.second);
  }
  return merged;
}

double Length(const std::vector<Interval>& all) {
  double ms = 0;
  for (const auto& [begin, end] : all) ms += end - begin;
  return ms;
}

double LengthOfBoth(const std::vector<Interval>& a, const std::vector<Interval>& b) {
  double ms = 0;
  for (size_t i = 0, k = 0; i < a.size() && k < b.size();) {
    ms += std::max(0.0, std::min(a[i].second, b[k].second) - std::max(a[i].first, b[k].first));
    ++(a[i].second < b[k].second ? i : k);
  }
  return ms;
}

std::string ShareText(double share) { return Cat(Fixed(100 * share, 1), " %"); }

}  // namespace

std::vector<DeviceSpan> InOrder(const DeviceActivity& activity) {
  std::vector<DeviceSpan> spans = activity.spans;
  std::stable_sort(spans.begin(), spans.end(),
                   [](const DeviceSpan& a, const DeviceSpan& b) { return a.end_ms < b.end_ms; });
  std::map<int, int> lanes;
  for (const DeviceSpan& s : spans) lanes[s.encoder] = 0;
  int count = 0;
  for (auto& [encoder, lane] : lanes) lane = count++;
  std::vector<double> of_queue(activity.queues.size(), 0), of_lane(lanes.size(), 0);
  std::vector<DeviceSpan> out;
  for (DeviceSpan s : spans) {
    s.encoder = lanes[s.encoder];
    double& queue = of_queue[static_cast<size_t>(s.queue)];
    double& lane = of_lane[static_cast<size_t>(s.encoder)];
    s.begin_ms = std::max({s.begin_ms, queue, lane});
    s.end_ms = std::min(s.end_ms, activity.window_ms);
    if (s.end_ms < s.begin_ms) continue;
    queue = lane = s.end_ms;
    out.push_back(s);
  }
  return out;
}

DeviceUse UseOf(const DeviceActivity& activity, const std::vector<DeviceSpan>& spans) {
  DeviceUse use{
      .window_ms = activity.window_ms, .untimed = activity.untimed, .dropped = activity.dropped};
  const auto of_queue = [&](size_t q) {
    return Union(spans, [&](const DeviceSpan& s) { return static_cast<size_t>(s.queue) == q; });
  };
  for (size_t q = 0; q < activity.queues.size(); ++q)
    use.queues.push_back({activity.queues[q], 0, Length(of_queue(q))});
  for (const DeviceSpan& s : spans) {
    ++use.queues[static_cast<size_t>(s.queue)].submissions;
    use.lanes = std::max(use.lanes, s.encoder + 1);
  }
  use.busy_ms = Length(Union(spans, [](const DeviceSpan&) { return true; }));
  const auto transfers = Union(spans, [](const DeviceSpan& s) { return s.queue > 0; });
  use.transfer_ms = Length(transfers);
  use.overlapped_ms = LengthOfBoth(transfers, of_queue(0));
  return use;
}

Json ToJson(const DeviceUse& use) {
  Json queues = Json::array();
  for (const QueueUse& q : use.queues)
    queues.push_back({{"queue", q.queue},
                      {"submissions", q.submissions},
                      {"busy_ms", q.busy_ms},
                      {"utilization", use.share(q.busy_ms)}});
  return {{"window_ms", use.window_ms},
          {"lanes", use.lanes},
          {"busy_ms", use.busy_ms},
          {"utilization", use.share(use.busy_ms)},
          {"queues", std::move(queues)},
          {"transfer_ms", use.transfer_ms},
          {"overlapped_ms", use.overlapped_ms},
          {"overlapped_share",
           use.transfer_ms > 0 ? Json(use.overlapped_ms / use.transfer_ms) : Json()},
          {"untimed", use.untimed},
          {"dropped", use.dropped}};
}

std::string DeviceLine(const DeviceUse& use) {
  std::string out =
      Cat("device busy ", ShareText(use.share(use.busy_ms)), " of ", Fixed(use.window_ms / 1e3, 1),
          " s, ", use.lanes, use.lanes == 1 ? " lane" : " lanes");
  const char* join = ": ";
  for (const QueueUse& q : use.queues) {
    out += Cat(join, q.queue, " ", ShareText(use.share(q.busy_ms)), " (", q.submissions, ")");
    join = ", ";
  }
  if (use.transfer_ms > 0)
    out +=
        Cat("; ", ShareText(use.overlapped_ms / use.transfer_ms), " of transfers beside shaders");
  if (use.untimed > 0) out += Cat("; ", use.untimed, " submissions to queues without a clock");
  if (use.dropped > 0) out += Cat("; ", use.dropped, " submissions behind the window");
  return out + "\n";
}

std::string ChromeTrace(std::string_view process, const std::vector<std::string>& queues,
                        const std::vector<DeviceSpan>& spans) {
  Json events = Json::array();
  const auto named = [&](std::string_view of, const std::string& name, size_t thread) {
    events.push_back(
        {{"ph", "M"}, {"name", of}, {"pid", 1}, {"tid", thread}, {"args", {{"name", name}}}});
  };
  named("process_name", std::string(process), 1);
  for (size_t q = 0; q < queues.size(); ++q) named("thread_name", Cat(queues[q], " queue"), q + 1);
  for (size_t i = 0; i < std::min(spans.size(), kMostShown); ++i) {
    const DeviceSpan& s = spans[i];
    events.push_back({{"ph", "X"},
                      {"name", Cat("lane ", s.encoder)},
                      {"cat", queues[static_cast<size_t>(s.queue)]},
                      {"pid", 1},
                      {"tid", s.queue + 1},
                      {"ts", 1e3 * s.begin_ms},
                      {"dur", 1e3 * (s.end_ms - s.begin_ms)},
                      {"args", {{"lane", s.encoder}}}});
  }
  return JsonText(Json{{"displayTimeUnit", "ms"}, {"traceEvents", std::move(events)}}, 1);
}

void DeviceUseOptions::Declare(Options& options) {
  options.Flag("--utilization", &utilization,
               "Share of the time in which the device was busy, by its clock, and of transfers "
               "beside shaders");
  options.Value("--trace", &trace,
                "Write the submissions of all lanes to FILE for chrome://tracing or Perfetto: a "
                "track for each queue of the device",
                PathUse::kWrite);
}

Result<Json> DeviceUseOptions::Show(Context& context, std::string_view model,
                                    std::string_view device, const DeviceActivity& activity) const {
  const std::vector<DeviceSpan> spans = InOrder(activity);
  const DeviceUse use = UseOf(activity, spans);
  context.Print(DeviceLine(use));
  if (!trace.empty()) {
    if (spans.size() > kMostShown)
      context.Warn(Cat(trace, " has the first ", kMostShown, " of ", spans.size(),
                       " submissions: a shorter --duration has all"));
    INFER_TRY(WriteFileAtomically(trace,
                                  ChromeTrace(Cat(model, " on ", device), activity.queues, spans)));
  }
  return ToJson(use);
}

}  // namespace infer::bench
