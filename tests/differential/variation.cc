#include "tests/differential/variation.h"

#include <algorithm>
#include <array>

#include "lib/support/strings.h"
#include "passes/rewrite/rule_fuzz.h"
#include "tests/differential/random_values.h"

namespace infer {
namespace {

constexpr std::array<int64_t, 11> kAttrInts = {-2, -1, 0, 1, 2, 3, 4, 6, 8, 16, 20};
constexpr std::array kAttrFloats = {0.0f,  1.0f,  -1.0f,  0.5f, 2.0f,
                                    1e-5f, 0.25f, -0.75f, 3.0f, 10.0f};
/// What string attributes of some operator take; inference refuses the others.
constexpr std::array kAttrStrings = {"NOTSET",
                                     "SAME_UPPER",
                                     "SAME_LOWER",
                                     "VALID",
                                     "constant",
                                     "edge",
                                     "reflect",
                                     "wrap",
                                     "nearest",
                                     "linear",
                                     "cubic",
                                     "half_pixel",
                                     "align_corners",
                                     "asymmetric",
                                     "pytorch_half_pixel",
                                     "tf_crop_and_resize",
                                     "half_pixel_symmetric",
                                     "floor",
                                     "ceil",
                                     "round_prefer_floor",
                                     "round_prefer_ceil",
                                     "stretch",
                                     "not_larger",
                                     "not_smaller",
                                     "forward",
                                     "reverse",
                                     "bidirectional",
                                     "none",
                                     "add",
                                     "mul",
                                     "min",
                                     "max",
                                     "mean",
                                     "sum",
                                     "avg",
                                     "DCR",
                                     "CRD",
                                     "bilinear",
                                     "bicubic",
                                     "zeros",
                                     "border",
                                     "reflection",
                                     "tanh",
                                     "LEFT",
                                     "RIGHT",
                                     "Relu",
                                     "Tanh",
                                     "Sigmoid",
                                     "Elu",
                                     "LeakyRelu",
                                     "HardSigmoid",
                                     "Affine",
                                     "ThresholdedRelu",
                                     "ScaledTanh",
                                     "Softsign",
                                     "Softplus",
                                     "SOFTMAX",
                                     "LOGISTIC",
                                     "SOFTMAX_ZERO",
                                     "PROBIT",
                                     "NONE",
                                     "MAX",
                                     "MIN",
                                     "SUM",
                                     "AVERAGE",
                                     "L1",
                                     "L2",
                                     "UPPER",
                                     "LOWER",
                                     "TF",
                                     "IDF",
                                     "TFIDF",
                                     "ij,jk->ik",
                                     "ij->ji",
                                     "...ij,...jk->...ik",
                                     "ii->i",
                                     "RGB",
                                     "BGR",
                                     "Grayscale",
                                     "linear",
                                     "circular",
                                     "output_half_pixel",
                                     "TO_FLOAT",
                                     "TO_STRING",
                                     "TO_INT64",
                                     "DENSE",
                                     "SPARSE",
                                     "gated",
                                     "delta",
                                     "silu",
                                     "swish",
                                     "RBF",
                                     "POLY",
                                     "SIGMOID",
                                     "LINEAR",
                                     "a",
                                     "b",
                                     ","};
constexpr int64_t kMostElements = 20'000;

}  // namespace

AttrValue Variation::AnyValue(const AttrDef& attr, const AttrValue& now) {
  const auto integer = [&] { return kAttrInts[random_.Below(kAttrInts.size())]; };
  const auto number = [&] { return kAttrFloats[random_.Below(kAttrFloats.size())]; };
  const auto string = [&] { return std::string(kAttrStrings[random_.Below(kAttrStrings.size())]); };
  /// `list` with one element more, less or another, or several new ones.
  const auto vary = [&](auto list, const auto& make) {
    if (list.empty() || Coin(4)) {
      list.resize(1 + random_.Below(4));
      for (auto& v : list) v = make();
    } else if (Coin(4)) {
      list.pop_back();
    } else if (Coin(4)) {
      list.push_back(make());
    } else if (Coin(4)) {
      std::swap(One(list), One(list));
    } else {
      One(list) = make();
    }
    return AttrValue(std::move(list));
  };
  const auto list_of = [&](auto empty) {
    const auto* list = std::get_if<decltype(empty)>(&now);
    return list ? *list : empty;
  };
  switch (attr.kind) {
    case AttrKind::kInt:
      return Coin(8) ? AttrValue(int64_t{random_.Below(28)}) : AttrValue(integer());
    case AttrKind::kFloat: return number();
    case AttrKind::kString: return string();
    case AttrKind::kInts: return vary(list_of(std::vector<int64_t>()), integer);
    case AttrKind::kFloats: return vary(list_of(std::vector<float>()), number);
    case AttrKind::kStrings: return vary(list_of(std::vector<std::string>()), string);
    case AttrKind::kTensor: {
      if (const auto* t = std::get_if<Tensor>(&now); t && Coin())
        return RandomTensor(t->dtype(), t->dims(), random_);
      const auto dtype = static_cast<DType>(1 + random_.Below(kNumDTypes - 1));
      return RandomTensor(dtype, {1 + random_.Below(3)}, random_);
    }
    case AttrKind::kType:
      return ValueType(TensorType{static_cast<DType>(1 + random_.Below(kNumDTypes - 1)), Shape()});
    case AttrKind::kGraph: return {};
  }
  return {};
}

bool Variation::Attribute(Sketch::Op& op, const AttrDef& attr) {
  if (attr.kind == AttrKind::kGraph) return false;
  const auto it = op.attrs.find(attr.name);
  const AttrValue now = it != op.attrs.end() ? it->second : attr.default_value;
  op.attrs[std::string(attr.name)] = AnyValue(attr, now);
  return true;
}

bool Variation::AnyAttribute() {
  if (m_.sketch.nodes.empty()) return false;
  Sketch::Op& op = One(m_.sketch.nodes);
  if (!op.attrs.empty() && Coin(5)) {
    op.attrs.erase(
        std::next(op.attrs.begin(), random_.Below(static_cast<uint32_t>(op.attrs.size()))));
    return true;
  }
  const auto& attrs = op.def->attrs;
  return !attrs.empty() && Attribute(op, attrs[random_.Below(static_cast<uint32_t>(attrs.size()))]);
}

std::optional<TensorType> Variation::TypeOf(const std::string& name) const {
  for (const Sketch::Input& i : m_.sketch.inputs)
    if (i.name == name && i.value.is_tensor() && i.value.tensor().is_static())
      return i.value.tensor();
  for (const auto& c : m_.sketch.constants)
    if (c.name == name) return c.tensor.type();
  return std::nullopt;
}

bool Variation::ElementType(const Sketch::Op& op, std::string_view var) {
  TypeSet allowed;
  for (const TypeConstraint& c : op.def->constraints)
    if (c.var == var) allowed = c.types;
  std::vector<DType> types;
  for (int t = 1; t < kNumDTypes; ++t)
    if (allowed.Has(static_cast<DType>(t))) types.push_back(static_cast<DType>(t));
  if (types.size() < 2) return false;
  const DType to = One(types);
  bool changed = false;
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    const size_t param = std::min(i, op.def->inputs.size() - 1);
    if (op.inputs[i].empty() || op.def->inputs[param].type != var) continue;
    const auto now = TypeOf(op.inputs[i]);
    if (!now) return false;
    for (Sketch::Input& in : m_.sketch.inputs)
      if (in.name == op.inputs[i]) {
        in.type = ValueType(TensorType{to, in.type.tensor().shape});
        in.value = ValueType(TensorType{to, in.value.tensor().shape});
        m_.given.erase(in.name);
      }
    for (auto& c : m_.sketch.constants)
      if (c.name == op.inputs[i]) c.tensor = RandomTensor(to, c.tensor.dims(), random_);
    changed = changed || now->dtype != to;
  }
  return changed;
}

