#include "lib/ops/move/permute.h"

#include <algorithm>

#include "lib/ops/move/move.h"

namespace infer {

std::optional<int> MapAxis(const OpCall& call, const Perm& perm, PermutedCall& to) {
  const auto axis = NormalizeAxis(call.Int("axis"), static_cast<int>(perm.size()));
  if (!axis.ok()) return std::nullopt;
  to.attrs["axis"] = perm[static_cast<size_t>(*axis)];
  return *axis;
}

Perm WithoutAxes(const Perm& perm, const std::vector<int>& gone) {
  std::vector<int64_t> left;  // of the permuted operand, in the order of its axes
  Perm out;
  for (size_t i = 0; i < perm.size(); ++i)
    if (std::find(gone.begin(), gone.end(), static_cast<int>(i)) == gone.end()) {
      out.push_back(perm[i]);
      left.push_back(perm[i]);
    }
  std::sort(left.begin(), left.end());
  for (int64_t& axis : out) axis = std::lower_bound(left.begin(), left.end(), axis) - left.begin();
  return out;
}

std::vector<int64_t> MappedAxes(const std::vector<int>& axes, const Perm& perm) {
  std::vector<int64_t> mapped;
  for (const int axis : axes) mapped.push_back(perm[static_cast<size_t>(axis)]);
  return mapped;
}

PermuteResult PermuteAxis(const OpCall& call, const Perm& perm, PermutedCall to) {
  if (!MapAxis(call, perm, to)) return std::nullopt;
  return to;
}

PermuteResult PermuteListedAxes(const OpCall& call, const Perm& perm, PermutedCall to, bool keep) {
  const auto given = KnownInts(call, 1);
  if (!given || given->empty()) return std::nullopt;
  const auto axes = NormalizeAxes(*given, static_cast<int>(perm.size()));
  if (!axes.ok()) return std::nullopt;
  std::vector<int64_t> mapped = MappedAxes(*axes, perm);
  std::sort(mapped.begin(), mapped.end());
  to.replaced[1] = Tensor::Int64s(mapped);
  if (!keep) to.out_perm = WithoutAxes(perm, *axes);
  return to;
}

}  // namespace infer
