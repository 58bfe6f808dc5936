#include "runtime/cpu/kernels/move/move_plan.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include "lib/support/parallel.h"
#include "lib/support/status.h"
#include "runtime/cpu/kernels/move/transpose_block.h"
#include "runtime/cpu/simd/folds.h"

namespace infer {
namespace {

constexpr int64_t kMoveGrain = 16384;
/// Runs shorter than this on average are cheaper by table.
constexpr int64_t kShortRun = 8;

}  // namespace

MovePlan MovePlan::Of(const Tensor& tensor, const Dims& dims, const std::vector<int64_t>& starts,
                      const std::vector<int64_t>& sizes, int64_t width, uint64_t fill) {
  const auto map = tensor.data<int64_t>();
  MovePlan p;
  p.width_ = width;
  p.fill_ = fill;
  p.size_ = static_cast<int64_t>(map.size());
  auto operand_of = [&](int64_t number) {
    for (size_t k = 0; k < starts.size(); ++k)
      if (starts[k] >= 0 && number >= starts[k] && number < starts[k] + sizes[k])
        return static_cast<int>(k);
    return -1;
  };
  auto first_of = [&](int operand) { return starts[static_cast<size_t>(operand)]; };
  int64_t lowest = INT64_MAX, highest = 0;
  for (int64_t v : map)
    if (v != 0) lowest = std::min(lowest, v), highest = std::max(highest, v);
  const bool one_operand = highest > 0 && operand_of(lowest) == operand_of(highest);
  if (one_operand) {
    p.operand_ = operand_of(lowest);
    if (p.FindStrides(map, dims)) {
      p.offset_ -= first_of(p.operand_);
      p.Widen();
      return p;
    }
  }
  for (size_t i = 0; i < map.size();) {
    const int k = operand_of(map[i]);
    const int64_t begin = static_cast<int64_t>(i), first = k < 0 ? 0 : first_of(k);
    const int64_t stop = k < 0 ? 0 : first + sizes[static_cast<size_t>(k)];
    // Forwards, backwards, or one element again and again.
    int64_t step = ++i < map.size() && k >= 0 ? map[i] - map[i - 1] : 1;
    if (step < -1 || step > 1) step = 1;
    for (; i < map.size(); ++i)
      if (k < 0 ? map[i] != 0 : map[i] != map[i - 1] + step || map[i] < first || map[i] >= stop)
        break;
    p.pieces_.push_back(
        {k, map[static_cast<size_t>(begin)] - first, begin, static_cast<int64_t>(i) - begin, step});
  }
  if (one_operand && p.size_ < kShortRun * static_cast<int64_t>(p.pieces_.size())) {
    if (p.FindRows(map, dims, first_of(p.operand_))) {
      p.pieces_.clear();
      return p;
    }
    for (int64_t v : map)
      p.table_.push_back(v == 0 ? -1 : static_cast<int32_t>(v - first_of(p.operand_)));
    p.pieces_.clear();
  }
  return p;
}

MovePlan MovePlan::View(int operand, int64_t offset, const Dims& dims, const Dims& strides,
                        int64_t width) {
  MovePlan p;
  p.width_ = width;
  p.size_ = NumElements(dims);
  p.operand_ = operand;
  p.offset_ = offset;
  INFER_CHECK(p.Merge(dims, strides));
  p.Widen();
  return p;
}

MovePlan MovePlan::Joined(const std::vector<int>& operands, const std::vector<int64_t>& runs,
                          int64_t times, int64_t width) {
  MovePlan p;
  p.width_ = width;
  for (size_t k = 0; k < operands.size(); ++k) {
    p.joined_.push_back({operands[k], runs[k], p.size_});
    p.size_ += runs[k];
  }
  p.times_ = times;
  return p;
}

bool MovePlan::Merge(const Dims& dims, const Dims& strides) {
  Dims extents, merged;
  for (size_t d = 0; d < dims.size(); ++d) {
    if (dims[d] == 1) continue;
    if (!extents.empty() && merged.back() == strides[d] * dims[d]) {
      extents.back() *= dims[d];
      merged.back() = strides[d];
    } else {
      extents.push_back(dims[d]);
      merged.push_back(strides[d]);
    }
  }
  if (extents.empty()) extents = merged = {1};  // a single element
  if (extents.size() > kMaxAxes) return false;
  steps_ = Strides(extents);
  dims_ = std::move(extents);
  strides_ = std::move(merged);
  return true;
}

void MovePlan::Widen() {
  const int64_t n = dims_.back(), bytes = n * width_;
  if (dims_.size() < 2 || strides_.back() != 1 || (bytes != 8 && bytes != 16) || n < 2) return;
  for (size_t d = 0; d + 1 < dims_.size(); ++d)
    if (strides_[d] % n != 0) return;
  dims_.pop_back();
  strides_.pop_back();
  for (int64_t& s : strides_) s /= n;
  steps_ = Strides(dims_);
  wide_ = bytes;
}

bool MovePlan::FindStrides(std::span<const int64_t> map, const Dims& dims) {
  if (std::find(map.begin(), map.end(), 0) != map.end()) return false;
  const Dims steps = Strides(dims);
  Dims strides;
  for (size_t d = 0; d < dims.size(); ++d)
    strides.push_back(dims[d] == 1 ? 0 : map[static_cast<size_t>(steps[d])] - map[0]);
  MovePlan found;
  if (!found.Merge(dims, strides)) return false;
  Dims at(found.dims_.size(), 0);
  int64_t want = map[0];
  for (int64_t v : map) {
    if (v != want) return false;
    for (size_t d = found.dims_.size(); d-- > 0;) {
      want += found.strides_[d];
      if (++at[d] < found.dims_[d]) break;
      want -= found.strides_[d] * found.dims_[d];
      at[d] = 0;
    }
  }
  dims_ = std::move(found.dims_);
  strides_ = std::move(found.strides_);
  steps_ = std::move(found.steps_);
  offset_ = map[0];
  return true;
}

bool MovePlan::FindRows(std::span<const int64_t> map, const Dims& dims, int64_t first) {
  const auto n = static_cast<size_t>(dims.back());
  if (n < 8 || std::find(map.begin(), map.end(), 0) != map.end()) return false;
  for (size_t i = 0; i < map.size(); ++i)
    if (map[i] - map[i - i % n] != map[i % n] - map[0]) return false;
  doubles_ = n % 2 == 0;
  for (size_t k = 0; k < n; ++k) {
    columns_.push_back(static_cast<int32_t>(map[k] - map[0]));
    doubles_ &= columns_[k] == static_cast<int32_t>(k / 2);
  }
  for (size_t i = 0; i < map.size(); i += n) rows_.push_back(static_cast<int32_t>(map[i] - first));
  return true;
}

/// Walks the axes of a strided copy but the last and one other, in tiles of that one.
struct MovePlan::Cursor {
  const MovePlan& plan;
  size_t other;  ///< the axis walked in tiles; the last: none
  int64_t tiles;
  int64_t tile = 0, from = 0, to = 0;  ///< elements from the first
  std::array<int64_t, kMaxAxes> at = {};

