/// Names of any bytes in JSON, and in logs.
#include "tools/common/json_names.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "lib/support/file.h"
#include "lib/support/random.h"
#include "lib/support/strings.h"
#include "tools/common/append_log.h"

namespace infer {
namespace {

const std::string kNames[] = {
    "",
    "conv1",
    "na\xc3\xafve",                  // UTF-8
    "a\xff",                         // no UTF-8
    "a\xfe",                         // another, that U+FFFD would make the same
    "\xc3",                          // cut off
    "\xc0\x80",                      // too long
    "\xed\xa0\x80",                  // half of a surrogate pair
    "\xf4\x90\x80\x80",              // beyond Unicode
    "\xef\x9f\xbf",                  // U+F7FF, which stands for 0xff
    "\xef\x9e\x80\xef\xbf\xbd\x80",  // private, U+FFFD, and a byte
    std::string("\0\n\"\\", 4),
};

TEST(JsonName, ComesBackAndStaysApart) {
  std::set<std::string> all;
  for (const std::string& name : kNames) {
    const std::string text = JsonName(name);
    EXPECT_EQ(NameOfJson(text), name);
    EXPECT_EQ(Json::parse(Json(text).dump()).get<std::string>(), text);
    EXPECT_TRUE(all.insert(text).second);
  }
  EXPECT_EQ(JsonName("na\xc3\xafve"), "na\xc3\xafve");
  Random random(1);
  for (int i = 0; i < 20000; ++i) {
    std::string name;
    for (uint32_t n = random.NextU32() % 6; n > 0; --n) {
      constexpr unsigned char kBytes[] = {'a',  0x80, 0x9e, 0x9f, 0xbf, 0xc2, 0xc3,
                                          0xe0, 0xed, 0xef, 0xf0, 0xf4, 0xff};
      name += static_cast<char>(kBytes[random.NextU32() % sizeof kBytes]);
    }
    const std::string text = JsonName(name);
    ASSERT_EQ(NameOfJson(text), name);
    ASSERT_NO_THROW((void)Json(text).dump());
  }
}

class LogOfNames : public testing::Test {
 protected:
  LogOfNames() : path_(Cat(testing::TempDir(), "/infer_log_", ::getpid())) {
    std::filesystem::remove(path_);
  }
  ~LogOfNames() override { std::filesystem::remove(path_); }
  std::string path_;
};

TEST_F(LogOfNames, KeepsThemAll) {
  const LogIdentity identity{"infer-opt/test@1", "of\xff", ""};
  {
    auto log = AppendLog::Open(path_, identity);
    ASSERT_TRUE(log.ok()) << log.status().message();
    int64_t i = 0;
    for (const std::string& name : kNames)
      ASSERT_TRUE((*log)->Add(name, {{"i", i++}, {"node", "n\xff"}}).ok());
  }
  auto log = AppendLog::Open(path_, identity);
  ASSERT_TRUE(log.ok()) << log.status().message();
  int64_t i = 0;
  for (const std::string& name : kNames) {
    const Json* value = (*log)->Find(name);
    ASSERT_TRUE(value) << JsonName(name);
    EXPECT_EQ(value->at("i"), i++);
  }
  EXPECT_EQ((*log)->all().size(), std::size(kNames));
  log = Result<std::unique_ptr<AppendLog>>(std::unique_ptr<AppendLog>());
  EXPECT_EQ(AppendLog::Open(path_, {"infer-opt/test@1", "of\xfe", ""}).status().code(),
            Code::kInvalidArgument);
}

}  // namespace
}  // namespace infer
