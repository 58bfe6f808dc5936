/// Gradients of MatMul and Gemm: products again.
#include <numeric>

#include "lib/ops/gradients/gradient_text.h"
#include "lib/ops/gradients/gradients_families.h"

namespace infer {
namespace {

/// `from`, its last two axes swapped.
std::string Swapped(GradientText& t, std::string_view from, size_t rank) {
  std::vector<int64_t> perm(rank);
  std::iota(perm.begin(), perm.end(), 0);
  std::swap(perm[rank - 1], perm[rank - 2]);
  return t.Permuted(from, perm);
}

/// All axes but the last as one.
Dims AsRows(const Dims& dims) { return {NumElements(dims) / dims.back(), dims.back()}; }

}  // namespace

Result<std::string> GradientOfMatMul(const OpCall& call, std::span<const size_t> wanted) {
  GradientText t(call, wanted);
  Dims a = t.X(0), b = t.X(1), y = t.Y(0);
  std::string x0 = "x0", x1 = "x1", g = "g0";
  // Vectors as matrices of one row or column.
  if (a.size() == 1) {
    a.insert(a.begin(), 1);
    y.insert(b.size() == 1 ? y.end() : y.end() - 1, 1);
    x0 = t.View(x0, a);
  }
  if (b.size() == 1) {
    b.push_back(1);
    y.push_back(1);
    x1 = t.View(x1, b);
  }
  if (y != t.Y(0)) g = t.View(g, y);
  // Of a vector without the axis that it got, behind the axes of the batch.
  Dims batch;
  if (b.size() > 2) batch.assign(y.begin(), y.end() - 2);
  const auto give = [&](size_t i, const std::string& gradient) {
    Dims vector = batch;
    vector.push_back(t.X(i).back());
    t.Give(i, t.X(i).size() == 1 ? t.View(gradient, vector) : gradient);
  };
  if (b.size() == 2) {  // one matrix for all rows: two plain products
    const std::string rows = a.size() == 2 ? g : t.View(g, AsRows(y));
    if (t.Wants(0)) {
      const std::string d = t.Set("Gemm(", rows, ", ", x1, ") {transB=1}");
      give(0, a.size() == 2 ? d : t.View(d, a));
    }
    if (t.Wants(1)) {
      const std::string x = a.size() == 2 ? x0 : t.View(x0, AsRows(a));
      give(1, t.Set("Gemm(", x, ", ", rows, ") {transA=1}"));
    }
    return t.Finish();
  }
  if (t.Wants(0)) give(0, t.Set("MatMul(", g, ", ", Swapped(t, x1, b.size()), ")"));
  if (t.Wants(1)) give(1, t.Set("MatMul(", Swapped(t, x0, a.size()), ", ", g, ")"));
  return t.Finish();
}

Result<std::string> GradientOfGemm(const OpCall& call, std::span<const size_t> wanted) {
  GradientText t(call, wanted);
  const int64_t ta = call.Int("transA") != 0, tb = call.Int("transB") != 0;
  const auto scaled = [&](std::string_view attr) {
    const double factor = static_cast<double>(call.Float(attr));
    return factor == 1 ? std::string("g0") : t.Set("Mul(g0, ", t.Number(factor), ")");
  };
  const auto product = [&](std::string_view a, bool trans_a, std::string_view b, bool trans_b) {
    return t.Set("Gemm(", a, ", ", b, ") {transA=", trans_a ? 1 : 0, ", transB=", trans_b ? 1 : 0,
                 "}");
  };
  if (t.Wants(0) || t.Wants(1)) {
    const std::string g = scaled("alpha");
    if (t.Wants(0)) t.Give(0, ta ? product("x1", tb, g, true) : product(g, false, "x1", !tb));
    if (t.Wants(1)) t.Give(1, tb ? product(g, true, "x0", ta) : product("x0", !ta, g, false));
  }
  if (t.Wants(2)) t.Give(2, scaled("beta"));
  return t.Finish();
}

}  // namespace infer
