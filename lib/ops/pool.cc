/// MaxPool, AveragePool, LpPool, their global forms, and MaxUnpool.
#include <algorithm>
#include <cmath>
#include <limits>

#include "lib/ops/common.h"
#include "lib/ops/conv_geometry.h"
#include "lib/ops/conv_reference.h"
#include "lib/ops/op_def.h"

namespace infer {
namespace {

Status WantSpatial(const OpCall& call, const Shape& x) {
  if (x.has_rank() && x.rank() < 3)
    return InvalidModel(Cat("the input is ", x.ToString(),
                            ", wants batch, channels and spatial axes (", call.def().name, ")"));
  return {};
}

Status InferPool(OpCall& call) {
  const Shape& x = call.shape(0);
  INFER_TRY(WantSpatial(call, x));
  Shape y;
  if (x.has_rank()) {
    INFER_ASSIGN(const Window w, ReadWindow(call.def(), call.attrs(), x.rank() - 2));
    std::vector<Dim> dims = {x[0], x[1]};
    for (int i = 0; i < w.rank(); ++i) {
      const WindowAxis& a = w.axes[static_cast<size_t>(i)];
      if (a.pad_begin >= a.extent() || a.pad_end >= a.extent())
        return InvalidModel(Cat("pads ", a.pad_begin, ",", a.pad_end,
                                " leave windows without data (kernel ", a.kernel, ")"));
      INFER_ASSIGN(Dim o, WindowOutput(w, i, x[i + 2]));
      dims.push_back(std::move(o));
    }
    y = Shape(std::move(dims));
  }
  call.SetOut(0, call.dtype(0), y);
  call.SetOut(1, DType::kI64, y);
  return {};
}

Status InferGlobalPool(OpCall& call) {
  const Shape& x = call.shape(0);
  Shape y;
  if (x.has_rank()) {
    if (x.rank() < 2) return InvalidModel("the input is " + x.ToString() + ", wants rank >= 2");
    std::vector<Dim> dims(static_cast<size_t>(x.rank()), Dim(1));
    dims[0] = x[0];
    dims[1] = x[1];
    y = Shape(std::move(dims));
  }
  call.SetOut(0, call.dtype(0), std::move(y));
  return {};
}

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

/// One axis of one window: which input coordinates it reads, and how many positions it has with
/// padding counted (positions beyond the end padding, as ceil_mode makes them, are not).
struct Span1D {
  int64_t first, step, count, padded_count;
};

Span1D WindowSpan(const WindowAxis& a, int64_t input, int64_t o) {
  const int64_t start = o * a.stride - a.pad_begin, d = a.dilation;
  const int64_t skipped = start < 0 ? (-start + d - 1) / d : 0;
  // The number of k with start + k d < limit.
  auto below = [&](int64_t limit) {
    return std::clamp<int64_t>((limit - start + d - 1) / d, 0, a.kernel);
  };
  return {start + skipped * d, d, std::max<int64_t>(below(input) - skipped, 0),
          below(input + a.pad_end)};
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
      spans_[d] = WindowSpan(g_.window.axes[d], g_.input[d], o % g_.output[d]);
      padded *= spans_[d].padded_count;
      if (d + 1 < spans_.size()) rows *= spans_[d].count;
      at_[d] = 0;
    }
    const Span1D inner = spans_.empty() ? Span1D{0, 1, 1, 1} : spans_.back();
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
  std::vector<Span1D> spans_;
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
template <bool kGlobal>
Status RunMaxPool(OpRun& run) {
  INFER_ASSIGN(const PoolGeometry g, ReadPool(run, kGlobal));
  const DType t = run.in(0).dtype();
  const bool narrow = t == DType::kF16 || t == DType::kBF16;
  const Tensor x = narrow ? Widen(run.in(0)) : run.in(0);
  Tensor y(x.dtype(), g.y);
  int64_t* indices = nullptr;
  bool column_major = false;
  if constexpr (!kGlobal) {
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
Status RunSumPool(OpRun& run, bool global, Term term, Finish finish) {
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

Status RunAveragePool(OpRun& run) {
  const bool with_padding = run.Int("count_include_pad") != 0;
  return RunSumPool(run, false, Itself, [=](double sum, int64_t count, int64_t padded) {
    return sum / static_cast<double>(with_padding ? padded : count);
  });
}

Status RunGlobalAveragePool(OpRun& run) {
  return RunSumPool(run, true, Itself, [](double sum, int64_t count, int64_t) {
    return sum / static_cast<double>(count);
  });
}

/// (sum |x|^p)^(1/p)
template <bool kGlobal>
Status RunLpPool(OpRun& run) {
  const auto p = static_cast<double>(run.Int("p"));
  auto finish = [=](double sum, int64_t, int64_t) {
    return p == 1 ? sum : p == 2 ? std::sqrt(sum) : std::pow(sum, 1 / p);
  };
  if (p == 2)
    return RunSumPool(
        run, kGlobal, [](double v) { return v * v; }, finish);
  return RunSumPool(
      run, kGlobal, [=](double v) { return std::pow(std::abs(v), p); }, finish);
}

/// One addition (or term and addition: `per_element`) per window position, one more per output.
template <int kPerElement>
Cost CostPool(const OpCall& call) {
  Cost c = TrafficOf(call);
  if (!call.in(0).is_static() || !call.out(0).is_static()) return c;
  const Dims x = call.shape(0).static_dims();
  int64_t window = 1;
  if (call.def().FindAttr("kernel_shape")) {
    for (int64_t k : call.Ints("kernel_shape")) window *= k;
  } else {
    window = NumElements(Dims(x.begin() + 2, x.end()));
  }
  // k elements take k - 1 additions and one division or root.
  c.flops = NumElements(call.out(0).shape.static_dims()) * window * kPerElement;
  return c;
}

/// LpPool's and GlobalLpPool's p was a float in version 1.
Status LiftLpPool(NodeSpec node, int, LiftContext& out) {
  auto it = node.attrs.find("p");
  if (it != node.attrs.end())
    if (const float* p = std::get_if<float>(&it->second)) {
      if (*p != std::floor(*p)) return Unsupported(Cat(node.op, ": p = ", *p, " is no integer"));
      it->second = static_cast<int64_t>(*p);
    }
  out.Emit(std::move(node));
  return {};
}

Result<Dims> UnpooledDims(const OpDef& def, const AttrMap& attrs, const Shape& x) {
  INFER_ASSIGN(const Window w, ReadWindow(def, attrs, x.rank() - 2));
  Dims dims = {x[0].is_static() ? x[0].value() : -1, x[1].is_static() ? x[1].value() : -1};
  for (int i = 0; i < w.rank(); ++i) {
    const WindowAxis& a = w.axes[static_cast<size_t>(i)];
    const Dim& in = x[i + 2];
    dims.push_back(in.is_static() ? (in.value() - 1) * a.stride - a.pad_begin - a.pad_end + a.kernel
                                  : -1);
  }
  return dims;
}

Status InferMaxUnpool(OpCall& call) {
  const Shape& x = call.shape(0);
  INFER_TRY(WantSpatial(call, x));
  Shape y;
  if (call.has_input(2)) {
    if (auto e = call.elements(2)) y = Shape(*std::move(e));
  } else if (x.has_rank()) {
    INFER_ASSIGN(const Dims known, UnpooledDims(call.def(), call.attrs(), x));
    std::vector<Dim> dims = {x[0], x[1]};
    for (size_t i = 2; i < known.size(); ++i) dims.push_back(known[i] < 0 ? Dim() : Dim(known[i]));
    y = Shape(std::move(dims));
  }
  call.SetOut(0, call.dtype(0), std::move(y));
  return {};
}

/// Writes x at the indices that MaxPool gave, zero elsewhere. The indices address the tensor of
/// extents (i - 1) s - pads + k; a larger output_shape only adds zeros around it.
Status RunMaxUnpool(OpRun& run) {
  const Tensor &x = run.in(0), &indices = run.in(1);
  INFER_ASSIGN(const Dims natural,
               UnpooledDims(run.call().def(), run.call().attrs(), Shape(x.dims())));
  const Dims dims = run.has(2) ? run.in(2).ToInts() : natural;
  const auto size = CheckedNumElements(dims);
  const auto natural_size = CheckedNumElements(natural);
  if (!size || !natural_size || dims.size() != natural.size())
    return InvalidModel(
        Cat("output_shape ", ToString(dims), " is not possible for ", ToString(x.dims())));
  if (indices.num_elements() != x.num_elements()) return InvalidModel("X and I differ in shape");
  Tensor y = Tensor::Zeros(x.dtype(), dims);
  for (int64_t i = 0; i < x.num_elements(); ++i) {
    int64_t index = indices.IntAt(i);
    if (index < 0 || index >= *natural_size)
      return InvalidModel(Cat("index ", index, " is outside ", ToString(natural)));
    int64_t offset = 0, step = 1;
    for (size_t d = dims.size(); d-- > 0; index /= natural[d]) {
      const int64_t at = index % natural[d];
      if (at >= dims[d]) return InvalidModel("an index lies outside output_shape");
      offset += at * step;
      step *= dims[d];
    }
    y.Set(offset, x.At(i));
  }
  run.Set(0, std::move(y));
  return {};
}

std::vector<AttrDef> PoolAttrs(std::vector<AttrDef> more) {
  more.insert(more.begin(), {{"kernel_shape", AttrKind::kInts, {}, true},
                             {"strides", AttrKind::kInts},
                             {"pads", AttrKind::kInts},
                             {"auto_pad", AttrKind::kString, std::string("NOTSET")}});
  return more;
}

}  // namespace

std::span<const OpDef> PoolOps() {
  static const OpDef ops[] = {
      {
          .name = "MaxPool",
          .doc = "The largest element of every window, and where it stands.",
          .since = 1,
          .versions = {1, 8, 10, 11, 12, 22},
          .inputs = {{"X", "T"}},
          .outputs = {{"Y", "T"}, {"Indices", "I", Arity::kOptional}},
          .attrs = PoolAttrs({{"ceil_mode", AttrKind::kInt, int64_t{0}, false, 10},
                              {"dilations", AttrKind::kInts, {}, false, 10},
                              {"storage_order", AttrKind::kInt, int64_t{0}, false, 8}}),
          .constraints = {{"T", kFloatsBF16 | TypeSet(DType::kI8, DType::kU8)},
                          {"I", TypeSet(DType::kI64)}},
          .tolerance = 0,
          .infer = InferPool,
          .reference = RunMaxPool<false>,
          .example = R"(graph g(x: f32[1,2,8,9]) -> (y, i) {
            y, i = MaxPool(x) {kernel_shape=[3, 2], strides=[2, 2], pads=[1, 0, 1, 1]} })",
      },
      {
          .name = "AveragePool",
          .doc = "The mean of every window.",
          .since = 7,
          .versions = {1, 7, 10, 11, 19, 22},
          .inputs = {{"X", "T"}},
          .outputs = {{"Y", "T"}},
          .attrs = PoolAttrs({{"ceil_mode", AttrKind::kInt, int64_t{0}, false, 10},
                              {"dilations", AttrKind::kInts, {}, false, 19},
                              {"count_include_pad", AttrKind::kInt, int64_t{0}, false, 7}}),
          .constraints = {{"T", kFloatsBF16}},
          .infer = InferPool,
          .reference = RunAveragePool,
          .cost = CostPool<1>,
          .example = R"(graph g(x: f32[1,2,8,9]) -> (y) {
            y = AveragePool(x) {kernel_shape=[3, 3], strides=[2, 1], pads=[1, 1, 1, 1]} })",
      },
      {
          .name = "LpPool",
          .doc = "The p-norm of every window.",
          .since = 2,
          .versions = {1, 2, 11, 18, 22},
          .inputs = {{"X", "T"}},
          .outputs = {{"Y", "T"}},
          .attrs = PoolAttrs({{"ceil_mode", AttrKind::kInt, int64_t{0}, false, 18},
                              {"dilations", AttrKind::kInts, {}, false, 18},
                              {"p", AttrKind::kInt, int64_t{2}}}),
          .constraints = {{"T", kFloatsBF16}},
          .infer = InferPool,
          .reference = RunLpPool<false>,
          .cost = CostPool<2>,
          .lift = LiftLpPool,
          .example = R"(graph g(x: f32[1,2,8,9]) -> (y) {
            y = LpPool(x) {kernel_shape=[2, 2], p=3} })",
      },
      {
          .name = "GlobalMaxPool",
          .doc = "The largest element of every channel.",
          .since = 1,
          .versions = {1, 22},
          .inputs = {{"X", "T"}},
          .outputs = {{"Y", "T"}},
          .constraints = {{"T", kFloatsBF16}},
          .tolerance = 0,
          .infer = InferGlobalPool,
          .reference = RunMaxPool<true>,
          .example = "graph g(x: f32[2,3,4,5]) -> (y) { y = GlobalMaxPool(x) }",
      },
      {
          .name = "GlobalAveragePool",
          .doc = "The mean of every channel.",
          .since = 1,
          .versions = {1, 22},
          .inputs = {{"X", "T"}},
          .outputs = {{"Y", "T"}},
          .constraints = {{"T", kFloatsBF16}},
          .infer = InferGlobalPool,
          .reference = RunGlobalAveragePool,
          .cost = CostPool<1>,
          .example = "graph g(x: f32[2,3,4,5]) -> (y) { y = GlobalAveragePool(x) }",
      },
      {
          .name = "GlobalLpPool",
          .doc = "The p-norm of every channel.",
          .since = 2,
          .versions = {1, 2, 22},
          .inputs = {{"X", "T"}},
          .outputs = {{"Y", "T"}},
          .attrs = {{"p", AttrKind::kInt, int64_t{2}}},
          .constraints = {{"T", kFloatsBF16}},
          .infer = InferGlobalPool,
          .reference = RunLpPool<true>,
          .cost = CostPool<2>,
          .lift = LiftLpPool,
          .example = "graph g(x: f32[2,3,4,5]) -> (y) { y = GlobalLpPool(x) {p=1} }",
      },
      {
          .name = "MaxUnpool",
          .doc = "Puts values back where MaxPool found them, zero elsewhere.",
          .since = 9,
          .versions = {9, 11, 22},
          .inputs = {{"X", "T1"}, {"I", "T2"}, {"output_shape", "T2", Arity::kOptional}},
          .outputs = {{"output", "T1"}},
          .attrs = {{"kernel_shape", AttrKind::kInts, {}, true},
                    {"pads", AttrKind::kInts},
                    {"strides", AttrKind::kInts}},
          .constraints = {{"T1", kFloatsBF16}, {"T2", TypeSet(DType::kI64)}},
          .tolerance = 0,
          .infer = InferMaxUnpool,
          .reference = RunMaxUnpool,
          .example = R"(graph g(x: f32[1,2,8,8]) -> (z) {
            y, i = MaxPool(x) {kernel_shape=[2, 2], strides=[2, 2]}
            z = MaxUnpool(y, i) {kernel_shape=[2, 2], strides=[2, 2]} })",
      },
  };
  return ops;
}

}  // namespace infer
