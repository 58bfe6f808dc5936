#include "lib/ops/conv/pool_reference.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "lib/ops/common.h"
#include "lib/ops/conv/conv_geometry.h"
#include "lib/ops/conv/conv_reference.h"

namespace infer {
namespace {

/// One pooling: static extents and the resolved window.
struct PoolGeometry {
  Window window;
  Dims input, output;  // spatial
  Dims y;              // whole output
  int64_t planes;      // batch x channels
};

Result<PoolGeometry> ReadPool(const OpRun& run, bool global) {
  const Dims& x = run.in(0).dims();
  PoolGeometry g;
  g.planes = x[0] * x[1];
  g.input = Dims(x.begin() + 2, x.end());
  g.y = {x[0], x[1]};
  const int rank = static_cast<int>(x.size()) - 2;
  if (global) {
    for (int64_t extent : g.input) g.window.axes.push_back({.kernel = extent});
    g.output.assign(g.input.size(), 1);
  } else {
    INFER_ASSIGN(const Window w, ReadWindow(run.call().def(), run.call().attrs(), rank));
    g.window = ResolvePads(w, g.input);
    for (int i = 0; i < rank; ++i) {
      INFER_ASSIGN(const Dim o, WindowOutput(w, i, Dim(g.input[static_cast<size_t>(i)])));
      g.output.push_back(o.value());
    }
  }
  g.y.insert(g.y.end(), g.output.begin(), g.output.end());
  return g;
}

/// Walks the input elements of windows; keeps its scratch memory from one window to the next.
class WindowWalk {
 public:
  explicit WindowWalk(const PoolGeometry& g) : g_(g), spans_(g.input.size()), at_(spans_.size()) {}

  /// Calls visit(offset in the plane) for every input element of window `o`, in row-major order;
  /// returns the number of positions with padding counted.
  template <typename Visit>
  int64_t ForWindow(int64_t o, Visit&& visit) {
    int64_t padded = 1, rows = 1;
    for (size_t d = spans_.size(); d-- > 0; o /= g_.output[d]) {
      spans_[d] = WindowSpan::Of(g_.window.axes[d], g_.input[d], o % g_.output[d]);
      padded *= spans_[d].padded_count;
      if (d + 1 < spans_.size()) rows *= spans_[d].count;
      at_[d] = 0;
    }
    const WindowSpan inner = spans_.empty() ? WindowSpan{0, 1, 1, 1} : spans_.back();
    for (int64_t r = 0; r < rows; ++r) {
      int64_t offset = 0;
      for (size_t d = 0; d + 1 < spans_.size(); ++d)
        offset = (offset + spans_[d].first + at_[d] * spans_[d].step) * g_.input[d + 1];
      offset += inner.first;
      for (int64_t i = 0; i < inner.count; ++i) visit(offset + i * inner.step);
      for (size_t d = spans_.empty() ? 0 : spans_.size() - 1;
           d-- > 0 && ++at_[d] == spans_[d].count;)
        at_[d] = 0;
    }
    return padded;
  }

