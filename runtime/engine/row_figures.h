#pragma once
/// Figures of the rows of a tensor: what DriftWatch (drift.h) compares.
///
/// A row is one index of axis 0. Its elements are parted into channels: those of axis 1 or of the
/// last axis, whichever is shorter; a tensor of rank 2 has its columns as channels, tensors of
/// whole numbers (tokens) and of rank 1 have one channel. More than kMostGroups channels are taken
/// together, neighbours with neighbours. Of a group at most kMostElements elements are looked at,
/// evenly spread.
#include <optional>
#include <vector>

#include "lib/tensor/tensor.h"

namespace infer::engine {

inline constexpr int64_t kMostGroups = 64, kMostElements = 1024;

enum class RowFigure : uint8_t {
  kMean,
  kContrast,  ///< logarithm of the standard deviation; of groups with more than one element
};
inline constexpr size_t kRowFigures = 2;
std::string_view Name(RowFigure f);

/// How the rows of a tensor are parted.
struct RowParts {
  DType dtype = DType::kUndefined;
  int axis = -1;             ///< of the channels; -1: there is one
  int64_t channels = 1;      ///< extent of it
  int64_t groups = 1;        ///< channel c is in group c * groups / channels
  bool has_contrast = true;  ///< rows have more than one element in a group

  size_t figures() const { return static_cast<size_t>(groups) * (has_contrast ? kRowFigures : 1); }
  /// First channel of a group; of `groups`: the number of channels.
  int64_t FirstOf(int64_t group) const;
};

/// nullopt: strings, complex or packed numbers, no axis or no elements.
std::optional<RowParts> RowPartsOf(const Tensor& t);

/// One vector of parts.figures() numbers for each row, means of all groups first. NaN among the
/// elements is +infinity here, so that figures are ordered. Empty: the tensor is not of these
/// parts, or has no elements.
std::vector<std::vector<float>> FiguresOf(const Tensor& t, const RowParts& parts);

}  // namespace infer::engine
