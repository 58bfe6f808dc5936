/// Tokenizer of ONNX Runtime (domain com.microsoft), by which exporters of scikit-learn's
/// vectorizers cut texts into words.
#include <re2/re2.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lib/ops/common.h"
#include "lib/ops/op_def.h"
#include "lib/support/utf8.h"

namespace infer {
namespace {

constexpr std::string_view kStartOfText = "\x02", kEndOfText = "\x03";

/// The attributes, read once for a node. Regular expressions take the longest match.
struct TokenRules {
  bool characters = false;                       ///< each character is a token
  std::vector<std::unique_ptr<RE2>> separators;  ///< matched one after the other, and left out
  std::unique_ptr<RE2> token;                    ///< tokens are what it matches
  size_t shortest = 1;                           ///< characters of a token that is kept
};

Result<std::unique_ptr<RE2>> Compile(const std::string& pattern) {
  RE2::Options options;
  options.set_log_errors(false);
  options.set_longest_match(true);
  auto compiled = std::make_unique<RE2>(pattern, options);
  if (!compiled->ok())
    return InvalidModel(Cat("\"", pattern, "\" is no pattern: ", compiled->error()));
  return compiled;
}

Result<std::shared_ptr<const void>> PrepareTokenizer(const OpCall& call) {
  auto rules = std::make_shared<TokenRules>();
  if (call.Int("mincharnum") < 1) return InvalidModel("mincharnum is below 1");
  rules->shortest = static_cast<size_t>(call.Int("mincharnum"));
  if (call.HasAttr("separators") == call.HasAttr("tokenexp"))
    return InvalidModel("wants one of separators and tokenexp");
  if (call.HasAttr("tokenexp")) {
    const std::string& pattern = call.Str("tokenexp");
    if (pattern.empty()) return InvalidModel("tokenexp is empty");
    rules->characters = pattern == ".";
    INFER_ASSIGN(rules->token, Compile(pattern));
  } else {
    const auto& separators = call.Attr<std::vector<std::string>>("separators");
    if (separators.empty()) return InvalidModel("separators has no element");
    rules->characters = separators.size() == 1 && separators[0].empty();
    for (const std::string& pattern : separators) {
      INFER_ASSIGN(rules->separators.emplace_back(), Compile(pattern));
    }
  }
  if (rules->characters && rules->shortest > 1)
    return InvalidModel("mincharnum is above 1, where each character is a token");
  return std::shared_ptr<const void>(std::move(rules));
}

Status InferTokenizer(OpCall& call) {
  INFER_TRY(CheckRank(call, 0, 1, 2));
  INFER_TRY(call.Prepared<TokenRules>().status());
  call.SetOut(0, DType::kString, Shape());
  if (!call.shape(0).has_rank()) return {};
  std::vector<Dim> dims = call.shape(0).dims();
  dims.emplace_back();
  call.SetOut(0, DType::kString, Shape(std::move(dims)));
  return {};
}

using Tokens = std::vector<std::string_view>;

/// Adds `token` to `tokens` where it is long enough.
void Keep(std::string_view token, size_t shortest, Tokens& tokens) {
  if (NumCharacters(token) >= shortest) tokens.push_back(token);
}

/// Bytes of the first character. Pre: a text of UTF-8 that is not empty.
size_t CharacterBytes(std::string_view text) { return FirstCharacter(text).bytes; }

/// Where the search goes on behind an empty match at `at`: behind the character there.
size_t Behind(std::string_view text, size_t at) {
  return at + (at < text.size() ? CharacterBytes(text.substr(at)) : 1);
}

/// The parts of `text` between matches of `separator`. An empty match takes the character behind it
/// with it, as in ONNX Runtime.
void Split(const RE2& separator, std::string_view text, size_t shortest, Tokens& tokens) {
  const re2::StringPiece all(text.data(), text.size());
  size_t begin = 0;
  re2::StringPiece match;
  while (begin < text.size() &&
         separator.Match(all, begin, text.size(), RE2::UNANCHORED, &match, 1)) {
    const auto at = static_cast<size_t>(match.data() - text.data());
    if (at > begin) Keep(text.substr(begin, at - begin), shortest, tokens);
    begin = match.empty() ? Behind(text, at) : at + match.size();
  }
  if (begin < text.size()) Keep(text.substr(begin), shortest, tokens);
}

/// All that `token` matches in `text`. Behind a match that is too short, the search goes on at its
/// second character.
void Find(const RE2& token, std::string_view text, size_t shortest, Tokens& tokens) {
  const re2::StringPiece all(text.data(), text.size());
  size_t from = 0;
  re2::StringPiece match;
  while (from < text.size() && token.Match(all, from, text.size(), RE2::UNANCHORED, &match, 1)) {
    const auto at = static_cast<size_t>(match.data() - text.data());
    const std::string_view found = text.substr(at, match.size());
    const bool is_kept = NumCharacters(found) >= shortest;
    if (is_kept) tokens.push_back(found);
    from = is_kept ? at + found.size() : Behind(text, at);
  }
}

Tokens TokensOf(const TokenRules& rules, std::string_view text) {
  Tokens tokens;
  if (rules.characters) {
    for (; !text.empty(); text.remove_prefix(tokens.back().size()))
      tokens.push_back(text.substr(0, CharacterBytes(text)));
  } else if (rules.token) {
    Find(*rules.token, text, rules.shortest, tokens);
  } else {
    if (!text.empty()) tokens.push_back(text);
    for (const std::unique_ptr<RE2>& separator : rules.separators) {
      Tokens parts;
      for (const std::string_view t : tokens) Split(*separator, t, rules.shortest, parts);
      tokens = std::move(parts);
    }
  }
  return tokens;
}

/// A row of tokens for each text, all as long as the longest; `mark` puts a character before and
/// one behind the tokens of each.
Status RunTokenizer(OpRun& run) {
  const Tensor& x = run.in(0);
  INFER_ASSIGN(const auto rules, run.call().Prepared<TokenRules>());
  std::vector<Tokens> rows;
  rows.reserve(x.strings().size());
  size_t widest = 0;
  for (const std::string& text : x.strings()) {
    if (!IsUtf8(text)) return InvalidArgument("Tokenizer: a text is no UTF-8");
    rows.push_back(TokensOf(*rules, text));
    widest = std::max(widest, rows.back().size());
  }
  const bool marks = run.Int("mark") != 0 && widest > 0;
  std::vector<std::string> all;
  all.reserve(rows.size() * (widest + (marks ? 2 : 0)));
  for (const Tokens& tokens : rows) {
    if (marks) all.emplace_back(kStartOfText);
    all.insert(all.end(), tokens.begin(), tokens.end());
    if (marks) all.emplace_back(kEndOfText);
    all.insert(all.end(), widest - tokens.size(), run.Str("pad_value"));
  }
  Dims dims = x.dims();
  dims.push_back(static_cast<int64_t>(widest) + (marks ? 2 : 0));
  run.Set(0, Tensor::OfStrings(std::move(dims), std::move(all)));
  return {};
}

}  // namespace

std::span<const OpDef> TokenizerOps() {
  static const OpDef ops[] = {
      {
          .name = "Tokenizer",
          .domain = kMicrosoft,
          .doc =
              "The words of each text, which `tokenexp` matches or which stand between matches "
              "of `separators`; its characters where the separator is empty or `tokenexp` a dot.",
          .traits = Trait::kText,
          .inputs = {{"X", "T"}},
          .outputs = {{"Y", "T"}},
          .attrs = {{"mark", AttrKind::kInt, {}, true},
                    {"mincharnum", AttrKind::kInt, {}, true},
                    {"pad_value", AttrKind::kString, {}, true},
                    {"separators", AttrKind::kStrings},
                    {"tokenexp", AttrKind::kString}},
          .constraints = {{"T", TypeSet(DType::kString)}},
          .infer = InferTokenizer,
          .reference = RunTokenizer,
          .prepare = PrepareTokenizer,
          .example = R"(graph g() -> (y) { x = const str[2] {"one, two", "three"}
            y = com.microsoft::Tokenizer(x) {mark=0, mincharnum=1, pad_value="#",
              separators=[",", " "]} })",
      },
  };
  return ops;
}

}  // namespace infer
