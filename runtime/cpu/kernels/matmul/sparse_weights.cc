#include "runtime/cpu/kernels/matmul/sparse_weights.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "runtime/cpu/kernels/common/appended.h"

namespace infer {
namespace {

/// Outputs of a group: their sums over a chunk stay in L1 or near it, and so do its weights in L2.
constexpr int64_t kPanelGroup = 128, kListGroup = 64;

/// The blocks of one list, in order of their terms.
struct OneList {
  std::vector<uint16_t> at;
  std::vector<float> w;
  uint8_t place = 0;
};

class SparsePacker {
 public:
  SparsePacker(const WeightMatrix& w, const simd::Sparse& loops, SparseWeights& to)
      : w_(w), loops_(loops), to_(to), block_(BlockOf(to.form)) {}

  void Run() {
    to_.starts.assign(1, 0);
    for (int64_t g = 0; g < to_.groups; ++g)
      for (int64_t chunk = 0; chunk < to_.chunks; ++chunk) AddChunk(g, chunk);
    to_.w = Buffer::Allocate(values_.size() * sizeof(float));
    if (!values_.empty())
      std::memcpy(to_.w->mutable_data(), values_.data(), values_.size() * sizeof(float));
  }

 private:
  bool panels() const { return to_.form == SparseForm::kPanels; }

  void AddChunk(int64_t g, int64_t chunk) {
    std::vector<OneList> lists(static_cast<size_t>(to_.lists));
    for (int64_t l = 0; l < to_.lists; ++l) {
      OneList& list = lists[static_cast<size_t>(l)];
      list.place = static_cast<uint8_t>(l * block_);
      Fill(g * to_.group + l * block_, chunk, list);
    }
    // Lists of one length in a row: the end of each is foreseen then.
    if (!panels())
      std::stable_sort(lists.begin(), lists.end(), [](const OneList& a, const OneList& b) {
        return a.at.size() < b.at.size();
      });
    for (const OneList& list : lists) {
      to_.at.insert(to_.at.end(), list.at.begin(), list.at.end());
      values_.insert(values_.end(), list.w.begin(), list.w.end());
      to_.place.push_back(list.place);
      to_.starts.push_back(static_cast<uint32_t>(to_.at.size()));
    }
  }

  void Fill(int64_t first, int64_t chunk, OneList& list) const {
    const int64_t outputs = std::min(block_, w_.columns - first), terms = to_.TermsOf(chunk);
    if (outputs <= 0) return;
    for (int64_t k = 0; k < terms; ++k) {
      float block[simd::kSparsePanel] = {};
      bool any = false;
      for (int64_t o = 0; o < outputs; ++o) {
        block[o] = w_.at(chunk * to_.terms + k, first + o);
        any |= block[o] != 0;
      }
      if (!any) continue;
      list.at.push_back(PlaceOf(k));
      list.w.insert(list.w.end(), block, block + block_);
    }
    if (panels()) return;
    const size_t padded =
        (list.at.size() + simd::kSparseRun - 1) / simd::kSparseRun * simd::kSparseRun;
    list.at.resize(padded, PlaceOf(to_.terms));
    list.w.resize(padded * static_cast<size_t>(block_), 0.0f);
  }

  uint16_t PlaceOf(int64_t k) const {
    const int64_t p = simd::kSparsePanel;
    return static_cast<uint16_t>(panels() ? k / p * loops_.panel_rows * p + k % p
                                          : k * loops_.list_rows);
  }

  const WeightMatrix& w_;
  const simd::Sparse& loops_;
  SparseWeights& to_;
  int64_t block_;
  std::vector<float> values_;
};

}  // namespace

SparseCounts CountStored(const WeightMatrix& w) {
  SparseCounts c;
  c.weights = w.depth * w.columns;
  for (int64_t n = 0; n < w.columns; n += simd::kSparsePanel)
    for (int64_t k = 0; k < w.depth; ++k) {
      bool panel = false;
      for (int64_t s = n; s < std::min(w.columns, n + simd::kSparsePanel); s += 4) {
        int64_t here = 0;
        for (int64_t o = s; o < std::min(w.columns, s + 4); ++o) here += w.at(k, o) != 0;
        c.stored[2] += here;
        c.stored[1] += here > 0;
        panel |= here > 0;
      }
      c.stored[0] += panel;
    }
  return c;
}

SparseWeights SparseWeights::Pack(const WeightMatrix& w, SparseForm form,
                                  const simd::Sparse& loops) {
  SparseWeights s;
  s.form = form;
  s.depth = w.depth;
  s.columns = w.columns;
  const bool panels = form == SparseForm::kPanels;
  s.group = panels ? kPanelGroup : kListGroup;
  s.lists = s.group / BlockOf(form);
  s.terms = panels ? loops.panel_terms : loops.list_terms;
  s.groups = BlocksOf(w.columns, s.group);
  s.chunks = BlocksOf(w.depth, s.terms);
  SparsePacker(w, loops, s).Run();
  return s;
}

int64_t SparseWeights::TermAt(uint16_t place, const simd::Sparse& loops) const {
  const int64_t p = simd::kSparsePanel;
  return form == SparseForm::kPanels ? place / (loops.panel_rows * p) * p + place % p
                                     : place / loops.list_rows;
}

int64_t SparseWeights::TermsOf(int64_t chunk) const {
  return std::min(terms, depth - chunk * terms);
}

int64_t SparseWeights::bytes() const {
  return static_cast<int64_t>(w->size() + at.size() * sizeof(at[0]) +
                              starts.size() * sizeof(starts[0]) + place.size());
}

}  // namespace infer
