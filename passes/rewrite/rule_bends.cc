#include <algorithm>
#include <array>

#include "lib/support/random.h"
#include "lib/support/strings.h"
#include "passes/rewrite/rule_fuzz.h"

namespace infer {
namespace {

struct Bender {
  Sketch& s;
  Random random;
  const OpRegistry& ops;

  template <typename T>
  T& Any(std::vector<T>& list) {
    return list[random.Below(static_cast<uint32_t>(list.size()))];
  }
  bool Coin(uint32_t one_in = 2) { return random.Below(one_in) == 0; }

  /// One that keeps small numbers small, and makes no NaN.
  const OpDef* Unary() {
    std::vector<const OpDef*> fit = {ops.Find("Identity"), ops.Find("Tanh"), ops.Find("Sigmoid")};
    for (const OpDef* def : ops.all())
      if (def->domain.empty() && def->traits.Has(Trait::kUnary) &&
          def->traits.Has(Trait::kHomogeneous))
        fit.push_back(def);
    return fit[random.Below(static_cast<uint32_t>(fit.size()))];
  }
  /// Inserts `to` = unary(`from`) before node `at`.
  void Insert(const std::string& from, const std::string& to, size_t at) {
    s.nodes.insert(s.nodes.begin() + static_cast<std::ptrdiff_t>(at), {Unary(), {from}, {to}});
  }
  static bool IsFloatTensor(const ValueType& t) {
    return t.is_tensor() && IsFloat(t.tensor().dtype);
  }

