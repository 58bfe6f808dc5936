#include "tools/infer_opt/sparsity_flags.h"

#include "lib/support/strings.h"
#include "tools/common/share.h"

namespace infer {

Result<SparsityPattern> SparsityFlags::Pattern() const {
  SparsityPattern p;
  if (!blocks.empty()) {
    auto parsed = ParseBlocks(blocks);
    if (!parsed.ok()) return std::move(parsed.status()).In("--blocks");
    p = *parsed;
    if (sparsity.empty()) return p;
  }
  if (sparsity.find(':') != std::string::npos) {
    if (!blocks.empty())
      return InvalidArgument(
          "--sparsity N:M says how many weights become zero; leave --blocks out");
    auto nm = ParseNm(sparsity);
    return nm.ok() ? std::move(nm)
                   : Result<SparsityPattern>(std::move(nm.status()).In("--sparsity"));
  }
  const auto share = ParseShare(sparsity);
  if (!share) return InvalidArgument(Cat("--sparsity ", sparsity, ": write 50% or 2:4"));
  p.share = share->value;
  if (Status s = CheckShare(p.share); !s.ok()) return std::move(s).In("--sparsity");
  return p;
}

}  // namespace infer
