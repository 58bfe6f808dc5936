/// Operators that place elements by indices which only the run knows: OneHot, ScatterND,
/// ScatterElements, GatherND, GatherElements. Elements move by their width; a bad index is an
/// error, as in the reference.
#include <algorithm>
#include <cstring>

#include "lib/ops/common.h"
#include "lib/support/strings.h"
#include "runtime/cpu/kernels/common/kernels.h"
#include "runtime/cpu/launch/launch.h"

namespace infer {
namespace {

/// 1, 2, 4 or 8 bytes; 0: elements that do not move by bytes.
int64_t MovedBytes(DType t) {
  const int bits = t == DType::kString || t == DType::kUndefined ? 0 : BitWidth(t);
  return bits == 8 || bits == 16 || bits == 32 || bits == 64 ? bits / 8 : 0;
}

std::string RefuseIndexed(const StepCall& call, size_t data, size_t indices) {
  const Node& n = call.main();
  const DType t = ElementTypeOf(n.input(indices));
  if (call.step.nodes.size() > 1) return "it has no epilogue";
  if (t != DType::kI64 && t != DType::kI32) return "the indices are neither i64 nor i32";
  return MovedBytes(ElementTypeOf(n.input(data)))
             ? ""
             : Cat("elements of ", Name(ElementTypeOf(n.input(data))));
}

/// i64 or i32 numbers.
struct Indices {
  int operand = -1;
  bool wide = true;
  int64_t At(std::byte* const* args, int64_t i) const {
    return wide ? As<int64_t>(args[operand])[i] : As<int32_t>(args[operand])[i];
  }
};

/// Moves one run of `bytes`; small ones without a call.
inline void Move(const std::byte* from, std::byte* to, int64_t bytes) {
  if (bytes == 4)
    std::memcpy(to, from, 4);
  else if (bytes == 8)
    std::memcpy(to, from, 8);
  else
    std::memcpy(to, from, static_cast<size_t>(bytes));
}

Status BadIndex(int64_t index, int64_t extent) {
  return InvalidModel(Cat("index ", index, " is out of range for an extent of ", extent));
}

// ---- OneHot ----------------------------------------------------------------------------------

std::string RefuseOneHot(const StepCall& call) { return RefuseIndexed(call, 2, 0); }

/// Values have one width, so that filling is a loop over numbers.
template <typename T>
void OneHot(std::byte* const* args, const Indices& indices, int values, int y, int64_t count,
            int64_t depth, int64_t inner) {
  const T off = As<T>(static_cast<const std::byte*>(args[values]))[0],
          on = As<T>(static_cast<const std::byte*>(args[values]))[1];
  T* to = As<T>(args[y]);
  // `inner` indices share one block of depth * inner results.
  ForRange(count / inner, std::max<int64_t>(1, kElementGrain / (depth * inner)),
           [&](int64_t begin, int64_t end) {
             std::fill_n(to + begin * depth * inner, (end - begin) * depth * inner, off);
             for (int64_t i = begin * inner; i < end * inner; ++i) {
               int64_t hot = indices.At(args, i);
               if (hot < 0) hot += depth;
               if (hot >= 0 && hot < depth) to[(i / inner * depth + hot) * inner + i % inner] = on;
             }
           });
}

std::unique_ptr<Kernel> MakeOneHot(const StepCall& call) {
  const Node& n = call.main();
  const Indices indices{call.operand(n.input(0)), ElementTypeOf(n.input(0)) == DType::kI64};
  const int values = call.operand(n.input(2));
  const int64_t axis = n.Attr<int64_t>("axis"), width = MovedBytes(ElementTypeOf(n.input(2)));
  return KernelOf(
      [=](std::span<const Operand> in, std::span<const Operand> out) -> Result<Prepared> {
        const Dims& dims = in[static_cast<size_t>(indices.operand)].dims;
        INFER_ASSIGN(const int a, NormalizeAxis(axis, static_cast<int>(dims.size()) + 1));
        const int64_t depth = out[0].dims[static_cast<size_t>(a)];
        const int64_t inner = NumElements(Dims(dims.begin() + a, dims.end()));
        const int64_t count = NumElements(dims);
        const int y = static_cast<int>(in.size());
        Prepared p;
        p.name = "own:index";
        p.launch = LaunchOf([=](std::byte* const* args) {
          switch (width) {
            case 1: return OneHot<uint8_t>(args, indices, values, y, count, depth, inner);
            case 2: return OneHot<uint16_t>(args, indices, values, y, count, depth, inner);
            case 4: return OneHot<uint32_t>(args, indices, values, y, count, depth, inner);
            default: return OneHot<uint64_t>(args, indices, values, y, count, depth, inner);
          }
        });
        return p;
      });
}

// ---- Tuples of indices: ScatterND, GatherND --------------------------------------------------

/// Where runs begin that tuples of indices name.
struct Tuples {
  Indices indices;
  int64_t depth = 0, count = 0, per_batch = 1, batch_stride = 0;
  Dims extents, strides;  // of the axes that are indexed
  /// In elements; -1 and `bad` for an index out of range.
  int64_t Start(std::byte* const* args, int64_t i, Status& bad) const {
    int64_t at = i / per_batch * batch_stride;
    for (int64_t k = 0; k < depth; ++k) {
      const int64_t extent = extents[static_cast<size_t>(k)];
      const int64_t raw = indices.At(args, i * depth + k);
      if (raw < -extent || raw >= extent) {
        bad = BadIndex(raw, extent);
        return -1;
      }
      at += (raw < 0 ? raw + extent : raw) * strides[static_cast<size_t>(k)];
    }
    return at;
  }
};

Result<Tuples> TuplesOf(Indices indices, const Dims& data, const Dims& index, int64_t batch) {
  if (index.empty()) return Unsupported("the indices are a scalar");
  Tuples t;
  t.indices = indices;
  t.depth = index.back();
  if (t.depth < 1 || batch + t.depth > static_cast<int64_t>(data.size()))
    return Unsupported("the indices do not fit");
  t.count = NumElements(index) / t.depth;
  t.per_batch = NumElements(Dims(index.begin() + batch, index.end() - 1));
  t.batch_stride = batch == 0 ? 0 : NumElements(Dims(data.begin() + batch, data.end()));
  const Dims strides = Strides(data);
  t.extents.assign(data.begin() + batch, data.begin() + batch + t.depth);
  t.strides.assign(strides.begin() + batch, strides.begin() + batch + t.depth);
  return t;
}

class ScatterNdLaunch final : public Launch {
 public:
  Tuples tuples;
  int data = 0, updates = 0, y = 0;
  int64_t bytes = 0, run_bytes = 0, width = 0;
  Status Run(std::byte* const* args, LaunchState*) const override {
    if (args[y] != args[data]) std::memcpy(args[y], args[data], static_cast<size_t>(bytes));
    // In order: of two updates of one place the later one stays.
    for (int64_t i = 0; i < tuples.count; ++i) {
      Status bad;
      const int64_t at = tuples.Start(args, i, bad);
      if (at < 0) return bad;
      Move(args[updates] + i * run_bytes, args[y] + at * width, run_bytes);
    }
    return {};
  }
};

std::string RefuseScatter(const StepCall& call) {
  const Node& n = call.main();
  const std::string& reduction = n.Attr<std::string>("reduction");
  const bool adds =
      n.Is("ScatterElements") && reduction == "add" && ElementTypeOf(n.input(0)) == DType::kF32;
  if (reduction != "none" && !adds) return "it reduces";
  if (ElementTypeOf(call.main().input(0)) != ElementTypeOf(call.main().input(2)))
    return "types differ";
  return RefuseIndexed(call, 0, 1);
}

std::unique_ptr<Kernel> MakeScatterNd(const StepCall& call) {
  const Node& n = call.main();
  const int x = call.operand(n.input(0)), u = call.operand(n.input(2));
  const Indices indices{call.operand(n.input(1)), ElementTypeOf(n.input(1)) == DType::kI64};
  const int64_t width = MovedBytes(ElementTypeOf(n.input(0)));
  return KernelOf([=](std::span<const Operand> in, std::span<const Operand>) -> Result<Prepared> {
    const Dims& dims = in[static_cast<size_t>(x)].dims;
    auto launch = std::make_shared<ScatterNdLaunch>();
    INFER_ASSIGN(launch->tuples,
                 TuplesOf(indices, dims, in[static_cast<size_t>(indices.operand)].dims, 0));
    launch->data = x;
    launch->updates = u;
    launch->y = static_cast<int>(in.size());
    launch->width = width;
    launch->bytes = NumElements(dims) * width;
    launch->run_bytes = NumElements(Dims(dims.begin() + launch->tuples.depth, dims.end())) * width;
    if (NumElements(in[static_cast<size_t>(u)].dims) * width !=
        launch->tuples.count * launch->run_bytes)
      return Unsupported("the updates do not fit");
    Prepared p;
    p.name = "own:index";
    p.launch = std::move(launch);
    return p;
  });
}

class GatherNdLaunch final : public Launch {
 public:
  Tuples tuples;
  int data = 0, y = 0;
  int64_t run_bytes = 0, width = 0;
  Status Run(std::byte* const* args, LaunchState*) const override {
    Status bad;
    for (int64_t i = 0; i < tuples.count; ++i)
      if (tuples.Start(args, i, bad) < 0) return bad;
    ForRange(tuples.count, std::max<int64_t>(1, 65536 / run_bytes),
             [&](int64_t begin, int64_t end) {
               Status never;
               for (int64_t i = begin; i < end; ++i)
                 Move(args[data] + tuples.Start(args, i, never) * width, args[y] + i * run_bytes,
                      run_bytes);
             });
    return {};
  }
};

std::string RefuseGather(const StepCall& call) { return RefuseIndexed(call, 0, 1); }

std::unique_ptr<Kernel> MakeGatherNd(const StepCall& call) {
  const Node& n = call.main();
  const int x = call.operand(n.input(0));
  const Indices indices{call.operand(n.input(1)), ElementTypeOf(n.input(1)) == DType::kI64};
  const int64_t batch = n.Attr<int64_t>("batch_dims"),
                width = MovedBytes(ElementTypeOf(n.input(0)));
  return KernelOf([=](std::span<const Operand> in, std::span<const Operand>) -> Result<Prepared> {
    const Dims &dims = in[static_cast<size_t>(x)].dims,
               &index = in[static_cast<size_t>(indices.operand)].dims;
    for (int64_t k = 0; k < batch; ++k)
      if (dims[static_cast<size_t>(k)] != index[static_cast<size_t>(k)])
        return Unsupported("the batches differ");
    auto launch = std::make_shared<GatherNdLaunch>();
    INFER_ASSIGN(launch->tuples, TuplesOf(indices, dims, index, batch));
    launch->data = x;
    launch->y = static_cast<int>(in.size());
    launch->width = width;
    launch->run_bytes =
        NumElements(Dims(dims.begin() + batch + launch->tuples.depth, dims.end())) * width;
    Prepared p;
    p.name = "own:index";
    p.launch = std::move(launch);
    return p;
  });
}

// ---- One index per element: ScatterElements, GatherElements ----------------------------------

/// Element i of the indices stands, along `axis`, for another place of the data.
struct Places {
  Indices indices;
  int64_t count = 0, extent = 0, axis_stride = 1;
  Dims dims, strides;  // of the indices, and of the data; the axis has stride 0
  /// Calls f(i, place) for [begin, end); stops at an index that is out of range.
  template <typename F>
  Status ForEach(std::byte* const* args, int64_t begin, int64_t end, const F& f) const {
    const size_t rank = dims.size();
    for (int64_t i = begin; i < end;) {
      int64_t rest = i, base = 0;
      for (size_t d = rank; d-- > 0; rest /= dims[d]) base += rest % dims[d] * strides[d];
      const int64_t step = strides[rank - 1];
      const int64_t stop = std::min(end, i - i % dims[rank - 1] + dims[rank - 1]);
      for (; i < stop; ++i, base += step) {
        const int64_t raw = indices.At(args, i);
        if (raw < -extent || raw >= extent) return BadIndex(raw, extent);
        f(i, base + (raw < 0 ? raw + extent : raw) * axis_stride);
      }
    }
    return {};
  }
};

Result<Places> PlacesOf(Indices indices, const Dims& data, const Dims& index, int64_t axis) {
  if (data.size() != index.size() || data.empty()) return Unsupported("ranks");
  INFER_ASSIGN(const int a, NormalizeAxis(axis, static_cast<int>(data.size())));
  Places p;
  p.indices = indices;
  p.count = NumElements(index);
  p.dims = index;
  p.strides = Strides(data);
  p.extent = data[static_cast<size_t>(a)];
  p.axis_stride = std::exchange(p.strides[static_cast<size_t>(a)], 0);
  for (size_t d = 0; d < data.size(); ++d)
    if (static_cast<int>(d) != a && index[d] > data[d])
      return Unsupported("the indices are larger than the data");
  return p;
}

class ElementsLaunch final : public Launch {
 public:
  Places places;
  bool scatter = false, adds = false;  ///< adds: of f32, in the order of the updates
  int data = 0, updates = 0, y = 0;
  int64_t bytes = 0, width = 0;
  Status Run(std::byte* const* args, LaunchState*) const override {
    if (scatter) {
      if (args[y] != args[data]) std::memcpy(args[y], args[data], static_cast<size_t>(bytes));
      if (adds)
        return places.ForEach(args, 0, places.count, [&](int64_t i, int64_t at) {
          As<float>(args[y])[at] += As<float>(args[updates])[i];
        });
      return places.ForEach(args, 0, places.count, [&](int64_t i, int64_t at) {
        Move(args[updates] + i * width, args[y] + at * width, width);
      });
    }
    // Several lanes cannot say which index is bad: they are looked over first.
    if (places.count > kElementGrain)
      INFER_TRY(places.ForEach(args, 0, places.count, [](int64_t, int64_t) {}));
    Status status;
    ForRange(places.count, kElementGrain, [&](int64_t begin, int64_t end) {
      Status s = places.ForEach(args, begin, end, [&](int64_t i, int64_t at) {
        Move(args[data] + at * width, args[y] + i * width, width);
      });
      if (!s.ok()) status = std::move(s);
    });
    return status;
  }
};

std::unique_ptr<Kernel> MakeElements(const StepCall& call) {
  const Node& n = call.main();
  const bool scatter = !n.Is("GatherElements");
  const int x = call.operand(n.input(0)), u = scatter ? call.operand(n.input(2)) : -1;
  const Indices indices{call.operand(n.input(1)), ElementTypeOf(n.input(1)) == DType::kI64};
  const int64_t axis = n.Attr<int64_t>("axis"), width = MovedBytes(ElementTypeOf(n.input(0)));
  const bool adds = scatter && n.Attr<std::string>("reduction") == "add";
  return KernelOf([=](std::span<const Operand> in, std::span<const Operand>) -> Result<Prepared> {
    const Dims &dims = in[static_cast<size_t>(x)].dims,
               &index = in[static_cast<size_t>(indices.operand)].dims;
    if (scatter && in[static_cast<size_t>(u)].dims != index)
      return Unsupported("the updates do not fit");
    auto launch = std::make_shared<ElementsLaunch>();
    INFER_ASSIGN(launch->places, PlacesOf(indices, dims, index, axis));
    launch->scatter = scatter;
    launch->adds = adds;
    launch->data = x;
    launch->updates = u;
    launch->y = static_cast<int>(in.size());
    launch->width = width;
    launch->bytes = NumElements(dims) * width;
    Prepared p;
    p.name = "own:index";
    p.launch = std::move(launch);
    return p;
  });
}

}  // namespace

KernelList IndexKernels() {
  return {{"OneHot", "", "own", RefuseOneHot, MakeOneHot},
          {"ScatterND", "", "own", RefuseScatter, MakeScatterNd},
          {"ScatterElements", "", "own", RefuseScatter, MakeElements},
          {"GatherND", "", "own", RefuseGather, MakeGatherNd},
          {"GatherElements", "", "own", RefuseGather, MakeElements}};
}

}  // namespace infer
