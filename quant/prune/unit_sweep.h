#pragma once
/// In which order the units of a group go, by what that costs the layers that read them, and what
/// is left of these layers' weights. No graph here.
///
/// A reader with weights W [rows, depth] and second moments H loses the columns S of a unit; with
/// the other weights fitted anew that costs tr(W_S ([H^-1]_SS)^-1 W_S^T) of its squared outputs.
/// After each step weights and inverse are those of the layer that is left (block-wise Optimal
/// Brain Surgeon, as in ZipLM, arXiv 2302.04089). Costs of several readers are added, each relative
/// to its outputs. Without moments the channels are taken to be independent, and as strong as the
/// weights that make them.
#include <functional>
#include <memory>

#include "quant/prune/groups.h"
#include "quant/prune/second_order.h"

namespace infer {

struct GroupReader {
  WeightPlane plane;
  std::span<const float> dense;          ///< [all_rows, depth]
  std::vector<int64_t> unit_of_column;   ///< [groups, depth]; -1: a column that stays
  const MomentsPair* moments = nullptr;  ///< empty or nullptr: no data
  std::vector<double> strength;          ///< by unit: mean square of its channels, without data
  bool takes_shift = false;
};

class UnitSweep {
 public:
  /// `readers` must outlive the sweep. `limits`: of the group, nothing removed.
  UnitSweep(std::span<const GroupReader> readers, int64_t units, UnitLimits limits);
  ~UnitSweep();

  /// Removes units until `count` are gone: in each step those that cost least, a few at once where
  /// there are many. Stops early where `stop` says so.
  void RemoveUntil(int64_t count, const std::function<bool()>& stop = nullptr);
  /// The units that are gone, in their order, and the sum of costs after each.
  const std::vector<int64_t>& order() const { return order_; }
  const std::vector<double>& errors() const { return errors_; }
  bool by_data() const { return by_data_; }
  /// A reader as it is left. Without moments its weights, columns zeroed.
  PrunedMatrix Left(size_t reader) const;

 private:
  struct Reader;
  double CostOf(int64_t unit) const;
  std::span<const GroupReader> given_;
  std::vector<std::unique_ptr<Reader>> readers_;
  UnitLimits limits_;
  std::vector<uint8_t> gone_;
  std::vector<int64_t> order_;
  std::vector<double> errors_;
  bool by_data_ = false;
};

}  // namespace infer