bool Variation::AnyElementType() {
  if (m_.sketch.nodes.empty()) return false;
  const Sketch::Op op = One(m_.sketch.nodes);
  const auto& vars = op.def->constraints;
  return !vars.empty() &&
         ElementType(op, vars[random_.Below(static_cast<uint32_t>(vars.size()))].var);
}

bool Variation::Resize(const std::string& name, const Dims& dims) {
  const auto count = CheckedNumElements(dims);
  if (!count || *count > kMostElements) return false;
  for (Sketch::Input& i : m_.sketch.inputs)
    if (i.name == name) {
      i.type = i.value = ValueType(TensorType{i.value.tensor().dtype, Shape(dims)});
      m_.given.erase(name);
    }
  for (auto& c : m_.sketch.constants)
    if (c.name == name) {
      const Tensor old = c.tensor;
      c.tensor = RandomTensor(old.dtype(), dims, random_);
      if (!IsInteger(old.dtype()) || IsPacked(old.dtype()) || old.num_elements() == 0) continue;
      for (int64_t i = 0; i < *count; ++i) c.tensor.SetInt(i, old.IntAt(i % old.num_elements()));
    }
  return true;
}

/// An extent becomes another: wherever it stands, or in one place.
bool Variation::Extent() {
  static constexpr std::array<int64_t, 12> kExtents = {0, 1, 1, 2, 3, 4, 5, 7, 8, 16, 17, 33};
  std::vector<std::string> names;
  for (const Sketch::Input& i : m_.sketch.inputs) names.push_back(i.name);
  for (const auto& c : m_.sketch.constants) names.push_back(c.name);
  if (names.empty()) return false;
  const std::string chosen = One(names);
  const auto type = TypeOf(chosen);
  if (!type || type->shape.rank() == 0) return false;
  const auto axis = random_.Below(static_cast<uint32_t>(type->shape.rank()));
  const int64_t to = kExtents[random_.Below(kExtents.size())];
  const int64_t from = type->shape.static_dims()[axis];
  const bool everywhere = !Coin(3);
  for (const std::string& name : names) {
    const auto t = TypeOf(name);
    if (!t || (!everywhere && name != chosen)) continue;
    Dims dims = t->shape.static_dims();
    if (everywhere)
      std::replace(dims.begin(), dims.end(), from, to);
    else
      dims[axis] = to;
    if (dims != t->shape.static_dims() && !Resize(name, dims)) return false;
  }
  return true;
}

