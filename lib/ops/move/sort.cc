/// TopK, ArgMax, ArgMin, Unique: operators that compare elements.
#include <algorithm>
#include <functional>
#include <numeric>

#include "lib/ops/move/move.h"
#include "lib/ops/move/permute.h"
#include "lib/ops/op_def.h"

namespace infer {
namespace {

constexpr TypeSet kI64Only{DType::kI64};

/// The arithmetic type in which elements are compared.
template <typename T>
using Comparable =
    std::conditional_t<std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>, float, T>;

/// A total order of numbers: NaN is above everything and equal to itself.
template <typename T>
bool Below(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (b != b) return a == a;
    if (a != a) return false;
  }
  return a < b;
}

Status InferTopK(OpCall& call) {
  const Shape& s = call.shape(0);
  Shape out;
  if (s.has_rank()) {
    INFER_ASSIGN(const int axis, NormalizeAxis(call.Int("axis"), s.rank()));
    Dim k;
    if (const auto e = call.elements(1); e && e->size() == 1) k = e->front();
    if (k.is_static() && (k.value() < 0 || (s[axis].is_static() && k.value() > s[axis].value())))
      return InvalidModel(Cat("K is ", k.value(), ", axis ", axis, " of ", s.ToString()));
    out = WithDim(s, axis, k);
  }
  call.SetOut(0, call.dtype(0), out);
  call.SetOut(1, DType::kI64, out);
  return {};
}

Status RunTopK(OpRun& run) {
  const Tensor& x = run.in(0);
  INFER_ASSIGN(const int axis, NormalizeAxis(run.Int("axis"), x.rank()));
  const int64_t n = x.dim(axis), inner = Product(x.dims(), axis + 1, x.rank());
  const int64_t k = run.in(1).num_elements() == 1 ? run.in(1).IntAt(0) : -1;
  if (k < 0 || k > n) return InvalidModel(Cat("K is ", k, ", the axis has ", n));
  const bool largest = run.Int("largest") != 0;
  Dims dims = x.dims();
  dims[static_cast<size_t>(axis)] = k;
  Tensor& values = run.Out(0, x.dtype(), dims);
  Tensor indices(DType::kI64, dims);
  const int64_t lines = Product(x.dims(), 0, axis) * inner;
  const bool ok = DispatchReal(x.dtype(), [&]<typename T>(T) {
    using C = Comparable<T>;
    const T* in = x.data<T>().data();
    T* out = values.mutable_data<T>().data();
    int64_t* at = indices.mutable_data<int64_t>().data();
    ParallelFor(lines, std::max<int64_t>(1, 4096 / std::max<int64_t>(n, 1)),
                [&](int64_t begin, int64_t end) {
                  std::vector<int64_t> order(static_cast<size_t>(n));
                  for (int64_t line = begin; line < end; ++line) {
                    const T* row = in + line / inner * n * inner + line % inner;
                    std::iota(order.begin(), order.end(), int64_t{0});
                    std::partial_sort(order.begin(), order.begin() + k, order.end(),
                                      [&](int64_t a, int64_t b) {
                                        const C u = row[a * inner], v = row[b * inner];
                                        if (largest ? Below<C>(v, u) : Below<C>(u, v)) return true;
                                        if (largest ? Below<C>(u, v) : Below<C>(v, u)) return false;
                                        return a < b;
                                      });
                    const int64_t to = line / inner * k * inner + line % inner;
                    for (int64_t i = 0; i < k; ++i) {
                      at[to + i * inner] = order[static_cast<size_t>(i)];
                      out[to + i * inner] = row[order[static_cast<size_t>(i)] * inner];
                    }
                  }
                });
  });
  if (!ok) return Unsupported(Cat("no order of ", Name(x.dtype())));
  run.Set(1, std::move(indices));
  return {};
}

/// K was an attribute before opset 10.
Status LiftTopK(NodeSpec node, int opset, LiftContext& out) {
  if (opset < 10) {
    const int64_t k = IntAttrOr(node, "k", -1);
    DropAttr(node, "k");
    node.inputs.resize(2);
    node.inputs[1] = out.Constant(Tensor::Int64s({k}));
  }
  out.Emit(std::move(node));
  return {};
}

Result<NodeSpec> LowerTopK(NodeSpec node, int opset, LiftContext& out) {
  if (opset < 11) {
    if (IntAttrOr(node, "largest", 1) != 1 || IntAttrOr(node, "sorted", 1) != 1)
      return Unsupported(Cat("TopK '", node.name, "' of the smallest needs opset 11 or newer"));
    DropAttr(node, "largest");
    DropAttr(node, "sorted");
  }
  if (opset < 10) {
    const Tensor* k = node.inputs.size() > 1 ? out.ConstantValue(node.inputs[1]) : nullptr;
    if (!k) return Unsupported(Cat("TopK '", node.name, "' with a computed K needs opset 10"));
    node.attrs["k"] = k->IntAt(0);
    node.inputs.resize(1);
  }
  return node;
}

Status InferArg(OpCall& call) {
  const Shape& s = call.shape(0);
  if (!s.has_rank()) {
    call.SetOut(0, DType::kI64, Shape());
    return {};
  }
  INFER_ASSIGN(const int axis, NormalizeAxis(call.Int("axis"), s.rank()));
  std::vector<Dim> dims = s.dims();
  if (call.Int("keepdims") != 0)
    dims[static_cast<size_t>(axis)] = 1;
  else
    dims.erase(dims.begin() + axis);
  call.SetOut(0, DType::kI64, Shape(std::move(dims)));
  return {};
}

template <bool kMax>
Status RunArg(OpRun& run) {
  const Tensor& x = run.in(0);
  INFER_ASSIGN(const int axis, NormalizeAxis(run.Int("axis"), x.rank()));
  const int64_t n = x.dim(axis), inner = Product(x.dims(), axis + 1, x.rank());
  const bool last = run.Int("select_last_index") != 0;
  Dims dims = x.dims();
  if (run.Int("keepdims") != 0)
    dims[static_cast<size_t>(axis)] = 1;
  else
    dims.erase(dims.begin() + axis);
  Tensor& y = run.Out(0, DType::kI64, std::move(dims));
  if (n == 0 && y.num_elements() > 0) return InvalidModel("the axis is empty");
  int64_t* out = y.mutable_data<int64_t>().data();
  const bool ok = DispatchReal(x.dtype(), [&]<typename T>(T) {
    using C = Comparable<T>;
    const T* in = x.data<T>().data();
    ParallelFor(y.num_elements(), std::max<int64_t>(1, 16384 / std::max<int64_t>(n, 1)),
                [&](int64_t begin, int64_t end) {
                  for (int64_t i = begin; i < end; ++i) {
                    const T* row = in + i / inner * n * inner + i % inner;
                    int64_t best = 0;
                    for (int64_t k = 1; k < n; ++k) {
                      const C u = row[k * inner], v = row[best * inner];
                      const bool better = kMax ? Below<C>(v, u) : Below<C>(u, v);
                      const bool worse = kMax ? Below<C>(u, v) : Below<C>(v, u);
                      if (better || (last && !worse)) best = k;
                    }
                    out[i] = best;
                  }
                });
  });
  return ok ? Status() : Unsupported(Cat("no order of ", Name(x.dtype())));
}

/// -1, 0 or 1 for two flat positions of a tensor.
using Order = std::function<int(int64_t, int64_t)>;

/// Complex numbers go by real part, then by imaginary part; strings by code unit.
Order OrderOf(const Tensor& x) {
  Order order;
  DispatchReal(x.dtype(), [&]<typename T>(T) {
    const T* p = x.data<T>().data();
    order = [p](int64_t a, int64_t b) {
      const Comparable<T> u = p[a], v = p[b];
      return Below<Comparable<T>>(u, v) ? -1 : Below<Comparable<T>>(v, u) ? 1 : 0;
    };
  });
  const auto of_complex = [&]<typename T>(T) {
    const auto* p = x.data<std::complex<T>>().data();
    order = [p](int64_t a, int64_t b) {
      const std::pair u(p[a].real(), p[a].imag()), v(p[b].real(), p[b].imag());
      if (Below(u.first, v.first)) return -1;
      if (Below(v.first, u.first)) return 1;
      return Below(u.second, v.second) ? -1 : Below(v.second, u.second) ? 1 : 0;
    };
  };
  if (x.dtype() == DType::kC64) of_complex(float{});
  if (x.dtype() == DType::kC128) of_complex(double{});
  if (x.dtype() == DType::kString)
    order = [p = x.strings().data()](int64_t a, int64_t b) {
      const int c = p[a].compare(p[b]);
      return c < 0 ? -1 : c > 0;
    };
  return order;
}

Status InferUnique(OpCall& call) {
  const Shape& s = call.shape(0);
  const bool has_axis = call.HasAttr("axis");
  Shape y = UnknownOfRank(1);
  Dim all = s.num_elements();
  if (has_axis) {
    y = Shape();
    all = Dim();
    if (s.has_rank()) {
      INFER_ASSIGN(const int axis, NormalizeAxis(call.Int("axis"), s.rank()));
      y = WithDim(s, axis, Dim());
      all = s[axis];
    }
  }
  call.SetOut(0, call.dtype(0), y);
  call.SetOut(1, DType::kI64, UnknownOfRank(1));
  call.SetOut(2, DType::kI64, Shape(std::vector<Dim>{all}));
  call.SetOut(3, DType::kI64, UnknownOfRank(1));
  return {};
}

/// Positions in the order of real numbers, those of equal ones in order; false for other elements.
bool SortElements(const Tensor& x, std::vector<int64_t>& positions) {
  return DispatchReal(x.dtype(), [&]<typename T>(T) {
    using C = Comparable<T>;
    const T* const p = x.data<T>().data();
    std::vector<std::pair<C, int64_t>> pairs;
    pairs.reserve(positions.size());
    for (int64_t i : positions) pairs.emplace_back(C(p[i]), i);
    std::sort(pairs.begin(), pairs.end(), [](const auto& a, const auto& b) {
      return Below<C>(a.first, b.first) || (!Below<C>(b.first, a.first) && a.second < b.second);
    });
    for (size_t i = 0; i < pairs.size(); ++i) positions[i] = pairs[i].second;
  });
}

/// Slices along the axis (or elements of the flattened operand) that differ.
Status RunUnique(OpRun& run) {
  const bool flat = !run.call().HasAttr("axis");
  const Tensor x = flat ? run.in(0).Reshaped({run.in(0).num_elements()}) : run.in(0);
  INFER_ASSIGN(const int axis, NormalizeAxis(flat ? 0 : run.Int("axis"), x.rank()));
  const int64_t n = x.dim(axis), outer = Product(x.dims(), 0, axis);
  const int64_t inner = Product(x.dims(), axis + 1, x.rank());
  const Order order = OrderOf(x);
  if (!order) return Unsupported(Cat("no order of ", Name(x.dtype())));
  const auto compare = [&](int64_t a, int64_t b) {
    for (int64_t o = 0; o < outer; ++o)
      for (int64_t i = 0; i < inner; ++i)
        if (const int c = order((o * n + a) * inner + i, (o * n + b) * inner + i)) return c;
    return 0;
  };
  std::vector<int64_t> sorted(static_cast<size_t>(n));
  std::iota(sorted.begin(), sorted.end(), int64_t{0});
  if (outer * inner != 1 || !SortElements(x, sorted))
    std::stable_sort(sorted.begin(), sorted.end(),
                     [&](int64_t a, int64_t b) { return compare(a, b) < 0; });
  // Groups of equal slices, by where they begin among the sorted ones; the first of each is its
  // first occurrence, as the order is stable.
  std::vector<int64_t> begins;
  for (int64_t i = 0; i < n; ++i) {
    const auto at = static_cast<size_t>(i);
    if (i == 0 || compare(sorted[at - 1], sorted[at]) != 0) begins.push_back(i);
  }
  std::vector<size_t> groups(begins.size());
  std::iota(groups.begin(), groups.end(), size_t{0});
  const auto first_of = [&](size_t g) { return sorted[static_cast<size_t>(begins[g])]; };
  if (run.Int("sorted") == 0)
    std::sort(groups.begin(), groups.end(),
              [&](size_t a, size_t b) { return first_of(a) < first_of(b); });
  std::vector<int64_t> first, counts, inverse(static_cast<size_t>(n));
  for (size_t k = 0; k < groups.size(); ++k) {
    const size_t g = groups[k];
    const int64_t begin = begins[g], end = g + 1 < begins.size() ? begins[g + 1] : n;
    first.push_back(first_of(g));
    counts.push_back(end - begin);
    for (int64_t i = begin; i < end; ++i)
      inverse[static_cast<size_t>(sorted[static_cast<size_t>(i)])] = static_cast<int64_t>(k);
  }
  const auto kept = static_cast<int64_t>(first.size());
  Dims dims = x.dims();
  dims[static_cast<size_t>(axis)] = kept;
  Tensor& y = run.Out(0, x.dtype(), std::move(dims));
  if (y.num_elements() > 0)
    MoveRuns(x, y, outer * kept, inner, [&](int64_t i) {
      return (i / kept * n + first[static_cast<size_t>(i % kept)]) * inner;
    });
  run.Set(1, Tensor::Int64s(first));
  run.Set(2, Tensor::Int64s(inverse));
  run.Set(3, Tensor::Int64s(counts));
  return {};
}

void ArgAxes(const OpCall& call, AxisLinks& links) {
  const Shape& s = call.shape(0);
  if (!s.has_rank()) return;
  const auto axis = NormalizeAxis(call.Int("axis"), s.rank());
  if (!axis.ok()) return;
  const bool keeps = call.Int("keepdims") != 0;
  for (int a = 0; a < s.rank(); ++a)
    if (a != *axis) LinkSame(call, 0, a, 0, a < *axis || keeps ? a : a - 1, links);
}

PermuteResult PermuteArg(const OpCall& call, const Perm& perm, PermutedCall to) {
  const auto axis = MapAxis(call, perm, to);
  if (!axis) return std::nullopt;
  if (call.Int("keepdims") == 0) to.out_perm = WithoutAxes(perm, {*axis});
  return to;
}

}  // namespace

