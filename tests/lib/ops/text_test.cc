/// Operators on texts: Tokenizer, StringNormalizer, TfIdfVectorizer.
#include "lib/ops/other/text.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/lib/ops/run_op.h"

namespace infer {
namespace {

using Strings = std::vector<std::string>;

Tensor Texts(const Strings& texts) {
  return Tensor::OfStrings({static_cast<int64_t>(texts.size())}, texts);
}

Strings ToStrings(const Tensor& t) { return {t.strings().begin(), t.strings().end()}; }

AttrMap Rules(AttrMap rules, int64_t shortest = 1, int64_t mark = 0) {
  rules["mark"] = mark;
  rules["mincharnum"] = shortest;
  rules["pad_value"] = std::string("#");
  return rules;
}

Strings Tokens(const Strings& texts, const AttrMap& rules) {
  return ToStrings(Call("com.microsoft::Tokenizer", {Texts(texts)}, rules));
}

TEST(Tokenizer, SeparatorsAreLeftOut) {
  const AttrMap blanks = Rules({{"separators", Strings{",", " +"}}});
  EXPECT_EQ(Tokens({"one,  two", " three,", ""}, blanks),
            (Strings{"one", "two", "three", "#", "#", "#"}));
}

TEST(Tokenizer, ShortTokensAreLeftOut) {
  const AttrMap rules = Rules({{"separators", Strings{" "}}}, 2);
  EXPECT_EQ(Tokens({"a bc \u00e9 \u00e9\u00e8"}, rules), (Strings{"bc", "\u00e9\u00e8"}));
  // The search goes on behind the first character of a match that is too short.
  const AttrMap words = Rules({{"tokenexp", std::string("[a-z]{1,2}|[0-9]+")}}, 2);
  EXPECT_EQ(Tokens({"abc 1 234"}, words), (Strings{"ab", "234"}));
}

TEST(Tokenizer, TheLongestMatchIsTheToken) {
  EXPECT_EQ(Tokens({"abxa"}, Rules({{"tokenexp", std::string("a|ab")}})), (Strings{"ab", "a"}));
}

TEST(Tokenizer, CharactersWithMarks) {
  const AttrMap rules = Rules({{"separators", Strings{""}}}, 1, 1);
  EXPECT_EQ(Tokens({"a\u65e5", ""}, rules),
            (Strings{"\x02", "a", "\u65e5", "\x03", "\x02", "\x03", "#", "#"}));
}

TEST(Tokenizer, NoTokenAtAll) {
  const Tensor y = Call("com.microsoft::Tokenizer", {Texts({"", ","})},
                        Rules({{"separators", Strings{","}}}, 1, 1));
  EXPECT_EQ(ToString(y.dims()), "[2,0]");
}

TEST(Tokenizer, RefusesWhatNoRuleIs) {
  const auto status = [](const AttrMap& rules, const std::string& text = "a") {
    return RunOp("Tokenizer", rules, {Texts({text})}, 1, "com.microsoft").status;
  };
  EXPECT_FALSE(status(Rules({})).ok());
  EXPECT_FALSE(status(Rules({{"separators", Strings{}}})).ok());
  EXPECT_FALSE(status(Rules({{"separators", Strings{""}}}, 2)).ok());
  EXPECT_FALSE(status(Rules({{"separators", Strings{" "}}}, 0)).ok());
  EXPECT_FALSE(status(Rules({{"tokenexp", std::string("(")}})).ok());
  EXPECT_FALSE(status(Rules({{"tokenexp", std::string("a")}, {"separators", Strings{" "}}})).ok());
  EXPECT_FALSE(status(Rules({{"tokenexp", std::string("a")}}), "\xff").ok());
}

TEST(StringNormalizer, LettersBeyondAscii) {
  const auto change = [](const std::string& action) {
    return ToStrings(Call("StringNormalizer", {Texts({"\u00c9t\u00e9", "\u0410\u0431", "\u65e5"})},
                          {{"case_change_action", action}, {"is_case_sensitive", int64_t{1}}}));
  };
  EXPECT_EQ(change("LOWER"), (Strings{"\u00e9t\u00e9", "\u0430\u0431", "\u65e5"}));
  EXPECT_EQ(change("UPPER"), (Strings{"\u00c9T\u00c9", "\u0410\u0411", "\u65e5"}));
}

TEST(ChangeCase, CharactersOfFourBytes) {
  EXPECT_EQ(*ChangeCase("\U00010400", false), "\U00010428");
  EXPECT_FALSE(ChangeCase("\xff", false).ok());
}

TEST(TfIdfVectorizer, PairsOfWordsWithSkips) {
  const AttrMap attrs = {{"mode", std::string("TFIDF")},
                         {"min_gram_length", int64_t{1}},
                         {"max_gram_length", int64_t{2}},
                         {"max_skip_count", int64_t{1}},
                         {"ngram_counts", std::vector<int64_t>{0, 2}},
                         {"ngram_indexes", std::vector<int64_t>{3, 0, 1}},
                         {"weights", std::vector<float>{0.5f, 10, 100}},
                         {"pool_strings", Strings{"a", "c", "a", "b"}}};
  const Tensor x = Tensor::OfStrings({2, 3}, {"a", "x", "b", "a", "b", "a"});
  ExpectClose(Call("TfIdfVectorizer", {x}, attrs), F({2, 4}, {0, 100, 0, 0.5f, 0, 100, 0, 1}));
}

}  // namespace
}  // namespace infer
