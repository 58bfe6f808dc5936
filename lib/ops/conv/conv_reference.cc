#include "lib/ops/conv/conv_reference.h"

#include "lib/ops/matmul/gemm_reference.h"

namespace infer {
namespace {

/// Input coordinate that output `o` reads at kernel position `k` along one axis; -1 for padding
/// (and, transposed, for the positions that the stride skips).
int64_t InputIndex(const WindowAxis& a, bool transposed, int64_t input, int64_t o, int64_t k) {
  int64_t i;
  if (transposed) {
    i = o + a.pad_begin - k * a.dilation;
    if (i % a.stride != 0) return -1;
    i /= a.stride;
  } else {
    i = o * a.stride - a.pad_begin + k * a.dilation;
  }
  return i >= 0 && i < input ? i : -1;
}

/// Where `count` neighbouring outputs read at one kernel position, as offsets in one channel.
struct Taps {
  std::vector<int64_t> offsets;  // -1: padding
  bool contiguous = false;       // no padding, offsets rise by one
};

Taps FindTaps(const ConvGeometry& g, int64_t first_output, int64_t count, int64_t kernel_position) {
  const int rank = g.window.rank();
  Taps taps{std::vector<int64_t>(static_cast<size_t>(count), 0), true};
  std::vector<int64_t> o(static_cast<size_t>(rank)), k(o);
  for (int d = rank - 1; d >= 0; --d) {
    const auto i = static_cast<size_t>(d);
    k[i] = kernel_position % g.window.axes[i].kernel;
    kernel_position /= g.window.axes[i].kernel;
    o[i] = first_output % g.output[i];
    first_output /= g.output[i];
  }
  for (size_t j = 0; j < taps.offsets.size(); ++j) {
    int64_t offset = 0;
    for (size_t d = 0; d < o.size() && offset >= 0; ++d) {
      const int64_t i = InputIndex(g.window.axes[d], g.transposed, g.input[d], o[d], k[d]);
      offset = i < 0 ? -1 : offset * g.input[d] + i;
    }
    taps.offsets[j] = offset;
    taps.contiguous &= offset >= 0 && offset == taps.offsets[0] + static_cast<int64_t>(j);
    for (size_t d = o.size(); d-- > 0 && ++o[d] == g.output[d];) o[d] = 0;
  }
  return taps;
}

/// Operand B of the product: row k = (channel of the group, kernel position), column = output.
template <typename T>
PackPanel PackPatches(const ConvGeometry& g, const T* x) {
  const int64_t group_channels = g.in_channels / g.groups, positions = g.kernel_size();
  const int64_t plane = NumElements(g.input);
  return [=, &g](int64_t batch, int64_t first, int64_t count, int64_t width, int64_t k0, int64_t kc,
                 double* out) {
    const T* group = x + batch * group_channels * plane;  // batch = sample * groups + group
    for (int64_t p = 0; p < positions && p < kc; ++p) {
      const int64_t position = (k0 + p) % positions;
      const Taps taps = FindTaps(g, first, count, position);
      for (int64_t k = p; k < kc; k += positions) {
        const T* channel = group + (k0 + k) / positions * plane;
        double* row = out + k * width;
        int64_t j = 0;
        if (taps.contiguous) {
          const T* src = channel + taps.offsets[0];
          for (; j < count; ++j) row[j] = static_cast<double>(src[j]);
        } else {
          for (; j < count; ++j) {
            const int64_t offset = taps.offsets[static_cast<size_t>(j)];
            row[j] = offset < 0 ? 0.0 : static_cast<double>(channel[offset]);
          }
        }
        for (; j < width; ++j) row[j] = 0;
      }
    }
  };
}

/// Operand A: row = output channel of the group, k as above.
template <typename T>
PackPanel PackWeights(const ConvGeometry& g, const T* w) {
  const int64_t m = g.out_channels / g.groups, c = g.in_channels / g.groups;
  const int64_t positions = g.kernel_size(), groups = g.groups;
  const int64_t group_size = m * c * positions;
  auto offset = [=](int64_t batch) { return batch % groups * group_size; };
  if (!g.transposed) return PackStrided(w, c * positions, 1, offset);
  return [=](int64_t batch, int64_t i0, int64_t count, int64_t width, int64_t k0, int64_t kc,
             double* out) {
    const T* group = w + offset(batch);
    for (int64_t k = 0; k < kc; ++k) {
      const int64_t channel = (k0 + k) / positions, position = (k0 + k) % positions;
      for (int64_t j = 0; j < width; ++j)
        *out++ = j < count
                     ? static_cast<double>(group[(channel * m + i0 + j) * positions + position])
                     : 0.0;
    }
  };
}

template <typename T>
void Convolve(const ConvGeometry& g, const T* x, const T* w, const ConvStore& store) {
  const int64_t m = g.out_channels / g.groups;
  const int64_t k = g.in_channels / g.groups * g.kernel_size();
  GemmReference(g.batch * g.groups, m, NumElements(g.output), k, PackWeights(g, w),
                PackPatches(g, x),
                [&](int64_t batch, int64_t row, int64_t begin, int64_t count, const double* sums) {
                  store(batch / g.groups, batch % g.groups * m + row, begin, count, sums);
                });
}

}  // namespace

void ConvolveReference(const ConvGeometry& g, const Tensor& x, const Tensor& w,
                       const ConvStore& store) {
  INFER_CHECK(x.dtype() == w.dtype());
  if (x.dtype() == DType::kF64)
    Convolve(g, x.data<double>().data(), w.data<double>().data(), store);
  else
    Convolve(g, x.data<float>().data(), w.data<float>().data(), store);
}

void StoreRounded(Tensor& out, int64_t begin, int64_t count, const double* values) {
  if (out.dtype() == DType::kF32) {
    float* y = out.mutable_data<float>().data() + begin;
    for (int64_t i = 0; i < count; ++i) y[i] = static_cast<float>(values[i]);
  } else if (out.dtype() == DType::kF64) {
    std::copy_n(values, count, out.mutable_data<double>().data() + begin);
  } else {
    for (int64_t i = 0; i < count; ++i) out.Set(begin + i, values[i]);
  }
}

}  // namespace infer
