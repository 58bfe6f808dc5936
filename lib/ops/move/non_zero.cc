/// NonZero.
#include <algorithm>
#include <complex>

#include "lib/ops/move/move.h"
#include "lib/ops/op_def.h"

namespace infer {
namespace {

template <typename T>
bool IsSet(T v) {
  if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>)
    return static_cast<float>(v) != 0;
  else
    return v != T{0};
}

Status InferNonZero(OpCall& call) {
  const Shape& s = call.shape(0);
  call.SetOut(0, DType::kI64, Shape(std::vector<Dim>{s.has_rank() ? Dim(s.rank()) : Dim(), Dim()}));
  return {};
}

/// Coordinates of the elements that is_set(i) names, one column each: [rank, count].
template <typename F>
Status NonZeroBy(OpRun& run, const F& is_set) {
  const Tensor& x = run.in(0);
  const int64_t size = x.num_elements();
  int64_t n = 0;
  for (int64_t i = 0; i < size; ++i) n += is_set(i) ? 1 : 0;
  INFER_ASSIGN(Tensor * y, MakeOut(run, 0, DType::kI64, {x.rank(), n}));
  if (n == 0 || x.rank() == 0) return {};
  int64_t* const out = y->mutable_data<int64_t>().data();
  // Row by row: the last coordinates of what is set in it, then the others, which it shares.
  const auto last = static_cast<size_t>(x.rank()) - 1;
  const int64_t width = x.dims()[last];
  std::vector<int64_t> row(static_cast<size_t>(width) + 1), at(last, 0);
  for (int64_t i = 0, done = 0; done < n; i += width) {
    int64_t count = 0;
    for (int64_t k = 0; k < width; ++k) {
      row[static_cast<size_t>(count)] = k;
      count += is_set(i + k) ? 1 : 0;
    }
    std::copy_n(row.begin(), count, out + static_cast<int64_t>(last) * n + done);
    for (size_t d = 0; d < last; ++d)
      std::fill_n(out + static_cast<int64_t>(d) * n + done, count, at[d]);
    done += count;
    for (size_t d = last; d-- > 0 && ++at[d] == x.dims()[d];) at[d] = 0;
  }
  return {};
}

Status RunNonZero(OpRun& run) {
  const Tensor& x = run.in(0);
  Status status;
  const bool real = DispatchReal(x.dtype(), [&]<typename T>(T) {
    const T* const p = x.data<T>().data();
    status = NonZeroBy(run, [p](int64_t i) { return IsSet(p[i]); });
  });
  if (real) return status;
  if (x.dtype() == DType::kString)
    return NonZeroBy(run, [&](int64_t i) { return !x.strings()[static_cast<size_t>(i)].empty(); });
  if (x.dtype() == DType::kC64)
    return NonZeroBy(run, [p = x.data<std::complex<float>>()](int64_t i) {
      return p[static_cast<size_t>(i)] != std::complex<float>{};
    });
  if (x.dtype() == DType::kC128)
    return NonZeroBy(run, [p = x.data<std::complex<double>>()](int64_t i) {
      return p[static_cast<size_t>(i)] != std::complex<double>{};
    });
  return NonZeroBy(run, [&](int64_t i) { return x.At(i) != 0; });
}

}  // namespace

std::span<const OpDef> NonZeroOps() {
  static const OpDef ops[] = {
      {
          .name = "NonZero",
          .doc = "Coordinates of the non-zero elements, one column each.",
          .traits = Trait::kSelection,
          .since = 9,
          .versions = {9, 13},
          .inputs = {{"X", "T"}},
          .outputs = {{"Y", "i64"}},
          .constraints = {{"T", kMovable}},
          .tolerance = 0,
          .infer = InferNonZero,
          .reference = RunNonZero,
          .example = "graph g(x: bool[3,4]) -> (y) { y = NonZero(x) }",
      },
  };
  return ops;
}

}  // namespace infer
