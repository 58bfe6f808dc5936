#pragma once
/// Helpers of the quantization tests: graphs from text, samples with a seed.
#include <gmock/gmock.h>

#include <string>
#include <string_view>
#include <vector>

#include "lib/ir/text.h"
#include "lib/ops/registry.h"
#include "lib/support/random.h"
#include "quant/calibrate/samples.h"
#include "quant/scheme/report.h"

namespace infer {

inline const OpRegistry& TestOps() {
  static const OpRegistry ops = AllOps();
  return ops;
}

inline Graph MustParse(std::string_view text) {
  auto g = ParseGraph(text, TestOps());
  EXPECT_TRUE(g.ok()) << g.status().message();
  return g.ok() ? *std::move(g) : Graph(TestOps());
}

/// `count` runs of standard normal inputs. Pre: static f32 inputs.
inline Samples NormalSamples(const Graph& g, int64_t count, uint64_t seed) {
  Random random(seed);
  std::vector<std::vector<Datum>> runs;
  for (int64_t i = 0; i < count; ++i) {
    std::vector<Datum> run;
    for (const Value* v : g.inputs()) {
      Tensor t(DType::kF32, v->shape().static_dims());
      for (float& x : t.mutable_data<float>()) x = static_cast<float>(random.Normal());
      run.emplace_back(std::move(t));
    }
    runs.push_back(std::move(run));
  }
  return InMemory(std::move(runs));
}

/// The counts of a report are those of its layers.
inline void ExpectCounted(const QuantizeReport& r) {
  int64_t other = 0;
  for (const QuantizedLayer& l : r.layers) other += l.precision != "f32";
  EXPECT_EQ(r.integer_layers, other);
  EXPECT_GE(r.quantizable_layers, other);
}

}  // namespace infer
