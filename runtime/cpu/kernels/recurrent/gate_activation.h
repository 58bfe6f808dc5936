#pragma once
/// An activation of gates other than the usual ones, or of clipped gates, over a row of them.
#include "lib/ops/recurrent/recurrent_reference.h"
#include "runtime/cpu/simd/loops.h"

namespace infer {

class GateActivation {
 public:
  explicit GateActivation(const RecurrentActivation& a);
  /// x = f(clipped x); by a loop of simd/loops.h, or, where none computes f, as the reference does.
  void Run(float* x, int64_t n) const;

 private:
  RecurrentActivation exact_;
  simd::Loops::UnaryFn loop_ = nullptr;
  float a_ = 0, b_ = 0;
};

}  // namespace infer
