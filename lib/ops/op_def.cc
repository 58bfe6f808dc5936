#include "lib/ops/op_def.h"

#include <algorithm>
#include <bit>

#include "lib/support/hash.h"
#include "lib/support/strings.h"

namespace infer {
namespace {

bool Equal(const AttrValue& a, const AttrValue& b) {
  if (a.index() != b.index()) return false;
  return std::visit(
      [&]<typename T>(const T& x) {
        const T& y = std::get<T>(b);
        if constexpr (std::is_same_v<T, Tensor>)
          return BitEqual(x, y);
        else if constexpr (std::is_same_v<T, float>)
          return std::bit_cast<uint32_t>(x) == std::bit_cast<uint32_t>(y);
        else
          return x == y;
      },
      a);
}

void HashValue(Hasher& h, const AttrValue& v) {
  h.Add(v.index());
  std::visit(
      [&]<typename T>(const T& x) {
        if constexpr (std::is_same_v<T, int64_t>) {
          h.Add(static_cast<uint64_t>(x));
        } else if constexpr (std::is_same_v<T, float>) {
          h.Add(std::bit_cast<uint32_t>(x));
        } else if constexpr (std::is_same_v<T, std::string>) {
          h.Add(std::string_view(x));
        } else if constexpr (std::is_same_v<T, Tensor>) {
          h.Add(HashOf(x));
        } else if constexpr (std::is_same_v<T, ValueType>) {
          h.Add(std::string_view(ToString(x)));
        } else if constexpr (!std::is_same_v<T, std::monostate>) {
          h.Add(x.size());
          for (const auto& e : x) HashValue(h, AttrValue(e));
        }
      },
      v);
}

/// AttrKind of a stored value; the variant order is not the enum's.
bool HasKind(const AttrValue& v, AttrKind kind) {
  switch (kind) {
    case AttrKind::kInt: return std::holds_alternative<int64_t>(v);
    case AttrKind::kFloat: return std::holds_alternative<float>(v);
    case AttrKind::kString: return std::holds_alternative<std::string>(v);
    case AttrKind::kTensor: return std::holds_alternative<Tensor>(v);
    case AttrKind::kInts: return std::holds_alternative<std::vector<int64_t>>(v);
    case AttrKind::kFloats: return std::holds_alternative<std::vector<float>>(v);
    case AttrKind::kStrings: return std::holds_alternative<std::vector<std::string>>(v);
    case AttrKind::kType: return std::holds_alternative<ValueType>(v);
    case AttrKind::kGraph: return false;  // subgraphs are not in the map
  }
  return false;
}

size_t CountRequired(const std::vector<ParamDef>& params) {
  size_t n = 0;
  for (size_t i = 0; i < params.size(); ++i)
    if (params[i].arity == Arity::kOne) n = i + 1;
  return n;
}

size_t CountMost(const std::vector<ParamDef>& params) {
  return !params.empty() && params.back().arity == Arity::kVariadic ? SIZE_MAX : params.size();
}

/// The element types that `type` ("T", "i64") allows; all when it is not a plain tensor type.
TypeSet AllowedTypes(const OpDef& def, std::string_view type) {
  for (const TypeConstraint& c : def.constraints)
    if (c.var == type) return c.types;
  if (auto t = ParseDType(type)) return TypeSet(*t);
  return kAllTypes;
}

bool AllowsKind(const OpDef& def, std::string_view type, ValueType::Kind kind) {
  if (type.starts_with("seq(")) return kind == ValueType::Kind::kSequence;
  for (const TypeConstraint& c : def.constraints)
    if (c.var == type && c.any_kind) return true;
  return kind == ValueType::Kind::kTensor;
}

}  // namespace

AttrValue::AttrValue() = default;
AttrValue::AttrValue(const AttrValue&) = default;
AttrValue::AttrValue(AttrValue&&) noexcept = default;
AttrValue& AttrValue::operator=(const AttrValue&) = default;
AttrValue& AttrValue::operator=(AttrValue&&) noexcept = default;
AttrValue::~AttrValue() = default;

AttrMap::AttrMap() = default;
AttrMap::AttrMap(const AttrMap&) = default;
AttrMap::AttrMap(AttrMap&&) noexcept = default;
AttrMap& AttrMap::operator=(const AttrMap&) = default;
AttrMap& AttrMap::operator=(AttrMap&&) noexcept = default;
AttrMap::~AttrMap() = default;
AttrMap::AttrMap(std::initializer_list<value_type> values) : map(values) {}

bool operator==(const AttrMap& a, const AttrMap& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) {
    return x.first == y.first && Equal(x.second, y.second);
  });
}

uint64_t HashOf(const AttrMap& attrs) {
  Hasher h;
  for (const auto& [name, value] : attrs) {
    h.Add(std::string_view(name));
    HashValue(h, value);
  }
  return h.value();
}

std::vector<Dim> ElementsOf(const Tensor& t) {
  std::vector<Dim> out;
  for (int64_t i = 0; i < t.num_elements(); ++i) {
    const int64_t v = t.IntAt(i);
    out.push_back(t.dtype() == DType::kU64 && v < 0 ? Dim() : Dim(v));
  }
  return out;
}

Result<std::shared_ptr<const void>> OpCall::PreparedOnce() const {
  if (prepared_)
    if (auto made = prepared_->load()) return made;
  INFER_CHECK(def_->prepare);
  INFER_ASSIGN(std::shared_ptr<const void> made, def_->prepare(*this));
  if (prepared_) prepared_->store(made);
  return made;
}

