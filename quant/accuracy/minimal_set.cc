#include "quant/accuracy/minimal_set.h"

#include <algorithm>
#include <cstddef>

namespace infer {
namespace {

using Set = std::vector<size_t>;

Set Beginning(const Set& all, size_t count) {
  return {all.begin(), all.begin() + static_cast<std::ptrdiff_t>(count)};
}

/// Part `k` of `parts` about equal ones.
Set KthPart(const Set& all, size_t k, size_t parts) {
  const auto at = [&](size_t i) {
    return all.begin() + static_cast<std::ptrdiff_t>(i * all.size() / parts);
  };
  return {at(k), at(k + 1)};
}

Set Without(const Set& all, const Set& part) {
  Set rest;
  for (const size_t x : all)
    if (std::find(part.begin(), part.end(), x) == part.end()) rest.push_back(x);
  return rest;
}

}  // namespace

Result<MinimalSet> FindMinimalSet(const std::vector<size_t>& ranked, const JudgeSet& judge,
                                  int max_tries) {
  MinimalSet r;
  const auto breaks = [&](const Set& s) -> Result<bool> {
    ++r.tried;
    return judge(s);
  };
  size_t good = 0, bad = ranked.size();
  while (bad - good > 1 && r.tried < max_tries) {
    // The guilty are few and stand first: doubling from the start, then halving.
    const size_t middle =
        good == 0 ? std::min(std::max<size_t>(1, bad / 8), bad - 1) : good + (bad - good) / 2;
    INFER_ASSIGN(const bool broken, breaks(Beginning(ranked, middle)));
    (broken ? bad : good) = middle;
  }
  Set current = Beginning(ranked, bad);
  size_t parts = 2;
  while (current.size() > 1) {
    bool reduced = false;
    for (const bool complement : {false, true}) {
      if (complement && parts == 2) continue;  // the complements are the parts
      for (size_t k = 0; k < parts && !reduced; ++k) {
        if (r.tried >= max_tries) {
          r.members = current;
          r.minimal = false;
          return r;
        }
        const Set part = KthPart(current, k, parts);
        Set next = complement ? Without(current, part) : part;
        INFER_ASSIGN(const bool broken, breaks(next));
        if (!broken) continue;
        current = std::move(next);
        parts = complement ? std::max<size_t>(parts - 1, 2) : 2;
        reduced = true;
      }
      if (reduced) break;
    }
    if (reduced) continue;
    if (parts >= current.size()) break;
    parts = std::min(2 * parts, current.size());
  }
  std::sort(current.begin(), current.end());
  r.members = std::move(current);
  return r;
}

}  // namespace infer
