#include "lib/onnx/unsupported.h"

#include <algorithm>

#include "lib/ir/op_name.h"
#include "lib/onnx/model.h"
#include "lib/support/strings.h"

namespace infer::onnx_io {
namespace {

constexpr int64_t kNewestMlOpset = 5;

/// The newest opset that we know of a domain; 0 for a domain that we do not know.
int64_t NewestOpset(const OpRegistry& ops, const std::string& domain) {
  if (domain.empty()) return kNewestOpset;
  if (domain == "ai.onnx.ml") return kNewestMlOpset;
  const bool known = std::any_of(ops.all().begin(), ops.all().end(),
                                 [&](const OpDef* def) { return def->domain == domain; });
  return known ? INT64_MAX : 0;  // domains of one version
}

}  // namespace

void UnsupportedList::Add(const std::string& what, const std::string& node) {
  nodes_[what].push_back(node);
}

Status UnsupportedList::ToStatus() const {
  constexpr size_t kShown = 8;
  std::string out =
      Cat(nodes_.size(), nodes_.size() == 1 ? " thing is" : " things are", " not supported:");
  for (const auto& [what, nodes] : nodes_) {
    const std::vector<std::string> shown(
        nodes.begin(), nodes.begin() + static_cast<std::ptrdiff_t>(std::min(kShown, nodes.size())));
    out += Cat("\n  ", what, "\n    at ", Join(shown, ", "));
    if (nodes.size() > kShown) out += Cat(" and ", nodes.size() - kShown, " more");
  }
  return Unsupported(std::move(out));
}

Result<const OpDef*> FindOperator(const OpRegistry& ops, const std::string& domain,
                                  const std::string& name, int64_t opset) {
  auto lacking = [&](const std::string& why) {
    return Unsupported(Cat("operator ", FullOpName(domain, name), " (opset ", opset, "): ", why));
  };
  const int64_t newest = NewestOpset(ops, domain);
  if (newest == 0)
    return lacking(Cat("no operators of domain '", domain,
                       "' are known; export with standard operators, or give the operator's "
                       "meaning as a model-local function"));
  const OpDef* def = ops.Find(domain, name);
  if (!def)
    return lacking(
        "no such operator is known; export with other operators, or give its meaning as a "
        "model-local function");
  if (opset > newest)
    return lacking(Cat("the newest known opset is ", newest, "; export the model for opset ",
                       newest, " or lower"));
  if (def->versions.front() > opset)
    return lacking(Cat("it exists since opset ", def->versions.front(),
                       "; export the model for that opset or a newer one"));
  return def;
}

}  // namespace infer::onnx_io
