#include "tools/common/plan_report.h"

#include "lib/support/readable.h"
#include "lib/support/strings.h"

namespace infer {
namespace {

Json ToJson(const std::vector<PlanView::Operand>& operands) {
  Json list = Json::array();
  for (const auto& o : operands)
    list.push_back({{"value", o.value},
                    {"type", o.type},
                    {"layout", o.layout},
                    {"constant", o.constant},
                    {"buffer", o.buffer}});
  return list;
}

Json ToJson(const PlanView& v) {
  Json steps = Json::array(), launches = Json::array(), buffers = Json::array();
  for (const auto& s : v.steps)
    steps.push_back({{"node", s.node},
                     {"op", s.op},
                     {"fused_from", s.fused_from},
                     {"operands", ToJson(s.operands)},
                     {"results", ToJson(s.results)},
                     {"kernel", s.kernel},
                     {"precision", s.precision},
                     {"candidates", s.candidates},
                     {"refusals", s.refusals}});
  for (const auto& l : v.launches)
    launches.push_back({{"step", l.step}, {"kind", l.kind}, {"args", l.args}});
  for (size_t b = 0; b < v.buffers.size(); ++b) {
    const PlanView::Buffer& buffer = v.buffers[b];
    if (buffer.kind.empty()) continue;
    buffers.push_back({{"buffer", b},
                       {"kind", buffer.kind},
                       {"value", buffer.value},
                       {"layout", buffer.layout},
                       {"bytes", buffer.bytes},
                       {"offset", buffer.offset},
                       {"first", buffer.first},
                       {"last", buffer.last}});
  }
  return {{"name", v.name},
          {"ms", v.ms},
          {"steps", std::move(steps)},
          {"launches", std::move(launches)},
          {"buffers", std::move(buffers)},
          {"arena_bytes", v.arena_bytes},
          {"lower_bound_bytes", v.lower_bound_bytes}};
}

bool IsFinal(const PlanView& v) {
  return v.name == "layouts" || v.name == "launches" || v.name == "memory";
}

std::string HeadOf(const PlanView& v) {
  std::vector<std::string> parts;
  if (!v.steps.empty()) parts.push_back(Cat(v.steps.size(), " steps"));
  if (!v.launches.empty()) parts.push_back(Cat(v.launches.size(), " launches"));
  if (!v.buffers.empty()) parts.push_back(HumanBytes(v.arena_bytes) + " arena");
  if (v.ms > 0) parts.push_back(Fixed(v.ms, 2) + " ms");
  return Cat(v.name, ": ", Join(parts, ", "), "\n");
}

}  // namespace

Status ShowPlan(Context& context, const std::string& which, std::span<const PlanView> views,
                Json& report) {
  if (views.empty()) return Unsupported("--plan: this device shows no plan");
  Json& list = report["plan"] = Json::array();
  std::vector<std::string> names = {"final", "all"};
  for (const PlanView& v : views) {
    names.push_back(v.name);
    if (which != "all" && which != v.name && !(which == "final" && IsFinal(v))) continue;
    list.push_back(ToJson(v));
    context.Print(HeadOf(v) + ToText(v));
  }
  if (list.empty() && which == "final") {  // extents that only a run knows
    list.push_back(ToJson(views.back()));
    context.Print(HeadOf(views.back()) + ToText(views.back()));
    context.Note(
        Cat("layouts, launches and memory are planned for extents (--set, --shape): this is the "
            "plan after "
            "the step '",
            views.back().name, "'"));
    return {};
  }
  if (list.empty())
    return InvalidArgument(Cat("--plan=", which, ": no such step; there are ", Join(names, ", ")));
  return {};
}

}  // namespace infer
