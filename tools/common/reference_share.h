#pragma once
/// How much of a model's time its reference kernels take: what the fast kernels of a device leave.
#include <string>
#include <vector>

#include "runtime/api/program.h"
#include "tools/common/report.h"

namespace infer {

struct ReferenceShare {
  double wall_ms = 0;
  OperatorTimes operators;  ///< milliseconds in reference kernels
  double reference_ms() const;
  double percent() const;  ///< of the wall time
  /// "reference kernels: 1.5 % of the time (LSTM 1.2 %, Cast 0.3 %)"; operators of at least
  /// `least` percent.
  std::string ToString(double least = 0.1) const;
};
Json ToJson(const ReferenceShare& share);

/// Medians over profiled runs.
class ReferenceSamples {
 public:
  void Add(double wall_ms, const OperatorTimes& operators);
  ReferenceShare Median() const;

 private:
  std::vector<double> walls_;
  std::vector<OperatorTimes> operators_;
};

}  // namespace infer
