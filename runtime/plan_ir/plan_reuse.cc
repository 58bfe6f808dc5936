#include "runtime/plan_ir/plan_reuse.h"

#include <algorithm>

#include "lib/support/parallel.h"

namespace infer {

bool PreparedKernels::Same(const std::vector<Seen>& seen, std::span<const Operand> now) {
  return std::equal(
      seen.begin(), seen.end(), now.begin(), now.end(), [](const Seen& a, const Operand& b) {
        const Operand& o = a.operand;
        return o.value == b.value && o.dtype == b.dtype && o.dims == b.dims &&
               o.layout == b.layout && o.layout.bytes == b.layout.bytes &&
               a.constant.defined() == (b.constant != nullptr) &&
               (!b.constant ||
                (a.constant.raw() == b.constant->raw() && a.constant.dims() == b.constant->dims()));
      });
}

std::vector<PreparedKernels::Seen> PreparedKernels::Keep(std::span<const Operand> now) {
  std::vector<Seen> seen;
  seen.reserve(now.size());
  for (const Operand& o : now) {
    Seen& kept = seen.emplace_back(Seen{o, o.constant ? *o.constant : Tensor()});
    kept.operand.constant = nullptr;
  }
  return seen;
}

Result<Prepared> PreparedKernels::Prepare(const Kernel& kernel, std::span<const Operand> in,
                                          std::span<const Operand> out) {
  const int lanes = CurrentLanes();
  const auto found = answers_.find(&kernel);
  if (found != answers_.end() && found->second.lanes == lanes && Same(found->second.in, in) &&
      Same(found->second.out, out))
    return found->second.prepared;
  Result<Prepared> prepared = kernel.Prepare(in, out);
  if (prepared.ok() || prepared.status().code() == Code::kUnsupported)
    answers_.insert_or_assign(&kernel, Answer{lanes, Keep(in), Keep(out), prepared});
  return prepared;
}

}  // namespace infer
