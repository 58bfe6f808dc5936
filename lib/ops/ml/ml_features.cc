/// ai.onnx.ml: operators that prepare the features of a model.
#include <cmath>
#include <map>

#include "lib/ops/axes.h"
#include "lib/ops/ml/ml_scores.h"
#include "lib/ops/move/move.h"

namespace infer {
namespace {

constexpr TypeSet kFeatures = kMlNumbers | TypeSet(DType::kString);

Status InferFloats(OpCall& call) {
  call.SetOut(0, DType::kF32, call.shape(0));
  return {};
}

/// `list` has one entry, or one per extent of the last axis. InvalidModel else.
Status CheckPerFeature(const OpCall& call, std::string_view name, size_t size) {
  const Dim features = FeaturesOf(call);
  if (size == 1 || !features.is_static() || static_cast<int64_t>(size) == features.value())
    return {};
  return InvalidModel(Cat(name, " has ", size, " entries for ", features.ToString(), " features"));
}

// ---- Binarizer, Scaler, Normalizer, Imputer --------------------------------------------------

Status RunBinarizer(OpRun& run) {
  const Tensor& x = run.in(0);
  Tensor& y = run.Out(0, x.dtype(), x.dims());
  const auto threshold = static_cast<double>(run.Float("threshold"));
  for (int64_t i = 0; i < x.num_elements(); ++i) y.Set(i, x.At(i) > threshold ? 1 : 0);
  return {};
}

Status InferScaler(OpCall& call) {
  const auto &scale = ListAttr<float>(call, "scale"), &offset = ListAttr<float>(call, "offset");
  if (scale.empty() || scale.size() != offset.size())
    return InvalidModel(Cat("scale has ", scale.size(), " entries, offset ", offset.size()));
  INFER_TRY(CheckPerFeature(call, "scale", scale.size()));
  return InferFloats(call);
}

Status RunScaler(OpRun& run) {
  const Tensor& x = run.in(0);
  const auto& scale = ListAttr<float>(run.call(), "scale");
  const auto& offset = ListAttr<float>(run.call(), "offset");
  Tensor& y = run.Out(0, DType::kF32, x.dims());
  for (int64_t i = 0; i < x.num_elements(); ++i) {
    const size_t k = static_cast<size_t>(i) % scale.size();
    y.Set(i, (x.At(i) - static_cast<double>(offset[k])) * static_cast<double>(scale[k]));
  }
  return {};
}

Status InferNormalizer(OpCall& call) {
  const std::string& norm = call.Str("norm");
  if (norm != "MAX" && norm != "L1" && norm != "L2")
    return InvalidModel(Cat("norm cannot be '", norm, "'"));
  INFER_TRY(CheckRank(call, 0, 1, 2));
  return InferFloats(call);
}

/// The standard's "sum(X)" of L1 is that of the magnitudes, as every implementation has it.
Status RunNormalizer(OpRun& run) {
  const Tensor& x = run.in(0);
  const std::string& norm = run.Str("norm");
  const Rows rows = RowsOf(x);
  Tensor& y = run.Out(0, DType::kF32, x.dims());
  for (int64_t row = 0; row < rows.count; ++row) {
    const int64_t first = row * rows.features;
    double top = -HUGE_VAL, l1 = 0, l2 = 0;
    for (int64_t i = 0; i < rows.features; ++i) {
      const double v = x.At(first + i);
      top = std::max(top, v);
      l1 += std::abs(v);
      l2 += v * v;
    }
    const double divisor = norm == "MAX" ? top : norm == "L1" ? l1 : std::sqrt(l2);
    for (int64_t i = 0; i < rows.features; ++i)
      y.Set(first + i, divisor == 0 ? x.At(first + i) : x.At(first + i) / divisor);
  }
  return {};
}

Status InferImputer(OpCall& call) {
  const size_t n = IsInteger(call.dtype(0)) ? ListAttr<int64_t>(call, "imputed_value_int64s").size()
                                            : ListAttr<float>(call, "imputed_value_floats").size();
  if (n == 0) return InvalidModel("no imputed values of the operand's kind");
  INFER_TRY(CheckPerFeature(call, "the imputed values", n));
  return InferSame(call);
}

Status RunImputer(OpRun& run) {
  const Tensor& x = run.in(0);
  Tensor& y = run.Out(0, x.dtype(), x.dims());
  if (IsInteger(x.dtype())) {
    const auto& values = ListAttr<int64_t>(run.call(), "imputed_value_int64s");
    const int64_t replaced = run.Int("replaced_value_int64");
    for (int64_t i = 0; i < x.num_elements(); ++i)
      y.SetInt(
          i, x.IntAt(i) == replaced ? values[static_cast<size_t>(i) % values.size()] : x.IntAt(i));
    return {};
  }
  const auto& values = ListAttr<float>(run.call(), "imputed_value_floats");
  const auto replaced = static_cast<double>(run.Float("replaced_value_float"));
  for (int64_t i = 0; i < x.num_elements(); ++i) {
    const double v = x.At(i);
    const bool hit = v == replaced || (std::isnan(v) && std::isnan(replaced));
    y.Set(i, hit ? static_cast<double>(values[static_cast<size_t>(i) % values.size()]) : v);
  }
  return {};
}

// ---- OneHotEncoder ---------------------------------------------------------------------------

Status InferOneHotEncoder(OpCall& call) {
  const size_t ints = ListAttr<int64_t>(call, "cats_int64s").size();
  const size_t strings = ListAttr<std::string>(call, "cats_strings").size();
  if ((ints == 0) == (strings == 0))
    return InvalidModel("wants either cats_int64s or cats_strings");
  if ((call.dtype(0) == DType::kString) != (strings > 0) && call.dtype(0) != DType::kUndefined)
    return InvalidModel(Cat("the categories are not ", Name(call.dtype(0))));
  Shape y;
  if (call.shape(0).has_rank()) {
    std::vector<Dim> dims = call.shape(0).dims();
    dims.emplace_back(static_cast<int64_t>(ints + strings));
    y = Shape(std::move(dims));
  }
  call.SetOut(0, DType::kF32, std::move(y));
  return {};
}

Status RunOneHotEncoder(OpRun& run) {
  const Tensor& x = run.in(0);
  const auto& ints = ListAttr<int64_t>(run.call(), "cats_int64s");
  const auto& strings = ListAttr<std::string>(run.call(), "cats_strings");
  const auto n = static_cast<int64_t>(ints.size() + strings.size());
  Dims dims = x.dims();
  dims.push_back(n);
  Tensor y = Tensor::Zeros(DType::kF32, std::move(dims));
  for (int64_t i = 0; i < x.num_elements(); ++i) {
    const int64_t at =
        strings.empty()
            ? std::find(ints.begin(), ints.end(), x.IntAt(i)) - ints.begin()
            : std::find(strings.begin(), strings.end(), x.strings()[static_cast<size_t>(i)]) -
                  strings.begin();
    if (at < n)
      y.Set(i * n + at, 1);
    else if (run.Int("zeros") == 0)
      return InvalidModel(Cat("element ", i, " is of no category"));
  }
  run.Set(0, std::move(y));
  return {};
}

/// The categories are an axis of their own.
void OneHotAxes(const OpCall& call, AxisLinks& links) { LinkAllBut(call, {}, links); }

// ---- FeatureVectorizer, ArrayFeatureExtractor ------------------------------------------------

Status InferFeatureVectorizer(OpCall& call) {
  const auto& sizes = ListAttr<int64_t>(call, "inputdimensions");
  if (sizes.size() != call.num_inputs())
    return InvalidModel(
        Cat("inputdimensions has ", sizes.size(), " entries for ", call.num_inputs(), " inputs"));
  Dim rows;
  int64_t total = 0;
  for (size_t i = 0; i < call.num_inputs(); ++i) {
    INFER_TRY(CheckRank(call, i, 1, 2));
    if (sizes[i] < 0) return InvalidModel(Cat("inputdimensions has ", sizes[i]));
    if (__builtin_add_overflow(total, sizes[i], &total))
      return InvalidModel("inputdimensions are too many for a tensor");
    const Shape& x = call.shape(i);
    auto met = Meet(rows, !x.has_rank() ? Dim() : x.rank() == 1 ? Dim(1) : x[0]);
    if (!met.ok()) return InvalidModel("the inputs differ in their number of rows");
    rows = *std::move(met);
  }
  call.SetOut(0, DType::kF32, Shape({rows, Dim(total)}));
  return {};
}

/// An input that has fewer features than inputdimensions says is filled up with zeros.
Status RunFeatureVectorizer(OpRun& run) {
  const auto& sizes = ListAttr<int64_t>(run.call(), "inputdimensions");
  int64_t total = 0, at = 0;
  for (int64_t s : sizes) total += s;
  Tensor y = Tensor::Zeros(DType::kF32, {RowsOf(run.in(0)).count, total});
  for (size_t i = 0; i < sizes.size(); at += sizes[i++]) {
    const Tensor& x = run.in(i);
    const Rows rows = RowsOf(x);
    for (int64_t row = 0; row < rows.count; ++row)
      for (int64_t k = 0; k < std::min(sizes[i], rows.features); ++k)
        y.Set(row * total + at + k, x.At(row * rows.features + k));
  }
  run.Set(0, std::move(y));
  return {};
}

Status InferArrayFeatureExtractor(OpCall& call) {
  const Shape& x = call.shape(0);
  const Dim n = call.shape(1).num_elements();
  if (x.has_rank() && x.rank() == 0) return InvalidModel("the operand is a scalar");
  Shape y;
  if (x.has_rank()) y = x.rank() == 1 ? Shape({Dim(1), n}) : WithDim(x, x.rank() - 1, n);
  call.SetOut(0, call.dtype(0), std::move(y));
  return {};
}

Status RunArrayFeatureExtractor(OpRun& run) {
  const Tensor &x = run.in(0), &index = run.in(1);
  const int64_t extent = x.dim(-1), n = index.num_elements();
  for (int64_t k = 0; k < n; ++k)
    if (index.IntAt(k) < 0 || index.IntAt(k) >= extent)
      return InvalidModel(Cat("index ", index.IntAt(k), " of ", extent, " features"));
  Dims dims = x.dims();
  dims.back() = n;
  if (dims.size() == 1) dims.insert(dims.begin(), 1);
  Tensor& y = run.Out(0, x.dtype(), dims);
  for (int64_t i = 0; i < y.num_elements(); ++i) {
    const int64_t from = i / n * extent + index.IntAt(i % n);
    if (x.dtype() == DType::kString)
      y.mutable_strings()[static_cast<size_t>(i)] = x.strings()[static_cast<size_t>(from)];
    else if (IsInteger(x.dtype()))
      y.SetInt(i, x.IntAt(from));
    else
      y.Set(i, x.At(from));
  }
  return {};
}

/// Each index picks one element of the last axis.
void ExtractorAxes(const OpCall& call, AxisLinks& links) {
  const Shape &x = call.shape(0), &index = call.shape(1);
  if (!x.has_rank() || !index.has_rank()) return;
  if (x.rank() > 1) AllButLastAxis(call, links);
  for (int axis = 0; axis < index.rank(); ++axis)
    LinkSame(call, 1, axis, 0, std::max(x.rank() - 1, 1), links);
}

}  // namespace

std::span<const OpDef> MlFeatureOps() {
  static const OpDef ops[] = {
      {
          .name = "Binarizer",
          .domain = "ai.onnx.ml",
          .doc = "1 where an element is greater than the threshold, else 0.",
          .traits = Trait::kModel,
          .axes = BroadcastAxes,
          .inputs = {{"X", "T"}},
          .outputs = {{"Y", "T"}},
          .attrs = {{"threshold", AttrKind::kFloat, 0.0f}},
          .constraints = {{"T", kMlNumbers}},
          .tolerance = 0,
          .infer = InferSame,
          .reference = RunBinarizer,
          .example = "graph g(x: f32[2,3]) -> (y) { y = ai.onnx.ml::Binarizer(x) {threshold=0.5} }",
      },
      {
          .name = "Scaler",
          .domain = "ai.onnx.ml",
          .doc = "(X - offset) * scale, per feature.",
          .traits = Trait::kModel,
          .axes = AllButLastAxis,
          .inputs = {{"X", "T"}},
          .outputs = {{"Y", "f32"}},
          .attrs = {{"offset", AttrKind::kFloats}, {"scale", AttrKind::kFloats}},
          .constraints = {{"T", kMlNumbers}},
          .infer = InferScaler,
          .reference = RunScaler,
          .cost = CostPerOutput<2>,
          .example = R"(graph g(x: f32[2,3]) -> (y) {
            y = ai.onnx.ml::Scaler(x) {offset=[1.0, 2.0, 3.0], scale=[0.5, 0.25, 2.0]} })",
      },
      {
          .name = "Normalizer",
          .domain = "ai.onnx.ml",
          .doc = "Each row divided by its norm: MAX, L1 or L2.",
          .traits = Trait::kModel,
          .axes = AllButLastAxis,
          .inputs = {{"X", "T"}},
          .outputs = {{"Y", "f32"}},
          .attrs = {{"norm", AttrKind::kString, std::string("MAX")}},
          .constraints = {{"T", kMlNumbers}},
          .infer = InferNormalizer,
          .reference = RunNormalizer,
          .cost = CostPerOutput<3>,
          .example = R"(graph g(x: f32[2,3]) -> (y) { y = ai.onnx.ml::Normalizer(x) {norm="L2"} })",
      },
      {
          .name = "Imputer",
          .domain = "ai.onnx.ml",
          .doc = "Elements of one value replaced by others, per feature.",
          .traits = Trait::kModel,
          .axes = AllButLastAxis,
          .inputs = {{"X", "T"}},
          .outputs = {{"Y", "T"}},
          .attrs = {{"imputed_value_floats", AttrKind::kFloats},
                    {"imputed_value_int64s", AttrKind::kInts},
                    {"replaced_value_float", AttrKind::kFloat, 0.0f},
                    {"replaced_value_int64", AttrKind::kInt, int64_t{0}}},
          .constraints = {{"T", kMlNumbers}},
          .tolerance = 0,
          .infer = InferImputer,
          .reference = RunImputer,
          .example = R"(graph g(x: f32[2,3]) -> (y) { y = ai.onnx.ml::Imputer(x) {
            imputed_value_floats=[1.0, 2.0, 3.0], replaced_value_float=0.0} })",
      },
      {
          .name = "OneHotEncoder",
          .domain = "ai.onnx.ml",
          .doc = "A 1 at the category of each element, in a new last axis.",
          .traits = Trait::kModel,
          .axes = OneHotAxes,
          .inputs = {{"X", "T"}},
          .outputs = {{"Y", "f32"}},
          .attrs = {{"cats_int64s", AttrKind::kInts},
                    {"cats_strings", AttrKind::kStrings},
                    {"zeros", AttrKind::kInt, int64_t{1}}},
          .constraints = {{"T", kFeatures}},
          .tolerance = 0,
          .infer = InferOneHotEncoder,
          .reference = RunOneHotEncoder,
          .example = R"(graph g(x: i64[3]) -> (y) {
            y = ai.onnx.ml::OneHotEncoder(x) {cats_int64s=[1, 2, 3]} })",
      },
      {
          .name = "FeatureVectorizer",
          .domain = "ai.onnx.ml",
          .doc = "The features of all inputs in one row.",
          .traits = Trait::kModel,
          .axes = RowAxes,
          .inputs = {{"X", "T1", Arity::kVariadic}},
          .outputs = {{"Y", "f32"}},
          .attrs = {{"inputdimensions", AttrKind::kInts}},
          .constraints = {{"T1", kMlNumbers}},
          .tolerance = 0,
          .infer = InferFeatureVectorizer,
          .reference = RunFeatureVectorizer,
          .example = R"(graph g(a: f32[2,3], b: f32[2,1]) -> (y) {
            y = ai.onnx.ml::FeatureVectorizer(a, b) {inputdimensions=[3, 1]} })",
      },
      {
          .name = "ArrayFeatureExtractor",
          .domain = "ai.onnx.ml",
          .doc = "Elements of the last axis by their indices.",
          .traits = Trait::kModel,
          .axes = ExtractorAxes,
          .inputs = {{"X", "T"}, {"Y", "i64"}},
          .outputs = {{"Z", "T"}},
          .constraints = {{"T", kFeatures}},
          .tolerance = 0,
          .infer = InferArrayFeatureExtractor,
          .reference = RunArrayFeatureExtractor,
          .example = R"(graph g(x: f32[2,3]) -> (z) { i = const i64[2] {2, 0}
            z = ai.onnx.ml::ArrayFeatureExtractor(x, i) })",
      },
  };
  return ops;
}

}  // namespace infer
