#include "tools/infer_bench/load/request_trace.h"

#include "runtime/engine/telemetry.h"
#include "tools/common/report.h"

namespace infer::bench {

std::string RequestTrace(std::string_view process, const std::vector<engine::RequestSpan>& spans,
                         int64_t origin_ns) {
  Json events = Json::array();
  events.push_back({{"ph", "M"},
                    {"name", "process_name"},
                    {"pid", 1},
                    {"tid", 1},
                    {"args", {{"name", process}}}});
  const auto add = [&](const char* what, const engine::RequestSpan& s, const std::string& name,
                       int64_t at_ns) -> Json& {
    events.push_back({{"ph", what},
                      {"cat", "request"},
                      {"id", s.number},
                      {"name", name},
                      {"pid", 1},
                      {"tid", 1},
                      {"ts", static_cast<double>(at_ns - origin_ns) / 1e3}});
    return events.back();
  };
  for (const engine::RequestSpan& s : spans) {
    add("b", s, s.model, s.came_ns)["args"] = {{"end", Name(s.end)},
                                               {"priority", Name(s.priority)},
                                               {"version", s.version},
                                               {"rows", s.batch_rows}};
    int64_t at_ns = s.came_ns;
    for (const auto& [phase, ns] : {std::pair(engine::Phase::kQueue, s.phases.queue_ns),
                                    std::pair(engine::Phase::kBatch, s.phases.batch_ns),
                                    std::pair(engine::Phase::kCompute, s.phases.compute_ns)}) {
      if (ns <= 0) continue;
      const std::string name(Name(phase));
      add("b", s, name, at_ns);
      add("e", s, name, at_ns += ns);
    }
    add("e", s, s.model, s.came_ns + s.phases.total_ns);
  }
  return JsonText(Json{{"displayTimeUnit", "ms"}, {"traceEvents", std::move(events)}}, 1);
}

}  // namespace infer::bench
