#include "lib/support/utf8.h"

#include <gtest/gtest.h>

namespace infer {
namespace {

TEST(Utf8, CharactersAsTheStandardHasThem) {
  for (const char* good : {"", "a", "\u00e9", "\u65e5", "\U0001f600"}) EXPECT_TRUE(IsUtf8(good));
  for (const char* bad : {"\xff", "\xc3", "\xc0\x80", "\xe0\x80\x80", "\xed\xa0\x80",
                          "\xf0\x80\x80\x80", "\xf4\x90\x80\x80", "\x80"})
    EXPECT_FALSE(IsUtf8(bad));
  EXPECT_EQ(NumCharacters("a\u65e5\U0001f600"), 3u);
  EXPECT_EQ(FirstCharacter("").bytes, 0u);
}

TEST(Utf8, EachCharacterIsReadAsItWasWritten) {
  for (const char32_t code :
       {0x0, 0x41, 0x7f, 0x80, 0x7ff, 0x800, 0xd7ff, 0xe000, 0xffff, 0x10000, 0x10ffff}) {
    std::string text;
    ASSERT_TRUE(AppendCharacter(code, text));
    EXPECT_EQ(FirstCharacter(text).code, code);
    EXPECT_EQ(FirstCharacter(text).bytes, text.size());
  }
  std::string text;
  for (const char32_t code : {0xd800, 0xdfff, 0x110000}) EXPECT_FALSE(AppendCharacter(code, text));
  EXPECT_EQ(text, "");
}

}  // namespace
}  // namespace infer
