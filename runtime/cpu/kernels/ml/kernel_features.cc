/// Operators of ai.onnx.ml that prepare features: ArrayFeatureExtractor, Binarizer, Imputer,
/// Normalizer, OneHotEncoder, Scaler.
#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "lib/ops/ml/ml_scores.h"
#include "lib/support/strings.h"
#include "runtime/cpu/kernels/common/kernels.h"
#include "runtime/cpu/kernels/move/indexed.h"
#include "runtime/cpu/launch/launch.h"
#include "runtime/cpu/simd/loops.h"

namespace infer {
namespace {

std::string RefuseFeatures(const StepCall& call) {
  return call.step.nodes.size() > 1 ? "it has no epilogue" : RefuseUnlessF32(call);
}

/// Numbers of features repeated, so that a loop goes over some rows at once.
constexpr int64_t kFeatureBlock = 512;
std::vector<float> RepeatedFeatures(const std::vector<float>& list, int64_t features) {
  std::vector<float> all;
  const auto period = std::max<size_t>(static_cast<size_t>(features), list.size());
  do
    for (size_t i = 0; i < period; ++i) all.push_back(list[i % list.size()]);
  while (all.size() + period <= static_cast<size_t>(kFeatureBlock));
  return all;
}

/// `of(x, y, n)` over blocks of some rows, each of which begins with a row.
template <typename F>
std::shared_ptr<const Launch> BlockLaunch(int64_t count, int64_t block, F of) {
  return LaunchOf([=](std::byte* const* args) {
    const auto* const x = As<float>(static_cast<const std::byte*>(args[0]));
    float* const y = As<float>(args[1]);
    ForRange((count + block - 1) / block, std::max<int64_t>(1, kElementGrain / block),
             [&](int64_t begin, int64_t end) {
               for (int64_t b = begin; b < end; ++b)
                 of(x + b * block, y + b * block, std::min(block, count - b * block));
             });
  });
}

// ---- Scaler, Imputer, Binarizer --------------------------------------------------------------

std::unique_ptr<Kernel> MakeScaler(const StepCall& call) {
  const OpCall of = CallOf(call.main());
  const auto offsets = ListAttr<float>(of, "offset"), scales = ListAttr<float>(of, "scale");
  return KernelOf([=](std::span<const Operand> in, std::span<const Operand>) -> Result<Prepared> {
    const int64_t features = in[0].dims.empty() ? 1 : in[0].dims.back();
    const auto offset =
                   std::make_shared<const std::vector<float>>(RepeatedFeatures(offsets, features)),
               scale =
                   std::make_shared<const std::vector<float>>(RepeatedFeatures(scales, features));
    Prepared p;
    const simd::Loops& loops = simd::TheLoops();
    p.name = Cat("own:", loops.isa);
    p.in_place = true;
    p.launch =
        BlockLaunch(NumElements(in[0].dims), static_cast<int64_t>(scale->size()),
                    [offset, scale, &loops](const float* x, float* y, int64_t n) {
                      loops.binary[static_cast<int>(simd::Binary::kSub)](x, offset->data(), y, n);
                      loops.binary[static_cast<int>(simd::Binary::kMul)](y, scale->data(), y, n);
                    });
    return p;
  });
}

std::unique_ptr<Kernel> MakeImputer(const StepCall& call) {
  const OpCall of = CallOf(call.main());
  const auto values = ListAttr<float>(of, "imputed_value_floats");
  const float replaced = of.Float("replaced_value_float");
  return KernelOf([=](std::span<const Operand> in, std::span<const Operand>) -> Result<Prepared> {
    const int64_t features = in[0].dims.empty() ? 1 : in[0].dims.back();
    const auto imputed =
        std::make_shared<const std::vector<float>>(RepeatedFeatures(values, features));
    Prepared p;
    p.name = "own:imputer";
    p.in_place = true;
    const auto each = [&](auto is_hit) {
      return BlockLaunch(NumElements(in[0].dims), static_cast<int64_t>(imputed->size()),
                         [imputed, is_hit](const float* x, float* y, int64_t n) {
                           const float* const v = imputed->data();
                           for (int64_t i = 0; i < n; ++i) y[i] = is_hit(x[i]) ? v[i] : x[i];
                         });
    };
    p.launch = std::isnan(replaced) ? each([](float x) { return x != x; })
                                    : each([replaced](float x) { return x == replaced; });
    return p;
  });
}

std::unique_ptr<Kernel> MakeBinarizer(const StepCall& call) {
  const float threshold = call.main().Attr<float>("threshold");
  return KernelOf([=](std::span<const Operand> in, std::span<const Operand>) -> Result<Prepared> {
    Prepared p;
    p.name = "own:binarizer";
    p.in_place = true;
    p.launch = BlockLaunch(NumElements(in[0].dims), kFeatureBlock,
                           [threshold](const float* x, float* y, int64_t n) {
                             for (int64_t i = 0; i < n; ++i) y[i] = x[i] > threshold ? 1.0f : 0.0f;
                           });
    return p;
  });
}

// ---- Normalizer ------------------------------------------------------------------------------

enum class FeatureNorm : uint8_t { kMax, kL1, kL2 };

/// In double, four sums side by side.
template <FeatureNorm kNorm>
float FeatureNormOf(const float* x, int64_t n) {
  double sums[4] = {};
  if constexpr (kNorm == FeatureNorm::kMax) {
    float top = -HUGE_VALF;
    for (int64_t i = 0; i < n; ++i) top = std::max(top, x[i]);
    return top;
  }
  const auto term = [&](int64_t i) {
    const auto v = static_cast<double>(x[i]);
    return kNorm == FeatureNorm::kL1 ? std::abs(v) : v * v;
  };
  int64_t i = 0;
  for (; i + 4 <= n; i += 4)
    for (int64_t k = 0; k < 4; ++k) sums[k] += term(i + k);
  for (; i < n; ++i) sums[0] += term(i);
  const double sum = (sums[0] + sums[1]) + (sums[2] + sums[3]);
  return static_cast<float>(kNorm == FeatureNorm::kL1 ? sum : std::sqrt(sum));
}

/// A row whose norm is 0 stays.
template <FeatureNorm kNorm>
void DivideRows(const float* x, float* y, int64_t rows, int64_t features) {
  for (int64_t r = 0; r < rows; ++r, x += features, y += features) {
    const float norm = FeatureNormOf<kNorm>(x, features), divisor = norm == 0 ? 1.0f : norm;
    for (int64_t i = 0; i < features; ++i) y[i] = x[i] / divisor;
  }
}

std::unique_ptr<Kernel> MakeNormalizer(const StepCall& call) {
  const std::string& norm = call.main().Attr<std::string>("norm");
  const auto rows_of = norm == "MAX"  ? DivideRows<FeatureNorm::kMax>
                       : norm == "L1" ? DivideRows<FeatureNorm::kL1>
                                      : DivideRows<FeatureNorm::kL2>;
  return KernelOf([=](std::span<const Operand> in, std::span<const Operand>) -> Result<Prepared> {
    const Rows all =
        in[0].dims.size() == 1 ? Rows{1, in[0].dims[0]} : Rows{in[0].dims[0], in[0].dims[1]};
    Prepared p;
    p.name = "own:rows";
    p.launch = LaunchOf([=](std::byte* const* args) {
      const auto* const x = As<float>(static_cast<const std::byte*>(args[0]));
      float* const y = As<float>(args[1]);
      ForRange(all.count, std::max<int64_t>(1, kElementGrain / all.features),
               [&](int64_t begin, int64_t end) {
                 rows_of(x + begin * all.features, y + begin * all.features, end - begin,
                         all.features);
               });
    });
    return p;
  });
}

// ---- ArrayFeatureExtractor -------------------------------------------------------------------

std::string RefuseExtractor(const StepCall& call) { return RefuseIndexed(call, 0, 1); }

class ExtractorLaunch final : public Launch {
 public:
  Indices indices;
  std::vector<int64_t> known;  ///< the indices, where they are constant
  int64_t rows = 0, extent = 0, count = 0, width = 0;
  int x = 0, y = 0;