  bool Before() {
    if (s.inputs.empty()) return false;
    const Sketch::Input& in = Any(s.inputs);
    const std::string made = s.Fresh();
    s.Replace(in.name, made);
    if (IsFloatTensor(in.type) && Coin(3)) {
      const std::string other = s.Fresh(), x = in.name;
      s.inputs.push_back({other, in.type, in.value});
      s.nodes.insert(s.nodes.begin(), {ops.Find("Add"), {x, other}, {made}});
    } else {
      Insert(in.name, made, 0);
    }
    return true;
  }
  bool Behind() {
    std::string& out = Any(s.outputs);
    const std::string made = s.Fresh();
    Insert(out, made, s.nodes.size());
    if (Coin())
      s.outputs.push_back(made);
    else
      out = made;
    return true;
  }
  bool Inside() {
    if (s.nodes.empty()) return false;
    const size_t at = random.Below(static_cast<uint32_t>(s.nodes.size()));
    auto& operands = s.nodes[at].inputs;
    if (operands.empty()) return false;
    std::string& operand = Any(operands);
    if (operand.empty()) return false;
    const std::string from = operand, made = s.Fresh();
    operand = made;
    Insert(from, made, at);
    return true;
  }
  bool Reader() {
    std::vector<std::string> names = s.Results();
    for (const auto& c : s.constants) names.push_back(c.name);
    if (names.empty()) return false;
    const std::string made = s.Fresh();
    Insert(Any(names), made, s.nodes.size());
    s.outputs.push_back(made);
    return true;
  }
  bool Output() {
    std::vector<std::string> names = s.Results();
    std::erase_if(names, [&](const std::string& name) {
      return std::count(s.outputs.begin(), s.outputs.end(), name) > 0;
    });
    if (names.empty()) return false;
    s.outputs.insert(s.outputs.begin() + random.Below(static_cast<uint32_t>(s.outputs.size() + 1)),
                     Any(names));
    return true;
  }
  /// The nodes once more: over the same operands, or behind the first.
  bool Twice() {
    if (s.nodes.size() > 60) return false;
    const size_t count = s.nodes.size();
    const bool behind = Coin() && !s.inputs.empty();
    const std::string in = s.inputs.empty() ? "" : Any(s.inputs).name, out = Any(s.outputs);
    const bool own_constants = Coin();
    std::vector<std::pair<std::string, std::string>> renamed;
    if (behind) renamed.emplace_back(in, out);
    if (own_constants)
      for (size_t i = 0, n = s.constants.size(); i < n; ++i) {
        renamed.emplace_back(s.constants[i].name, s.Fresh());
        s.constants.push_back({renamed.back().second, s.constants[i].tensor});
      }
    const std::vector<std::string> outputs = s.outputs;
    for (size_t i = 0; i < count; ++i) {
      Sketch::Op op = s.nodes[i];
      for (std::string& name : op.inputs)
        for (const auto& [from, to] : renamed)
          if (name == from) {
            name = to;
            break;
          }
      for (std::string& name : op.outputs)
        if (!name.empty()) {
          renamed.emplace_back(name, s.Fresh());
          name = renamed.back().second;
        }
      s.nodes.push_back(std::move(op));
    }
    for (const std::string& name : outputs)
      for (const auto& [from, to] : renamed)
        if (from == name && !s.IsConstant(to) && to != out) s.outputs.push_back(to);
    return true;
  }
  bool OneConstant() {
    bool changed = false;
    for (size_t i = 0; i < s.constants.size(); ++i)
      for (size_t k = s.constants.size(); k-- > i + 1;)
        if (s.constants[i].tensor.dims() == s.constants[k].tensor.dims() &&
            s.constants[i].tensor.dtype() == s.constants[k].tensor.dtype() &&
            BitEqual(s.constants[i].tensor, s.constants[k].tensor)) {
          s.Replace(s.constants[k].name, s.constants[i].name);
          changed = true;
        }
    return changed;
  }
  bool OwnConstants() {
    bool changed = false;
    for (Sketch::Op& op : s.nodes)
      for (std::string& name : op.inputs)
        for (size_t i = 0, n = s.constants.size(); i < n; ++i)
          if (s.constants[i].name == name) {
            const std::string copy = s.Fresh();
            s.constants.push_back({copy, s.constants[i].tensor});
            name = copy;
            changed = true;
            break;
          }
    return changed;
  }
  bool ConstantShape() {
    if (s.constants.empty()) return false;
    Tensor& t = Any(s.constants).tensor;
    Dims dims = t.dims();
    if (t.num_elements() == 1 && Coin()) {
      dims.assign(random.Below(5), 1);
      if (!dims.empty() && Coin(3))
        dims[random.Below(static_cast<uint32_t>(dims.size()))] = 2 + random.Below(3);
    } else {
      dims.insert(dims.begin(), Coin(3) ? 2 : 1);
    }
    if (NumElements(dims) % std::max<int64_t>(t.num_elements(), 1) != 0 ||
        BitWidth(t.dtype()) < 8 || t.dtype() == DType::kC64 || t.dtype() == DType::kC128)
      return false;
    Tensor out(t.dtype(), dims);
    for (int64_t i = 0; i < out.num_elements(); ++i) out.Set(i, t.At(i % t.num_elements()));
    t = out;
    return true;
  }
  bool ConstantValue() {
    if (s.constants.empty()) return false;
    Tensor& t = Any(s.constants).tensor;
    if (t.num_elements() == 0 || BitWidth(t.dtype()) < 8 || t.dtype() == DType::kC64 ||
        t.dtype() == DType::kC128)
      return false;
    Tensor out(t.dtype(), t.dims());
    for (int64_t i = 0; i < t.num_elements(); ++i) out.Set(i, t.At(i));
    const auto at = static_cast<int64_t>(random.Below(static_cast<uint32_t>(t.num_elements())));
    const double v = t.At(at), step = Coin() ? 1 : -1;
    const double wanted = IsFloat(t.dtype())          ? (Coin()   ? v * 1.25
                                                         : Coin() ? -v
                                                                  : v + step)
                          : t.dtype() == DType::kBool ? 1 - v
                                                      : v + step;
    if (!IsFloat(t.dtype()) && t.dtype() != DType::kBool &&
        (wanted < static_cast<double>(IntegerMin(t.dtype())) ||
         wanted > static_cast<double>(IntegerMax(t.dtype()))))
      return false;
    out.Set(at, wanted);
    t = out;
    return true;
  }
  bool Attribute() {
    if (s.nodes.empty()) return false;
    Sketch::Op& op = Any(s.nodes);
    std::vector<const AttrDef*> defs;
    for (const AttrDef& d : op.def->attrs)
      if (d.kind == AttrKind::kInt || d.kind == AttrKind::kFloat || d.kind == AttrKind::kInts)
        defs.push_back(&d);
    if (defs.empty()) return false;
    const AttrDef& def = *Any(defs);
    const auto it = op.attrs.find(def.name);
    AttrValue v = it != op.attrs.end() ? it->second : def.default_value;
    if (auto* i = std::get_if<int64_t>(&v)) {
      *i += Coin() ? 1 : -1;
    } else if (auto* f = std::get_if<float>(&v)) {
      *f = Coin() ? *f * 1.5f : *f + 0.5f;
    } else if (auto* list = std::get_if<std::vector<int64_t>>(&v); list && !list->empty()) {
      if (Coin() && list->size() > 1)
        std::swap(Any(*list), list->front());
      else
        Any(*list) += Coin() ? 1 : -1;
    } else {
      return false;
    }
    op.attrs[std::string(def.name)] = v;
    return true;
  }
  bool Swap() {
    if (s.nodes.empty()) return false;
    Sketch::Op& op = Any(s.nodes);
    if (op.inputs.size() < 2) return false;
    std::swap(op.inputs[0], op.inputs[1]);
    return true;
  }
  bool Rewire() {
    if (s.nodes.empty()) return false;
    const size_t at = random.Below(static_cast<uint32_t>(s.nodes.size()));
    std::vector<std::string> names;
    for (const auto& i : s.inputs) names.push_back(i.name);
    for (size_t i = 0; i < at; ++i)
      for (const std::string& name : s.nodes[i].outputs)
        if (!name.empty()) names.push_back(name);
    if (names.empty() || s.nodes[at].inputs.empty()) return false;
    Any(s.nodes[at].inputs) = Any(names);
    return true;
  }
  bool Type() {
    static constexpr std::array kTypes = {DType::kF16, DType::kF64, DType::kF64, DType::kBF16};
    const DType to = kTypes[random.Below(kTypes.size())];
    const auto change = [&](ValueType& t) {
      if (t.is_tensor() && t.tensor().dtype == DType::kF32)
        t = ValueType(TensorType{to, t.tensor().shape});
    };
    for (Sketch::Input& i : s.inputs) {
      change(i.type);
      change(i.value);
    }
    for (auto& c : s.constants) {
      if (c.tensor.dtype() != DType::kF32) continue;
      Tensor out(to, c.tensor.dims());
      for (int64_t i = 0; i < out.num_elements(); ++i) out.Set(i, c.tensor.At(i));
      c.tensor = out;
    }
    return true;
  }
  bool Broadcast() {
    if (s.inputs.empty()) return false;
    Sketch::Input& in = Any(s.inputs);
    if (!in.value.is_tensor() || !in.value.tensor().shape.has_rank()) return false;
    std::vector<Dim> dims = in.value.tensor().shape.dims();
    switch (random.Below(4)) {
      case 0: dims.insert(dims.begin(), Dim(Coin() ? 1 : 2)); break;
      case 1:
        if (dims.empty()) return false;
        dims.erase(dims.begin());
        break;
      default:
        if (dims.empty()) return false;
        Any(dims) = Coin() ? Dim(1) : Dim(4);
    }
    in.type = in.value = ValueType(TensorType{in.value.tensor().dtype, Shape(dims)});
    return true;
  }
  /// One extent of the first dimension, in all inputs, becomes a symbol.
  bool Symbolic() {
    Dim extent;
    bool changed = false;
    for (Sketch::Input& in : s.inputs) {
      if (!in.value.is_tensor() || !in.value.tensor().shape.has_rank()) continue;
      std::vector<Dim> dims = in.value.tensor().shape.dims();
      if (dims.empty() || !dims[0].is_static()) continue;
      if (extent.is_unknown()) extent = dims[0];
      if (!(dims[0] == extent)) continue;
      dims[0] = Dim::Symbol("B");
      in.type = in.value = ValueType(TensorType{in.value.tensor().dtype, Shape(dims)});
      changed = true;
    }
    return changed;
  }
  /// The graph knows less of its inputs than runs do.
  bool Forget() {
    if (s.inputs.empty()) return false;
    Sketch::Input& in = Any(s.inputs);
    if (!in.type.is_tensor()) return false;
    const TensorType& t = in.type.tensor();
    if (!t.shape.has_rank() || Coin(3)) {
      in.type = ValueType(TensorType{t.dtype, Shape()});
      return true;
    }
    std::vector<Dim> dims = t.shape.dims();
    if (dims.empty()) return false;
    Any(dims) = Dim();
    in.type = ValueType(TensorType{t.dtype, Shape(dims)});
    return true;
  }
  bool ConstantToInput() {
    if (s.constants.empty()) return false;
    const size_t i = random.Below(static_cast<uint32_t>(s.constants.size()));
    const ValueType type(s.constants[i].tensor.type());
    if (!IsFloatTensor(type)) return false;
    s.inputs.push_back({s.constants[i].name, type, type});
    s.constants.erase(s.constants.begin() + static_cast<std::ptrdiff_t>(i));
    return true;
  }
  bool InputToConstant() {
    if (s.inputs.empty()) return false;
    const size_t i = random.Below(static_cast<uint32_t>(s.inputs.size()));
    const ValueType& type = s.inputs[i].value;
    if (!IsFloatTensor(type) || !type.tensor().is_static()) return false;
    Tensor t(type.tensor().dtype, type.tensor().shape.static_dims());
    for (int64_t k = 0; k < t.num_elements(); ++k) t.Set(k, random.Normal());
    s.constants.push_back({s.inputs[i].name, t});
    s.inputs.erase(s.inputs.begin() + static_cast<std::ptrdiff_t>(i));
    return true;
  }
};

struct Kind {
  std::string_view name;
  bool (Bender::*bend)();
};
constexpr std::array kKinds = {
    Kind{"operator before", &Bender::Before},
    Kind{"operator behind", &Bender::Behind},
    Kind{"operator inside", &Bender::Inside},
    Kind{"further reader", &Bender::Reader},
    Kind{"further output", &Bender::Output},
    Kind{"twice", &Bender::Twice},
    Kind{"one constant for all", &Bender::OneConstant},
    Kind{"a constant for each", &Bender::OwnConstants},
    Kind{"shape of a constant", &Bender::ConstantShape},
    Kind{"value of a constant", &Bender::ConstantValue},
    Kind{"attribute", &Bender::Attribute},
    Kind{"operands swapped", &Bender::Swap},
    Kind{"another operand", &Bender::Rewire},
    Kind{"element type", &Bender::Type},
    Kind{"broadcast", &Bender::Broadcast},
    Kind{"symbolic batch", &Bender::Symbolic},
    Kind{"less known shape", &Bender::Forget},
    Kind{"constant becomes input", &Bender::ConstantToInput},
    Kind{"input becomes constant", &Bender::InputToConstant},
};

}  // namespace

int NumBends() { return static_cast<int>(kKinds.size()); }
std::string_view BendName(int kind) { return kKinds[static_cast<size_t>(kind)].name; }

bool Bend(Sketch& s, int kind, uint64_t seed, const OpRegistry& ops) {
  if (s.outputs.empty()) return false;
  Bender b{s, Random(seed), ops};
  return (b.*kKinds[static_cast<size_t>(kind)].bend)();
}

}  // namespace infer
