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
  std::vector<std::string> fill;   ///< --fill [NAME=]KIND: how random values are drawn
  /// Not searched for again: what an earlier MakeInputs of this model found.
  OpenExtents known_extents;
  uint64_t seed = 0;
  void Declare(Options& options);
};

struct ModelInputs {
  std::vector<Datum> values;        ///< one per graph input
  std::vector<std::string> random;  ///< inputs without a file
  OpenExtents extents;              ///< of the dimensions that the model leaves open
  /// "random values (seed 0) for: x, with batch = 1": for people; "" where all came from files.
  std::string ToString(uint64_t seed) const;
};
using RunGraph = std::function<Result<std::vector<Datum>>(const std::vector<Datum>&)>;

/// Values of files, and random ones for the other inputs. The extents of files are taken for open
/// dimensions of the same name; the rest are searched with `run` (tools/common/open_extents.h).
/// InvalidModel: a file does not fit its input.
Result<ModelInputs> MakeInputs(const Graph& g, const InputOptions& options, const RunGraph& run);

/// Standard normal floats; integers in a range that their readers accept (row numbers for Gather,
/// class indices, lengths), or that the model compares an only element with, else 0 or 1. Open
/// dimensions are as `extents` says, else 1. Resource: larger than the machine's memory.
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
