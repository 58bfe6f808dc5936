#include "tools/common/config_file.h"

#include <algorithm>
#include <cctype>
#include <set>

#include "lib/support/strings.h"

namespace infer {
namespace {

bool IsKeyChar(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_';
}

class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  int line() const { return line_; }
  bool AtEnd() const { return at_ == text_.size(); }
  bool AtEndOfLine() const { return AtEnd() || text_[at_] == '\n' || text_[at_] == '#'; }
  bool Take(char c) {
    if (AtEnd() || text_[at_] != c) return false;
    line_ += c == '\n';
    ++at_;
    return true;
  }
  void SkipBlanks() {
    while (!AtEnd() && (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\r')) ++at_;
  }
  /// Blanks, comments and ends of lines.
  void SkipSpace() {
    for (;;) {
      SkipBlanks();
      if (!AtEnd() && text_[at_] == '#')
        while (!AtEnd() && text_[at_] != '\n') ++at_;
      if (!Take('\n')) return;
    }
  }
  Status EndLine() {
    SkipBlanks();
    return AtEndOfLine() ? Status() : Wrong("one option a line: something stands behind the value");
  }
  Status Wrong(std::string_view what) const {
    return InvalidModel(Cat("line ", line_, ": ", what));
  }

  std::string Key() {
    std::string key;
    while (!AtEnd() && IsKeyChar(text_[at_])) key += text_[at_++];
    return key;
  }

  Result<std::string> Scalar() {
    if (Take('\'')) return Text('\'', false);
    if (Take('"')) return Text('"', true);
    std::string bare;
    while (!AtEndOfLine() && text_[at_] != ',' && text_[at_] != ']') bare += text_[at_++];
    bare = std::string(Trim(bare));
    if (bare.empty()) return Wrong("a value is missing");
    if (bare != "true" && bare != "false" && !ParseDouble(bare))
      return Wrong(Cat("'", bare, "' is no number, true or false; a text needs quotes"));
    return bare;
  }

  Status List(std::vector<std::string>& out) {
    const int begin = line_;
    for (;;) {
      SkipSpace();
      if (Take(']')) return {};
      if (AtEnd()) return InvalidModel(Cat("line ", begin, ": the list has no end"));
      INFER_ASSIGN(std::string value, Scalar());
      out.push_back(std::move(value));
      SkipSpace();
      if (!Take(',') && !AtEnd() && text_[at_] != ']') return Wrong("a list wants commas");
    }
  }

 private:
  Result<std::string> Text(char quote, bool escapes) {
    std::string out;
    for (; !AtEnd() && text_[at_] != '\n'; ++at_) {
      char c = text_[at_];
      if (c == quote) {
        ++at_;
        return out;
      }
      if (escapes && c == '\\') {
        constexpr std::string_view kNames = "\"\\nt", kMeanings = "\"\\\n\t";
        const size_t k = at_ + 1 < text_.size() ? kNames.find(text_[at_ + 1]) : kNames.npos;
        if (k == kNames.npos) return Wrong("an escape other than \\\" \\\\ \\n \\t");
        c = kMeanings[k];
        ++at_;
      }
      out += c;
    }
    return Wrong("the text has no end");
  }

  std::string_view text_;
  size_t at_ = 0;
  int line_ = 1;
};

}  // namespace

Result<std::vector<ConfigEntry>> ParseConfig(std::string_view text, std::string_view command,
                                             std::span<const std::string> commands) {
  Reader in(text);
  std::vector<ConfigEntry> entries;
  std::set<std::string> seen;  // in this section
  bool mine = true;
  for (in.SkipSpace(); !in.AtEnd(); in.SkipSpace()) {
    if (in.Take('[')) {
      const std::string section = in.Key();
      if (std::find(commands.begin(), commands.end(), section) == commands.end())
        return in.Wrong(Cat("section '", section, "' is none of: ", Join(commands, ", ")));
      if (!in.Take(']')) return in.Wrong("a section is written [command]");
      INFER_TRY(in.EndLine());
      mine = section == command;
      seen.clear();
      continue;
    }
    ConfigEntry entry;
    entry.line = in.line();
    entry.option = in.Key();
    in.SkipBlanks();
    if (entry.option.empty() || !in.Take('=')) return in.Wrong("wants option = value");
    if (!seen.insert(entry.option).second)
      return in.Wrong(Cat("'", entry.option, "' stands twice"));
    in.SkipBlanks();
    if (in.Take('[')) {
      INFER_TRY(in.List(entry.values));
    } else {
      INFER_ASSIGN(std::string value, in.Scalar());
      entry.values.push_back(std::move(value));
    }
    INFER_TRY(in.EndLine());
    if (!mine) continue;
    // What a command's own section says wins over what is said for all.
    std::erase_if(entries, [&](const ConfigEntry& e) { return e.option == entry.option; });
    entries.push_back(std::move(entry));
  }
  return entries;
}

}  // namespace infer
