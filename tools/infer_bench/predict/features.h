#pragma once
/// What the time of a step is explained by: amounts of work of several kinds, whose prices per
/// kernel family a machine profile holds (fit.h).
#include <array>
#include <string>
#include <vector>

#include "tools/common/roofline.h"
#include "tools/infer_bench/predict/plan_facts.h"

namespace infer::bench {

/// Names and units of the columns; a price is in microseconds per unit.
inline constexpr std::array kColumns = {
    "launches",       ///< 1
    "operators",      ///< of the model that the step computes
    "parts",          ///< operands and results
    "operator_rows",  ///< thousands: operators times rows
    "copies",         ///< operands copied into another layout
    "copy_traffic",   ///< bytes of these copies at the bandwidth of the level that holds them, us
    "constant_traffic",  ///< constants at the bandwidth of the level that holds the program, us
    "traffic",           ///< all else that the step moves, at the level that holds that, us
    "results",           ///< thousands of elements written
    "operands",          ///< thousands of elements read that are no constants
    "rows",              ///< thousands of rows (last dimension) of the results
    "broadcast_rows",    ///< the same where an operand is repeated along some dimension, else 0
    "runs",          ///< thousands of contiguous stretches that a copy of operand into result has
    "work",          ///< operations at the peak of their precision, us
    "padded_work",   ///< the same with channels in sixteens and rows in fours
    "tiles_work",    ///< the same with images in tiles of 4 x 4
    "patches",       ///< thousands of elements of the left matrix of a product (of im2col)
    "weights",       ///< thousands of elements of the right matrix
    "products",      ///< independent products: groups, batch, heads
    "cheap",         ///< thousands of elements through +, *, max, comparisons
    "divisions",     ///< through /, square roots
    "exponentials",  ///< through exp, tanh, sigmoid, erf
    "powers",        ///< through pow, log, sin and the like
    "repeats",       ///< of a recurrent step, one after the other
    "repeated_traffic",  ///< its weights, read anew each time, us at their level
};
inline constexpr size_t kNumColumns = kColumns.size();
using Features = std::array<double, kNumColumns>;

struct StepFeatures {
  /// From the most particular family to the most general: "conv3|own:...|f32", "conv3|f32",
  /// "product", "any".
  std::array<std::string, 4> families;
  Features x{};
};

/// Pre: the step has launches or copies and is not late. `program_bytes`: of all constants and
/// activations.
StepFeatures FeaturesOf(const StepFacts& step, int64_t program_bytes, const Roofline& machine);

}  // namespace infer::bench
