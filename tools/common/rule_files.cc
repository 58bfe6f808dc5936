#include "tools/common/rule_files.h"

#include <set>

#include "lib/onnx/rule_functions.h"
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
    const bool functions = path.ends_with(".onnx");
    INFER_ASSIGN(const std::string text,
                 functions ? RulesFromFunctions(path, ops) : ReadFile(path, kMaxBytes));
    INFER_ASSIGN(std::vector<UserRule> rules,
                 ParseUserRules(text, functions ? path + " as text" : path, ops));
    for (UserRule& r : rules) {
      if (!names.insert(r.rule.name).second)
        return InvalidModel(Cat(path, ": another file has a rule '", r.rule.name, "', too"));
      all.push_back(std::move(r));
    }
  }
  return all;
}

}  // namespace infer
