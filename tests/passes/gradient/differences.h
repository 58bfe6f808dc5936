#pragma once
/// Gradients beside central differences, both in f64 on reference kernels.
#include <cmath>
#include <map>
#include <set>

#include "lib/ir/editor.h"
#include "passes/gradient/gradient.h"
#include "tests/lib/ops/graph_values.h"

namespace infer {

/// `text` with f64 instead of f32.
inline std::string InF64(std::string_view text) {
  std::string s(text);
  for (size_t at = s.find("f32"); at != std::string::npos; at = s.find("f32", at))
    s.replace(at, 3, "f64");
  return s;
}

/// A graph whose numbers can be moved: its floating-point inputs and constants, as inputs.
struct Movable {
  Graph graph;
  std::vector<Datum> inputs;        ///< in graph order
  std::vector<std::string> wanted;  ///< those of floating point
};

/// Constants that an operand in `fixed` reads stay constants: those without a gradient.
inline Movable MakeMovable(Graph g, const std::function<double()>& number,
                           const std::function<bool(const Node&, size_t)>& fixed) {
  GraphEditor editor(g);
  std::vector<Value*> constants;
  for (const auto& v : g.values())
    if (v->constant() && IsFloat(v->dtype()) && !v->uses().empty() &&
        std::none_of(v->uses().begin(), v->uses().end(),
                     [&](const Use& u) { return fixed(*u.user, u.operand); }))
      constants.push_back(v.get());
  std::map<std::string, Tensor> given;
  for (Value* c : constants) {
    Value* input = editor.AddInput(Cat("moved_", c->name()), c->type());
    given[input->name()] = *c->constant();
    INFER_CHECK(editor.ReplaceAllUses(c, input).ok());
  }
  editor.Sweep();
  Random random(11);
  Movable m{std::move(g), {}, {}};
  for (const Value* v : m.graph.inputs()) {
    Tensor t = ExampleInput(v->tensor_type(), random);
    const auto it = given.find(v->name());
    if (it != given.end()) t = it->second.Clone();
    if (IsFloat(v->dtype())) {
      m.wanted.push_back(v->name());
      if (it == given.end())
        for (int64_t i = 0; i < t.num_elements(); ++i) t.Set(i, number());
    }
    m.inputs.emplace_back(std::move(t));
  }
  return m;
}

/// Adds output "loss": the sum of all floating-point outputs, element by element times fixed random
/// numbers. Returns its position.
inline size_t AddProjection(Graph& g) {
  GraphEditor editor(g);
  Random random(23);
  Value* loss = nullptr;
  const std::vector<Value*> outputs = g.outputs();
  for (Value* y : outputs) {
    if (!y->type().is_tensor() || !IsFloat(y->dtype())) continue;
    Tensor r(y->dtype(), y->shape().static_dims());
    for (int64_t i = 0; i < r.num_elements(); ++i) r.Set(i, random.Normal());
    Value* product = *editor.Add("Mul", {y, editor.AddConstant(std::move(r))});
    Value* sum = *editor.Add("ReduceSum", {product}, {{"keepdims", int64_t{0}}});
    loss = loss ? *editor.Add("Add", {loss, sum}) : sum;
  }
  INFER_CHECK(loss != nullptr);
  editor.MarkOutput(loss);
  return g.outputs().size() - 1;
}

inline double LossOf(const Graph& g, const std::vector<Datum>& inputs, size_t loss) {
  const auto out = Evaluate(g, inputs);
  EXPECT_TRUE(out.ok()) << out.status().message();
  return out.ok() ? (*out)[loss].tensor().At(0) : NAN;
}

/// Compares every gradient of `m` with central differences, at most `most` elements of each value,
/// evenly spread. Returns how many elements were compared.
inline int64_t ExpectGradients(const Movable& m, int64_t most = 64, double tolerance = 1e-6) {
  Graph forward = m.graph.Clone();
  const size_t loss = AddProjection(forward);
  Graph backward = forward.Clone();
  const auto gradients = AddGradients(backward, loss, m.wanted);
  EXPECT_TRUE(gradients.ok()) << gradients.status().message();
  if (!gradients.ok()) return 0;
  GraphEditor editor(backward);
  const size_t first = backward.outputs().size();
  std::vector<size_t> depends;
  for (size_t k = 0; k < gradients->size(); ++k)
    if (Value* v = (*gradients)[k]) {
      depends.push_back(k);
      editor.MarkOutput(v);
    }
  const auto out = Evaluate(backward, m.inputs);
  EXPECT_TRUE(out.ok()) << out.status().message();
  if (!out.ok()) return 0;
  int64_t compared = 0;
  for (size_t d = 0; d < depends.size(); ++d) {
    const std::string& name = m.wanted[depends[d]];
    const Tensor& gradient = (*out)[first + d].tensor();
    size_t at = 0;
    while (forward.inputs()[at]->name() != name) ++at;
    const Tensor x = m.inputs[at].tensor();
    EXPECT_EQ(gradient.dims(), x.dims()) << name;
    const int64_t step = std::max<int64_t>(1, x.num_elements() / most);
    for (int64_t i = 0; i < x.num_elements(); i += step) {
      const double h = 1e-5 * std::max(1.0, std::abs(x.At(i)));
      std::vector<Datum> moved = m.inputs;
      double sides[2];
      for (const int side : {0, 1}) {
        Tensor t = x.Clone();
        t.Set(i, x.At(i) + (side == 1 ? h : -h));
        moved[at] = Datum(t);
        sides[side] = LossOf(forward, moved, loss);
      }
      const double difference = (sides[1] - sides[0]) / (2 * h);
      EXPECT_NEAR(gradient.At(i), difference, tolerance * std::max(1.0, std::abs(difference)))
          << name << "[" << i << "]";
      ++compared;
    }
  }
  return compared;
}

}  // namespace infer