std::optional<std::vector<Dim>> OpCall::elements(size_t i) const {
  if (i >= in_.size()) return std::nullopt;
  if (const Tensor* t = in_[i].constant;
      t && t->rank() <= 1 && IsInteger(t->dtype()) && t->num_elements() <= 1024)
    return ElementsOf(*t);
  if (in_[i].elements) return *in_[i].elements;
  return std::nullopt;
}

Tensor& OpRun::Out(size_t i, DType dtype, Dims dims) {
  if (i >= outputs_.size()) return spare_ = Tensor(dtype, std::move(dims));
  outputs_[i] = Datum(Tensor(dtype, std::move(dims)));
  return outputs_[i].tensor();
}

const AttrDef* OpDef::FindAttr(std::string_view attr) const {
  for (const AttrDef& a : attrs)
    if (a.name == attr) return &a;
  return nullptr;
}
size_t OpDef::min_inputs() const { return CountRequired(inputs); }
size_t OpDef::max_inputs() const { return CountMost(inputs); }
size_t OpDef::min_outputs() const { return CountRequired(outputs); }
size_t OpDef::max_outputs() const { return CountMost(outputs); }

Cost TrafficOf(const OpCall& call) {
  auto bytes = [](const ValueType& t) -> int64_t {
    if (!t.is_tensor() || !t.tensor().is_static() || t.tensor().dtype == DType::kString) return 0;
    const auto n = CheckedNumElements(t.tensor().shape.static_dims());
    return n ? PackedBytes(t.tensor().dtype, *n) : 0;
  };
  Cost c;
  for (size_t i = 0; i < call.num_inputs(); ++i)
    if (call.has_input(i)) c.bytes_read += bytes(call.type(i));
  for (size_t i = 0; i < call.num_outputs(); ++i) c.bytes_written += bytes(call.out_type(i));
  return c;
}

Cost CostOf(const OpCall& call) {
  return call.def().cost ? call.def().cost(call) : TrafficOf(call);
}

Status CheckSchema(const OpCall& call) {
  const OpDef& def = call.def();
  if (call.num_inputs() < def.min_inputs() || call.num_inputs() > def.max_inputs())
    return InvalidModel(Cat(def.name, ": has ", call.num_inputs(), " inputs, takes ",
                            def.min_inputs(), " to ",
                            def.max_inputs() == SIZE_MAX ? "any number" : Cat(def.max_inputs())));
  if (call.num_inputs() == 0 && def.inputs.size() == 1 && def.inputs[0].arity == Arity::kVariadic)
    return InvalidModel(Cat(def.name, ": has no inputs, takes 1 or more"));
  if (call.num_outputs() < def.min_outputs() || call.num_outputs() > def.max_outputs())
    return InvalidModel(Cat(def.name, ": has ", call.num_outputs(), " outputs, gives ",
                            def.min_outputs(), " to ",
                            def.max_outputs() == SIZE_MAX ? "any number" : Cat(def.max_outputs())));
  for (const auto& [name, value] : call.attrs()) {
    const AttrDef* a = def.FindAttr(name);
    if (!a) return InvalidModel(Cat(def.name, ": no attribute '", name, "'"));
    if (!HasKind(value, a->kind))
      return InvalidModel(Cat(def.name, ": attribute '", name, "' has the wrong kind"));
  }
  for (const AttrDef& a : def.attrs)
    if (a.required && a.kind != AttrKind::kGraph && !call.HasAttr(a.name))
      return InvalidModel(Cat(def.name, ": attribute '", a.name, "' is missing"));
  std::map<std::string_view, DType> bound;
  for (size_t i = 0; i < call.num_inputs() && !def.inputs.empty(); ++i) {
    const ParamDef& p = def.inputs[std::min(i, def.inputs.size() - 1)];
    if (!call.has_input(i)) {
      if (p.arity != Arity::kOptional)
        return InvalidModel(Cat(def.name, ": input '", p.name, "' is missing"));
      continue;
    }
    if (!AllowsKind(def, p.type, call.type(i).kind()))
      return InvalidModel(
          Cat(def.name, ": input '", p.name, "' cannot be ", ToString(call.type(i))));
    if (!call.type(i).is_tensor() || call.dtype(i) == DType::kUndefined) continue;
    const DType t = call.dtype(i);
    if (!AllowedTypes(def, p.type).Has(t))
      return Unsupported(Cat(def.name, ": input '", p.name, "' cannot be ", Name(t)));
    const bool is_var =
        !p.heterogeneous && std::any_of(def.constraints.begin(), def.constraints.end(),
                                        [&](const TypeConstraint& c) { return c.var == p.type; });
    if (is_var) {
      auto [it, fresh] = bound.emplace(p.type, t);
      if (!fresh && it->second != t)
        return InvalidModel(Cat(def.name, ": input '", p.name, "' is ", Name(t), ", but ", p.type,
                                " is ", Name(it->second)));
    }
  }
  return {};
}

OpRegistry::OpRegistry(std::span<const std::span<const OpDef>> families) {
  for (auto family : families)
    for (const OpDef& d : family) {
      INFER_CHECK(by_name_.emplace(std::pair(d.domain, d.name), &d).second);
      ordered_.push_back(&d);
    }
}

const OpDef* OpRegistry::Find(std::string_view domain, std::string_view name) const {
  if (domain == "ai.onnx") domain = "";
  auto it = by_name_.find({domain, name});
  return it == by_name_.end() ? nullptr : it->second;
}

}  // namespace infer
