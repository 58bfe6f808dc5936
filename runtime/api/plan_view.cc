#include "runtime/api/plan_view.h"

#include "lib/support/readable.h"
#include "lib/support/strings.h"

namespace infer {
namespace {

std::string Text(const std::vector<PlanView::Operand>& operands) {
  std::vector<std::string> parts;
  for (const auto& o : operands)
    parts.push_back(Cat(Printable(o.value), ": ", Printable(o.type), o.constant ? " const" : "",
                        o.layout.empty() ? "" : " " + o.layout,
                        o.buffer < 0 ? "" : Cat(" #", o.buffer)));
  return Join(parts, ", ");
}

std::string Text(const PlanView::Step& s) {
  std::string out = Cat(s.op, "  ", Printable(s.node));
  if (s.fused_from.size() > 1) out += Cat("  from ", Printable(Join(s.fused_from, ", ")));
  out += Cat("\n      ", Text(s.operands), " -> ", Text(s.results), "\n");
  if (!s.kernel.empty()) out += Cat("      kernel ", s.kernel, " ", s.precision);
  if (!s.kernel.empty() && !s.candidates.empty()) out += Cat(", of ", Join(s.candidates, ", "));
  if (!s.kernel.empty()) out += "\n";
  for (const std::string& r : s.refusals) out += Cat("      refused by ", Printable(r), "\n");
  return out;
}

std::string Text(const PlanView::Launch& l) {
  std::string out = Cat("step ", l.step, " ", l.kind);
  for (int b : l.args) out += b < 0 ? " -" : Cat(" #", b);
  return out + "\n";
}

std::string Text(const PlanView::Buffer& b, size_t i) {
  std::string out =
      Cat("  #", i, " ", b.on_device ? "device " : "", b.kind, " ", b.bytes, " bytes");
  if (b.kind == "arena") out += Cat(" at ", b.offset);
  return out + Cat(", launches ", b.first, "..", b.last, ", ",
                   b.value.empty() ? "scratch" : Printable(b.value),
                   b.layout.empty() ? "" : " " + b.layout, "\n");
}

}  // namespace

std::string ToText(const PlanView& view) {
  std::string out;
  for (size_t i = 0; i < view.steps.size(); ++i) out += Cat("  ", i, ": ", Text(view.steps[i]));
  for (size_t i = 0; i < view.launches.size(); ++i)
    out += Cat("  launch ", i, ": ", Text(view.launches[i]));
  for (size_t i = 0; i < view.buffers.size(); ++i)
    if (!view.buffers[i].kind.empty()) out += Text(view.buffers[i], i);
  if (!view.buffers.empty())
    out += Cat("  arena ", view.arena_bytes, " bytes, lower bound ", view.lower_bound_bytes, "\n");
  return out;
}

}  // namespace infer
