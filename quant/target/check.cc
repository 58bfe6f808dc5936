#include "quant/target/check.h"

#include <algorithm>

#include "lib/ir/roles.h"
#include "quant/target/checks.h"

namespace infer {
namespace target {

void ForEachNode(const Graph& g, const std::function<void(const Node&)>& visit) {
  for (const auto& n : g.nodes()) {
    visit(*n);
    for (const auto& [attr, sub] : n->subgraphs()) ForEachNode(*sub, visit);
  }
}

bool Lists(std::string_view list, std::string_view name) {
  return list.find(Cat(" ", name, " ")) != std::string_view::npos;
}

bool Is8Bit(DType t) { return t == DType::kU8 || t == DType::kI8; }

const Node* DequantizedBy(const Value* v) {
  const Node* n = DequantizeBefore(v);
  return n && HasConstantParams(*n) ? n : nullptr;
}

bool IsProduct(const Node& n) { return WeightLayoutOf(n).has_value(); }

namespace {

void CheckVersions(const FileVersions& file, const Target& t, TargetReport& r) {
  if (file.opset > t.opset)
    r.findings.push_back({"", Severity::kError,
                          Cat("opset ", file.opset, "; ", t.name, " reads up to ", t.opset),
                          Cat("--opset ", t.opset)});
  if (file.ir_version > t.ir_version)
    r.findings.push_back(
        {"", Severity::kError,
         Cat("IR version ", file.ir_version, "; ", t.name, " reads up to ", t.ir_version),
         Cat("write it with --target ", t.name)});
}

}  // namespace
}  // namespace target

int64_t TargetReport::errors() const {
  return std::count_if(findings.begin(), findings.end(),
                       [](const TargetFinding& f) { return f.severity == Severity::kError; });
}

const TargetFinding* TargetReport::first_error() const {
  const auto it = std::find_if(findings.begin(), findings.end(), [](const TargetFinding& f) {
    return f.severity == Severity::kError;
  });
  return it == findings.end() ? nullptr : &*it;
}

Result<TargetReport> CheckTarget(const Graph& g, const FileVersions& file, const Target& target,
                                 const Backend& ours) {
  TargetReport r;
  switch (target.runtime) {
    case TargetRuntime::kOnnxRuntime:
      target::CheckVersions(file, target, r);
      target::CheckOrtKernels(g, file, target, r);
      target::CheckOrtForms(g, file, target, r);
      break;
    case TargetRuntime::kOpenVino: target::CheckOpenVino(g, r); break;
    case TargetRuntime::kOurs: INFER_TRY(target::CheckOurs(g, ours, r)); break;
  }
  std::stable_sort(
      r.findings.begin(), r.findings.end(),
      [](const TargetFinding& a, const TargetFinding& b) { return a.severity < b.severity; });
  return r;
}

}  // namespace infer
