/// MaxPool, AveragePool, LpPool, their global forms, and MaxUnpool.
#include <algorithm>
#include <cmath>

#include "lib/ops/common.h"
#include "lib/ops/conv/conv_geometry.h"
#include "lib/ops/conv/pool_reference.h"
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

/// One operation (or two: `kPerElement`) per window position; the last is the division or root.
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
  const auto places = indices.data<int64_t>();
  Status status;
  const auto place = [&]<typename T>(T) {
    const auto from = x.data<T>();
    const auto to = y.mutable_data<T>();
    const bool is_natural = dims == natural;
    const auto inside = [&](int64_t index) { return index >= 0 && index < *natural_size; };
    if (is_natural && std::all_of(places.begin(), places.end(), inside)) {
      for (size_t i = 0; i < from.size(); ++i) to[static_cast<size_t>(places[i])] = from[i];
      return;
    }
    for (size_t i = 0; i < from.size() && status.ok(); ++i) {
      int64_t index = places[i];
      if (index < 0 || index >= *natural_size) {
        status = InvalidModel(Cat("index ", index, " is outside ", ToString(natural)));
        return;
      }
      int64_t offset = 0, step = 1;
      for (size_t d = dims.size(); d-- > 0; index /= natural[d]) {
        const int64_t at = index % natural[d];
        if (at >= dims[d]) status = InvalidModel("an index lies outside output_shape");
        offset += at * step;
        step *= dims[d];
      }
      if (status.ok()) to[static_cast<size_t>(offset)] = from[i];
    }
  };
  if (!DispatchReal(x.dtype(), place)) return Unsupported(Cat("no places of ", Name(x.dtype())));
  INFER_TRY(std::move(status));
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
          .traits = Trait::kPooling | Trait::kHomogeneous,
          .axes = SampleAndChannelAxes,
          .since = 1,
          .versions = {1, 8, 10, 11, 12, 22},
          .inputs = {{"X", "T"}},
          .outputs = {{"Y", "T"}, {"Indices", "I", Arity::kOptional, 8}},
          .attrs = PoolAttrs({{"ceil_mode", AttrKind::kInt, int64_t{0}, false, 10},
                              {"dilations", AttrKind::kInts, {}, false, 10},
                              {"storage_order", AttrKind::kInt, int64_t{0}, false, 8}}),
          .constraints = {{"T", kFloatsBF16 | TypeSet(DType::kI8, DType::kU8)},
                          {"I", TypeSet(DType::kI64)}},
          .tolerance = 0,
          .infer = InferPool,
          .reference = RunMaxPool,
          .example = R"(graph g(x: f32[1,2,8,9]) -> (y, i) {
            y, i = MaxPool(x) {kernel_shape=[3, 2], strides=[2, 2], pads=[1, 0, 1, 1]} })",
      },
      {
          .name = "AveragePool",
          .doc = "The mean of every window.",
          .traits = Trait::kPooling | Trait::kHomogeneous | Trait::kAdditive,
          .axes = SampleAndChannelAxes,
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
          .traits = Trait::kPooling | Trait::kHomogeneous,
          .axes = SampleAndChannelAxes,
          .since = 2,
          .versions = {1, 2, 11, 18, 22},
          .inputs = {{"X", "T"}},
          .outputs = {{"Y", "T"}},
          .attrs = PoolAttrs({{"ceil_mode", AttrKind::kInt, int64_t{0}, false, 18},
                              {"dilations", AttrKind::kInts, {}, false, 18},
                              {"p", AttrKind::kInt, int64_t{2}}}),
          .constraints = {{"T", kFloatsBF16}},
          .infer = InferPool,
          .reference = RunLpPool,
          .cost = CostPool<2>,
          .lift = LiftLpPool,
          .example = R"(graph g(x: f32[1,2,8,9]) -> (y) {
            y = LpPool(x) {kernel_shape=[2, 2], p=3} })",
      },
      {
          .name = "GlobalMaxPool",
          .doc = "The largest element of every channel.",
          .traits = Trait::kPooling | Trait::kHomogeneous,
          .axes = SampleAndChannelAxes,
          .since = 1,
          .versions = {1, 22},
          .inputs = {{"X", "T"}},
          .outputs = {{"Y", "T"}},
          .constraints = {{"T", kFloatsBF16}},
          .tolerance = 0,
          .infer = InferGlobalPool,
          .reference = RunGlobalMaxPool,
          .example = "graph g(x: f32[2,3,4,5]) -> (y) { y = GlobalMaxPool(x) }",
      },
      {
          .name = "GlobalAveragePool",
          .doc = "The mean of every channel.",
          .traits = Trait::kPooling | Trait::kHomogeneous | Trait::kAdditive,
          .axes = SampleAndChannelAxes,
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
          .traits = Trait::kPooling | Trait::kHomogeneous,
          .axes = SampleAndChannelAxes,
          .since = 2,
          .versions = {1, 2, 22},
          .inputs = {{"X", "T"}},
          .outputs = {{"Y", "T"}},
          .attrs = {{"p", AttrKind::kInt, int64_t{2}}},
          .constraints = {{"T", kFloatsBF16}},
          .infer = InferGlobalPool,
          .reference = RunGlobalLpPool,
          .cost = CostPool<2>,
          .lift = LiftLpPool,
          .example = "graph g(x: f32[2,3,4,5]) -> (y) { y = GlobalLpPool(x) {p=1} }",
      },
      {
          .name = "MaxUnpool",
          .doc = "Puts values back where MaxPool found them, zero elsewhere.",
          .traits = Trait::kMove,
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
