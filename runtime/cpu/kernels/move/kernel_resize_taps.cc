/// Linear and cubic Resize as weighted sums along each axis, with the weights of the reference
/// kernel: antialias, exclude_outside, every way of coordinates. f32 sums in f32; bytes go through
/// f64 and are the reference's, bit for bit.
#include <algorithm>

#include "lib/ops/common.h"
#include "lib/ops/move/resize.h"
#include "lib/support/strings.h"
#include "runtime/cpu/kernels/common/element_type.h"
#include "runtime/cpu/kernels/common/kernels.h"
#include "runtime/cpu/launch/launch.h"
#include "runtime/cpu/simd/elements.h"
#include "runtime/plan_ir/known_operands.h"

namespace infer {
namespace {

std::string RefuseTaps(const StepCall& call) {
  const Node& n = call.main();
  const DType t = ElementTypeOf(n.input(0));
  if (call.step.nodes.size() > 1) return "it has no epilogue";
  if (t != DType::kF32 && t != DType::kU8 && t != DType::kI8) return "neither f32 nor bytes";
  if (n.Attr<std::string>("mode") == "nearest") return "it does not interpolate";
  if (n.Attr<std::string>("coordinate_transformation_mode") == "tf_crop_and_resize")
    return "tf_crop_and_resize";
  return call.operand(n.input(0)) == 0 ? "" : "the operand is not the first";
}

/// One axis of [outer, in, inner] to [outer, out, inner], in the type T.
template <typename T>
struct TapPass {
  int64_t outer = 1, in = 1, out = 1, inner = 1;
  std::vector<int64_t> begin;  ///< of each result's taps; one more than results
  std::vector<int64_t> at;
  std::vector<T> weight;

  void Run(const T* x, T* y) const {
    const int64_t rows = inner == 1 ? outer : outer * out;
    const int64_t row = inner == 1 ? out : inner;
    ForRange(rows, std::max<int64_t>(1, kElementGrain / row), [&](int64_t first, int64_t end) {
      for (int64_t r = first; r < end; ++r)
        if (inner == 1)
          Along(x + r * in, y + r * out);
        else
          Across(x + r / out * in * inner, y + r * inner, static_cast<size_t>(r % out));
    });
  }

 private:
  void Along(const T* x, T* y) const {
    for (size_t o = 0; o < static_cast<size_t>(out); ++o) {
      T sum = 0;
      for (auto k = static_cast<size_t>(begin[o]); k < static_cast<size_t>(begin[o + 1]); ++k)
        sum += weight[k] * x[at[k]];
      y[o] = sum;
    }
  }
  void Across(const T* x, T* y, size_t o) const {
    auto k = static_cast<size_t>(begin[o]);
    const auto end = static_cast<size_t>(begin[o + 1]);
    if (k == end) std::fill_n(y, inner, T{0});
    for (bool is_first = true; k < end; is_first = false) {
      const size_t n = std::min<size_t>(end - k, 4);
      switch (n) {
        case 1: Add<1>(x, y, k, is_first); break;
        case 2: Add<2>(x, y, k, is_first); break;
        case 3: Add<3>(x, y, k, is_first); break;
        default: Add<4>(x, y, k, is_first);
      }
      k += n;
    }
  }
  template <size_t kTaps>
  void Add(const T* x, T* y, size_t k, bool is_first) const {
    const T* from[kTaps];
    T w[kTaps];
    for (size_t t = 0; t < kTaps; ++t) {
      from[t] = x + at[k + t] * inner;
      w[t] = weight[k + t];
    }
    const auto sums = [&](auto start) {
      for (int64_t i = 0; i < inner; ++i) {
        T sum = start(y[i]);
        for (size_t t = 0; t < kTaps; ++t) sum += w[t] * from[t][i];
        y[i] = sum;
      }
    };
    if (is_first)
      sums([](T) { return T{0}; });
    else
      sums([](T v) { return v; });
  }
};

template <typename T>
struct TapPasses {
  std::vector<TapPass<T>> passes;
  int64_t largest = 0;  ///< elements of the largest result but the last

