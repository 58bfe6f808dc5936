#include "passes/pass/pipeline.h"
#include "quant/scheme/quantize.h"

namespace infer {

Status PrepareForQuantization(Graph& g) {
  OptimizeOptions options;
  options.level = kFuseLevel;  // the layers inside of blocks are what is quantized
  return Optimize(g, options).status();
}

}  // namespace infer
