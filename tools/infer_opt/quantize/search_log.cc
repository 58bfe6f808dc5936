#include "tools/infer_opt/quantize/search_log.h"

#include <optional>

#include "lib/support/strings.h"
#include "tools/common/json_names.h"

namespace infer {
namespace {

std::optional<Numbers> NumbersOf(const Json& value) {
  if (!value.is_object()) return std::nullopt;
  Numbers numbers;
  for (const auto& [name, v] : value.items()) {
    const auto text = v.is_string() ? ParseDouble(v.get<std::string>()) : std::nullopt;
    if (!v.is_number() && !text) return std::nullopt;
    numbers[name] = v.is_number() ? v.get<double>() : *text;
  }
  return numbers;
}

}  // namespace

Result<std::unique_ptr<SearchLog>> SearchLog::Open(const std::string& path, const std::string& of) {
  INFER_ASSIGN(auto lines, AppendLog::Open(path, {"infer-opt/search-log@2", of,
                                                  "name another --search-log, or delete it"}));
  std::unique_ptr<SearchLog> log(new SearchLog(std::move(lines)));
  for (const auto& [key, value] : log->log_->all()) {
    auto numbers = NumbersOf(value);
    if (!numbers) return InvalidModel(Cat(path, ": '", key, "' has no numbers"));
    INFER_TRY(log->all_.Add(NameOfJson(key), *std::move(numbers)));
  }
  return log;
}

Status SearchLog::Add(const std::string& key, Numbers numbers) {
  Json j = Json::object();
  for (const auto& [name, v] : numbers) j[name] = JsonNumber(v);
  INFER_TRY(log_->Add(key, j));
  return all_.Add(key, std::move(numbers));
}

}  // namespace infer
