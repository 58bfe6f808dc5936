/// ai.onnx.ml: operators that replace elements by what stands beside them in a list.
#include "lib/ops/ml/ml_labels.h"

#include <cmath>
#include <map>

#include "lib/ops/axes.h"

namespace infer {
namespace {

constexpr TypeSet kNames{DType::kString, DType::kI64};
constexpr TypeSet kLabels = kMlNumbers | TypeSet(DType::kString, DType::kI16);

// ---- CategoryMapper --------------------------------------------------------------------------

Status InferCategoryMapper(OpCall& call) {
  const size_t ints = ListAttr<int64_t>(call, "cats_int64s").size();
  const size_t strings = ListAttr<std::string>(call, "cats_strings").size();
  if (ints != strings)
    return InvalidModel(Cat("cats_int64s has ", ints, " entries, cats_strings ", strings));
  const DType x = call.dtype(0);
  call.SetOut(0,
              x == DType::kUndefined ? x
              : x == DType::kString  ? DType::kI64
                                     : DType::kString,
              call.shape(0));
  return {};
}

/// Of equal categories the last one counts, as in ONNX Runtime.
Status RunCategoryMapper(OpRun& run) {
  const Tensor& x = run.in(0);
  const auto& ints = ListAttr<int64_t>(run.call(), "cats_int64s");
  const auto& strings = ListAttr<std::string>(run.call(), "cats_strings");
  if (x.dtype() == DType::kString) {
    std::map<std::string_view, int64_t> table;
    for (size_t k = 0; k < ints.size(); ++k) table[strings[k]] = ints[k];
    Tensor& y = run.Out(0, DType::kI64, x.dims());
    for (int64_t i = 0; i < x.num_elements(); ++i) {
      const auto found = table.find(x.strings()[static_cast<size_t>(i)]);
      y.SetInt(i, found == table.end() ? run.Int("default_int64") : found->second);
    }
    return {};
  }
  std::map<int64_t, std::string_view> table;
  for (size_t k = 0; k < ints.size(); ++k) table[ints[k]] = strings[k];
  Tensor& y = run.Out(0, DType::kString, x.dims());
  for (int64_t i = 0; i < x.num_elements(); ++i) {
    const auto found = table.find(x.IntAt(i));
    y.mutable_strings()[static_cast<size_t>(i)] =
        found == table.end() ? run.Str("default_string") : std::string(found->second);
  }
  return {};
}

// ---- LabelEncoder ----------------------------------------------------------------------------

/// The one list `prefix`_strings, _int64s, _floats or _tensor that is given.
Result<Tensor> OneList(const OpCall& call, const std::string& prefix) {
  std::vector<Tensor> given;
  if (const auto& v = ListAttr<std::string>(call, prefix + "_strings"); !v.empty())
    given.push_back(Tensor::OfStrings({static_cast<int64_t>(v.size())}, v));
  if (const auto& v = ListAttr<int64_t>(call, prefix + "_int64s"); !v.empty())
    given.push_back(Tensor::Int64s(v));
  if (const auto& v = ListAttr<float>(call, prefix + "_floats"); !v.empty())
    given.push_back(Tensor::Of<float>({static_cast<int64_t>(v.size())}, std::span<const float>(v)));
  if (call.HasAttr(prefix + "_tensor")) given.push_back(call.Attr<Tensor>(prefix + "_tensor"));
  if (given.size() != 1)
    return InvalidModel(Cat("wants one of ", prefix, "_*, has ", given.size()));
  return given[0];
}

/// One element: what keys that are not listed become.
Result<Tensor> DefaultLabel(const OpCall& call, DType t) {
  if (call.HasAttr("default_tensor")) {
    const Tensor& d = call.Attr<Tensor>("default_tensor");
    if (d.dtype() != t || d.num_elements() != 1)
      return InvalidModel(Cat("default_tensor is ", ToString(d.type()), ", wants one ", Name(t)));
    return d;
  }
  if (t == DType::kString) return Tensor::OfStrings({1}, {call.Str("default_string")});
  Tensor d(t, {1});
  if (IsInteger(t))
    d.SetInt(0, call.Int("default_int64"));
  else
    d.Set(0, static_cast<double>(call.Float("default_float")));
  return d;
}

int64_t NumberKeyOf(const Tensor& t, int64_t i) {
  return IsInteger(t.dtype()) ? LabelTable::KeyOf(t.IntAt(i)) : LabelTable::KeyOf(t.At(i));
}

}  // namespace

Result<std::shared_ptr<const void>> PrepareLabels(const OpCall& call) {
  auto made = std::make_shared<LabelTable>();
  LabelTable& l = *made;
  INFER_ASSIGN(const Tensor keys, OneList(call, "keys"));
  INFER_ASSIGN(l.values, OneList(call, "values"));
  if (keys.num_elements() != l.values.num_elements())
    return InvalidModel(Cat(keys.num_elements(), " keys for ", l.values.num_elements(), " values"));
  if (!kLabels.Has(l.values.dtype()))
    return InvalidModel(Cat("values cannot be ", Name(l.values.dtype())));
  INFER_ASSIGN(l.otherwise, DefaultLabel(call, l.values.dtype()));
  l.key = keys.dtype();
  for (int64_t i = 0; i < keys.num_elements(); ++i)
    if (l.key == DType::kString)
      l.texts[keys.strings()[static_cast<size_t>(i)]] = i;
    else
      l.numbers[NumberKeyOf(keys, i)] = i;
  return std::shared_ptr<const void>(std::move(made));
}

namespace {

Status InferLabelEncoder(OpCall& call) {
  INFER_ASSIGN(const auto l, call.Prepared<LabelTable>());
  if (call.dtype(0) != l->key && call.dtype(0) != DType::kUndefined)
    return InvalidModel(
        Cat("the operand is ", Name(call.dtype(0)), ", the keys are ", Name(l->key)));
  call.SetOut(0, l->values.dtype(), call.shape(0));
  return {};
}

int64_t TextPlaceOf(const LabelTable& l, const Tensor& x, int64_t i) {
  const auto found = l.texts.find(x.strings()[static_cast<size_t>(i)]);
  return found == l.texts.end() ? -1 : found->second;
}

Status RunLabelEncoder(OpRun& run) {
  INFER_ASSIGN(const auto labels, run.call().Prepared<LabelTable>());
  const LabelTable& l = *labels;
  const Tensor& x = run.in(0);
  Tensor& y = run.Out(0, l.values.dtype(), x.dims());
  for (int64_t i = 0; i < x.num_elements(); ++i) {
    const int64_t place =
        l.key == DType::kString ? TextPlaceOf(l, x, i) : l.PlaceOf(NumberKeyOf(x, i));
    const Tensor& from = place >= 0 ? l.values : l.otherwise;
    const int64_t at = std::max<int64_t>(place, 0);
    if (y.dtype() == DType::kString)
      y.mutable_strings()[static_cast<size_t>(i)] = from.strings()[static_cast<size_t>(at)];
    else if (IsInteger(y.dtype()))
      y.SetInt(i, from.IntAt(at));
    else
      y.Set(i, from.At(at));
  }
  return {};
}

/// Version 1 had one list of strings: a string becomes its position, a position its string.
Status LiftLabelEncoder(NodeSpec node, int opset, LiftContext& out) {
  if (opset < 2) {
    const ValueType* type = node.inputs.empty() ? nullptr : out.Type(node.inputs[0]);
    if (!type || !type->is_tensor() || type->tensor().dtype == DType::kUndefined)
      return Unsupported(
          Cat("LabelEncoder '", node.name, "': version 1 needs to know the type of its operand"));
    std::vector<std::string> names;
    if (const auto it = node.attrs.find("classes_strings"); it != node.attrs.end())
      if (const auto* list = std::get_if<std::vector<std::string>>(&it->second)) names = *list;
    std::vector<int64_t> positions;
    for (size_t i = 0; i < names.size(); ++i) positions.push_back(static_cast<int64_t>(i));
    DropAttr(node, "classes_strings");
    const bool encodes = type->tensor().dtype == DType::kString;
    node.attrs[encodes ? "keys_strings" : "values_strings"] = std::move(names);
    node.attrs[encodes ? "values_int64s" : "keys_int64s"] = std::move(positions);
  }
  out.Emit(std::move(node));
  return {};
}

}  // namespace

std::span<const OpDef> MlLabelOps() {
  static const OpDef ops[] = {
      {
          .name = "CategoryMapper",
          .domain = "ai.onnx.ml",
          .doc = "Each string replaced by its category's number, or the other way round.",
          .traits = Trait::kModel,
          .axes = BroadcastAxes,
          .inputs = {{"X", "T1"}},
          .outputs = {{"Y", "T2"}},
          .attrs = {{"cats_int64s", AttrKind::kInts},
                    {"cats_strings", AttrKind::kStrings},
                    {"default_int64", AttrKind::kInt, int64_t{-1}},
                    {"default_string", AttrKind::kString, std::string("_Unused")}},
          .constraints = {{"T1", kNames}, {"T2", kNames}},
          .tolerance = 0,
          .infer = InferCategoryMapper,
          .reference = RunCategoryMapper,
          .example = R"(graph g(x: i64[3]) -> (y) { y = ai.onnx.ml::CategoryMapper(x) {
            cats_int64s=[0, 1], cats_strings=["cat", "dog"]} })",
      },
      {
          .name = "LabelEncoder",
          .domain = "ai.onnx.ml",
          .doc = "Each element replaced by the value that stands beside it in a list of keys.",
          .traits = Trait::kModel,
          .axes = BroadcastAxes,
          .since = 2,
          .versions = {1, 2, 4},
          .inputs = {{"X", "T1"}},
          .outputs = {{"Y", "T2"}},
          .attrs = {{"default_float", AttrKind::kFloat, -0.0f},
                    {"default_int64", AttrKind::kInt, int64_t{-1}},
                    {"default_string", AttrKind::kString, std::string("_Unused")},
                    {"default_tensor", AttrKind::kTensor, {}, false, 4},
                    {"keys_floats", AttrKind::kFloats},
                    {"keys_int64s", AttrKind::kInts},
                    {"keys_strings", AttrKind::kStrings},
                    {"keys_tensor", AttrKind::kTensor, {}, false, 4},
                    {"values_floats", AttrKind::kFloats},
                    {"values_int64s", AttrKind::kInts},
                    {"values_strings", AttrKind::kStrings},
                    {"values_tensor", AttrKind::kTensor, {}, false, 4}},
          .constraints = {{"T1", kLabels}, {"T2", kLabels}},
          .tolerance = 0,
          .infer = InferLabelEncoder,
          .reference = RunLabelEncoder,
          .prepare = PrepareLabels,
          .lift = LiftLabelEncoder,
          .example = R"(graph g(x: i64[3]) -> (y) {
            y = ai.onnx.ml::LabelEncoder(x) {keys_int64s=[0, 1], values_floats=[5.5, 6.0]} })",
      },
  };
  return ops;
}

}  // namespace infer
