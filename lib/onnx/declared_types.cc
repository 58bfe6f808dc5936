#include "lib/onnx/declared_types.h"

#include "lib/ir/control_flow.h"
#include "lib/support/strings.h"

namespace infer::onnx_io {
namespace {

constexpr size_t kMaxWarnings = 100;

}  // namespace

Shape FillUnknown(const Shape& inferred, const Shape& declared) {
  if (!inferred.has_rank()) return declared;
  if (!declared.has_rank()) return inferred;
  std::vector<Dim> dims = inferred.dims();
  for (size_t i = 0; i < dims.size(); ++i)
    if (dims[i].is_unknown()) dims[i] = declared.dims()[i];
  Shape filled(std::move(dims));
  return filled.CanExist() ? filled : inferred;
}

Status AddDeclared(const ValueType& declared, Value* v, GraphEditor& editor,
                   std::vector<std::string>& warnings) {
  auto met = Meet(v->type(), declared);
  if (!met.ok()) {
    std::string what = Cat("value '", v->name(), "' is declared ", ToString(declared), ", but is ",
                           ToString(v->type()));
    if (!SameElements(v->type(), declared)) return InvalidModel(std::move(what));
    if (warnings.size() < kMaxWarnings) warnings.push_back(std::move(what));
    return {};
  }
  if (!v->type().is_tensor() || !met->is_tensor()) {
    editor.SetType(v, *std::move(met));
    return {};
  }
  TensorType merged = met->tensor();
  merged.shape = FillUnknown(v->shape(), merged.shape);
  editor.SetType(v, std::move(merged));
  return {};
}

}  // namespace infer::onnx_io
