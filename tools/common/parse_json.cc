#include "tools/common/parse_json.h"

#include <set>

#include "lib/support/strings.h"

namespace infer {

Result<Json> ParseJson(std::string_view text) {
  constexpr int kDeepest = 32;  // nothing of ours is half as deep
  bool too_deep = false;
  std::vector<std::set<std::string>> keys;  // of the objects that are open
  std::string twice;
  const auto keep = [&](int depth, Json::parse_event_t event, const Json& value) {
    too_deep = too_deep || depth > kDeepest;
    if (event == Json::parse_event_t::object_start) keys.emplace_back();
    if (event == Json::parse_event_t::object_end) keys.pop_back();
    if (event == Json::parse_event_t::key && !keys.back().insert(value).second) twice = value;
    return !too_deep && twice.empty();
  };
  try {
    Json j = Json::parse(text, keep);
    if (too_deep) return InvalidArgument(Cat("JSON deeper than ", kDeepest, " levels"));
    // Which of the two is meant nobody knows.
    if (!twice.empty()) return InvalidArgument(Cat("key '", twice, "' is there twice"));
    return j;
  } catch (const Json::exception& e) {
    return InvalidArgument(Cat("no JSON: ", e.what()));
  }
}

}  // namespace infer
