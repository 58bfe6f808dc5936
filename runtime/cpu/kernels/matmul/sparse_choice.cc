#include "runtime/cpu/kernels/matmul/sparse_choice.h"

#include <algorithm>
#include <limits>

#include "lib/support/readable.h"
#include "lib/support/strings.h"
#include "runtime/cpu/kernels/common/zero_share.h"
#include "runtime/cpu/kernels/matmul/strassen_gemm.h"

namespace infer {
namespace {

/// Work that is left, of the dense product's, at most: what the estimate is off by.
constexpr double kGain = 0.85;
constexpr int64_t kLeastExtent = 16;
constexpr double kMostStored = std::numeric_limits<uint32_t>::max() / 2.0;

/// What zeros leave of the time is told in these words.
std::string Share(double part) { return Cat(Rounded(100 * part, 3), " %"); }

/// What a form costs, in multiplications of a vector by a number; fitted to times of products of 1
/// to 3136 rows (sparse_bench, docs/pruning.md). Rows and results come from memory.
struct FormWork {
  double block;    ///< for each vector of rows (kPanels: each row) by a stored block
  double operand;  ///< for each vector of rows, packed once
  double result;   ///< for each vector of results
  double again;    ///< for each of them and chunk of terms after the first
  double list;     ///< for each list, chunk and tile
};

FormWork WorkOf(SparseForm form, int lanes) {
  const double half = lanes == 16 ? 1 : 0.5;  // of a vector's bytes
  switch (form) {
    case SparseForm::kPanels: return {lanes == 16 ? 1.2 : 2.4, 23 * half, 12 * half, 3, 16};
    case SparseForm::kStrips: return {4.6, 25 * half, 22 * half, 2, 40};
    case SparseForm::kSingles: return {1.2, 25 * half, 22 * half, 2, 70};
  }
  return {};
}

/// Rows at least for which a vector of weights is multiplied as long as it takes to read it.
constexpr double kRowsOfRead = 6;

}  // namespace

double DenseWork(const SparseShape& s, int lanes, bool seven_products) {
  const auto vectors = static_cast<double>(BlocksOf(s.columns, lanes));
  const double rows = std::max(kRowsOfRead, static_cast<double>(s.images * s.rows));
  return rows * static_cast<double>(s.depth) * vectors * (seven_products ? 7.0 / 8 : 1);
}

double SparseWork(const SparseShape& s, SparseForm form, int64_t stored, int lanes) {
  const bool panels = form == SparseForm::kPanels;
  const FormWork work = WorkOf(form, lanes);
  const auto rows = static_cast<double>(s.images * s.rows);
  // Vectors of rows where these lie side by side.
  const auto across = panels ? rows : static_cast<double>(s.images * BlocksOf(s.rows, lanes));
  const double padded = panels ? rows : across * lanes;
  const int64_t terms = panels ? (lanes == 16 ? 256 : 1024) : (lanes == 16 ? 128 : 192);
  const auto chunks = static_cast<double>(BlocksOf(s.depth, terms));
  const auto lists = static_cast<double>(BlocksOf(s.columns, BlockOf(form)));
  const double tiles = panels ? across / (lanes == 16 ? 28 : 6) : across / 4;
  const double multiplied = panels ? std::max(kRowsOfRead, across) : across;
  return work.block * multiplied * static_cast<double>(stored) +
         work.operand * padded * static_cast<double>(BlocksOf(s.depth, lanes)) +
         (work.result + work.again * (chunks - 1)) * padded *
             static_cast<double>(BlocksOf(s.columns, lanes)) +
         work.list * std::max(1.0, tiles) * lists * chunks;
}

Result<SparseProduct> SparseChoice::Make(const WeightMatrix& w, const SparseShape& shape) const {
  const simd::Sparse* const loops = simd::TheSparse();
  if (w.columns < kLeastExtent || w.depth < kLeastExtent)
    return Unsupported("the product is too small");
  std::lock_guard lock(mutex_);
  if (!sample_)
    sample_ = ShareOfSample(w.depth * w.columns,
                            [&](int64_t i) { return w.at(i / w.columns, i % w.columns) == 0; });
  if (*sample_ < kLeastZeros)
    return Unsupported(Cat("about ", Share(*sample_), " of the weights are zero, too few to gain"));
  if (!counts_) counts_ = CountStored(w);
  const StrassenGemm seven{nullptr, {}, shape.images * shape.rows, shape.depth, shape.columns};
  const double dense = DenseWork(shape, loops->lanes, level_ >= 2 && seven.Pays());
  const auto work = [&](SparseForm f) {
    return SparseWork(shape, f, counts_->of(f), loops->lanes);
  };
  const SparseForm best =
      *std::min_element(std::begin(kSparseForms), std::end(kSparseForms),
                        [&](SparseForm a, SparseForm b) { return work(a) < work(b); });
  if (work(best) > kGain * dense)
    return Unsupported(Cat(Share(counts_->zero_share()), " of the weights are zero, which leaves ",
                           Share(work(best) / dense),
                           " of the dense product's work; worth it: ", Share(kGain)));
  if (static_cast<double>(counts_->of(best)) > kMostStored) return Unsupported("too many weights");
  auto& packed = packed_[static_cast<int>(best)];
  if (!packed) packed = std::make_shared<SparseWeights>(SparseWeights::Pack(w, best, *loops));
  SparseProduct product;
  product.loops = loops;
  product.shape = shape;
  product.lanes = threads_;
  product.w = packed;
  return product;
}

}  // namespace infer
