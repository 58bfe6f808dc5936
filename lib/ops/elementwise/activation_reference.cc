#include "lib/ops/elementwise/activation_reference.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <limits>

namespace infer {
namespace {

/// Of NaN and of -0 they make what the operators of these names make.
constexpr ActivationDef kActivations[] = {
    {"relu", [](double x, double, double) { return x < 0 ? 0.0 : x; }, 0, 0, 0},
    {"tanh", [](double x, double, double) { return std::tanh(x); }, 0, 0, 0},
    {"sigmoid", [](double x, double, double) { return 1 / (1 + std::exp(-x)); }, 0, 0, 0},
    {"softsign", [](double x, double, double) { return x / (1 + std::abs(x)); }, 0, 0, 0},
    {"softplus",
     [](double x, double, double) { return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))); },
     0, 0, 0},
    {"leakyrelu", [](double x, double a, double) { return x >= 0 ? x : a * x; }, 1, 0.01, 0},
    {"thresholdedrelu", [](double x, double a, double) { return x > a ? x : 0.0; }, 1, 1, 0},
    {"elu", [](double x, double a, double) { return x >= 0 ? x : a * std::expm1(x); }, 1, 1, 0},
    {"affine", [](double x, double a, double b) { return a * x + b; }, 2, 1, 0},
    {"scaledtanh", [](double x, double a, double b) { return a * std::tanh(b * x); }, 2, 1, 1},
    {"hardsigmoid", [](double x, double a, double b) { return std::clamp(a * x + b, 0.0, 1.0); }, 2,
     0.2, 0.5},
    {"clip", [](double x, double a, double b) { return x < a   ? a
                                                       : x > b ? b
                                                               : x; }, 2,
     -std::numeric_limits<double>::infinity(), std::numeric_limits<double>::infinity()},
};

bool SameLetters(std::string_view lower, std::string_view any) {
  return std::equal(lower.begin(), lower.end(), any.begin(), any.end(), [](char a, char b) {
    return a == static_cast<char>(std::tolower(static_cast<unsigned char>(b)));
  });
}

}  // namespace

const ActivationDef* FindActivation(std::string_view name) {
  for (const ActivationDef& a : kActivations)
    if (SameLetters(a.name, name)) return &a;
  return nullptr;
}

}  // namespace infer