std::span<const OpDef> SortOps() {
  static const auto arg = [](std::string_view name, std::string_view doc, OpDef::ReferenceFn run,
                             std::string_view example) {
    return OpDef{
        .name = name,
        .doc = doc,
        .traits = Trait::kReduction,
        .axes = ArgAxes,
        .permute = PermuteArg,
        .since = 1,
        .versions = {1, 11, 12, 13},
        .inputs = {{"data", "T"}},
        .outputs = {{"reduced", "I"}},
        .attrs = {{"axis", AttrKind::kInt, int64_t{0}},
                  {"keepdims", AttrKind::kInt, int64_t{1}},
                  {"select_last_index", AttrKind::kInt, int64_t{0}, false, 12}},
        .constraints = {{"T", kNumeric}, {"I", kI64Only}},
        .tolerance = 0,
        .infer = InferArg,
        .reference = run,
        .example = example,
    };
  };
  static const OpDef ops[] = {
      {
          .name = "TopK",
          .doc = "The K largest (or smallest) elements along an axis and their indices.",
          .traits = Trait::kSelection,
          .axes = AllButAxis,
          .since = 10,
          .versions = {1, 10, 11, 24},
          .inputs = {{"X", "T"}, {"K", "i64", Arity::kOne, 10}},
          .outputs = {{"Values", "T"}, {"Indices", "I"}},
          .attrs = {{"axis", AttrKind::kInt, int64_t{-1}},
                    {"largest", AttrKind::kInt, int64_t{1}, false, 11},
                    {"sorted", AttrKind::kInt, int64_t{1}, false, 11}},
          .constraints = {{"T", kNumeric}, {"I", kI64Only}},
          .tolerance = 0,
          .infer = InferTopK,
          .reference = RunTopK,
          .lift = LiftTopK,
          .lower = LowerTopK,
          .example = "graph g(x: f32[3,5]) -> (v, i) { k = const i64[1] {2} v, i = TopK(x, k) }",
      },
      arg("ArgMax", "The index of the largest element along an axis; the first of equal ones.",
          RunArg<true>, "graph g(x: f32[3,5]) -> (y) { y = ArgMax(x) {axis=1} }"),
      arg("ArgMin", "The index of the smallest element along an axis; the first of equal ones.",
          RunArg<false>, "graph g(x: f32[3,5]) -> (y) { y = ArgMin(x) {axis=1, keepdims=0} }"),
      {
          .name = "Unique",
          .doc = "The different elements, or slices along an axis, with positions and counts.",
          .traits = Trait::kMove | Trait::kSelection,
          .since = 11,
          .versions = {11, 28},
          .inputs = {{"X", "T"}},
          .outputs = {{"Y", "T"},
                      {"indices", "i64", Arity::kOptional},
                      {"inverse_indices", "i64", Arity::kOptional},
                      {"counts", "i64", Arity::kOptional}},
          .attrs = {{"axis", AttrKind::kInt}, {"sorted", AttrKind::kInt, int64_t{1}}},
          .constraints = {{"T", kMovable}},
          .tolerance = 0,
          .infer = InferUnique,
          .reference = RunUnique,
          .example = "graph g(x: i64[6]) -> (y, i, v, c) { y, i, v, c = Unique(x) }",
      },
  };
  return ops;
}

}  // namespace infer
