#pragma once
/// Col2Im of small planes whose rows hold few blocks: what each pixel sums is listed once, pixels
/// of as many summands together.
#include <vector>

#include "lib/ops/move/image_columns.h"

namespace infer {

class PixelSums {
 public:
  /// Whether its lists pay: few blocks in a row, which do not lie one apart, and short lists.
  static bool Pays(const ImageColumns& c);
  explicit PixelSums(const ImageColumns& c);

  /// Columns x [entries, columns] to the pixels y of one plane.
  void Plane(const float* x, float* y) const;

 private:
  /// Pixels of `reads` summands each, at from[i * reads ...] of x.
  struct Class {
    size_t reads;
    std::vector<int32_t> pixels, from;
  };
  template <size_t kReads>
  static void Sum(const Class& c, const float* x, float* y);

  std::vector<Class> classes_;
};

}  // namespace infer
