#include "tests/conformance/compare.h"

#include <cmath>
#include <complex>

#include "lib/support/strings.h"

namespace infer::conformance {
namespace {

bool Close(double got, double want) {
  if (std::isnan(got) || std::isnan(want)) return std::isnan(got) && std::isnan(want);
  if (std::isinf(got) || std::isinf(want)) return got == want;
  return std::fabs(got - want) <= kAbsolute + kRelative * std::fabs(want);
}

template <typename T>
std::string ComplexDifference(const Tensor& got, const Tensor& want) {
  const auto g = got.data<std::complex<T>>(), w = want.data<std::complex<T>>();
  for (size_t i = 0; i < g.size(); ++i)
    if (std::abs(g[i] - w[i]) > kAbsolute + kRelative * std::abs(w[i]))
      return Cat("[", i, "] is (", g[i].real(), ", ", g[i].imag(), "), not (", w[i].real(), ", ",
                 w[i].imag(), ")");
  return "";
}

std::string TensorDifference(const Tensor& got, const Tensor& want) {
  if (got.dtype() != want.dtype())
    return Cat("is ", Name(got.dtype()), ", not ", Name(want.dtype()));
  if (got.dims() != want.dims())
    return Cat("has extents [", Join(got.dims(), ","), "], not [", Join(want.dims(), ","), "]");
  switch (want.dtype()) {
    case DType::kString:
      for (size_t i = 0; i < want.strings().size(); ++i)
        if (got.strings()[i] != want.strings()[i])
          return Cat("[", i, "] is '", got.strings()[i], "', not '", want.strings()[i], "'");
      return "";
    case DType::kC64: return ComplexDifference<float>(got, want);
    case DType::kC128: return ComplexDifference<double>(got, want);
    default: break;
  }
  int64_t wrong = 0, first = 0;
  for (int64_t i = want.num_elements() - 1; i >= 0; --i)
    if (!Close(got.At(i), want.At(i))) {
      ++wrong;
      first = i;
    }
  if (wrong == 0) return "";
  return Cat("[", first, "] is ", got.At(first), ", not ", want.At(first), " (", wrong, " of ",
             want.num_elements(), " differ)");
}

}  // namespace

std::string Difference(const Datum& got, const Datum& want) {
  if (want.is_tensor() && got.is_tensor()) return TensorDifference(got.tensor(), want.tensor());
  if (want.is_sequence() && got.is_sequence()) {
    const auto &g = got.sequence(), &w = want.sequence();
    if (g.size() != w.size()) return Cat("has ", g.size(), " elements, not ", w.size());
    for (size_t i = 0; i < g.size(); ++i)
      if (std::string d = Difference(g[i], w[i]); !d.empty()) return Cat("element ", i, " ", d);
    return "";
  }
  if (want.is_optional() && got.is_optional()) {
    const auto &g = got.optional().value, &w = want.optional().value;
    if (!g || !w) return !g == !w ? "" : g ? "is not empty" : "is empty";
    return Difference(*g, *w);
  }
  // Test files store what a full optional holds, not the optional.
  if (got.is_optional() && got.optional().value) return Difference(*got.optional().value, want);
  if (want.is_optional() && want.optional().value) return Difference(got, *want.optional().value);
  return "is another kind of value";
}

}  // namespace infer::conformance
