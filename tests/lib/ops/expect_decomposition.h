#pragma once
/// An operator beside its decomposition, for the tests of decompositions.
#include <gtest/gtest.h>

#include "lib/ir/body.h"
#include "tests/lib/ops/graph_values.h"

namespace infer {

/// The extents of a value at the run: a symbol's is the number that its name ends with.
inline Dims RunDims(const Shape& shape) {
  Dims dims;
  for (const Dim& d : shape.dims()) {
    const std::string name = d.ToString();
    const auto digits = ParseInt(name.substr(name.find_first_of("0123456789")));
    INFER_CHECK(d.is_static() || digits);
    dims.push_back(d.is_static() ? d.value() : *digits);
  }
  return dims;
}

/// Labels and masks of integers are small.
inline Tensor RandomInput(Random& random, const Value& v) {
  Tensor t = RandomTensor(random, v.dtype(), RunDims(v.tensor_type().shape));
  if ((v.name() != "labels" && v.name() != "m") || !IsInteger(v.dtype())) return t;
  for (int64_t i = 0; i < t.num_elements(); ++i) t.SetInt(i, random.Below(3));
  return t;
}

/// Runs the one node of `text` with a decomposition as it is and as its decomposition. f16 is
/// rounded after every node, so it may differ by some units.
inline void ExpectSame(std::string_view text) {
  SCOPED_TRACE(text);
  auto parsed = ParseGraph(text, TestOps());
  ASSERT_TRUE(parsed.ok()) << parsed.status().message();
  const Graph& g = *parsed;
  const auto at = std::find_if(g.nodes().begin(), g.nodes().end(),
                               [](const auto& n) { return n->def().decompose != nullptr; });
  ASSERT_NE(at, g.nodes().end());
  const Node& node = **at;
  const auto body = DecompositionOf(CallOf(node), TestOps());
  ASSERT_TRUE(body.ok()) << body.status().message();

  Random random(7);
  std::vector<Datum> inputs;
  for (const Value* v : g.inputs()) inputs.emplace_back(RandomInput(random, *v));
  std::map<std::string, Datum> values;
  EvalOptions options;
  options.tap = [&](const Value& v, const Datum& d) { values[v.name()] = d; };
  const auto whole = Evaluate(g, inputs, options);
  ASSERT_TRUE(whole.ok()) << whole.status().message();
  for (size_t i = 0; i < g.inputs().size(); ++i) values[g.inputs()[i]->name()] = inputs[i];
  std::vector<Datum> operands;
  for (const Value* v : node.inputs())
    if (v) operands.push_back(v->constant() ? Datum(*v->constant()) : values.at(v->name()));
  const auto parts = Evaluate(*body, operands);
  ASSERT_TRUE(parts.ok()) << parts.status().message();

  const bool is_open = std::any_of(node.inputs().begin(), node.inputs().end(), [](const Value* v) {
    return v && !(v->type().is_tensor() && v->tensor_type().shape.is_static());
  });
  ASSERT_EQ(parts->size(), node.outputs().size());
  for (size_t i = 0; i < parts->size(); ++i) {
    if (!node.output(i)) continue;
    const Shape &of_body = body->outputs()[i]->tensor_type().shape,
                &of_node = node.output(i)->tensor_type().shape;
    if (is_open)
      EXPECT_TRUE(Meet(of_body, of_node).ok()) << of_body.ToString() << of_node.ToString();
    else
      EXPECT_EQ(ToString(body->outputs()[i]->type()), ToString(node.output(i)->type()));
    const Tensor &want = values.at(node.output(i)->name()).tensor(), &got = (*parts)[i].tensor();
    ASSERT_EQ(ToString(got.type()), ToString(want.type()));
    const double unit = want.dtype() == DType::kBF16  ? 3e-2
                        : want.dtype() == DType::kF16 ? 4e-3
                                                      : 2e-6;
    // A state is carried through differences of close values: of the largest, as OpDef::tolerance.
    double top = 1;
    for (int64_t k = 0; k < want.num_elements() && node.op() == "LinearAttention"; ++k)
      top = std::max(top, std::abs(want.At(k)));
    for (int64_t k = 0; k < want.num_elements(); ++k) {
      const double a = got.At(k), b = want.At(k);
      if (std::isfinite(a) && std::isfinite(b))
        EXPECT_NEAR(a, b, unit * std::max(top, std::abs(b))) << k;
      else
        EXPECT_TRUE(a == b || (std::isnan(a) && std::isnan(b))) << a << " " << b << " at " << k;
    }
  }
}

}  // namespace infer