bool Variation::Rank() {
  if (m_.sketch.inputs.empty()) return false;
  const std::string name = One(m_.sketch.inputs).name;
  const auto type = TypeOf(name);
  if (!type) return false;
  Dims dims = type->shape.static_dims();
  const auto at = dims.begin() + random_.Below(static_cast<uint32_t>(dims.size()) + 1);
  if (Coin() && at != dims.end())
    dims.erase(at);
  else
    dims.insert(at, Coin() ? 1 : 2);
  return Resize(name, dims);
}

/// An optional operand is left out or given; a variadic one stands once more.
bool Variation::OptionalOperand() {
  if (m_.sketch.nodes.empty()) return false;
  Sketch::Op& op = One(m_.sketch.nodes);
  const auto& params = op.def->inputs;
  if (params.empty() || op.num_captures > 0) return false;
  const auto at = random_.Below(static_cast<uint32_t>(params.size()));
  if (params[at].arity == Arity::kVariadic && !op.inputs.empty()) {
    if (Coin() && op.inputs.size() > 1)
      op.inputs.pop_back();
    else
      op.inputs.push_back(One(op.inputs));
    return true;
  }
  if (params[at].arity != Arity::kOptional) return false;
  if (at < op.inputs.size() && !op.inputs[at].empty()) {
    op.inputs[at] = "";
    while (!op.inputs.empty() && op.inputs.back().empty()) op.inputs.pop_back();
    return true;
  }
  // Of the type that the variable has already, in some shape of another operand.
  DType dtype = ParseDType(params[at].type).value_or(DType::kUndefined);
  Dims dims;
  for (size_t i = 0; i < op.inputs.size() && i < params.size(); ++i) {
    const auto t = TypeOf(op.inputs[i]);
    if (!t) continue;
    if (params[i].type == params[at].type) dtype = t->dtype;
    if (dims.empty() || Coin()) dims = t->shape.static_dims();
  }
  for (const TypeConstraint& c : op.def->constraints)
    for (int t = 1; t < kNumDTypes && c.var == params[at].type; ++t)
      if (dtype == DType::kUndefined && c.types.Has(static_cast<DType>(t)) && Coin())
        dtype = static_cast<DType>(t);
  if (dtype == DType::kUndefined) return false;
  while (!dims.empty() && Coin())
    dims.erase(dims.begin() + random_.Below(static_cast<uint32_t>(dims.size())));
  const std::string name = m_.sketch.Fresh();
  const Tensor value = RandomTensor(dtype, dims, random_);
  if (Coin())
    m_.sketch.constants.push_back({name, value});
  else
    m_.sketch.inputs.push_back({name, value.type(), value.type()});
  op.inputs.resize(std::max<size_t>(op.inputs.size(), at + 1));
  op.inputs[at] = name;
  return true;
}

