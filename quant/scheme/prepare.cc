#include "passes/pass/pipeline.h"
#include "quant/scheme/quantize.h"

namespace infer {

Status PrepareForQuantization(Graph& g) {
  OptimizeOptions options;
  options.level = kMaxLevel;
  return Optimize(g, options).status();
}

}  // namespace infer
