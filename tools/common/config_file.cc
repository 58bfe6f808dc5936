#include "tools/common/config_file.h"

#include <algorithm>

#include "lib/support/strings.h"
#include "tools/common/parse_json.h"

#define TOML_EXCEPTIONS 0
#define TOML_ENABLE_FORMATTERS 0
#include <toml++/toml.h>

namespace infer {
namespace {

Status Wrong(const toml::source_region& at, std::string_view what) {
  return InvalidModel(Cat("line ", at.begin.line, ": ", what));
}

/// As it would be written on the command line.
Result<std::string> Scalar(const toml::node& node, std::string_view option) {
  if (const auto* text = node.as_string()) return text->get();
  if (const auto* flag = node.as_boolean()) return std::string(flag->get() ? "true" : "false");
  if (const auto* count = node.as_integer()) return Cat(count->get());
  if (const auto* number = node.as_floating_point()) return Cat(number->get());
  return Wrong(node.source(),
               Cat("'", option, "' takes texts, numbers, true, false, or a list of these"));
}

Result<ConfigEntry> ReadEntry(std::string_view option, const toml::node& node) {
  ConfigEntry entry{std::string(option), {}, static_cast<int>(node.source().begin.line)};
  if (const toml::array* list = node.as_array()) {
    for (const toml::node& item : *list) {
      INFER_ASSIGN(std::string value, Scalar(item, option));
      entry.values.push_back(std::move(value));
    }
  } else {
    INFER_ASSIGN(std::string value, Scalar(node, option));
    entry.values.push_back(std::move(value));
  }
  return entry;
}

Result<Json> JsonOf(const toml::node& node, int levels_left) {
  if (levels_left == 0) return Wrong(node.source(), "too deep");
  if (const auto* text = node.as_string()) return Json(text->get());
  if (const auto* flag = node.as_boolean()) return Json(flag->get());
  if (const auto* count = node.as_integer()) return Json(count->get());
  if (const auto* number = node.as_floating_point()) return Json(number->get());
  if (const toml::array* list = node.as_array()) {
    Json out = Json::array();
    for (const toml::node& item : *list) {
      INFER_ASSIGN(Json value, JsonOf(item, levels_left - 1));
      out.push_back(std::move(value));
    }
    return out;
  }
  const toml::table* table = node.as_table();
  if (!table) return Wrong(node.source(), "a date or time stands where none is taken");
  Json out = Json::object();
  for (const auto& [key, value] : *table) {
    INFER_ASSIGN(out[std::string(key.str())], JsonOf(value, levels_left - 1));
  }
  return out;
}

Result<toml::table> Parsed(std::string_view text) {
  toml::parse_result parsed = toml::parse(text);
  if (!parsed)
    return Wrong(parsed.error().source(),
                 Cat(parsed.error().description(), " (TOML: option = value, texts in quotes)"));
  return std::move(parsed).table();
}

}  // namespace

// Declared in parse_json.h: this is the one file that sees toml++.
Result<Json> JsonOfToml(std::string_view text) {
  INFER_ASSIGN(const toml::table file, Parsed(text));
  return JsonOf(file, 32);
}

Result<std::vector<ConfigEntry>> ParseConfig(std::string_view text, std::string_view command,
                                             std::span<const std::string> commands) {
  INFER_ASSIGN(const toml::table file, Parsed(text));
  std::vector<ConfigEntry> entries;
  const toml::table* own = nullptr;  // the section of `command`
  for (const auto& [key, node] : file) {
    const toml::table* section = node.as_table();
    if (!section) {
      INFER_ASSIGN(ConfigEntry entry, ReadEntry(key.str(), node));
      entries.push_back(std::move(entry));
    } else if (std::find(commands.begin(), commands.end(), key.str()) == commands.end()) {
      return Wrong(node.source(),
                   Cat("section '", key.str(), "' is none of: ", Join(commands, ", ")));
    } else {
      for (const auto& [option, value] : *section)
        INFER_TRY(ReadEntry(option.str(), value).status());
      if (key.str() == command) own = section;
    }
  }
  // An option of the command's own section wins over the one for all commands.
  if (own) {
    std::erase_if(entries, [&](const ConfigEntry& e) { return own->contains(e.option); });
    for (const auto& [option, value] : *own) {
      INFER_ASSIGN(ConfigEntry entry, ReadEntry(option.str(), value));
      entries.push_back(std::move(entry));
    }
  }
  std::stable_sort(entries.begin(), entries.end(),
                   [](const ConfigEntry& a, const ConfigEntry& b) { return a.line < b.line; });
  return entries;
}

}  // namespace infer
