#pragma once
/// What tests of rewriting share: the operators, and graphs from text.
#include <gtest/gtest.h>

#include "lib/ir/text.h"
#include "lib/ops/registry.h"

namespace infer {

inline const OpRegistry& Ops() {
  static const OpRegistry ops = AllOps();
  return ops;
}

inline Graph Parsed(const std::string& text) {
  auto g = ParseGraph(text, Ops());
  EXPECT_TRUE(g.ok()) << g.status().message();
  return *std::move(g);
}

}  // namespace infer
