#pragma once
/// The search for extents of open dimensions, with runs of the reference kernels.
#include <gtest/gtest.h>

#include <string_view>
#include <utility>

#include "lib/ir/eval.h"
#include "lib/ir/text.h"
#include "tests/tools/test_models.h"
#include "tools/common/open_extents.h"

namespace infer {

inline Graph Parsed(std::string_view text) {
  auto g = ParseGraph(text, Ops());
  EXPECT_TRUE(g.ok()) << g.status().message();
  return *std::move(g);
}

/// The extents that are found, and how many runs that took.
struct Found {
  Result<OpenExtents> extents;
  int runs = 0;
};
inline Found Find(const Graph& g, int64_t first_batch = 2, OpenExtents fixed = {}) {
  int runs = 0;
  ExtentSearch search{.first_batch = first_batch, .fixed = std::move(fixed)};
  search.run = [&](const OpenExtents& extents) -> Result<bool> {
    ++runs;
    INFER_ASSIGN(const auto inputs, RandomModelInputs(g, 0, extents));
    INFER_ASSIGN(const auto outputs, Evaluate(g, inputs));
    return AnyEmpty(outputs);
  };
  auto extents = FindExtents(g, search);
  return {std::move(extents), runs};
}

}  // namespace infer
