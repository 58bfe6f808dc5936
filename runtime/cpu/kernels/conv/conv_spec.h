#pragma once
/// How oneDNN is asked for a Conv or ConvTranspose, and what it would run.
#include "runtime/cpu/kernels/common/epilogue.h"
#include "runtime/cpu/onednn/onednn.h"

namespace infer {

/// A convolution in f32, its tensors in the layouts that oneDNN likes.
struct AskedConv {
  onednn::ConvSpec spec;
  /// Images of one column, as converters write one-dimensional convolutions, are asked for as one
  /// row, along which oneDNN's vectors go: both have the same bytes in every layout by channels.
  bool is_column = false;

  /// Extents `src` [N, C, i...], `dst` [N, M, o...] and `w`, as the operator has them. Weights that
  /// are not `constant` come with each run.
  static Result<AskedConv> Of(const Node& node, const Dims& src, const Dims& dst, const Dims& w,
                              bool constant);
  /// The row of a column. Pre: is_column, and nothing is appended that has axes.
  void SwapSpatialAxes();
};

/// Operands of a convolution by their numbers in the step; -1: there is none.
struct ConvOperands {
  int x, weights, bias = -1, residual = -1;
};
/// Unsupported where an operand is empty, x is also the weights or the bias, or the residual has
/// other extents than the result `out`.
Status CheckConvOperands(std::span<const Operand> in, const Operand& out, const ConvOperands& at);

/// Whether oneDNN would gather windows and multiply them by its matrix product, which runs on one
/// thread, or has nothing but its plain reference code.
bool HasNoDirectConv(const AskedConv& asked, const Epilogue& epilogue);

}  // namespace infer
