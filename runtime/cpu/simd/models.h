#pragma once
/// Loops of the models of ai.onnx.ml: linear functions of rows, and how near rows are to support
/// vectors. Compiled once per instruction set (models.inc) and chosen at run time. No allocation,
/// no threads here.
#include <cstdint>

namespace infer::simd {

/// Support vectors side by side in packed form: [group][feature][kSupports], the last group filled
/// up with zeros.
constexpr int64_t kSupports = 32;

/// Of one type of numbers, float or double. A result's bits hang on its row and support vector
/// alone, not on what is computed with it.
template <typename T>
struct SupportLoops {
  using NearFn = void (*)(const T* x, int64_t rows, int64_t features, const T* packed,
                          int64_t groups, T* k);
  /// k[r * groups * kSupports + s] = x_r . v_s, or |x_r - v_s|^2
  NearFn dots, distances;
  /// Of n numbers, a multiple of kSupports, in place; a NaN stays one. Errors below 4e-7 of the
  /// larger of 1 and the result in float, 4e-15 in double.
  void (*exp)(T* k, int64_t n, T scale);                       ///< exp(scale k)
  void (*tanh)(T* k, int64_t n, T scale, T add);               ///< tanh(scale k + add)
  void (*power)(T* k, int64_t n, T scale, T add, int degree);  ///< (scale k + add)^degree, >= 0
  /// The sum of w[i] k[i], in double.
  double (*sum)(const double* w, const T* k, int64_t n);
};

struct ModelLoops {
  const char* isa;
  /// y[r * outputs + o] = bias[o] + x_r . w_o, for rows of x and w of `features` numbers. Bits hang
  /// on the row and the output alone.
  void (*linear)(const float* x, int64_t rows, int64_t features, const float* w, const float* bias,
                 int64_t outputs, float* y);
  SupportLoops<float> narrow;
  SupportLoops<double> wide;
};

/// The best table that this machine and INFER_MAX_ISA allow.
const ModelLoops& TheModelLoops();

}  // namespace infer::simd
