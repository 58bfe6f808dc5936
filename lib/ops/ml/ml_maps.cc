/// ai.onnx.ml: the maps that take values in and out of a model.
#include <map>

#include "lib/ops/elementwise/cast.h"
#include "lib/ops/ml/ml_scores.h"

namespace infer {
namespace {

constexpr TypeSet kKeys{DType::kString, DType::kI64};

// ---- ZipMap ----------------------------------------------------------------------------------

Status InferZipMap(OpCall& call) {
  INFER_ASSIGN(const Tensor keys, ClassLabels(call, "classlabels_int64s", "classlabels_strings"));
  INFER_TRY(InferRows(call).status());
  const Shape& x = call.shape(0);
  if (x.has_rank() && x[-1].is_static() && x[-1].value() != keys.num_elements())
    return InvalidModel(Cat(keys.num_elements(), " labels for ", x[-1].ToString(), " columns"));
  call.SetOut(
      0, ValueType::Sequence(ValueType::Map(keys.dtype(), TensorType{DType::kF32, Shape(Dims{})})));
  return {};
}

Status RunZipMap(OpRun& run) {
  INFER_ASSIGN(const Tensor keys,
               ClassLabels(run.call(), "classlabels_int64s", "classlabels_strings"));
  const Tensor& x = run.in(0);
  const Rows rows = RowsOf(x);
  SequenceDatum maps;
  for (int64_t row = 0; row < rows.count; ++row) {
    SequenceDatum values;
    for (int64_t i = 0; i < rows.features; ++i) {
      Tensor v(DType::kF32, {});
      v.Set(0, x.At(row * rows.features + i));
      values.elements.emplace_back(std::move(v));
    }
    maps.elements.emplace_back(MapDatum{keys, std::make_shared<const Datum>(std::move(values))});
  }
  run.Set(0, Datum(std::move(maps)));
  return {};
}

// ---- DictVectorizer, CastMap -----------------------------------------------------------------

/// The element type of the operand's values; kUndefined where it is not known. InvalidModel unless
/// the operand is a map from `key`.
Result<DType> InferMapValues(const OpCall& call, DType key) {
  const ValueType& t = call.type(0);
  if (t == ValueType()) return DType::kUndefined;
  if (t.kind() != ValueType::Kind::kMap) return InvalidModel("wants a map");
  if (t.key() != key && t.key() != DType::kUndefined)
    return InvalidModel(Cat("wants a map with keys of type ", Name(key), ", not ", Name(t.key())));
  return t.element().is_tensor() ? t.element().tensor().dtype : DType::kUndefined;
}

/// The values of a map, one element each. InvalidModel for a map of other keys or values.
Result<std::vector<const Tensor*>> MapValues(const Datum& d, DType key) {
  if (!d.is_map() || d.map().keys.dtype() != key)
    return InvalidModel(Cat("wants a map with keys of type ", Name(key)));
  std::vector<const Tensor*> out;
  for (const Datum& v : d.map().values->sequence()) {
    const bool fits = v.is_tensor() && v.tensor().defined() && v.tensor().num_elements() == 1 &&
                      (out.empty() || out[0]->dtype() == v.tensor().dtype());
    if (!fits) return InvalidModel("wants a map with one element for each key");
    out.push_back(&v.tensor());
  }
  return out;
}

void CopyElement(Tensor& y, int64_t i, const Tensor& v) {
  if (y.dtype() == DType::kString)
    y.mutable_strings()[static_cast<size_t>(i)] = v.strings()[0];
  else if (IsInteger(y.dtype()))
    y.SetInt(i, v.IntAt(0));
  else
    y.Set(i, v.At(0));
}

Status InferDictVectorizer(OpCall& call) {
  INFER_ASSIGN(const Tensor words, ClassLabels(call, "int64_vocabulary", "string_vocabulary"));
  INFER_ASSIGN(const DType values, InferMapValues(call, words.dtype()));
  call.SetOut(0, values, Shape(Dims{1, words.num_elements()}));
  return {};
}

/// [1, vocabulary], as ONNX Runtime has it; the standard only says that it is as long as the
/// vocabulary.
Status RunDictVectorizer(OpRun& run) {
  INFER_ASSIGN(const Tensor words,
               ClassLabels(run.call(), "int64_vocabulary", "string_vocabulary"));
  INFER_ASSIGN(const auto values, MapValues(run.datum(0), words.dtype()));
  const DType declared = run.call().out(0).dtype;
  const DType dtype = !values.empty()                 ? values[0]->dtype()
                      : declared != DType::kUndefined ? declared
                                                      : DType::kF32;
  const Tensor& keys = run.datum(0).map().keys;
  auto text = [](const Tensor& t, int64_t i) {
    return t.dtype() == DType::kString ? t.strings()[static_cast<size_t>(i)]
                                       : std::to_string(t.IntAt(i));
  };
  std::map<std::string, int64_t> position;
  for (int64_t i = 0; i < words.num_elements(); ++i) position.emplace(text(words, i), i);
  Tensor y = Tensor::Zeros(dtype, {1, words.num_elements()});
  for (size_t k = 0; k < values.size(); ++k)
    if (const auto at = position.find(text(keys, static_cast<int64_t>(k))); at != position.end())
      CopyElement(y, at->second, *values[k]);
  run.Set(0, std::move(y));
  return {};
}

Result<DType> CastMapType(const OpCall& call) {
  const std::string& to = call.Str("cast_to");
  if (to == "TO_FLOAT") return DType::kF32;
  if (to == "TO_STRING") return DType::kString;
  if (to == "TO_INT64") return DType::kI64;
  return InvalidModel(Cat("cast_to cannot be '", to, "'"));
}

Status InferCastMap(OpCall& call) {
  INFER_ASSIGN(const DType to, CastMapType(call));
  INFER_TRY(InferMapValues(call, DType::kI64).status());
  const std::string& form = call.Str("map_form");
  if (form != "DENSE" && form != "SPARSE")
    return InvalidModel(Cat("map_form cannot be '", form, "'"));
  const int64_t most = call.Int("max_map");
  if (form == "SPARSE" && most < 1) return InvalidModel(Cat("max_map is ", most));
  call.SetOut(0, to, Shape({Dim(1), form == "SPARSE" ? Dim(most) : Dim()}));
  return {};
}

/// DENSE: the values in the order of their keys; SPARSE: each value at its key, zero elsewhere.
Status RunCastMap(OpRun& run) {
  INFER_ASSIGN(const DType to, CastMapType(run.call()));
  INFER_ASSIGN(const auto values, MapValues(run.datum(0), DType::kI64));
  const bool sparse = run.Str("map_form") == "SPARSE";
  std::map<int64_t, const Tensor*> ordered;
  for (size_t k = 0; k < values.size(); ++k) {
    const int64_t key = run.datum(0).map().keys.IntAt(static_cast<int64_t>(k));
    if (sparse && (key < 0 || key >= run.Int("max_map")))
      return InvalidModel(Cat("key ", key, " is not below max_map ", run.Int("max_map")));
    ordered[key] = values[k];
  }
  const int64_t n = sparse ? run.Int("max_map") : static_cast<int64_t>(ordered.size());
  Tensor y = Tensor::Zeros(to, {1, n});
  int64_t next = 0;
  for (const auto& [key, value] : ordered) {
    INFER_ASSIGN(const Tensor cast, CastTensor(*value, to));
    CopyElement(y, sparse ? key : next++, cast);
  }
  run.Set(0, std::move(y));
  return {};
}

}  // namespace

std::span<const OpDef> MlMapOps() {
  static const OpDef ops[] = {
      {
          .name = "ZipMap",
          .domain = "ai.onnx.ml",
          .doc = "A map from labels to values for each row.",
          .traits = Trait::kModel | Trait::kContainer,
          .inputs = {{"X", "f32"}},
          .outputs = {{"Z", "T"}},
          .attrs = {{"classlabels_int64s", AttrKind::kInts},
                    {"classlabels_strings", AttrKind::kStrings}},
          .constraints = {{"T", kKeys, true}},
          .tolerance = 0,
          .infer = InferZipMap,
          .reference = RunZipMap,
          .example = R"(graph g(x: f32[3,2]) -> (z) {
            z = ai.onnx.ml::ZipMap(x) {classlabels_strings=["no", "yes"]} })",
      },
      {
          .name = "DictVectorizer",
          .domain = "ai.onnx.ml",
          .doc = "The values of a map in the order of a vocabulary, zero where a key is missing.",
          .traits = Trait::kModel | Trait::kContainer,
          .inputs = {{"X", "T1"}},
          .outputs = {{"Y", "T2"}},
          .attrs = {{"int64_vocabulary", AttrKind::kInts},
                    {"string_vocabulary", AttrKind::kStrings}},
          .constraints = {{"T1", kKeys, true},
                          {"T2", TypeSet(DType::kI64, DType::kF32, DType::kF64, DType::kString)}},
          .tolerance = 0,
          .infer = InferDictVectorizer,
          .reference = RunDictVectorizer,
          .example = R"(graph g(x: f32[2,2]) -> (y) { one = const i64[] {1}
            maps = ai.onnx.ml::ZipMap(x) {classlabels_int64s=[1, 3]}
            m = SequenceAt(maps, one)
            y = ai.onnx.ml::DictVectorizer(m) {int64_vocabulary=[3, 2, 1]} })",
      },
      {
          .name = "CastMap",
          .domain = "ai.onnx.ml",
          .doc = "The values of a map as a tensor, in the order of their keys.",
          .traits = Trait::kModel | Trait::kContainer,
          .inputs = {{"X", "T1"}},
          .outputs = {{"Y", "T2"}},
          .attrs = {{"cast_to", AttrKind::kString, std::string("TO_FLOAT")},
                    {"map_form", AttrKind::kString, std::string("DENSE")},
                    {"max_map", AttrKind::kInt, int64_t{1}}},
          .constraints = {{"T1", kKeys, true},
                          {"T2", TypeSet(DType::kString, DType::kF32, DType::kI64)}},
          .tolerance = 0,
          .infer = InferCastMap,
          .reference = RunCastMap,
          .example = R"(graph g(x: f32[2,2]) -> (y) { one = const i64[] {1}
            maps = ai.onnx.ml::ZipMap(x) {classlabels_int64s=[3, 1]}
            m = SequenceAt(maps, one)
            y = ai.onnx.ml::CastMap(m) {map_form="SPARSE", max_map=4} })",
      },
  };
  return ops;
}

}  // namespace infer
