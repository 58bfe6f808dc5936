#include "runtime/cpu/spatial.h"

#include <algorithm>

namespace infer {
namespace {

Dims IntsOr(const Node& node, std::string_view name, size_t n, int64_t value) {
  const auto it = node.attrs().find(name);
  if (it == node.attrs().end()) return Dims(n, value);
  const auto* v = std::get_if<std::vector<int64_t>>(&it->second);
  return v && !v->empty() ? *v : Dims(n, value);
}

std::string AutoPad(const Node& node) {
  const auto it = node.attrs().find("auto_pad");
  if (it == node.attrs().end()) return "NOTSET";
  const auto* s = std::get_if<std::string>(&it->second);
  return s ? *s : "NOTSET";
}

}  // namespace

Result<Window> WindowOf(const Node& node, const Dims& kernel, const Dims& src, const Dims& dst) {
  const size_t n = kernel.size();
  if (src.size() != n + 2 || dst.size() != n + 2) return Unsupported("ranks do not fit");
  Window w{kernel, IntsOr(node, "strides", n, 1), IntsOr(node, "dilations", n, 1), Dims(n, 0),
           Dims(n, 0)};
  const Dims pads = IntsOr(node, "pads", 2 * n, 0);
  const std::string auto_pad = AutoPad(node);
  if (w.strides.size() != n || w.dilations.size() != n || pads.size() != 2 * n)
    return Unsupported("attributes do not fit the rank");
  for (size_t i = 0; i < n; ++i) {
    if (auto_pad == "NOTSET") {
      w.pads_begin[i] = pads[i];
      w.pads_end[i] = pads[n + i];
    } else if (auto_pad != "VALID") {
      const int64_t reach = (kernel[i] - 1) * w.dilations[i] + 1;
      const int64_t total =
          std::max<int64_t>(0, (dst[i + 2] - 1) * w.strides[i] + reach - src[i + 2]);
      w.pads_begin[i] = auto_pad == "SAME_UPPER" ? total / 2 : total - total / 2;
      w.pads_end[i] = total - w.pads_begin[i];
    }
    if (w.pads_begin[i] < 0 || w.pads_end[i] < 0) return Unsupported("negative padding");
  }
  return w;
}

}  // namespace infer
