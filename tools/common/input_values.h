#pragma once
/// Values for a model's inputs: from files, from a test_data_set folder, or random of the right
/// type and range.
#include <string>
#include <vector>

#include "lib/ir/graph.h"
#include "tools/common/open_extents.h"
#include "tools/common/options.h"

namespace infer {

struct InputOptions {
  std::vector<std::string> input;  ///< --input NAME=FILE (.npy .npz .pb, an image) or FILE
  uint64_t seed = 0;
  void Declare(Options& options);
};

/// One datum per graph input. Inputs without a file get random values; `random_inputs` (if given)
/// receives their names.
Result<std::vector<Datum>> MakeInputs(const Graph& g, const InputOptions& options,
                                      std::vector<std::string>* random_inputs = nullptr);

/// Standard normal floats; integers in a range that their readers accept (row numbers for Gather,
/// class indices, lengths), else 0 or 1. Open dimensions are as `extents` says, else 1.
Result<std::vector<Datum>> RandomModelInputs(const Graph& g, uint64_t seed,
                                             const OpenExtents& extents = {});

/// ONNX backend-test layout: DIR/test_data_set_k/{input_i,output_i}.pb, or DIR is one such set.
struct TestSet {
  std::string path;
  std::vector<Datum> inputs, outputs;
};
Result<std::vector<std::string>> FindTestSets(const std::string& dir);
Result<TestSet> ReadTestSet(const std::string& path, const Graph& g);

}  // namespace infer
