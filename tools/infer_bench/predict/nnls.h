#pragma once
/// Least squares with coefficients that are not negative: a cost that is a sum of costs.
#include <span>
#include <vector>

namespace infer::bench {

/// The x >= 0 that makes |A x - b|^2 least, A row by row (Lawson & Hanson 1974, ch. 23, on the
/// normal equations as Bro & De Jong 1997). Columns are scaled to norm 1 before; `ridge` >= 0 is
/// added to the diagonal then, so that columns that say the same share what they explain. A column
/// of zeros gets 0. Pre: A.size() == columns * b.size(); all numbers finite.
std::vector<double> Nnls(std::span<const double> a, size_t columns, std::span<const double> b,
                         double ridge = 0);

}  // namespace infer::bench
