#include "tools/common/rule_files.h"

#include <set>

#include "lib/support/file.h"
#include "lib/support/strings.h"

namespace infer {
namespace {

constexpr uint64_t kMaxBytes = uint64_t{1} << 24;

}  // namespace

Result<std::vector<UserRule>> LoadRules(const std::vector<std::string>& paths,
                                        const OpRegistry& ops) {
  std::vector<UserRule> all;
  std::set<std::string> names;
  for (const std::string& path : paths) {
    INFER_ASSIGN(const std::string text, ReadFile(path, kMaxBytes));
    INFER_ASSIGN(std::vector<UserRule> rules, ParseUserRules(text, path, ops));
    for (UserRule& r : rules) {
      if (!names.insert(r.rule.name).second)
        return InvalidModel(Cat(path, ": another file has a rule '", r.rule.name, "', too"));
      all.push_back(std::move(r));
    }
  }
  return all;
}

}  // namespace infer