  Status Run(std::byte* const* args, LaunchState*) const override {
    for (int64_t k = 0; known.empty() && k < count; ++k)
      if (const int64_t at = indices.At(args, k); at < 0 || at >= extent)
        return InvalidModel(Cat("index ", at, " of ", extent, " features"));
    switch (width) {
      case 1: Copy<uint8_t>(args); break;
      case 2: Copy<uint16_t>(args); break;
      case 4: Copy<uint32_t>(args); break;
      default: Copy<uint64_t>(args); break;
    }
    return {};
  }

 private:
  template <typename T>
  void Copy(std::byte* const* args) const {
    const T* const from = As<T>(static_cast<const std::byte*>(args[x]));
    T* const to = As<T>(args[y]);
    ForRange(rows, std::max<int64_t>(1, kElementGrain / count), [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r)
        if (known.empty())
          for (int64_t k = 0; k < count; ++k)
            to[r * count + k] = from[r * extent + indices.At(args, k)];
        else
          for (int64_t k = 0; k < count; ++k)
            to[r * count + k] = from[r * extent + known[static_cast<size_t>(k)]];
    });
  }
};

std::unique_ptr<Kernel> MakeExtractor(const StepCall& call) {
  const Node& n = call.main();
  const Indices indices = Indices::Of(call, n.input(1));
  const int x = call.operand(n.input(0));
  const int64_t width = MovedBytes(ElementTypeOf(n.input(0)));
  std::vector<int64_t> known;
  if (const Tensor* c = call.constant(n.input(1)))
    for (int64_t i = 0; i < c->num_elements(); ++i) known.push_back(c->IntAt(i));
  return KernelOf(
      [=](std::span<const Operand> in, std::span<const Operand> out) -> Result<Prepared> {
        auto launch = std::make_shared<ExtractorLaunch>();
        launch->indices = indices;
        launch->known = known;
        launch->x = x;
        launch->y = static_cast<int>(in.size());
        launch->width = width;
        launch->extent = in[static_cast<size_t>(x)].dims.back();
        launch->count = out[0].dims.back();
        launch->rows = NumElements(out[0].dims) / launch->count;
        if (std::any_of(known.begin(), known.end(),
                        [&](int64_t k) { return k < 0 || k >= launch->extent; }))
          return Unsupported("an index is out of range");
        Prepared p;
        p.name = "own:index";
        p.launch = std::move(launch);
        return p;
      });
}

// ---- OneHotEncoder ---------------------------------------------------------------------------

std::string RefuseEncoder(const StepCall& call) {
  if (call.step.nodes.size() > 1) return "it has no epilogue";
  const DType t = ElementTypeOf(call.main().input(0));
  return t == DType::kI64 || t == DType::kI32 ? "" : Cat("elements of ", Name(t));
}

class EncoderLaunch final : public Launch {
 public:
  std::unordered_map<int64_t, int64_t> places;
  int64_t count = 0, categories = 0;
  bool wide = true, takes_others = true;

