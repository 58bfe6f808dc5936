#include "quant/target/half.h"

#include <algorithm>

#include "lib/ir/roles.h"

namespace infer {
namespace {

/// Is the left factor of a product by constant weights.
bool MeetsWeights(const Value& v) {
  return std::any_of(v.uses().begin(), v.uses().end(), [](const Use& use) {
    return use.user->Is("MatMul") && use.operand == 0 && use.user->input(1)->is_constant();
  });
}

}  // namespace

std::string WhyOrtLacksHalf(const Node& node) {
  if ((node.Is("ScatterElements") || node.Is("ScatterND")) &&
      node.Attr<std::string>("reduction") != "none")
    return "it reduces, for which ONNX Runtime has no kernel of f16";
  // Its NchwcTransformer ends the process for most orders that put axis 1 first and keep the last.
  if (!node.Is("Transpose") || !MeetsWeights(*node.output(0))) return "";
  const std::vector<int64_t> perm = PermOf(node);
  if (perm.size() > 2 && perm[0] == 1 && perm.back() + 1 == static_cast<int64_t>(perm.size()))
    return "ONNX Runtime 1.30 crashes when it loads it in f16 before a product by weights";
  return "";
}

}  // namespace infer
