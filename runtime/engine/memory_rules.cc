#include "runtime/engine/memory_rules.h"

#include <algorithm>
#include <numeric>

#include "lib/support/strings.h"

namespace infer::engine {

Result<std::vector<size_t>> MakeRoom(int64_t budget, const std::string& model, int64_t needed,
                                     std::span<const MemoryHolder> holders) {
  int64_t held = 0, stays = 0;
  std::vector<size_t> go;
  for (size_t i = 0; i < holders.size(); ++i) {
    held += holders[i].bytes;
    if (holders[i].may_go)
      go.push_back(i);
    else
      stays += holders[i].bytes;
  }
  if (needed > budget - stays)
    return ResourceExhausted(Cat("model '", model, "' needs ", needed, " bytes; of the budget of ",
                                 budget, " bytes ", stays,
                                 " are held by models that are not unloaded"));
  std::sort(go.begin(), go.end(),
            [&](size_t a, size_t b) { return holders[a].last_use < holders[b].last_use; });
  int64_t excess = held + needed - budget;
  size_t count = 0;
  while (excess > 0 && count < go.size()) excess -= holders[go[count++]].bytes;
  go.resize(count);
  // Who went first may have been too small to matter; those used last are kept first.
  for (size_t i = go.size(); i-- > 0;)
    if (excess + holders[go[i]].bytes <= 0) {
      excess += holders[go[i]].bytes;
      go.erase(go.begin() + static_cast<std::ptrdiff_t>(i));
    }
  return go;
}

}  // namespace infer::engine
