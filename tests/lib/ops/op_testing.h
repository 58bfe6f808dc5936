#pragma once
/// Calls one operator without a graph: checks the schema, infers, runs the reference kernel, and
/// checks that what came out refines what inference said.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "lib/ops/registry.h"
#include "lib/support/strings.h"

namespace infer {

inline const OpRegistry& TestOps() {
  static const OpRegistry ops = AllOps();
  return ops;
}

/// Outputs of `op` on tensors (an undefined tensor is an omitted operand). `op` may be
/// "domain::Name".
inline Result<std::vector<Tensor>> CallOp(std::string_view op, const std::vector<Tensor>& inputs,
                                          AttrMap attrs = {}, size_t num_outputs = 1) {
  const size_t colon = op.find("::");
  const OpDef* def = colon == op.npos ? TestOps().Find(op)
                                      : TestOps().Find(op.substr(0, colon), op.substr(colon + 2));
  if (!def) return Internal(Cat("no operator ", op));
  std::vector<ValueType> types(inputs.size());
  std::vector<Datum> data(inputs.size());
  std::vector<const Datum*> operands(inputs.size(), nullptr);
  OpCall call(*def, attrs, inputs.size(), num_outputs);
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].defined()) continue;
    types[i] = inputs[i].type();
    data[i] = Datum(inputs[i]);
    operands[i] = &data[i];
    call.BindInput(i, &types[i], &inputs[i]);
  }
  INFER_TRY(CheckSchema(call));
  INFER_TRY(def->infer(call));
  OpRun run(call, operands, num_outputs);
  INFER_TRY(def->reference(run));
  std::vector<Tensor> out;
  for (size_t i = 0; i < num_outputs; ++i) {
    const Tensor& t = run.outputs()[i].tensor();
    if (t.defined() && !t.type().Refines(call.out(i)))
      return Internal(Cat(op, ": output ", i, " is ", ToString(t.type()), ", inferred ",
                          ToString(call.out(i))));
    if (const auto& e = call.out_elements(i); e && IsInteger(t.dtype()))
      for (size_t k = 0; k < e->size(); ++k)
        if ((*e)[k].is_static() && (*e)[k].value() != t.IntAt(static_cast<int64_t>(k)))
          return Internal(Cat(op, ": element ", k, " is ", t.IntAt(static_cast<int64_t>(k)),
                              ", inferred ", (*e)[k].ToString()));
    out.push_back(t);
  }
  return out;
}

/// Output 0, or an undefined tensor and a test failure.
inline Tensor CallOp1(std::string_view op, const std::vector<Tensor>& inputs, AttrMap attrs = {}) {
  auto out = CallOp(op, inputs, std::move(attrs));
  EXPECT_TRUE(out.ok()) << op << ": " << out.status().message();
  return out.ok() ? (*out)[0] : Tensor();
}

/// Expects |a - b| <= atol + rtol |b| with NaN equal to NaN, and equal extents.
inline void ExpectClose(const Tensor& a, const Tensor& b, double rtol = 1e-5, double atol = 1e-6) {
  ASSERT_EQ(Name(a.dtype()), Name(b.dtype()));
  ASSERT_EQ(ToString(a.dims()), ToString(b.dims()));
  for (int64_t i = 0; i < a.num_elements(); ++i) {
    const double x = a.At(i), y = b.At(i);
    if ((std::isnan(x) && std::isnan(y)) || x == y) continue;
    EXPECT_LE(std::abs(x - y), atol + rtol * std::abs(y))
        << "element " << i << ": " << x << " instead of " << y;
  }
}

/// A f32 tensor of shape [n].
inline Tensor F(std::initializer_list<float> values) {
  return Tensor::Of<float>({static_cast<int64_t>(values.size())}, values);
}
inline Tensor F(Dims dims, std::initializer_list<float> values) {
  return Tensor::Of<float>(std::move(dims), values);
}
inline Tensor I(std::initializer_list<int64_t> values) {
  return Tensor::Of<int64_t>({static_cast<int64_t>(values.size())}, values);
}

/// Output types of `op` on types; `elements[i]` are known elements of input i.
struct Inferred {
  Status status;
  std::vector<ValueType> types;
  std::optional<std::vector<Dim>> elements;  ///< of output 0
};
inline Inferred InferOp(std::string_view op, const std::vector<ValueType>& types,
                        AttrMap attrs = {}, size_t num_outputs = 1,
                        const std::vector<std::optional<std::vector<Dim>>>& elements = {},
                        const std::vector<Tensor>& constants = {}) {
  const OpDef* def = TestOps().Find(op);
  if (!def) return {Internal(Cat("no operator ", op)), {}, {}};
  OpCall call(*def, attrs, types.size(), num_outputs);
  for (size_t i = 0; i < types.size(); ++i)
    call.BindInput(i, &types[i],
                   i < constants.size() && constants[i].defined() ? &constants[i] : nullptr,
                   i < elements.size() && elements[i] ? &*elements[i] : nullptr);
  Inferred out;
  out.status = CheckSchema(call);
  if (out.status.ok()) out.status = def->infer(call);
  for (size_t i = 0; i < num_outputs; ++i) out.types.push_back(call.out_type(i));
  out.elements = call.out_elements(0);
  return out;
}

}  // namespace infer
