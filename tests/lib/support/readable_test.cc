#include "lib/support/readable.h"

#include <gtest/gtest.h>

#include <limits>

namespace infer {
namespace {

TEST(Readable, Numbers) {
  EXPECT_EQ(Fixed(1.2345, 2), "1.23");
  EXPECT_EQ(Fixed(1e308, 1).size(), 311u);
  EXPECT_EQ(Fixed(-std::numeric_limits<double>::infinity(), 1), "-inf");
  EXPECT_EQ(Rounded(0.0012345, 3), "0.00123");
  EXPECT_EQ(Rounded(34.0, 4), "34");
  EXPECT_EQ(Rounded(-0.0, 4), "0");
  EXPECT_EQ(Rounded(std::numeric_limits<double>::quiet_NaN(), 4), "nan");
}

TEST(Printable, KeepsTextAndEscapesWhatATerminalObeys) {
  for (const char* text : {"conv1/weight:0", "Größe", "層_1", "\xf0\x9f\x98\x80", ""})
    EXPECT_EQ(Printable(text), text);
  EXPECT_EQ(Printable("a\x1b[31mb"), "a\\x1b[31mb");
  EXPECT_EQ(Printable("a\nb\tc\rd\x7f"), "a\\nb\\tc\\rd\\x7f");
  EXPECT_EQ(Printable(std::string_view("a\0b", 3)), "a\\x00b");
  EXPECT_EQ(Printable("\xc2\x9b"), "\\xc2\\x9b");                 // control sequence introducer
  EXPECT_EQ(Printable("\xe2\x80\xaetxt"), "\\xe2\\x80\\xaetxt");  // right-to-left override
  // No UTF-8: cut off, too long a form, a surrogate, beyond U+10FFFF, a lone continuation.
  EXPECT_EQ(Printable("\xe2\x82"), "\\xe2\\x82");
  EXPECT_EQ(Printable("\xc0\xaf"), "\\xc0\\xaf");
  EXPECT_EQ(Printable("\xed\xa0\x80"), "\\xed\\xa0\\x80");
  EXPECT_EQ(Printable("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");
  EXPECT_EQ(Printable("\x80z"), "\\x80z");
}

TEST(Printable, KeepsTheEndsOfLineThatItIsTold) {
  const char* list = "two things:\n  a\n  b";
  EXPECT_EQ(Printable(list, EndsOfLine::kIndented), list);
  EXPECT_EQ(Printable("node 'a\nerror: b'", EndsOfLine::kIndented), "node 'a\\nerror: b'");
  EXPECT_EQ(Printable("a\nb\x1b", EndsOfLine::kAll), "a\nb\\x1b");
}

}  // namespace
}  // namespace infer
