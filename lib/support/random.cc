#include "lib/support/random.h"

#include <cmath>
#include <numbers>

namespace infer {

double Random::Normal() {
  if (has_spare_) {
    has_spare_ = false;
    return spare_;
  }
  const double r = std::sqrt(-2 * std::log(1 - Uniform()));
  const double phi = 2 * std::numbers::pi * Uniform();
  spare_ = r * std::sin(phi);
  has_spare_ = true;
  return r * std::cos(phi);
}

}  // namespace infer
