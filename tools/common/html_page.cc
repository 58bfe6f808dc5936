#include "tools/common/html_page.h"

namespace infer {

std::string PageWithData(std::string_view page, std::string_view mark, const Json& data) {
  const size_t at = page.find(mark);
  INFER_CHECK(at != std::string_view::npos);
  std::string html(page.substr(0, at));
  // In JSON "<" stands in texts only; without it there is no "</script" and no "<!--".
  for (const char c : data.dump(-1, ' ', false, Json::error_handler_t::replace))
    if (c == '<')
      html += "\\u003c";
    else
      html += c;
  return html.append(page.substr(at + mark.size()));
}

}  // namespace infer
