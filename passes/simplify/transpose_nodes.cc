/// How a node works in another order of axes.
#include "passes/rewrite/queries.h"
#include "passes/simplify/transpose_region.h"

namespace infer {
namespace {

bool HasOneElement(const Value& v) {
  const Dim count = v.shape().num_elements();
  return count.is_static() && count.value() == 1;
}

/// Constants of a smaller rank are brought to the whole one; other operands must have it.
std::optional<PermutedCall> PermuteElementwise(const Node& n, const Perm& perm, PermutedCall to) {
  const int rank = static_cast<int>(perm.size());
  if (RankOf(*n.output()) != rank) return std::nullopt;
  to.data.clear();
  for (size_t i = 0; i < n.inputs().size(); ++i) {
    const Value* v = n.input(i);
    if (!v || RankOf(*v) < 0) return std::nullopt;
    if (RankOf(*v) == rank || v->is_constant())
      to.data.push_back(i);
    else if (!HasOneElement(*v))
      return std::nullopt;
  }
  return to;
}

}  // namespace

bool MayPermute(const Node& n) {
  return n.Is(Trait::kUnary) || n.def().permute ||
         (n.def().domain.empty() && n.Is(Trait::kElementwise));
}

std::optional<PermutedCall> PermuteNode(const Node& n, const Perm& perm) {
  if (!MayPermute(n) || !n.input(0)) return std::nullopt;
  for (const Value* v : n.inputs())
    if (v && !v->type().is_tensor()) return std::nullopt;
  PermutedCall to{.data = {0}, .attrs = n.attrs(), .replaced = {}, .out_perm = perm};
  if (n.Is(Trait::kElementwise)) return PermuteElementwise(n, perm, std::move(to));
  if (RankOf(*n.input(0)) != static_cast<int>(perm.size())) return std::nullopt;
  return n.def().permute ? n.def().permute(CallOf(n), perm, std::move(to)) : to;
}

}  // namespace infer
