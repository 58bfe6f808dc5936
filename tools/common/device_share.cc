#include "tools/common/device_share.h"

#include <algorithm>
#include <set>

#include "lib/support/readable.h"
#include "lib/support/strings.h"

namespace infer {
namespace {

const PlanView* Find(std::span<const PlanView> views, std::string_view name) {
  const auto it =
      std::find_if(views.begin(), views.end(), [&](const PlanView& v) { return v.name == name; });
  return it == views.end() ? nullptr : &*it;
}

/// Of a kernel of parts, "a + b", whether all are the device's.
bool IsOn(std::string_view device, std::string_view kernel) {
  constexpr std::string_view kJoin = " + ";
  for (;;) {
    if (!kernel.starts_with(Cat(device, ":"))) return false;
    const size_t end = kernel.find(kJoin);
    if (end == std::string_view::npos) return true;
    kernel.remove_prefix(end + kJoin.size());
  }
}

void CountTransfer(const PlanView::Launch& launch, const PlanView& memory, DeviceShare& share) {
  const auto& source = memory.buffers[static_cast<size_t>(launch.args[0])];
  const auto& target = memory.buffers[static_cast<size_t>(launch.args[1])];
  share.bytes += target.bytes;
  ++(source.kind == "input" || target.kind == "output" ? share.ends : share.between);
}

}  // namespace

std::optional<DeviceShare> ShareOf(std::span<const PlanView> views, std::string_view device) {
  const PlanView* layouts = Find(views, "layouts");
  const PlanView* launches = Find(views, "launches");
  const PlanView* memory = Find(views, "memory");
  if (!layouts || !launches || !memory) return std::nullopt;
  DeviceShare share;
  std::set<int> running;
  for (const PlanView::Launch& l : launches->launches) {
    if (l.kind == "transfer")
      CountTransfer(l, *memory, share);
    else if (l.kind == "kernel" || l.kind == "reference" || l.kind == "late")
      running.insert(l.step);
  }
  for (int s : running) {
    const PlanView::Step& step = layouts->steps[static_cast<size_t>(s)];
    const int64_t nodes = std::count(step.op.begin(), step.op.end(), '+') + 1;
    share.nodes += nodes;
    if (IsOn(device, step.kernel))
      share.on_device += nodes;
    else
      share.without[step.op] += nodes;
  }
  return share;
}

std::string ToText(const DeviceShare& s, std::string_view device) {
  const int64_t values = s.ends + s.between;
  return Cat(s.on_device, " of ", s.nodes, " nodes on ", device, ", ", values,
             values == 1 ? " value crosses (" : " values cross (", s.ends, " inputs and outputs, ",
             s.between, " between steps), ", Rounded(static_cast<double>(s.bytes) / 1e6, 3), " MB");
}

Json ToJson(const DeviceShare& s) {
  Json without = Json::array();
  for (const auto& [op, nodes] : s.without) without.push_back({{"op", op}, {"nodes", nodes}});
  return {{"nodes", s.nodes},
          {"on_device", s.on_device},
          {"crossings", {{"inputs_and_outputs", s.ends}, {"between_steps", s.between}}},
          {"crossing_bytes", s.bytes},
          {"without", std::move(without)}};
}

}  // namespace infer
