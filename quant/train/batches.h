#pragma once
/// Samples put together as one run, and copies of images that are shifted and mirrored.
#include <span>

#include "lib/ir/graph.h"
#include "lib/support/random.h"
#include "quant/calibrate/samples.h"

namespace infer {

/// `g` with an open first extent, the same for all inputs: what takes stacked samples. Unsupported:
/// an input without a first axis, or an operator that wants the extent that was there.
Result<Graph> WithOpenRows(const Graph& g);

/// Shifts and mirror images of inputs that are images: f32 or u8 [rows, channels, height, width]
/// with 1 or 3 channels and at least 8 pixels a side. Pixels that come in repeat the border.
struct Augmentation {
  bool shift = false;   ///< by up to an eighth of each side
  bool mirror = false;  ///< left to right, every second time
  bool any() const { return shift || mirror; }
};

struct DrawnSample {
  int64_t sample = 0;
  int64_t down = 0, right = 0;  ///< in 1/1000 of an eighth of the side
  bool mirrored = false;
};

/// Which samples the training steps see: all of them in a random order, then in another. Position
/// `at` of that endless row depends on nothing but seed and counts, so that a run goes on where it
/// was.
class SampleOrder {
 public:
  SampleOrder(int64_t count, uint64_t seed, Augmentation augment)
      : count_(count), seed_(seed), augment_(augment) {}
  DrawnSample At(int64_t at);

 private:
  int64_t count_;
  uint64_t seed_;
  Augmentation augment_;
  int64_t epoch_ = -1;
  std::vector<int64_t> order_;  // of epoch_
};

/// The inputs of `drawn` as one run: stacked along axis 0, moved as they say. InvalidArgument: runs
/// of different extents, or inputs that are no tensors.
Result<std::vector<Datum>> StackedInputs(const Samples& samples,
                                         std::span<const DrawnSample> drawn);
/// Their labels as [..., classes] of f32, 1 at the label. Rows of mirrored samples, and of labels
/// outside of the classes, stay 0. Pre: samples.labels.
Result<Tensor> StackedLabels(const Samples& samples, std::span<const DrawnSample> drawn,
                             const Dims& dims);

}  // namespace infer
