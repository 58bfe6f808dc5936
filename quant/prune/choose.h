#pragma once
/// Prunes one layer: tries what the method allows and keeps what errs least on rows that none of it
/// has seen. No graph here.
#include <optional>
#include <string_view>

#include "quant/prune/pruned_codes.h"

namespace infer {

enum class PruneMethod : uint8_t {
  kAuto,       ///< whatever errs least on held-out rows
  kMagnitude,  ///< the least |w| become zero
  kWanda,      ///< the least |w| times the norm of their input, in each row by itself
  kSparseGpt,  ///< second-order sweep, weights updated
};
/// "auto", "magnitude", "wanda", "sparsegpt"; nullopt for others.
std::optional<PruneMethod> PruneMethodNamed(std::string_view name);
std::string_view Name(PruneMethod m);

struct LayerJob {
  WeightPlane plane;
  std::span<const float> dense;
  SparsityPattern pattern;
  int64_t units = 0;  ///< to zero; N:M: 0 leaves the layer as it is
  PruneMethod method = PruneMethod::kAuto;
  bool takes_shift = false;  ///< a number per row may be added to the result
  bool use_held_out = true;  ///< the chosen candidate is made again from all rows
  /// Which weights stay, decided already: they are only fitted. nullptr: the job chooses.
  const KeepMask* keep = nullptr;
  const WeightGrid* grid = nullptr;  ///< what is left is rounded to it; nullptr: it stays f32
};

struct LayerResult {
  PrunedMatrix matrix;
  /// "magnitude", "wanda", "sparsegpt", "sparsegpt+refit", "alternating+refit"; of a layer without
  /// zeros "dense" or "refit", of one whose zeros were decided "cut" or "refit". "+bias" where the
  /// mean of its results was put right. Of a layer with a grid then how its codes were found:
  /// "+nearest", "+gptq"; "joint": in the sweep that chose the zeros.
  std::string method;
  /// Of the layer's outputs relative to the dense model's, root of the squares, on held-out rows;
  /// -1: not known. `dense_error` is that of the dense weights, which only the layers before cause.
  double error = -1, magnitude_error = -1, dense_error = -1;
  std::string note;  ///< why there was no choice
  /// Of a layer with a grid: the codes that `matrix` has the numbers of.
  std::optional<BlockQuantized> codes;
};

/// Deeper layers are not factorised: masks are chosen by scores alone.
inline constexpr int64_t kMaxPruneDepth = 4608;

/// `moments` may be empty (no data): then magnitude is all there is. Never fails on data: what
/// cannot be computed is left out with a note.
LayerResult PruneLayer(const LayerJob& job, const MomentsPair& moments);
/// The same where the moments are not needed any more: no sum of both parts beside them.
LayerResult PruneLayer(const LayerJob& job, MomentsPair&& moments);

/// Errors of SparseGPT's sweep (squared, relative to the outputs, on held-out rows, of a layer that
/// reads what it reads in the dense model) with `units[i]` zero; nullopt: no moments to tell.
std::optional<std::vector<double>> ErrorCurve(const LayerJob& job, const MomentsPair& moments,
                                              std::span<const int64_t> units);

}  // namespace infer