  Cursor(const MovePlan& p, size_t j, int64_t n, int64_t start)
      : plan(p), other(j), tiles(n), tile(start % n) {
    int64_t rest = start / n;
    for (size_t d = plan.dims_.size() - 1; d-- > 0;) {
      if (d == other) continue;
      at[d] = rest % plan.dims_[d];
      rest /= plan.dims_[d];
      from += at[d] * plan.strides_[d];
      to += at[d] * plan.steps_[d];
    }
  }
  void Next() {
    if (++tile < tiles) return;
    tile = 0;
    for (size_t d = plan.dims_.size() - 1; d-- > 0;) {
      if (d == other) continue;
      from += plan.strides_[d];
      to += plan.steps_[d];
      if (++at[d] < plan.dims_[d]) return;
      from -= plan.strides_[d] * plan.dims_[d];
      to -= plan.steps_[d] * plan.dims_[d];
      at[d] = 0;
    }
  }
};

/// Elements of the operand that tiles of all rows come back to: they stay in L2.
constexpr int64_t kBackTo = 64 << 10;
constexpr int64_t kLeastColumns = 64;  // one after the other in the result
constexpr int64_t kTall = 512;         // rows of a tile of few columns

/// The last axis is contiguous in the result. Where another one (`j`) is contiguous in the operand,
/// the two are walked in tiles, so that neither side is read or written one line per element.
template <typename T>
void MovePlan::RunStrided(const T* from, T* to) const {
  const size_t last = dims_.size() - 1;
  size_t j = last;
  for (size_t d = 0; d < last; ++d)
    if (strides_[d] == 1 && strides_[last] != 1) j = d;
  const int64_t n = dims_[last], step = strides_[last];
  const int64_t tall = n < kTile ? kTall : kTile;  // rows of a tile
  const int64_t rows = j == last ? 1 : dims_[j], row_tiles = (rows + tall - 1) / tall;
  const int64_t columns = j == last ? n : std::max(kLeastColumns, kBackTo / rows / kTile * kTile);
  const int64_t tiles = row_tiles * ((n + columns - 1) / columns);
  int64_t outer = tiles;
  for (size_t d = 0; d < last; ++d)
    if (d != j) outer *= dims_[d];
  ParallelFor(
      outer, std::max<int64_t>(1, kMoveGrain / (std::min(n, columns) * std::min(rows, tall))),
      [&](int64_t begin, int64_t end) {
        Cursor c(*this, j, tiles, begin);
        for (int64_t u = begin; u < end; ++u, c.Next()) {
          const T* x = from + c.from;
          T* y = to + c.to;
          if (j == last && step == 1) {
            std::memcpy(y, x, static_cast<size_t>(n) * sizeof(T));
            continue;
          }
          if (j == last && step == 0) {
            std::fill_n(y, n, *x);
            continue;
          }
          if (j == last) {
            for (int64_t i = 0; i < n; ++i) y[i] = x[i * step];
            continue;
          }
          const int64_t r0 = c.tile % row_tiles * tall, r1 = std::min(rows, r0 + tall);
          const int64_t first = c.tile / row_tiles * columns, end_of = std::min(n, first + columns);
          if constexpr (std::is_same_v<T, uint32_t>) {
            if (n < kTile && steps_[j] == n) {
              TransposeFewColumns(x + r0, step, y + r0 * n, r1 - r0, n);
              continue;
            }
            if (rows < kTile && step >= rows) {
              TransposeFewRows(x + first * step, step, y + first, steps_[j], rows, end_of - first);
              continue;
            }
          }
          for (int64_t c0 = first; c0 < end_of; c0 += kTile) {
            const int64_t c1 = std::min(end_of, c0 + kTile);
            if constexpr (sizeof(T) <= 8)
              if (r1 - r0 == kTile && c1 - c0 == kTile) {
                TransposeTile(x + r0 + c0 * step, step, y + r0 * steps_[j] + c0, steps_[j]);
                continue;
              }
            for (int64_t r = r0; r < r1; ++r)
              for (int64_t k = c0; k < c1; ++k) y[r * steps_[j] + k] = x[r + k * step];
          }
        }
      });
}

template <typename T>
void MovePlan::RunRows(const T* from, T* to) const {
  const auto n = static_cast<int64_t>(columns_.size());
  const int32_t* columns = columns_.data();
  const auto gather = simd::TheFolds().gather[std::countr_zero(sizeof(T))];
  ParallelFor(static_cast<int64_t>(rows_.size()), std::max<int64_t>(1, kMoveGrain / n),
              [&](int64_t begin, int64_t end) {
                for (int64_t r = begin; r < end; ++r) {
                  const int32_t row = rows_[static_cast<size_t>(r)];
                  const T* x = from + row;
                  T* y = to + r * n;
                  if (r > begin && row == rows_[static_cast<size_t>(r - 1)])
                    std::memcpy(y, y - n, static_cast<size_t>(n) * sizeof(T));
                  else if (doubles_)
                    for (int64_t k = 0; k < n / 2; ++k) y[2 * k] = y[2 * k + 1] = x[k];
                  else
                    gather(x, columns, y, n);
                }
              });
}

/// K operands that give one element in turn.
template <int K, typename T>
void Interleave(const T* const* from, T* to, int64_t begin, int64_t end) {
  const T* x[K];
  std::copy_n(from, K, x);
  for (int64_t t = begin; t < end; ++t)
    for (int k = 0; k < K; ++k) to[t * K + k] = x[k][t];
}

template <typename T>
void MovePlan::RunJoined(std::byte* const* args, T* to) const {
  const int64_t count = static_cast<int64_t>(joined_.size()), all = size_;
  auto of = [args](const Part& r) { return reinterpret_cast<const T*>(args[r.operand]); };
  if (all >= kShortRun * count) {  // by runs, since there may be one long one of each
    return ParallelFor(times_ * count, std::max<int64_t>(1, kMoveGrain * count / all),
                       [&](int64_t begin, int64_t end) {
                         for (int64_t i = begin; i < end; ++i) {
                           const Part& r = joined_[static_cast<size_t>(i % count)];
                           const int64_t t = i / count;
                           std::memcpy(to + t * all + r.at, of(r) + t * r.n,
                                       static_cast<size_t>(r.n) * sizeof(T));
                         }
                       });
  }
  const bool single = all == count;
  ParallelFor(times_, std::max<int64_t>(1, kMoveGrain / all), [&](int64_t begin, int64_t end) {
    if (single && count >= 2 && count <= 4) {
      const T* x[4];
      for (size_t k = 0; k < joined_.size(); ++k) x[k] = of(joined_[k]);
      return count == 2   ? Interleave<2>(x, to, begin, end)
             : count == 3 ? Interleave<3>(x, to, begin, end)
                          : Interleave<4>(x, to, begin, end);
    }
    // Operand by operand over so few turns that what they give stays in cache.
    const int64_t turns = std::max<int64_t>(1, kMoveGrain / 4 / all);
    for (int64_t first = begin; first < end; first += turns)
      for (const Part& r : joined_) {
        const T* x = of(r) + first * r.n;
        T* y = to + first * all + r.at;
        for (int64_t t = first; t < std::min(end, first + turns); ++t, x += r.n, y += all)
          for (int64_t i = 0; i < r.n; ++i) y[i] = x[i];
      }
  });
}

template <typename T>
void MovePlan::RunTyped(std::byte* const* args, T* to) const {
  const T fill = static_cast<T>(fill_);
  auto of = [args](int k) { return reinterpret_cast<const T*>(args[k]); };
  if (!dims_.empty()) return RunStrided(of(operand_) + offset_, to);
  if (!rows_.empty()) return RunRows(of(operand_), to);
  if (!joined_.empty()) return RunJoined(args, to);
  if (!table_.empty()) {
    const T* x = of(operand_);
    return ParallelFor(size_, kMoveGrain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int32_t k = table_[static_cast<size_t>(i)];
        to[i] = k < 0 ? fill : x[k];
      }
    });
  }
  const auto n = static_cast<int64_t>(pieces_.size());
  ParallelFor(n, std::max<int64_t>(1, kMoveGrain * n / size_), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const Piece& p = pieces_[static_cast<size_t>(i)];
      if (p.operand < 0)
        std::fill_n(to + p.to, p.n, fill);
      else if (p.step == 0)
        std::fill_n(to + p.to, p.n, of(p.operand)[p.from]);
      else if (p.step < 0)
        std::reverse_copy(of(p.operand) + p.from - p.n + 1, of(p.operand) + p.from + 1, to + p.to);
      else
        std::memcpy(to + p.to, of(p.operand) + p.from, static_cast<size_t>(p.n) * sizeof(T));
    }
  });
}

void MovePlan::Run(std::byte* const* args, std::byte* to) const {
  // Elements that lie side by side, at any address.
  const auto run_wide = [&]<size_t kBytes>(std::integral_constant<size_t, kBytes>) {
    using Wide = std::array<std::byte, kBytes>;
    RunStrided(reinterpret_cast<const Wide*>(args[operand_] + offset_ * width_),
               reinterpret_cast<Wide*>(to));
  };
  if (wide_ == 8) return run_wide(std::integral_constant<size_t, 8>());
  if (wide_ == 16) return run_wide(std::integral_constant<size_t, 16>());
  switch (width_) {
    case 1: return RunTyped(args, reinterpret_cast<uint8_t*>(to));
    case 2: return RunTyped(args, reinterpret_cast<uint16_t*>(to));
    case 4: return RunTyped(args, reinterpret_cast<uint32_t*>(to));
    case 8: return RunTyped(args, reinterpret_cast<uint64_t*>(to));
    default: INFER_CHECK(false);
  }
}

std::string_view MovePlan::name() const {
  return !dims_.empty()     ? "strided"
         : !rows_.empty()   ? "rows"
         : !table_.empty()  ? "table"
         : !joined_.empty() ? "joined"
                            : "runs";
}

}  // namespace infer
