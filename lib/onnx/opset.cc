#include "lib/onnx/opset.h"

#include <algorithm>

#include "lib/ops/notes.h"
#include "lib/support/strings.h"

namespace infer::onnx_io {
namespace {

bool IsDefault(const AttrDef& def, const AttrValue& value) {
  return AttrMap{{"", def.default_value}} == AttrMap{{"", value}};
}

/// The opset from which on `names` may stand as `params`.
int64_t SinceOf(std::span<const ParamDef> params, std::span<const std::string> names) {
  int64_t opset = 1;
  for (size_t i = 0; i < std::min(params.size(), names.size()); ++i)
    if (!names[i].empty()) opset = std::max<int64_t>(opset, params[i].since);
  return opset;
}

struct TypeSince {
  TypeSet types;
  int64_t opset;
};
constexpr TypeSince kTypesSince[] = {
    {TypeSet(DType::kBF16), 13},
    {kFloat8, 19},
    {kInt4, 21},
    {TypeSet(DType::kF4E2M1), 23},
    {TypeSet(DType::kF8E8M0), 24},
    {TypeSet(DType::kU2, DType::kI2), 25},
};

struct IrSince {
  int64_t opset, ir_version;
};
constexpr IrSince kIrSince[] = {{1, 3},  {9, 4},   {10, 5},  {11, 6},  {12, 7}, {15, 8},
                                {19, 9}, {21, 10}, {23, 11}, {24, 12}, {25, 13}};

}  // namespace

int64_t OpsetOf(const OpDef& def, const NodeSpec& node) {
  int64_t opset = std::max(SinceOf(def.inputs, node.inputs), SinceOf(def.outputs, node.outputs));
  opset = std::max<int64_t>(opset, def.since);
  for (const auto& [name, value] : node.attrs)
    if (const AttrDef* a = def.FindAttr(name); a && !IsDefault(*a, value))
      opset = std::max<int64_t>(opset, a->since);
  return opset;
}

int64_t OpsetOf(const ValueType& type) {
  if (!type.is_tensor()) return OpsetOf(type.element());
  int64_t opset = 1;
  for (const TypeSince& t : kTypesSince)
    if (t.types.Has(type.tensor().dtype)) opset = t.opset;
  return opset;
}

AttrMap AttrsAt(const OpDef& def, const AttrMap& attrs, int64_t opset) {
  AttrMap out = attrs;
  std::erase_if(out, [&](const auto& entry) {
    const AttrDef* a = def.FindAttr(entry.first);
    return a && (IsNote(entry.first) || (a->since > opset && IsDefault(*a, entry.second)));
  });
  return out;
}

int64_t IrVersionOf(int64_t opset) {
  int64_t version = 3;
  for (const IrSince& x : kIrSince)
    if (x.opset <= opset) version = x.ir_version;
  return version;
}

Status CheckOperands(const NodeSpec& spec, const OpDef& def, int opset) {
  for (size_t i = 0; i < def.inputs.size(); ++i) {
    const ParamDef& p = def.inputs[i];
    const bool stands = i < spec.inputs.size() && !spec.inputs[i].empty();
    if (stands && p.since > opset)
      return InvalidModel(Cat(spec.op, " of opset ", opset, " has no input ", i, " ('", p.name,
                              "'); it exists since opset ", p.since));
    if (!stands && p.since <= opset && p.arity == Arity::kOne)
      return InvalidModel(Cat(spec.op, ": input ", i, " ('", p.name, "') is missing"));
  }
  if (spec.outputs.size() < def.min_outputs())
    return InvalidModel(
        Cat(spec.op, ": has ", spec.outputs.size(), " outputs, needs ", def.min_outputs()));
  for (const auto& [name, value] : spec.attrs)
    if (const AttrDef* a = def.FindAttr(name); a && a->since > opset && !IsDefault(*a, value))
      return InvalidModel(Cat(spec.op, " of opset ", opset, " has no attribute '", name,
                              "'; it exists since opset ", a->since));
  return {};
}

bool BroadcastsToFirst(const OpDef& def, int opset) {
  if (!def.domain.empty() || !def.traits.Has(Trait::kElementwise)) return false;
  // PRelu's slope always broadcast to its first operand; Where and others came later.
  if (def.traits.Has(Trait::kHomogeneous)) return false;
  return opset < (def.inputs[0].arity == Arity::kVariadic ? 8 : 7);
}

}  // namespace infer::onnx_io
