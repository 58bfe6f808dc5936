#pragma once
/// Whether inputs and outputs of a model still come from where its calibration samples came from:
/// figures of rows in, what has moved out. No threads of its own, no clock.
///
/// The row is the unit, for elements of one row (pixels, words) depend on each other. Rows are
/// taken to be independent: frames of one film are not, and look as if they had moved. Each figure
/// of each group of channels (row_figures.h) of the last rows is compared with that of the
/// reference rows by three tests that assume no distribution: Mann-Whitney of the figures (place),
/// Mann-Whitney of their distances to the median of both (scale), Kolmogorov-Smirnov (shape). All p
/// values are corrected together (Holm 1979), so that of windows in which nothing has moved at most
/// the share `alarm` tells anything.
#include <deque>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "lib/support/status.h"
#include "lib/tensor/datum.h"
#include "runtime/engine/row_figures.h"

namespace infer::engine {

/// The last rows of one input or output.
struct DriftRows {
  std::string name;
  std::optional<RowParts> parts = {};  ///< nullopt: no row was seen that has figures
  std::deque<std::vector<float>> rows = {};
  int64_t misfits = 0;  ///< values of other parts, not looked at
};

/// Figures of the samples that a model was calibrated or judged with.
class DriftReference {
 public:
  static constexpr size_t kLeastRows = 50, kMostRows = 2000;
  DriftReference(std::vector<std::string> inputs, std::vector<std::string> outputs);
  /// From tensors() of another, as a file keeps them (tools/common/drift_file.h). InvalidArgument:
  /// a row that has not the figures of its parts, or parts that no tensor has.
  static Result<DriftReference> Of(std::vector<DriftRows> tensors);
  /// Inputs and outputs of one run, of one row or more. Beyond kMostRows the oldest go.
  void Add(std::span<const Datum> inputs, std::span<const Datum> outputs);
  /// Inputs, then outputs.
  const std::vector<DriftRows>& tensors() const { return tensors_; }

 private:
  DriftReference() = default;
  std::vector<DriftRows> tensors_;
};

struct Drift {
  enum class By : uint8_t { kPlace, kScale, kShape };
  std::string tensor;
  int64_t first_channel = 0, channels = 1;  ///< the group
  RowFigure figure = RowFigure::kMean;
  By by = By::kPlace;  ///< the test with the smallest p
  double p = 1;        ///< corrected for all tests
  /// Population stability index over tenths of the reference: sum of (share - reference's share) *
  /// log(share / reference's share); 0.1 and 0.25 are customary limits of "some" and "much".
  double psi = 0;
  double reference_median = 0, median = 0;  ///< of the figure
};
std::string_view Name(Drift::By by);

struct DriftReport {
  int64_t rows = 0;          ///< in the window, of the tensor that has the fewest
  int64_t misfits = 0;       ///< values of other types or channels than the reference's
  int64_t figures = 0;       ///< compared
  std::vector<Drift> found;  ///< smallest p first; the smallest of each figure
  bool judged = false;       ///< window and reference have enough rows
};

/// Watches one model. Its functions may be called by many threads at once.
class DriftWatch {
 public:
  struct Options {
    size_t window = 500;  ///< rows that are compared; at least DriftReference::kLeastRows
    double alarm = 0.01;  ///< share of windows without drift that may tell one
  };
  /// The reference is no longer added to.
  explicit DriftWatch(std::shared_ptr<const DriftReference> reference);
  DriftWatch(std::shared_ptr<const DriftReference> reference, Options options);
  /// Inputs and outputs of a request. 30 us for an image of 3x224x224 and a thousand scores.
  void See(std::span<const Datum> inputs, std::span<const Datum> outputs) noexcept;
  /// Compares the last rows; takes milliseconds, during which See does not wait. Windows overlap
  /// where it is called more often than every `window` rows, so that one chance alarm may be told
  /// more than once.
  DriftReport Look() const;

 private:
  std::shared_ptr<const DriftReference> reference_;
  Options options_;
  mutable std::mutex mutex_;
  std::vector<DriftRows> tensors_;
};

}  // namespace infer::engine