  Status Run(std::byte* const* args, LaunchState*) const override {
    float* const y = As<float>(args[1]);
    std::fill_n(y, count * categories, 0.0f);
    for (int64_t i = 0; i < count; ++i) {
      const int64_t of = wide ? As<int64_t>(args[0])[i] : As<int32_t>(args[0])[i];
      if (const auto it = places.find(of); it != places.end())
        y[i * categories + it->second] = 1;
      else if (!takes_others)
        return InvalidModel(Cat("element ", i, " is of no category"));
    }
    return {};
  }
};

std::unique_ptr<Kernel> MakeEncoder(const StepCall& call) {
  const OpCall of = CallOf(call.main());
  EncoderLaunch like;
  // Of equal categories the first counts.
  for (const int64_t c : ListAttr<int64_t>(of, "cats_int64s"))
    like.places.emplace(c, like.categories++);
  like.wide = of.dtype(0) == DType::kI64;
  like.takes_others = of.Int("zeros") != 0;
  return KernelOf(
      [like](std::span<const Operand> in, std::span<const Operand>) -> Result<Prepared> {
        auto launch = std::make_shared<EncoderLaunch>(like);
        launch->count = NumElements(in[0].dims);
        Prepared p;
        p.name = "own:places";
        p.launch = std::move(launch);
        return p;
      });
}

}  // namespace

KernelList FeatureKernels() {
  constexpr std::string_view kMl = "ai.onnx.ml";
  return {{"ArrayFeatureExtractor", kMl, "own", RefuseExtractor, MakeExtractor},
          {"Binarizer", kMl, "own", RefuseFeatures, MakeBinarizer},
          {"Imputer", kMl, "own", RefuseFeatures, MakeImputer},
          {"Normalizer", kMl, "own", RefuseFeatures, MakeNormalizer},
          {"OneHotEncoder", kMl, "own", RefuseEncoder, MakeEncoder},
          {"Scaler", kMl, "own", RefuseFeatures, MakeScaler}};
}

}  // namespace infer
