#include "runtime/engine/batch_memory.h"

#include <algorithm>
#include <iterator>

namespace infer::engine {
namespace {

/// `a` * `b` / `c`, rounded up; kNever where it is larger. Pre: c > 0, none is negative.
int64_t Share(int64_t a, int64_t b, int64_t c) {
  __extension__ using Wide = __int128;  // ISO C++ has no 128-bit product
  const Wide share = (static_cast<Wide>(a) * b + c - 1) / c;
  return static_cast<int64_t>(std::min(share, static_cast<Wide>(kNever)));
}

}  // namespace

void BatchMemory::Ran(int64_t rows, int64_t bytes) {
  if (rows < 1 || bytes < 0) return;
  if (rows >= limit_ && ++at_limit_ >= kForgiven) {
    ++limit_;
    at_limit_ = 0;
  }
  if (bytes_.size() >= kMostPoints && !bytes_.contains(rows)) return;
  int64_t& known = bytes_[rows];
  known = std::max(known, bytes);
  // Fewer rows take no more than more.
  const auto at = bytes_.find(rows);
  if (at != bytes_.begin()) known = std::max(known, std::prev(at)->second);
  for (auto above = std::next(at); above != bytes_.end() && above->second < known; ++above)
    above->second = known;
}

void BatchMemory::Refused(int64_t rows) {
  limit_ = std::min(limit_, std::max<int64_t>(1, rows / 2));
  at_limit_ = 0;
}

int64_t BatchMemory::Bytes(int64_t rows) const {
  if (bytes_.empty()) return 0;
  const auto above = bytes_.lower_bound(rows);
  if (above == bytes_.begin()) return above->second;
  const auto below = std::prev(above);
  if (above == bytes_.end()) return Share(below->second, rows, below->first);
  return below->second +
         Share(above->second - below->second, rows - below->first, above->first - below->first);
}

int64_t BatchMemory::RowsWithin(int64_t room, int64_t most) const {
  most = std::min(most, limit_);
  if (room == kNever) return most;
  if (bytes_.empty()) return 1;
  int64_t least = 1;
  while (least < most) {
    const int64_t middle = least + (most - least + 1) / 2;
    if (Bytes(middle) <= room)
      least = middle;
    else
      most = middle - 1;
  }
  return least;
}

}  // namespace infer::engine
