/// Operators that pick elements by indices which only the run knows: OneHot, GatherND,
/// GatherElements. Elements move by their width; a bad index is an error, as in the reference.
#include <algorithm>
#include <atomic>

#include "lib/ops/common.h"
#include "runtime/cpu/kernels/common/kernels.h"
#include "runtime/cpu/kernels/move/indexed.h"
#include "runtime/cpu/simd/folds.h"

namespace infer {
namespace {

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
  const Indices indices = Indices::Of(call, n.input(0));
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

// ---- GatherND ---------------------------------------------------------------------------------

class GatherNdLaunch final : public Launch {
 public:
  Tuples tuples;
  int data = 0, y = 0;
  int64_t run_bytes = 0, width = 0;
  Status Run(std::byte* const* args, LaunchState*) const override {
    INFER_TRY(tuples.Check(args));
    ForRange(tuples.count, std::max<int64_t>(1, 65536 / run_bytes),
             [&](int64_t begin, int64_t end) {
               Status never;
               for (int64_t i = begin; i < end; ++i)
                 MoveRun(args[data] + tuples.Start(args, i, never) * width, args[y] + i * run_bytes,
                         run_bytes);
             });
    return {};
  }
};

std::string RefuseGather(const StepCall& call) { return RefuseIndexed(call, 0, 1); }

std::unique_ptr<Kernel> MakeGatherNd(const StepCall& call) {
  const Node& n = call.main();
  const int x = call.operand(n.input(0));
  const Indices indices = Indices::Of(call, n.input(1));
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

// ---- GatherElements ---------------------------------------------------------------------------

class GatherElementsLaunch final : public Launch {
 public:
  Places places;
  int data = 0, y = 0;
  int64_t width = 0;
  Status Run(std::byte* const* args, LaunchState*) const override {
    // Of an axis without elements nothing may be read, whatever the index.
    std::atomic<bool> good = places.extent > 0;
    const int64_t run = places.run;
    if (good)
      ForRange(places.count / run, std::max<int64_t>(1, kElementGrain / run),
               [&](int64_t begin, int64_t end) {
                 if (!Pick(args, begin * run, end * run)) good = false;
               });
    if (good) return {};
    // Lanes cannot say which bad index is the first.
    return places.ForEach(args, 0, places.count, [](int64_t, int64_t, int64_t) {});
  }

 private:
  bool Pick(std::byte* const* args, int64_t begin, int64_t end) const {
    const Indices& by = places.indices;
    const auto pick =
        simd::TheFolds().pick[width == 8 ? 3 : static_cast<int>(width) / 2][by.wide ? 1 : 0];
    const std::byte* const indices = args[by.operand];
    bool good = true;
    places.ForRows(begin, end, [&](int64_t i, int64_t place, int64_t n, int64_t step) {
      const std::byte* const from = args[data] + place * width;
      std::byte* const to = args[y] + i * width;
      if (places.run > 1 && by.AreSame(args, i, n)) {
        const int64_t raw = by.At(args, i), k = raw < 0 ? raw + places.extent : raw;
        if (k < 0 || k >= places.extent) return good = false;
        MoveRun(from + k * places.axis_stride * width, to, n * width);
        return true;
      }
      return good = pick(from, indices + i * (by.wide ? 8 : 4), to,
                         {n, step, places.extent, places.axis_stride});
    });
    return good;
  }
};

std::unique_ptr<Kernel> MakeGatherElements(const StepCall& call) {
  const Node& n = call.main();
  const int x = call.operand(n.input(0));
  const Indices indices = Indices::Of(call, n.input(1));
  const int64_t axis = n.Attr<int64_t>("axis"), width = MovedBytes(ElementTypeOf(n.input(0)));
  return KernelOf([=](std::span<const Operand> in, std::span<const Operand>) -> Result<Prepared> {
    auto launch = std::make_shared<GatherElementsLaunch>();
    INFER_ASSIGN(launch->places, PlacesOf(indices, in[static_cast<size_t>(x)].dims,
                                          in[static_cast<size_t>(indices.operand)].dims, axis));
    launch->data = x;
    launch->y = static_cast<int>(in.size());
    launch->width = width;
    Prepared p;
    p.name = "own:index";
    p.launch = std::move(launch);
    return p;
  });
}

}  // namespace

KernelList IndexKernels() {
  return {{"OneHot", "", "own", RefuseOneHot, MakeOneHot},
          {"GatherND", "", "own", RefuseGather, MakeGatherNd},
          {"GatherElements", "", "own", RefuseGather, MakeGatherElements}};
}

}  // namespace infer
