#pragma once
/// Model by device: how requests ended and how long they took, and what their latency goes along
/// with. A correlation is no cause: load, rows and device may go along with each other.
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/engine/telemetry.h"

namespace infer::engine {

struct ModelStats;

struct Correlation {
  double r = 0;              ///< Pearson's, from -1 to 1
  double low = 0, high = 0;  ///< 95 %, by Fisher's z; narrower than it is where requests depend
};

/// Of pairs of numbers, which are not kept (Chan, Golub & LeVeque 1979).
struct Pairs {
  /// Of fewer no correlation is told.
  static constexpr int64_t kLeast = 200;

  int64_t count = 0;
  double mean_x = 0, mean_y = 0;
  double xx = 0, yy = 0, xy = 0;  ///< sums of products of distances to the means

  void Add(double x, double y);
  void Merge(const Pairs& other);
  /// nullopt: too few, or one of the two numbers is always the same.
  std::optional<Correlation> Correlate() const;
};

/// Logarithms of what requests met, with the logarithm of their latency: a few slow ones do not
/// decide alone. Of requests that succeeded.
struct LatencyFactors {
  Pairs load;   ///< requests of the version that waited or ran when it came
  Pairs rows;   ///< of the run that answered it
  Pairs bytes;  ///< of its inputs

  void Add(int64_t requests_before, int64_t rows_of_run, int64_t input_bytes, int64_t total_ns);
  void Merge(const LatencyFactors& other);
};

struct MatrixCell {
  std::string model, device;
  Times times;  ///< of the versions that ModelStats still has
  LatencyFactors factors;
};

/// In the order of the models, then of the first version on a device. Cells without requests that
/// ended are left out.
std::vector<MatrixCell> DeviceMatrix(std::span<const ModelStats> models);

/// The share of the variance of the logarithm of the latency that lies between devices (eta
/// squared): 0 where the device says nothing, 1 where it says all. Where each model has a device of
/// its own the two are not told apart. nullopt: one device, too few requests, or one latency.
std::optional<double> DeviceShare(std::span<const MatrixCell> cells);

}  // namespace infer::engine
