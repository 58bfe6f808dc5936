#pragma once
/// Tokens of the text form (lib/ir/text.h). For lib/ir and for readers of texts that hold graphs
/// (passes/user).
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "lib/support/status.h"

namespace infer {

/// May stand in a name that is not quoted.
bool IsNameChar(char c);

/// A place in a text. Every method first skips white space and comments, and leaves the cursor
/// behind what it read; Accept... leaves it where it was when it answers false.
class TextCursor {
 public:
  explicit TextCursor(std::string_view text) : text_(text) {}
  /// Messages say "FILE:3:7: WHAT"; reading starts at `offset`.
  TextCursor(std::string_view text, std::string file, size_t offset = 0)
      : text_(text), file_(std::move(file)), at_(offset) {}

  /// InvalidModel "line 3: WHAT".
  Status Error(const std::string& what) const { return ErrorAt(at_, what); }
  /// Of another place: what offset() was there.
  Status ErrorAt(size_t offset, const std::string& what) const;
  /// Behind white space and comments, so that a token starts there.
  size_t offset() {
    Skip();
    return at_;
  }
  /// Behind the last token.
  size_t consumed() const { return at_; }
  std::string_view text() const { return text_; }
  size_t remaining() const { return text_.size() - at_; }  ///< characters

  bool AtEnd();
  /// The next character; 0 at the end.
  char Peek();
  bool Accept(std::string_view token);
  Status Expect(std::string_view token);
  /// A bare word that must be `word`: "const" does not begin "constant".
  Status Keyword(std::string_view word);
  bool AcceptKeyword(std::string_view word);

  /// name | "any text"
  Result<std::string> Name();
  /// "any text" with \", \\, \n and \xHH
  Result<std::string> String();
  /// The characters of a number: 12, -1.5e-3, inf, -inf, nan; also true and false.
  Result<std::string> NumberText();
  Result<int64_t> Int();

 private:
  void Skip();
  std::string_view TakeNameChars();
  Result<char> Escape();

  std::string_view text_;
  std::string file_;
  size_t at_ = 0;
};

}  // namespace infer
