#pragma once
/// The activations that recurrent and fused operators name by a string, in double.
#include <string_view>

namespace infer {

struct ActivationDef {
  std::string_view name;  ///< lower case
  double (*fn)(double x, double alpha, double beta);
  int parameters;      ///< how many of alpha and beta it takes
  double alpha, beta;  ///< defaults
};

/// By name, in any letter case; nullptr when it is not known.
const ActivationDef* FindActivation(std::string_view name);

}  // namespace infer