 private:
  const PoolGeometry& g_;
  std::vector<WindowSpan> spans_;
  std::vector<int64_t> at_;
};

/// Offset in a plane with the first spatial axis fastest (storage_order 1).
int64_t ColumnMajor(const Dims& extents, int64_t offset) {
  int64_t out = 0;
  std::vector<int64_t> at(extents.size());
  for (size_t d = extents.size(); d-- > 0; offset /= extents[d]) at[d] = offset % extents[d];
  for (size_t d = extents.size(); d-- > 0;) out = out * extents[d] + at[d];
  return out;
}

template <typename T>
T LowestOf() {
  if constexpr (std::is_floating_point_v<T>)
    return -std::numeric_limits<T>::infinity();
  else
    return std::numeric_limits<T>::lowest();
}

template <typename T>
void MaxPlanes(const PoolGeometry& g, const T* x, T* y, int64_t* indices, bool column_major) {
  const int64_t in = NumElements(g.input), out = NumElements(g.output);
  ParallelFor(g.planes, 1, [&](int64_t begin, int64_t end) {
    WindowWalk walk(g);
    for (int64_t p = begin; p < end; ++p)
      for (int64_t o = 0; o < out; ++o) {
        T best = LowestOf<T>();
        int64_t at = -1;
        walk.ForWindow(o, [&](int64_t i) {
          const T v = x[p * in + i];
          if (at >= 0 && !(v > best)) return;
          best = v;
          at = i;
        });
        y[p * out + o] = best;
        if (indices)
          indices[p * out + o] =
              at < 0 ? -1 : p * in + (column_major ? ColumnMajor(g.input, at) : at);
      }
  });
}

/// Max over windows; padding never wins. The first of equal maxima gives the index.
Status MaxPool(OpRun& run, bool global) {
  INFER_ASSIGN(const PoolGeometry g, ReadPool(run, global));
  const DType t = run.in(0).dtype();
  const bool narrow = t == DType::kF16 || t == DType::kBF16;
  const Tensor x = narrow ? Widen(run.in(0)) : run.in(0);
  Tensor y(x.dtype(), g.y);
  int64_t* indices = nullptr;
  bool column_major = false;
  if (!global) {
    if (run.num_outputs() > 1)
      indices = run.Out(1, DType::kI64, g.y).mutable_data<int64_t>().data();
    column_major = run.Int("storage_order") != 0;
  }
  auto go = [&]<typename T>(T) {
    MaxPlanes(g, x.data<T>().data(), y.mutable_data<T>().data(), indices, column_major);
  };
  switch (x.dtype()) {
    case DType::kF32: go(float{}); break;
    case DType::kF64: go(double{}); break;
    case DType::kI8: go(int8_t{}); break;
    case DType::kU8: go(uint8_t{}); break;
    default: return Unsupported(Cat("MaxPool of ", Name(t)));
  }
  run.Set(0, narrow ? y.Cast(t) : std::move(y));
  return {};
}

/// y = finish(sum of term(x) over the window, elements, elements with padding), in double.
template <typename Term, typename Finish>
Status SumPool(OpRun& run, bool global, Term term, Finish finish) {
  INFER_ASSIGN(const PoolGeometry g, ReadPool(run, global));
  const Tensor x = Widen(run.in(0));
  Tensor& y = run.Out(0, run.in(0).dtype(), g.y);
  const int64_t in = NumElements(g.input), out = NumElements(g.output);
  auto go = [&]<typename T>(T) {
    const T* data = x.data<T>().data();
    ParallelFor(g.planes, 1, [&](int64_t begin, int64_t end) {
      WindowWalk walk(g);
      for (int64_t p = begin; p < end; ++p)
        for (int64_t o = 0; o < out; ++o) {
          double sum = 0;
          int64_t count = 0;
          const int64_t padded = walk.ForWindow(o, [&](int64_t i) {
            sum += term(static_cast<double>(data[p * in + i]));
            ++count;
          });
          const double v = finish(sum, count, padded);
          StoreRounded(y, p * out + o, 1, &v);
        }
    });
  };
  x.dtype() == DType::kF64 ? go(double{}) : go(float{});
  return {};
}

double Itself(double v) { return v; }

/// (sum |x|^p)^(1/p)
Status LpPool(OpRun& run, bool global) {
  const auto p = static_cast<double>(run.Int("p"));
  auto finish = [=](double sum, int64_t, int64_t) {
    return p == 1 ? sum : p == 2 ? std::sqrt(sum) : std::pow(sum, 1 / p);
  };
  if (p == 2)
    return SumPool(
        run, global, [](double v) { return v * v; }, finish);
  return SumPool(
      run, global, [=](double v) { return std::pow(std::abs(v), p); }, finish);
}

}  // namespace

Status RunMaxPool(OpRun& run) { return MaxPool(run, false); }
Status RunGlobalMaxPool(OpRun& run) { return MaxPool(run, true); }

Status RunAveragePool(OpRun& run) {
  const bool with_padding = run.Int("count_include_pad") != 0;
  return SumPool(run, false, Itself, [=](double sum, int64_t count, int64_t padded) {
    return sum / static_cast<double>(with_padding ? padded : count);
  });
}

Status RunGlobalAveragePool(OpRun& run) {
  return SumPool(run, true, Itself, [](double sum, int64_t count, int64_t) {
    return sum / static_cast<double>(count);
  });
}

Status RunLpPool(OpRun& run) { return LpPool(run, false); }
Status RunGlobalLpPool(OpRun& run) { return LpPool(run, true); }

}  // namespace infer
