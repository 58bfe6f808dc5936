#include "lib/ir/scan_layout.h"

#include "lib/support/strings.h"

namespace infer {

const std::unique_ptr<Graph>* Find(const Subgraphs& subgraphs, std::string_view name) {
  for (const auto& [n, g] : subgraphs)
    if (n == name) return &g;
  return nullptr;
}

Result<ScanLayout> LayoutOf(const AttrMap& attrs, size_t num_inputs, size_t num_body_outputs) {
  ScanLayout l;
  auto it = attrs.find("num_scan_inputs");
  if (it == attrs.end()) return InvalidModel("Scan: num_scan_inputs is missing");
  l.scans = static_cast<size_t>(std::get<int64_t>(it->second));
  if (l.scans > num_inputs || l.scans == 0) return InvalidModel("Scan: bad num_scan_inputs");
  l.states = num_inputs - l.scans;
  if (num_body_outputs < l.states) return InvalidModel("Scan: the body gives too few outputs");
  auto list = [&](const char* name, size_t n, std::vector<int64_t>& v) -> Status {
    v.assign(n, 0);
    auto found = attrs.find(name);
    if (found == attrs.end()) return {};
    const auto& given = std::get<std::vector<int64_t>>(found->second);
    if (given.size() != n)
      return InvalidModel(Cat("Scan: ", name, " has ", given.size(), " entries, not ", n));
    v = given;
    return {};
  };
  auto directions = [&](const char* name, size_t n, std::vector<int64_t>& v) -> Status {
    INFER_TRY(list(name, n, v));
    for (int64_t d : v)
      if (d != 0 && d != 1)
        return InvalidModel(Cat("Scan: ", name, ": ", d, " is neither 0 (forward) nor 1"));
    return {};
  };
  const size_t results = num_body_outputs - l.states;
  INFER_TRY(list("scan_input_axes", l.scans, l.in_axes));
  INFER_TRY(directions("scan_input_directions", l.scans, l.in_directions));
  INFER_TRY(list("scan_output_axes", results, l.out_axes));
  INFER_TRY(directions("scan_output_directions", results, l.out_directions));
  return l;
}

}  // namespace infer
