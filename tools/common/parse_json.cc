#include "tools/common/parse_json.h"

#include "lib/support/strings.h"

namespace infer {

Result<Json> ParseJson(std::string_view text) {
  constexpr int kDeepest = 32;  // nothing of ours is half as deep
  bool too_deep = false;
  const auto keep = [&](int depth, Json::parse_event_t, const Json&) {
    too_deep = too_deep || depth > kDeepest;
    return !too_deep;
  };
  try {
    Json j = Json::parse(text, keep);
    if (too_deep) return InvalidArgument(Cat("JSON deeper than ", kDeepest, " levels"));
    return j;
  } catch (const Json::exception& e) {
    return InvalidArgument(Cat("no JSON: ", e.what()));
  }
}

}  // namespace infer
