#include "runtime/cpu/kernels/matmul/sparse_product.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "lib/support/parallel.h"
#include "lib/support/strings.h"

namespace infer {
namespace {

constexpr int64_t kMostListRows = 64, kMostGroup = 128;
/// Floats of packed rows for which weights are read once, about: they stay in L2.
constexpr int64_t kTogetherFloats = 128 << 10;
/// Items of work per lane, at least, so that lanes end together.
constexpr int64_t kItems = 4;

}  // namespace

/// Some rows of one image.
struct SparseProduct::Tile {
  int64_t image, top, rows;
  bool add = false;  ///< y holds what is added
};

struct SparseProduct::Work {
  const float *from, *bias;
  float* to;
};

std::string SparseProduct::name() const {
  return Cat("own:sparse", BlockOf(w->form), "x1:", loops->isa);
}

/// In rows of panels, or in vectors of rows.
RowRuns SparseProduct::runs() const {
  if (panels()) return {shape.rows, loops->panel_rows};
  return {BlocksOf(shape.rows, loops->lanes), loops->list_rows / loops->lanes};
}

SparseProduct::Tile SparseProduct::TileAt(int64_t i) const {
  const RowRuns all = runs();
  const int64_t unit = panels() ? 1 : loops->lanes, run = i % all.count();
  const int64_t top = all.begin(run) * unit;
  return {i / all.count(), top, std::min(shape.rows, all.begin(run + 1) * unit) - top,
          appended.residual >= 0};
}

int64_t SparseProduct::chunk_floats() const {
  return panels() ? w->terms * loops->panel_rows : (w->terms + 1) * loops->list_rows;
}
int64_t SparseProduct::tile_floats() const {
  if (!panels()) return w->chunks * chunk_floats();
  return BlocksOf(shape.depth, simd::kSparsePanel) * simd::kSparsePanel * loops->panel_rows;
}
int64_t SparseProduct::together() const {
  return std::clamp<int64_t>(kTogetherFloats / tile_floats(), 1, std::min<int64_t>(8, tiles()));
}

bool SparseProduct::PackTile(const Work& work, const Tile& t, float* packed) const {
  const float* const from = work.from + t.image * x.image + t.top * x.row;
  if (panels()) return loops->pack_rows({from, x.row, x.block, t.rows, shape.depth}, packed);
  bool finite = true;
  for (int64_t chunk = 0; chunk < w->chunks; ++chunk, packed += chunk_floats()) {
    const int64_t terms = w->TermsOf(chunk), first = chunk * w->terms / loops->lanes * x.block;
    for (int64_t r = 0; r < t.rows; r += loops->lanes)
      finite &= loops->turn_rows({from + first + r * x.row, x.row, x.block,
                                  std::min<int64_t>(loops->lanes, t.rows - r), terms},
                                 packed + r);
    std::fill_n(packed + w->terms * loops->list_rows, loops->list_rows, 0.0f);
  }
  return finite;
}

/// Adds NaN to the outputs [first, end) of a row that get it from a zero that is not stored.
/// Whether there is one.
bool SparseProduct::SpoilRow(const float* row, float* result, int64_t first, int64_t end) const {
  const auto number = [&](int64_t k) { return row[k / loops->lanes * x.block + k % loops->lanes]; };
  int64_t bad = 0;
  bool all = false;
  for (int64_t k = 0; k < shape.depth; ++k) {
    bad += !std::isfinite(number(k));
    all |= std::isnan(number(k));
  }
  if (bad == 0) return false;
  const int64_t block = BlockOf(w->form);
  for (int64_t g = first; g < end; ++g) {
    int32_t met[kMostGroup] = {};
    for (int64_t chunk = 0; chunk < w->chunks; ++chunk) {
      const uint32_t* const starts = w->StartsOf(g, chunk);
      for (int64_t l = 0; l < w->lists; ++l)
        for (uint32_t i = starts[l]; i < starts[l + 1]; ++i) {
          const int64_t k = w->TermAt(w->at[i], *loops);
          if (k < w->terms && !std::isfinite(number(chunk * w->terms + k)))
            ++met[w->PlacesOf(g, chunk)[l]];
        }
    }
    const int64_t outputs = std::min(w->group, shape.columns - g * w->group);
    for (int64_t o = 0; o < outputs; ++o)
      if (all || met[o / block * block] < bad) {
        const int64_t c = g * w->group + o;
        result[c / loops->lanes * y.block + c % loops->lanes] =
            std::numeric_limits<float>::quiet_NaN();
      }
  }
  return true;
}

/// Groups [first, end) of rows that hold infinities or NaN: what a zero times them is, added first.
void SparseProduct::Spoil(const Work& work, const Tile& t, int64_t first, int64_t end) const {
  const int64_t from = first * w->group, to = std::min(shape.columns, end * w->group);
  for (int64_t r = t.top; r < t.top + t.rows; ++r) {
    float* const result = work.to + t.image * y.image + r * y.row;
    if (appended.residual < 0)
      for (int64_t c = from; c < to; ++c) result[c / loops->lanes * y.block + c % loops->lanes] = 0;
    SpoilRow(work.from + t.image * x.image + r * x.row, result, first, end);
  }
}

void SparseProduct::PanelGroup(const Work& work, const Tile& t, const float* packed,
                               int64_t g) const {
  float* const result = work.to + t.image * y.image + t.top * y.row;
  alignas(64) float rest[kMostListRows * simd::kSparsePanel], start[simd::kSparsePanel];
  for (int64_t chunk = 0; chunk < w->chunks; ++chunk) {
    const uint32_t* const starts = w->StartsOf(g, chunk);
    for (int64_t l = 0; l < w->lists; ++l) {
      const int64_t first = g * w->group + l * simd::kSparsePanel, n = shape.columns - first;
      if (n <= 0) break;
      const bool last = chunk + 1 == w->chunks;
      simd::SparsePanelCall call;
      call.x = packed + chunk * chunk_floats();
      call.at = w->at.data() + starts[l];
      call.w = reinterpret_cast<const float*>(w->w->data()) + starts[l] * simd::kSparsePanel;
      call.count = starts[l + 1] - starts[l];
      call.d = result + first / loops->lanes * y.block;
      call.d_row = y.row;
      call.d_vector = y.block;
      call.start = chunk == 0 && work.bias ? work.bias + first : nullptr;
      call.add = chunk > 0 || t.add;
      if (last && appended.clamps()) {
        call.lo = appended.function->a;
        call.hi = appended.function->b;
      }
      if (n >= simd::kSparsePanel) {
        loops->panel(static_cast<int>(t.rows), call);
        continue;
      }
      const auto copy = [&](bool back) {
        for (int64_t r = 0; r < t.rows; ++r)
          for (int64_t j = 0; j < n; ++j) {
            float& whole = call.d[r * y.row + j / loops->lanes * y.block + j % loops->lanes];
            float& part = rest[r * simd::kSparsePanel + j];
            back ? whole = part : part = whole;
          }
      };
      if (call.add) {
        std::fill_n(rest, t.rows * simd::kSparsePanel, 0.0f);
        copy(false);
      }
      if (call.start) {
        std::fill_n(start, simd::kSparsePanel, 0.0f);
        std::copy_n(call.start, n, start);
        call.start = start;
      }
      simd::SparsePanelCall on_rest = call;
      on_rest.d = rest;
      on_rest.d_row = simd::kSparsePanel;
      on_rest.d_vector = loops->lanes;
      loops->panel(static_cast<int>(t.rows), on_rest);
      copy(true);
    }
  }
}

void SparseProduct::ListGroup(const Work& work, const Tile& t, const float* packed,
                              int64_t g) const {
  alignas(64) float sums[kMostListRows * kMostGroup / 2];
  const int64_t lanes_of = loops->lanes;
  for (int64_t chunk = 0; chunk < w->chunks; ++chunk) {
    simd::SparseListsCall call;
    call.x = packed + chunk * chunk_floats();
    call.at = w->at.data();
    call.w = reinterpret_cast<const float*>(w->w->data());
    call.starts = w->StartsOf(g, chunk);
    call.place = w->PlacesOf(g, chunk);
    call.lists = w->lists;
    call.d = sums;
    call.add = chunk > 0;
    loops->lists(static_cast<int>(BlocksOf(t.rows, lanes_of)), static_cast<int>(BlockOf(w->form)),
                 call);
  }
  float* const result = work.to + t.image * y.image + t.top * y.row;
  const int64_t outputs = std::min(w->group, shape.columns - g * w->group);
  for (int64_t o = 0; o < outputs; o += lanes_of)
    for (int64_t r = 0; r < t.rows; r += lanes_of) {
      const int64_t c = g * w->group + o;
      simd::SparseResults call;
      call.sums = sums + o * loops->list_rows + r;
      call.rows = std::min(lanes_of, t.rows - r);
      call.columns = std::min(lanes_of, outputs - o);
      call.d = result + r * y.row + c / lanes_of * y.block;
      call.d_row = y.row;
      call.start = work.bias ? work.bias + c : nullptr;
      call.add = t.add;
      if (appended.clamps()) {
        call.lo = appended.function->a;
        call.hi = appended.function->b;
      }
      loops->results(call);
    }
}

/// Groups [first, end) of a tile.
void SparseProduct::Activate(const Tile& t, float* to, int64_t first, int64_t end) const {
  float* const result = to + t.image * y.image + t.top * y.row;
  const int64_t from = first * w->group, until = std::min(shape.columns, end * w->group);
  if (y.block == loops->lanes) {
    for (int64_t r = 0; r < t.rows; ++r) appended.Apply(result + r * y.row + from, until - from);
    return;
  }
  for (int64_t c = from; c < until; c += loops->lanes)
    for (int64_t r = 0; r < t.rows; ++r)
      appended.Apply(result + r * y.row + c / loops->lanes * y.block,
                     std::min<int64_t>(loops->lanes, until - c));
}

/// Items [begin, end) of (tiles that share a reading of the weights) x (ranges of groups).
void SparseProduct::Part(const Work& work, int64_t begin, int64_t end, int64_t ranges,
                         float* packed) const {
  int64_t held = -1;
  bool finite[8] = {};
  for (int64_t item = begin; item < end; ++item) {
    const int64_t block = item / ranges, range = item % ranges;
    const int64_t first = block * together(), count = std::min(together(), tiles() - first);
    if (block != held)
      for (int64_t i = 0; i < count; ++i)
        finite[i] = PackTile(work, TileAt(first + i), packed + i * tile_floats());
    held = block;
    const int64_t from = w->groups * range / ranges, to = w->groups * (range + 1) / ranges;
    for (int64_t i = 0; i < count; ++i)
      if (!finite[i]) Spoil(work, TileAt(first + i), from, to);
    for (int64_t g = from; g < to; ++g)
      for (int64_t i = 0; i < count; ++i) {
        Tile tile = TileAt(first + i);
        tile.add |= !finite[i];
        const float* const rows = packed + i * tile_floats();
        panels() ? PanelGroup(work, tile, rows, g) : ListGroup(work, tile, rows, g);
        if (appended.function && !appended.clamps()) Activate(tile, work.to, g, g + 1);
      }
  }
}

void SparseProduct::Run(const float* from, const float* bias, float* to, float* scratch) const {
  const Work work{from, bias, to};
  const int64_t blocks = BlocksOf(tiles(), together());
  const int64_t parts_of = std::min<int64_t>(lanes, CurrentLanes());
  const int64_t ranges =
      parts_of == 1 ? 1 : std::clamp<int64_t>(BlocksOf(kItems * parts_of, blocks), 1, w->groups);
  const int64_t parts = std::min(parts_of, blocks * ranges);
  const auto run = [&](int64_t begin, int64_t end) {
    for (int64_t part = begin; part < end; ++part)
      Part(work, blocks * ranges * part / parts, blocks * ranges * (part + 1) / parts, ranges,
           scratch + part * together() * tile_floats());
  };
  if (parts == 1) return run(0, 1);
  ParallelFor(parts, 1, run);
}

}  // namespace infer
