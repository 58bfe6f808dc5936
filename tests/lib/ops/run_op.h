#pragma once
/// Runs or infers one operator without a graph: schema, inference (static, symbolic, without rank),
/// reference kernel, and the law that inference says what evaluation gives.
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/lib/ops/graph_values.h"

namespace infer {

/// Everything that follows from one application. An undefined tensor is an omitted input.
struct OpResult {
  Status status;
  std::vector<Tensor> outputs;
  Cost cost;
  const Tensor& y() const { return outputs.at(0); }
};

/// What inference says of the elements is so.
inline void ExpectElements(const OpDef& def, const std::optional<std::vector<Dim>>& inferred,
                           const Tensor& t) {
  if (!inferred || !IsInteger(t.dtype())) return;
  ASSERT_EQ(static_cast<int64_t>(inferred->size()), t.num_elements()) << def.name;
  for (int64_t i = 0; i < t.num_elements(); ++i) {
    const Dim& d = (*inferred)[static_cast<size_t>(i)];
    EXPECT_TRUE(!d.is_static() || d.value() == t.IntAt(i))
        << def.name << ": element " << i << " is " << t.IntAt(i) << ", inferred " << d.ToString();
  }
}

inline OpResult RunOp(const OpDef& def, const AttrMap& attrs, const std::vector<Tensor>& inputs,
                      size_t num_outputs = 1) {
  std::vector<ValueType> types, loose;
  std::vector<Datum> data(inputs.begin(), inputs.end());
  for (const Tensor& t : inputs) {
    types.push_back(t.type());
    std::vector<Dim> dims(t.dims().begin(), t.dims().end());
    if (!dims.empty()) dims[0] = Dim::Symbol("d" + std::to_string(t.dim(0)));
    loose.push_back(TensorType{t.dtype(), Shape(std::move(dims))});
  }
  OpCall call(def, attrs, inputs.size(), num_outputs), symbolic(call), unranked(call);
  const ValueType nothing;
  std::vector<ValueType> ranks_unknown;
  for (const Tensor& t : inputs) ranks_unknown.push_back(TensorType{t.dtype(), Shape()});
  std::vector<const Datum*> pointers;
  for (size_t i = 0; i < inputs.size(); ++i) {
    pointers.push_back(inputs[i].defined() ? &data[i] : nullptr);
    if (!inputs[i].defined()) continue;
    call.BindInput(i, &types[i], &inputs[i]);
    symbolic.BindInput(i, &loose[i]);
    unranked.BindInput(i, &ranks_unknown[i]);
  }
  OpResult r;
  if (r.status = CheckSchema(call); !r.status.ok()) return r;
  if (r.status = def.infer(call); !r.status.ok()) return r;
  const Status s = def.infer(symbolic), u = def.infer(unranked);
  EXPECT_TRUE(s.ok()) << s.message();
  EXPECT_TRUE(u.ok()) << u.message();
  OpRun run(call, pointers, num_outputs);
  if (r.status = def.reference(run); !r.status.ok()) return r;
  for (size_t i = 0; i < num_outputs; ++i) {
    const Tensor& t = run.outputs()[i].tensor();
    r.outputs.push_back(t);
    EXPECT_TRUE(ValueType(t.type()).Refines(call.out_type(i)))
        << def.name << ": inferred " << ToString(call.out_type(i)) << ", got "
        << ToString(t.type());
    ExpectElements(def, call.out_elements(i), t);
    for (const OpCall* c : {&symbolic, &unranked}) {
      auto met = Meet(ValueType(t.type()), c->out_type(i));
      EXPECT_TRUE(met.ok()) << def.name << ": inferred " << ToString(c->out_type(i)) << ", got "
                            << ToString(t.type());
    }
  }
  r.cost = CostOf(call);
  return r;
}

inline OpResult RunOp(std::string_view name, const AttrMap& attrs,
                      const std::vector<Tensor>& inputs, size_t num_outputs = 1,
                      std::string_view domain = "") {
  const OpDef* def = TestOps().Find(domain, name);
  if (!def) return {Internal("no operator " + std::string(name)), {}, {}};
  return RunOp(*def, attrs, inputs, num_outputs);
}

/// Output 0 of "Name" or "domain::Name"; an undefined tensor and a test failure when there is none.
inline Tensor Call(std::string_view op, const std::vector<Tensor>& inputs,
                   const AttrMap& attrs = {}) {
  const size_t colon = op.find("::");
  const OpResult r = colon == op.npos
                         ? RunOp(op, attrs, inputs)
                         : RunOp(op.substr(colon + 2), attrs, inputs, 1, op.substr(0, colon));
  EXPECT_TRUE(r.status.ok()) << op << ": " << r.status.message();
  return r.status.ok() ? r.y() : Tensor();
}

/// Output types of an operator on types.
struct Inferred {
  Status status;
  std::vector<ValueType> types;
  std::optional<std::vector<Dim>> elements;  ///< of output 0
};
/// `elements[i]` are known elements of input i, `constants[i]` (where defined) its value.
inline Inferred InferOp(std::string_view op, const std::vector<ValueType>& types,
                        const AttrMap& attrs = {}, size_t num_outputs = 1,
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

/// f32 and i64 tensors; without extents of one axis.
inline Tensor F(Dims dims, std::initializer_list<float> values) {
  return Tensor::Of<float>(std::move(dims), values);
}
inline Tensor F(std::initializer_list<float> values) {
  return F({static_cast<int64_t>(values.size())}, values);
}
inline Tensor I(std::initializer_list<int64_t> values) {
  return Tensor::Of<int64_t>({static_cast<int64_t>(values.size())}, values);
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

/// max|a - b| / max(max|b|, tiny); infinity when types or extents differ.
inline double RelativeError(const Tensor& a, const Tensor& b) {
  if (a.dims() != b.dims() || a.dtype() != b.dtype()) return INFINITY;
  double worst = 0, scale = 1e-30;
  for (int64_t i = 0; i < a.num_elements(); ++i) {
    const double x = a.At(i), y = b.At(i);
    if (std::isnan(x) != std::isnan(y)) return INFINITY;
    if (std::isfinite(y)) scale = std::max(scale, std::abs(y));
    if (std::isnan(x) || x == y) continue;
    worst = std::max(worst, std::abs(x - y));
  }
  return worst / scale;
}

}  // namespace infer
