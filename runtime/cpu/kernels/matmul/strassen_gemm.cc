#include "runtime/cpu/kernels/matmul/strassen_gemm.h"

#include <algorithm>
#include <vector>

#include "lib/support/parallel.h"
#include "runtime/cpu/launch/launch.h"

namespace infer {
namespace {

/// k in half a sweep, at most: the longer, the fewer products are added to y; where sums are made,
/// all those of a have to stay in L2.
constexpr int64_t kHalfDepth = 384, kKeptHalfDepth = 768;
/// Rows of a at once, at most.
constexpr int64_t kRows = 224;
/// Pairs of panels for which the sums of a are read once, their results in L2. Where sums of w are
/// made, its quarters are there, too.
constexpr int64_t kGroup = 1, kKeptGroup = 4;
/// Lines of 64 bytes that a run fetches for each block of k.
constexpr int kAheadLines = 4;

constexpr int kMaxVector = 16;
constexpr int kProducts = 7;
enum Quarter : int { k11, k12, k21, k22, kNone };

struct ProductTarget {
  Quarter quarter;
  float factor;
  bool first, last;  ///< of the products that the quarter of y takes
};
/// Product i is (sum i of the quarters of a, simd::StrassenRows) x (of + with, or of - with).
struct QuarterProduct {
  Quarter of, with;  ///< of w
  bool minus;
  ProductTarget to[2];
  int count;
};
constexpr QuarterProduct kQuarterProducts[kProducts] = {
    {k11, k22, false, {{k11, 1, true, false}, {k22, 1, true, false}}, 2},
    {k11, kNone, false, {{k21, 1, true, false}, {k22, -1, false, false}}, 2},
    {k12, k22, true, {{k12, 1, true, false}, {k22, 1, false, false}}, 2},
    {k21, k11, true, {{k11, 1, false, false}, {k21, 1, false, true}}, 2},
    {k22, kNone, false, {{k11, -1, false, false}, {k12, 1, false, true}}, 2},
    {k11, k12, false, {{k22, 1, false, true}}, 1},
    {k21, k22, false, {{k11, 1, false, true}}, 1},
};
/// In the order in which the products read them.
constexpr Quarter kFetched[] = {k11, k22, k12, k21};

}  // namespace

/// Some rows.
struct StrassenGemm::Block {
  int64_t top, rows;  ///< of a
  RowRuns runs;       ///< of the upper quarters
  const float *sums, *w, *bias;
  float* y;
};

/// A product of a pair, one of `count` that are multiplied in turns.
struct StrassenGemm::Item {
  int64_t sweep, first, count, pair;
  int product;
};

bool StrassenGemm::Pays() const { return rows >= 96 && depth >= 256 && columns >= 256; }

int64_t StrassenGemm::group() const { return kept ? kKeptGroup : kGroup; }
/// Blocks of nearly the same size: each reads all weights.
int64_t StrassenGemm::row_block() const { return BlocksOf(rows, BlocksOf(rows, kRows)); }
int64_t StrassenGemm::sweeps() const {
  return BlocksOf(depth, 2 * (kept ? kKeptHalfDepth : kHalfDepth));
}
int64_t StrassenGemm::half_blocks() const {
  return BlocksOf(BlocksOf(depth, sweeps()), int64_t{2} * panels->lanes);
}
/// An odd number of lines, so that rows do not fall into the same sets of the cache.
int64_t StrassenGemm::group_pitch() const { return 2 * group() * width() + 16; }
int64_t StrassenGemm::lane_floats() const {
  return (kept ? 0 : panel_floats()) + 2 * upper() * group_pitch();
}
int64_t StrassenGemm::scratch_bytes() const {
  return 4 * (kProducts * sweeps() * sum_floats() + lanes * lane_floats());
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

StrassenGemm::Part StrassenGemm::PartOf(const float* w, int64_t sweep, int64_t pair,
                                        int quarter) const {
  const int64_t vector = panels->lanes, all = BlocksOf(depth, vector);
  const int64_t panel = 2 * pair + (quarter & 1), left = columns - panel * width();
  const int64_t first = (2 * sweep + (quarter >> 1)) * half_blocks();
  const int64_t part_width = left > vector ? width() : vector;
  return {w + (panel * all * width() + first * part_width) * vector,
          left > 0 ? std::clamp<int64_t>(all - first, 0, half_blocks()) : 0, part_width};
}

/// A panel of a product that reads what does not lie in whole panels.
void StrassenGemm::MakePanel(const Part& of, const Part* with, bool minus, float* to) const {
  std::fill_n(to, panel_floats(), 0.0f);
  for (int64_t k = 0; k < of.blocks * panels->lanes; ++k)
    std::copy_n(of.at + k * of.width, of.width, to + k * width());
  if (!with) return;
  const float factor = minus ? -1.0f : 1.0f;
  for (int64_t k = 0; k < with->blocks * panels->lanes; ++k)
    for (int64_t j = 0; j < with->width; ++j)
      to[k * width() + j] += factor * with->at[k * with->width + j];
}

const float* StrassenGemm::KeptPanel(const float* w, int64_t sweep, int64_t pair,
                                     int64_t product) const {
  return w + ((sweep * pairs() + pair) * kProducts + product) * panel_floats();
}

/// The panel that the first run multiplies by.
void StrassenGemm::Weights(const Block& block, const Item& item, float* made,
                           simd::WideCall& call) const {
  if (kept) {
    call.b = KeptPanel(block.w, item.sweep, item.pair, item.product);
    return;
  }
  const QuarterProduct& product = kQuarterProducts[item.product];
  const Part of = PartOf(block.w, item.sweep, item.pair, product.of);
  const bool sum = product.with != kNone;
  const Part with = sum ? PartOf(block.w, item.sweep, item.pair, product.with) : Part{};
  const auto whole = [&](const Part& p) { return p.blocks == half_blocks() && p.width == width(); };
  call.b = of.at;
  if (!whole(of) || (sum && !whole(with))) {
    MakePanel(of, sum ? &with : nullptr, product.minus, made);
    call.b = made;
  } else if (sum) {
    call.with = with.at;
    call.minus = product.minus;
    call.made = made;
  }
}

/// One product of all runs. `results`: of the pair.
void StrassenGemm::Panel(const Block& block, const Item& item, float* made, float* results,
                         const float* bias) const {
  const int64_t vector = panels->lanes, blocks = half_blocks();
  const QuarterProduct& product = kQuarterProducts[item.product];
  const bool start = item.sweep == 0, end = item.sweep + 1 == sweeps();
  simd::WideCall call;
  call.blocks = blocks;
  call.d_stride = group_pitch();
  call.targets = product.count;
  for (int t = 0; t < product.count; ++t) {
    const ProductTarget& target = product.to[t];
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
  Weights(block, item, made, call);
  const float* const sums = block.sums + (item.sweep * kProducts + item.product) * sum_floats();
  for (int64_t run = 0; run < block.runs.count(); ++run) {
    const int size = block.runs.size(run);
    call.a = sums + block.runs.begin(run) * blocks * vector;
    call.a_stride = size * vector;
    const Lines ahead = Ahead(block, item, run);
    call.ahead = ahead.at;
    call.ahead_lines = ahead.per_block;
    panels->multiply_wide(size, call);
    for (int t = 0; t < product.count; ++t) call.to[t].d += size * group_pitch();
    if (call.with) {
      call.b = made;
      call.with = nullptr;
    }
  }
}

/// Lines that are fetched during a run, spread evenly: what is fetched faster than memory gives it
/// holds the products up.
StrassenGemm::Lines StrassenGemm::Ahead(const Block& block, const Item& item, int64_t run) const {
  const int64_t runs = block.runs.count(), after = item.first + item.count;
  const int64_t chunk = half_blocks() * kAheadLines * 16, chunks = panel_floats() / chunk;
  if (kept) {  // the next panel; the first runs fetch two chunks where there are fewer than chunks
    const float* const here = KeptPanel(block.w, item.sweep, item.pair, item.product);
    const bool last = item.pair + 1 == after && item.product + 1 == kProducts;
    const float* const next = item.pair + 1 < after ? here + kProducts * panel_floats()
                              : !last ? KeptPanel(block.w, item.sweep, item.first, item.product + 1)
                              : item.sweep + 1 < sweeps()
                                  ? KeptPanel(block.w, item.sweep + 1, item.first, 0)
                              : after < pairs() ? KeptPanel(block.w, 0, after, 0)
                                                : nullptr;
    const int64_t twice = std::clamp<int64_t>(chunks - runs, 0, runs);
    const int64_t at = run + std::min(run, twice);
    if (!next || at >= chunks) return {};
    return {next + at * chunk, static_cast<int>(run < twice ? 2 * kAheadLines : kAheadLines)};
  }
  // The quarters of the next pair, during all products of this one.
  const int64_t i = item.product * runs + run;
  if (i >= 4 * chunks) return {};
  const bool more_k = item.sweep + 1 < sweeps();
  const int64_t pair = item.pair + (more_k ? 0 : item.count);
  if (pair >= pairs()) return {};
  const Part part = PartOf(block.w, more_k ? item.sweep + 1 : 0, pair, kFetched[i / chunks]);
  const int64_t at = i % chunks * chunk;
  if (at + chunk > part.blocks * panels->lanes * part.width) return {};
  return {part.at + at, kAheadLines};
}

/// All k for some pairs of panels: results are made in scratch, where their rows lie close.
void StrassenGemm::Group(const Block& block, int64_t first, int64_t count, float* scratch) const {
  float *const made = scratch, *const results = scratch + (kept ? 0 : panel_floats());
  const int64_t pair_columns = 2 * width(), left = first * pair_columns;
  const int64_t n = std::min(columns - left, count * pair_columns), pitch = group_pitch();
  float* const y = block.y + block.top * columns + left;
  if (appended.residual >= 0)
    for (int64_t r = 0; r < block.rows; ++r) std::copy_n(y + r * columns, n, results + r * pitch);
  float bias[2 * kKeptGroup * 2 * kMaxVector] = {};
  if (block.bias) std::copy_n(block.bias + left, n, bias);
  for (int64_t sweep = 0; sweep < sweeps(); ++sweep)
    for (int product = 0; product < kProducts; ++product)
      for (int64_t i = 0; i < count; ++i)
        Panel(block, {sweep, first, count, first + i, product}, made, results + i * pair_columns,
              bias + i * pair_columns);
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
  float* const own = scratch + kProducts * sweeps() * sum_floats();
  for (int64_t top = 0; top < rows; top += row_block()) {
    const int64_t count = std::min(row_block(), rows - top);
    const Block block{top, count, {(count + 1) / 2, panels->wide_rows}, scratch, w, bias, y};
    SumRows(a, block, scratch);
    const int64_t parts = std::min<int64_t>({lanes, CurrentLanes(), pairs()});
    ParallelFor(parts, 1, [&](int64_t begin, int64_t end) {
      for (int64_t part = begin; part < end; ++part) {
        const int64_t last = pairs() * (part + 1) / parts;
        for (int64_t pair = pairs() * part / parts; pair < last; pair += group())
          Group(block, pair, std::min(group(), last - pair), own + part * lane_floats());
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
  for (const QuarterProduct& product : kQuarterProducts)
    for (int64_t k = 0; k < half; ++k) {
      const auto row = [&](Quarter q) {
        return &part[static_cast<size_t>(((q >> 1) * half + k) * 2 * w + (q & 1) * w)];
      };
      const float* const of = row(product.of);
      const float* const with = product.with == kNone ? nullptr : row(product.with);
      for (int64_t j = 0; j < w; ++j)
        *to++ = !with ? of[j] : product.minus ? of[j] - with[j] : of[j] + with[j];
    }
}

std::shared_ptr<const Buffer> StrassenGemm::Pack(const float* from, int64_t k_stride,
                                                 int64_t n_stride) const {
  if (!kept) return plain().Pack(from, k_stride, n_stride);
  const int64_t floats = kProducts * panel_floats();
  auto buffer = Buffer::Allocate(static_cast<size_t>(sweeps() * pairs() * floats) * sizeof(float));
  float* const to = As<float>(buffer->mutable_data());
  ParallelFor(sweeps() * pairs(), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      PackPair(from, k_stride, n_stride, i / pairs(), i % pairs(), to + i * floats);
  });
  return buffer;
}

bool MayKeepSums(const Operand& x, int64_t rows, bool low_memory) {
  return !low_memory && rows >= StrassenGemm::kKeptRows && x.value && x.value->type().is_tensor() &&
         x.value->tensor_type().is_static();
}

}  // namespace infer
