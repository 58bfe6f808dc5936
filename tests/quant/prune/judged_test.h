#pragma once
/// The fixture of tests that prune a small graph and compare it with the dense one.
#include <gtest/gtest.h>

#include "quant/accuracy/compare.h"
#include "runtime/reference/backend.h"
#include "tests/quant/scheme/graphs.h"

namespace infer {

class JudgedTest : public testing::Test {
 protected:
  /// Of the first output, on samples that nothing was fitted to.
  double Decibels(const Graph& golden, const Graph& g) {
    const auto r = Compare(golden, *backend_, g, *backend_, NormalSamples(golden, 16, 77));
    EXPECT_TRUE(r.ok()) << r.status().message();
    return r.ok() ? r->outputs[0].metrics.sqnr_db : 0;
  }
  std::unique_ptr<Backend> backend_ = MakeReferenceBackend();
};

}  // namespace infer
