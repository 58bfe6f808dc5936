#pragma once
/// Runs one operator without a graph: schema, inference (static and symbolic), reference kernel,
/// and the law that inference says what evaluation gives.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/lib/ops/graph_values.h"

namespace infer {

inline Tensor RandomTensor(Random& random, DType t, Dims dims) {
  Tensor out(t, std::move(dims));
  for (int64_t i = 0; i < out.num_elements(); ++i) {
    if (IsFloat(t))
      out.Set(i, random.Normal());
    else
      out.SetInt(i, IntegerMin(t) + static_cast<int64_t>(random.NextU32() & 0xff));
  }
  return out;
}

/// Everything that follows from one application. An undefined tensor is an omitted input.
struct OpResult {
  Status status;
  std::vector<Tensor> outputs;
  Cost cost;
  const Tensor& y() const { return outputs.at(0); }
};

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