  static TapPasses Of(const std::vector<ResizedAxis>& axes, Dims dims) {
    TapPasses all;
    for (const ResizedAxis& a : axes) {
      TapPass<T> p;
      p.outer = NumElements(Dims(dims.begin(), dims.begin() + a.axis));
      p.inner = NumElements(Dims(dims.begin() + a.axis + 1, dims.end()));
      p.in = a.in;
      p.out = dims[static_cast<size_t>(a.axis)] = a.out;
      p.begin = {0};
      for (const ResizeTaps& result : a.results) {
        for (const auto& [at, weight] : result.taps) {
          p.at.push_back(at);
          p.weight.push_back(static_cast<T>(weight));
        }
        p.begin.push_back(std::ssize(p.at));
      }
      all.passes.push_back(std::move(p));
      all.largest = std::max(all.largest, NumElements(dims));
    }
    return all;
  }
  /// Every pass but the last writes to `scratch`, two halves of `largest` elements in turn.
  void Run(const T* x, T* y, T* scratch) const {
    for (size_t k = 0; k < passes.size(); ++k) {
      T* const z = k + 1 == passes.size() ? y : scratch + (k % 2 == 0 ? 0 : largest);
      passes[k].Run(x, z);
      x = z;
    }
  }
};

/// Cast between bytes and f64 on several lanes.
void CastOnLanes(DType from, DType to, const std::byte* x, std::byte* y, int64_t n) {
  const auto cast = simd::TheElements()
                        .cast[static_cast<int>(*ElementOf(from))][static_cast<int>(*ElementOf(to))];
  const int64_t in = BitWidth(from) / 8, out = BitWidth(to) / 8;
  ForRange(n, kElementGrain,
           [&](int64_t begin, int64_t end) { cast(x + begin * in, y + begin * out, end - begin); });
}

std::unique_ptr<Kernel> MakeTaps(const StepCall& call) {
  const Node& node = call.main();
  std::vector<int> at;
  for (size_t i = 0; i < 4; ++i) at.push_back(call.operand(node.input(i)));
  return KernelOf([&node, at](std::span<const Operand> in,
                              std::span<const Operand> out) -> Result<Prepared> {
    const Tensor* known[4] = {};
    for (size_t i = 1; i < 4; ++i) {
      if (at[i] < 0) continue;
      known[i] = in[static_cast<size_t>(at[i])].constant;
      if (!known[i]) return Unsupported("scales or sizes are not known");
    }
    const Dims& dims = in[0].dims;
    INFER_ASSIGN(const auto axes, ResizedAxes(CallOf(node), dims, known[1], known[2], known[3]));
    if (axes.empty()) return Unsupported("nothing is resized");
    Dims made = dims;
    for (const ResizedAxis& a : axes) made[static_cast<size_t>(a.axis)] = a.out;
    if (made != out[0].dims) return Unsupported("extents");
    const size_t y = in.size();
    Prepared p;
    p.name = "own:taps";
    p.unused.assign(in.size(), true);
    p.unused[0] = false;
    const DType t = in[0].dtype;
    if (t == DType::kF32) {
      auto passes = TapPasses<float>::Of(axes, dims);
      if (axes.size() > 1) p.scratch_bytes = 2 * passes.largest * 4;
      p.launch = LaunchOf([passes = std::move(passes), y](std::byte* const* args) {
        passes.Run(As<float>(args[0]), As<float>(args[y]),
                   passes.passes.size() > 1 ? As<float>(args[y + 1]) : nullptr);
      });
      return p;
    }
    auto passes = TapPasses<double>::Of(axes, dims);
    const int64_t size = NumElements(dims), result = NumElements(made);
    p.scratch_bytes = (size + result + 2 * passes.largest) * 8;
    p.launch = LaunchOf([=, passes = std::move(passes)](std::byte* const* args) {
      auto* const x = As<double>(args[y + 1]);
      auto* const z = x + size;
      CastOnLanes(t, DType::kF64, args[0], args[y + 1], size);
      passes.Run(x, z, z + result);
      CastOnLanes(DType::kF64, t, reinterpret_cast<const std::byte*>(z), args[y], result);
    });
    return p;
  });
}

}  // namespace

KernelList ResizeTapKernels() { return {{"Resize", "", "own", RefuseTaps, MakeTaps}}; }

}  // namespace infer
