#include "runtime/api/build_identity.h"

#include <gtest/gtest.h>

namespace infer {
namespace {

TEST(BuildIdentity, IsOneForTheProcess) {
  const std::string& identity = BuildIdentity();
  EXPECT_EQ(identity.size(), 16u);
  EXPECT_EQ(identity.find_first_not_of("0123456789abcdef"), std::string::npos);
  EXPECT_EQ(&BuildIdentity(), &identity);
}

}  // namespace
}  // namespace infer
