#pragma once
/// Model by device: how requests ended and how long they took, and what their latency goes along
/// with. A correlation is no cause: load, rows and device may go along with each other.
#include <array>
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

/// The logarithm of n + 1 to base 2, in units of 1 / kLogUnit, rounded down within 0.3 % of n + 1;
/// a negative n counts as 0. By a table: a request has four of them.
int64_t TableLog(int64_t n);
inline constexpr int64_t kLogUnit = 4096;

/// Logarithms of what requests met, with the logarithm of their latency: a few slow ones do not
/// decide alone. Of requests that succeeded. Sums are whole numbers: exact, in any order.
class LatencyFactors {
 public:
  void Add(int64_t requests_before, int64_t rows_of_run, int64_t input_bytes, int64_t total_ns);
  void Merge(const LatencyFactors& other);

  Pairs load() const { return Of(0); }  ///< requests of the version that waited or ran when it came
  Pairs rows() const { return Of(1); }  ///< of the run that answered it
  Pairs bytes() const { return Of(2); }  ///< of its inputs

 private:
  __extension__ using Sum = __int128;  // ISO C++ has no 128-bit numbers
  struct Factor {
    int64_t x = 0;
    Sum xx = 0, xy = 0;
  };
  Pairs Of(size_t factor) const;

  int64_t count_ = 0, y_ = 0;
  Sum yy_ = 0;
  std::array<Factor, 3> factors_ = {};
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
