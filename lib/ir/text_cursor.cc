#include "lib/ir/text_cursor.h"

#include <algorithm>
#include <cctype>
#include <charconv>

#include "lib/support/strings.h"

namespace infer {
namespace {

bool IsAlnum(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; }
bool IsSign(char c) { return c == '-' || c == '+'; }

}  // namespace

bool IsNameChar(char c) { return IsAlnum(c) || c == '_' || c == '.' || c == '/'; }

Status TextCursor::ErrorAt(size_t offset, const std::string& what) const {
  const std::string_view before = text_.substr(0, offset);
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  if (file_.empty()) return InvalidModel(Cat("line ", line, ": ", what));
  const size_t start = before.rfind('\n') + 1;  // npos + 1 is 0
  return InvalidModel(Cat(file_, ":", line, ":", before.size() - start + 1, ": ", what));
}

void TextCursor::Skip() {
  while (at_ < text_.size()) {
    if (std::isspace(static_cast<unsigned char>(text_[at_]))) {
      ++at_;
    } else if (text_[at_] == '#') {
      while (at_ < text_.size() && text_[at_] != '\n') ++at_;
    } else {
      return;
    }
  }
}

bool TextCursor::AtEnd() {
  Skip();
  return at_ == text_.size();
}

char TextCursor::Peek() { return AtEnd() ? '\0' : text_[at_]; }

bool TextCursor::Accept(std::string_view token) {
  Skip();
  if (text_.substr(at_, token.size()) != token) return false;
  at_ += token.size();
  return true;
}

Status TextCursor::Expect(std::string_view token) {
  if (Accept(token)) return {};
  const char c = Peek();
  return Error(Cat("expected '", token, "', found ", c ? Cat("'", c, "'") : "the end"));
}

std::string_view TextCursor::TakeNameChars() {
  const size_t start = at_;
  while (at_ < text_.size() && IsNameChar(text_[at_])) ++at_;
  return text_.substr(start, at_ - start);
}

Status TextCursor::Keyword(std::string_view word) {
  return AcceptKeyword(word) ? Status() : Error(Cat("expected '", word, "'"));
}

bool TextCursor::AcceptKeyword(std::string_view word) {
  Skip();
  const size_t start = at_;
  if (TakeNameChars() == word) return true;
  at_ = start;
  return false;
}

Result<std::string> TextCursor::Name() {
  if (Peek() == '"') return String();
  const std::string_view name = TakeNameChars();
  if (name.empty()) return Error("expected a name");
  return std::string(name);
}

Result<std::string> TextCursor::String() {
  INFER_TRY(Expect("\""));
  std::string out;
  while (at_ < text_.size() && text_[at_] != '"') {
    char c = text_[at_++];
    if (c == '\\') {
      if (at_ >= text_.size()) break;
      INFER_ASSIGN(c, Escape());
    }
    out += c;
  }
  if (at_ >= text_.size()) return Error("unterminated string");
  ++at_;
  return out;
}

/// What stands behind a backslash.
Result<char> TextCursor::Escape() {
  const char c = text_[at_++];
  if (c == 'n') return '\n';
  if (c != 'x') return c;
  int value = 0;
  const char* begin = text_.data() + at_;
  const char* end = text_.data() + std::min(at_ + 2, text_.size());
  if (std::from_chars(begin, end, value, 16).ptr != begin + 2) return Error("bad \\x escape");
  at_ += 2;
  return static_cast<char>(value);
}

Result<std::string> TextCursor::NumberText() {
  Skip();
  const size_t start = at_;
  if (at_ < text_.size() && IsSign(text_[at_])) ++at_;
  auto is_exponent_sign = [&](size_t i) { return IsSign(text_[i]) && (text_[i - 1] | 32) == 'e'; };
  while (at_ < text_.size() && (IsAlnum(text_[at_]) || text_[at_] == '.' || is_exponent_sign(at_)))
    ++at_;
  if (at_ == start) return Error("expected a number");
  return std::string(text_.substr(start, at_ - start));
}

Result<int64_t> TextCursor::Int() {
  INFER_ASSIGN(std::string s, NumberText());
  if (auto v = ParseInt(s)) return *v;
  return Error(Cat("'", s, "' is not an integer"));
}

}  // namespace infer
