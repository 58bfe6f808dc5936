#pragma once
/// Static quantization that has to work, without what prepares graphs for it; what it made, and how
/// near.
#include <algorithm>

#include "lib/ir/verify.h"
#include "quant/accuracy/compare.h"
#include "quant/scheme/quantize.h"
#include "runtime/reference/backend.h"
#include "tests/quant/scheme/graphs.h"

namespace infer {

inline QuantizeOptions Plain() {
  QuantizeOptions o;
  o.prepare = false;
  return o;
}

inline QuantizeReport MustQuantize(Graph& g, const Samples& samples,
                                   const QuantizeOptions& options) {
  auto report = QuantizeStatic(g, samples, *MakeReferenceBackend(), options);
  EXPECT_TRUE(report.ok()) << report.status().message();
  EXPECT_TRUE(Verify(g).ok()) << Verify(g).message();
  return report.ok() ? *std::move(report) : QuantizeReport();
}

inline int Count(const Graph& g, std::string_view op) {
  return static_cast<int>(
      std::count_if(g.nodes().begin(), g.nodes().end(), [&](const auto& n) { return n->Is(op); }));
}

inline double SqnrDb(const Graph& golden, const Graph& candidate, const Samples& samples) {
  const auto backend = MakeReferenceBackend();
  const auto report = Compare(golden, *backend, candidate, *backend, samples);
  EXPECT_TRUE(report.ok()) << report.status().message();
  return report.ok() ? report->outputs[0].metrics.sqnr_db : -1;
}

}  // namespace infer
