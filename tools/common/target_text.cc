#include "tools/common/target_text.h"

#include <algorithm>

#include "lib/support/readable.h"
#include "lib/support/strings.h"

namespace infer {
namespace {

std::string_view Name(Severity s) {
  switch (s) {
    case Severity::kError: return "error";
    case Severity::kSlow: return "slow";
    case Severity::kDiffers: return "differs";
  }
  return "";
}

}  // namespace

FileVersions VersionsOf(const Model& m) {
  const auto it = m.info.opsets.find("");
  return {it == m.info.opsets.end() ? 0 : it->second, m.info.ir_version};
}

std::string ToText(const TargetReport& r, const Target& t) {
  std::vector<std::string> kernels;
  for (const auto& [kernel, count] : r.kernels) kernels.push_back(Cat(count, " ", kernel));
  std::string out = Cat("target ", t.name, ": ", r.errors() > 0 ? "refuses the file" : "takes it",
                        kernels.empty() ? "" : Cat("; in integers: ", Join(kernels, ", ")), "\n");
  struct Kind {
    const TargetFinding* first;
    int64_t count;
  };
  std::vector<Kind> kinds;
  for (const TargetFinding& f : r.findings) {
    const auto same = std::find_if(kinds.begin(), kinds.end(), [&](const Kind& k) {
      return k.first->severity == f.severity && k.first->what == f.what &&
             k.first->remedy == f.remedy;
    });
    if (same == kinds.end())
      kinds.push_back({&f, 1});
    else
      ++same->count;
  }
  for (const Kind& k : kinds)
    out += Cat("  ", Name(k.first->severity), ": ",
               k.first->node.empty() ? "" : Cat(Printable(k.first->node), ": "), k.first->what,
               k.count > 1 ? Cat(" (", k.count, " nodes)") : "", "; try ", k.first->remedy, "\n");
  return out;
}

Json ToJson(const TargetReport& r, const Target& t) {
  Json j = {{"name", t.name}, {"fits", r.errors() == 0}, {"integer_kernels", Json::object()}};
  for (const auto& [kernel, count] : r.kernels) j["integer_kernels"][kernel] = count;
  j["findings"] = Json::array();
  for (const TargetFinding& f : r.findings)
    j["findings"].push_back({{"node", f.node},
                             {"severity", Name(f.severity)},
                             {"what", f.what},
                             {"remedy", f.remedy},
                             {"processors", f.processors}});
  return j;
}

std::string ToText(const Readers& r) {
  const std::string ort =
      r.onnxruntime.empty() ? "no ONNX Runtime of the table"
                            : Cat("ONNX Runtime ", r.onnxruntime,
                                  r.by_versions ? " (by opset and IR version)" : "", " and newer");
  return Cat(ort, r.openvino.empty() ? Cat("; not by OpenVINO ", kOpenVinoVersion)
                                     : Cat(", OpenVINO ", r.openvino, " and newer"));
}

Json ToJson(const Readers& r) {
  return {{"onnxruntime", r.onnxruntime.empty() ? Json() : Json(r.onnxruntime)},
          {"by_versions", r.by_versions},
          {"openvino", r.openvino.empty() ? Json() : Json(r.openvino)}};
}

}  // namespace infer
