#include "runtime/cpu/kernels/matmul/strassen_gemm.h"

#include <algorithm>
#include <vector>

#include "lib/support/parallel.h"
#include "runtime/cpu/launch/launch.h"

namespace infer {
namespace {

/// k in half a sweep, at most.
constexpr int64_t kHalfDepth = 768;
/// Rows of a at once, at most.
constexpr int64_t kRows = 224;
/// Pairs of panels for which the sums of a are read once; their results stay in L2.
constexpr int64_t kGroup = 4;

constexpr int kMaxVector = 16;
constexpr int kProducts = 7;
enum Quarter : int { k11, k12, k21, k22 };

/// Product i is (sum i of the quarters of a, simd::StrassenRows) x (sum i of those of w, SumOfW).
struct ProductTarget {
  Quarter quarter;
  float factor;
  bool first, last;  ///< of the products that the quarter of y takes
};
struct ProductTargets {
  ProductTarget to[2];
  int count;
};
constexpr ProductTargets kTargets[kProducts] = {
    {{{k11, 1, true, false}, {k22, 1, true, false}}, 2},
    {{{k21, 1, true, false}, {k22, -1, false, false}}, 2},
    {{{k12, 1, true, false}, {k22, 1, false, false}}, 2},
    {{{k11, 1, false, false}, {k21, 1, false, true}}, 2},
    {{{k11, -1, false, false}, {k12, 1, false, true}}, 2},
    {{{k22, 1, false, true}}, 1},
    {{{k11, 1, false, true}}, 1},
};

inline float SumOfW(int product, float w11, float w12, float w21, float w22) {
  switch (product) {
    case 0: return w11 + w22;
    case 1: return w11;
    case 2: return w12 - w22;
    case 3: return w21 - w11;
    case 4: return w22;
    case 5: return w11 + w12;
    default: return w21 + w22;
  }
}

}  // namespace

/// Some rows.
struct StrassenGemm::Block {
  int64_t top, rows;  ///< of a
  RowRuns runs;       ///< of the upper quarters
  const float *sums, *w, *bias;
  float* y;
};

bool StrassenGemm::Pays() const { return rows >= 96 && depth >= 256 && columns >= 256; }

int64_t StrassenGemm::row_block() const { return std::min(rows, kRows); }
int64_t StrassenGemm::sweeps() const { return BlocksOf(depth, 2 * kHalfDepth); }
int64_t StrassenGemm::half_blocks() const {
  return BlocksOf(BlocksOf(depth, sweeps()), int64_t{2} * panels->lanes);
}
/// An odd number of lines, so that rows do not fall into the same sets of the cache.
int64_t StrassenGemm::group_pitch() const { return 2 * kGroup * width() + 16; }
int64_t StrassenGemm::scratch_bytes() const {
  return 4 * (kProducts * sweeps() * sum_floats() + lanes * 2 * upper() * group_pitch());
}

/// The sums of a, [sweep][sum][run][block of k][row of the run][lanes].
void StrassenGemm::SumRows(const float* a, const Block& block, float* sums) const {
  const int64_t half = half_blocks() * panels->lanes, runs = block.runs.count();
  ParallelFor(sweeps() * runs, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t k = i / runs * 2 * half, run = i % runs, row = block.runs.begin(run);
      const float* const upper = a + (block.top + row) * depth + k;
      const int64_t below = block.rows - block.runs.rows - row;
      const int size = block.runs.size(run);
      panels->strassen_rows({.upper = upper,
                             .lower = upper + block.runs.rows * depth,
                             .pitch = depth,
                             .depth = depth - k,
                             .blocks = half_blocks(),
                             .rows = size,
                             .lower_rows = static_cast<int>(std::clamp<int64_t>(below, 0, size)),
                             .to = sums + i / runs * kProducts * sum_floats() + row * half,
                             .stride = sum_floats()});
    }
  });
}

/// One product of all runs by the panel `w`, while `next` is fetched. `results`: of the pair.
void StrassenGemm::Panel(const Block& block, int64_t sweep, int product, const float* w,
                         const float* next, float* results, const float* bias) const {
  const int64_t vector = panels->lanes, blocks = half_blocks(), lines = panel_floats() / 16;
  const ProductTargets& targets = kTargets[product];
  const bool start = sweep == 0, end = sweep + 1 == sweeps();
  simd::WideCall call;
  call.b = w;
  call.blocks = blocks;
  call.d_stride = group_pitch();
  call.targets = targets.count;
  for (int t = 0; t < targets.count; ++t) {
    const ProductTarget& target = targets.to[t];
    const int64_t right = target.quarter & 1;
    simd::WideTarget& to = call.to[t];
    to.factor = target.factor;
    to.start = target.first && start ? bias + right * width() : nullptr;
    to.add = !target.first || !start || appended.residual >= 0;
    to.d = results + right * width() + (target.quarter >> 1) * block.runs.rows * group_pitch();
    if (target.last && end && appended.clamps()) {
      to.lo = appended.function->a;
      to.hi = appended.function->b;
    }
  }
  const float* const sums = block.sums + (sweep * kProducts + product) * sum_floats();
  const int per_block = block.runs.count() * 4 * blocks >= lines ? 4 : panels->lanes;
  int64_t fetched = 0;
  for (int64_t run = 0; run < block.runs.count(); ++run) {
    const int size = block.runs.size(run);
    call.a = sums + block.runs.begin(run) * blocks * vector;
    call.a_stride = size * vector;
    call.ahead_lines = next && fetched + per_block * blocks <= lines ? per_block : 0;
    call.ahead = next + fetched * 16;
    fetched += call.ahead_lines * blocks;
    panels->multiply_wide(size, call);
    for (int t = 0; t < targets.count; ++t) call.to[t].d += size * group_pitch();
  }
}