bool Variation::OptionalResult() {
  if (m_.sketch.nodes.empty()) return false;
  Sketch::Op& op = One(m_.sketch.nodes);
  if (op.outputs.size() >= op.def->max_outputs()) return false;
  op.outputs.push_back(m_.sketch.Fresh());
  m_.sketch.outputs.push_back(op.outputs.back());
  return true;
}

/// What was a constant comes with the run: the same value, of a type that is known or not.
bool Variation::ConstantToInput() {
  auto& constants = m_.sketch.constants;
  if (constants.empty()) return false;
  const size_t i = random_.Below(static_cast<uint32_t>(constants.size()));
  const auto [name, tensor] = constants[i];
  m_.given[name] = tensor;
  m_.sketch.inputs.push_back({name, tensor.type(), tensor.type()});
  constants.erase(constants.begin() + static_cast<std::ptrdiff_t>(i));
  return true;
}

bool Variation::Scale() {
  if (m_.sketch.constants.empty()) return false;
  Tensor& t = One(m_.sketch.constants).tensor;
  if (IsInteger(t.dtype()) && Coin()) return false;
  t = RandomTensor(t.dtype(), t.dims(), random_);
  return true;
}

bool Variation::Append(Sketch other) {
  Sketch& s = m_.sketch;
  std::map<std::string, std::string> names;
  std::vector<std::string> values = s.Results();
  for (const Sketch::Input& i : s.inputs) values.push_back(i.name);
  if (values.empty() || other.inputs.empty()) return false;
  for (const Sketch::Input& i : other.inputs) names[i.name] = s.Fresh();
  for (const auto& c : other.constants) names[c.name] = s.Fresh();
  for (const std::string& r : other.Results()) names[r] = s.Fresh();
  const auto renamed = [&](const std::string& n) { return n.empty() ? n : names.at(n); };
  const auto joint = random_.Below(static_cast<uint32_t>(other.inputs.size()));
  names[other.inputs[joint].name] = One(values);
  for (size_t i = 0; i < other.inputs.size(); ++i)
    if (i != joint)
      s.inputs.push_back(
          {renamed(other.inputs[i].name), other.inputs[i].type, other.inputs[i].value});
  for (const auto& c : other.constants) s.constants.push_back({renamed(c.name), c.tensor});
  for (Sketch::Op op : other.nodes) {
    for (std::string& n : op.inputs) n = renamed(n);
    for (std::string& n : op.outputs) n = renamed(n);
    s.nodes.push_back(std::move(op));
  }
  for (const std::string& n : other.outputs) s.outputs.push_back(renamed(n));
  return true;
}

bool Variation::Any() {
  switch (random_.Below(12)) {
    case 0:
    case 1: return AnyAttribute();
    case 2: return AnyElementType();
    case 3:
    case 4: return Extent();
    case 5: return Rank();
    case 6: return OptionalOperand();
    case 7: return OptionalResult();
    case 8: return ConstantToInput();
    case 9: return Scale();
    default:
      return Bend(m_.sketch, static_cast<int>(random_.Below(static_cast<uint32_t>(NumBends()))),
                  random_.NextU64(), ops_);
  }
}

}  // namespace infer
