#pragma once
/// Questions that the tests of targets ask of a graph.
#include <gmock/gmock.h>

#include "quant/target/check.h"
#include "runtime/cpu/backend.h"
#include "tests/quant/scheme/graphs.h"

namespace infer::target_test {

inline TargetReport Check(std::string_view text, std::string_view target, int64_t opset = 13,
                          int64_t ir_version = 8) {
  const Graph g = MustParse(text);
  const Target* t = FindTarget(target);
  EXPECT_NE(t, nullptr) << target;
  auto r = CheckTarget(g, {opset, ir_version}, *t, *MakeCpuBackend());
  EXPECT_TRUE(r.ok()) << r.status().message();
  return r.ok() ? *std::move(r) : TargetReport();
}

/// The one finding of a report; fails where there are others.
inline TargetFinding Only(const TargetReport& r) {
  EXPECT_EQ(r.findings.size(), 1u);
  return r.findings.empty() ? TargetFinding() : r.findings[0];
}

}  // namespace infer::target_test