/// All k for some pairs of panels: results are made in scratch, where their rows lie close.
void StrassenGemm::Group(const Block& block, int64_t first, int64_t count, float* results) const {
  const int64_t pair_columns = 2 * width(), left = first * pair_columns;
  const int64_t n = std::min(columns - left, count * pair_columns), pitch = group_pitch();
  float* const y = block.y + block.top * columns + left;
  if (appended.residual >= 0)
    for (int64_t r = 0; r < block.rows; ++r) std::copy_n(y + r * columns, n, results + r * pitch);
  float bias[2 * kGroup * 2 * kMaxVector] = {};
  if (block.bias) std::copy_n(block.bias + left, n, bias);
  const auto panel = [&](int64_t sweep, int64_t pair, int product) {
    return block.w + ((sweep * pairs() + pair) * kProducts + product) * panel_floats();
  };
  for (int64_t i = 0, all = sweeps() * kProducts * count; i < all; ++i) {
    const auto at = [&](int64_t j) {
      return panel(j / count / kProducts, first + j % count,
                   static_cast<int>(j / count % kProducts));
    };
    const bool more = first + count < pairs();
    const float* const next = i + 1 < all ? at(i + 1) : more ? panel(0, first + count, 0) : nullptr;
    Panel(block, i / count / kProducts, static_cast<int>(i / count % kProducts), at(i), next,
          results + i % count * pair_columns, bias + i % count * pair_columns);
  }
  const bool activate = appended.function && !appended.clamps();
  for (int64_t r = 0; r < block.rows; ++r) {
    const float* const from = results + r * pitch;
    if (activate)
      appended.Apply(from, n, y + r * columns);
    else
      std::copy_n(from, n, y + r * columns);
  }
}

void StrassenGemm::Run(const float* a, const float* w, const float* bias, float* y,
                       float* scratch) const {
  float* const results = scratch + kProducts * sweeps() * sum_floats();
  for (int64_t top = 0; top < rows; top += row_block()) {
    const int64_t count = std::min(row_block(), rows - top);
    const Block block{top, count, {(count + 1) / 2, panels->wide_rows}, scratch, w, bias, y};
    SumRows(a, block, scratch);
    const int64_t parts = std::min<int64_t>({lanes, CurrentLanes(), pairs()});
    ParallelFor(parts, 1, [&](int64_t begin, int64_t end) {
      for (int64_t part = begin; part < end; ++part) {
        const int64_t last = pairs() * (part + 1) / parts;
        for (int64_t pair = pairs() * part / parts; pair < last; pair += kGroup)
          Group(block, pair, std::min(kGroup, last - pair),
                results + part * 2 * upper() * group_pitch());
      }
    });
  }
}

void StrassenGemm::PackPair(const float* from, int64_t k_stride, int64_t n_stride, int64_t sweep,
                            int64_t pair, float* to) const {
  const int64_t half = half_blocks() * panels->lanes, w = width();
  std::vector<float> part(static_cast<size_t>(2 * half * 2 * w), 0.0f);  // [k][column of the pair]
  const int64_t k0 = sweep * 2 * half, n0 = pair * 2 * w;
  const int64_t ks = std::clamp<int64_t>(depth - k0, 0, 2 * half);
  const int64_t ns = std::clamp<int64_t>(columns - n0, 0, 2 * w);
  const float* const at = from + k0 * k_stride + n0 * n_stride;
  if (n_stride == 1) {
    for (int64_t k = 0; k < ks; ++k)
      std::copy_n(at + k * k_stride, ns, &part[static_cast<size_t>(k * 2 * w)]);
  } else {
    for (int64_t n = 0; n < ns; ++n)
      for (int64_t k = 0; k < ks; ++k)
        part[static_cast<size_t>(k * 2 * w + n)] = at[k * k_stride + n * n_stride];
  }
  for (int product = 0; product < kProducts; ++product)
    for (int64_t k = 0; k < half; ++k) {
      const float* const left = &part[static_cast<size_t>(k * 2 * w)];
      const float* const low = left + half * 2 * w;
      for (int64_t j = 0; j < w; ++j)
        *to++ = SumOfW(product, left[j], left[w + j], low[j], low[w + j]);
    }
}

std::shared_ptr<const Buffer> StrassenGemm::Pack(const float* from, int64_t k_stride,
                                                 int64_t n_stride) const {
  const int64_t floats = kProducts * panel_floats();
  auto buffer = Buffer::Allocate(static_cast<size_t>(sweeps() * pairs() * floats) * sizeof(float));
  float* const to = As<float>(buffer->mutable_data());
  ParallelFor(sweeps() * pairs(), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      PackPair(from, k_stride, n_stride, i / pairs(), i % pairs(), to + i * floats);
  });
  return buffer;
}

}  // namespace infer
