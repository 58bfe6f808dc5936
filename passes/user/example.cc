/// A graph that a pattern fits, made from the pattern.
#include <algorithm>

#include "lib/ir/text.h"
#include "lib/support/random.h"
#include "passes/rewrite/driver.h"
#include "passes/rewrite/sketch.h"
#include "passes/user/user_rules.h"

namespace infer {
namespace {

constexpr int kTries = 300;

/// Shapes that operators like; the first are the likeliest to do.
const std::vector<Dims>& Shapes() {
  static const std::vector<Dims> shapes = {
      {2, 3}, {3}, {2, 3, 4}, {1, 3, 6, 6}, {3, 3}, {4, 3, 3, 3}, {3, 3, 3}, {1}, {}, {4, 3}};
  return shapes;
}

Dims ShapeOf(const HoleText& h, const Dims& guess, Random& random) {
  if (!h.has_shape) return guess;
  Dims dims;
  if (h.more_dims && random.Below(2)) dims.push_back(2);
  for (const Dim& d : h.dims)
    // One extent for every symbol fits whatever they must agree on.
    dims.push_back(d.is_static() ? d.value() : 3);
  return dims;
}

Sketch Guess(const PatternText& p, int attempt, Random& random) {
  Sketch s;
  // First all holes alike, then at random.
  const size_t n = Shapes().size();
  for (const HoleText& h : p.holes) {
    const size_t i = attempt < static_cast<int>(n) ? static_cast<size_t>(attempt)
                                                   : random.Below(static_cast<uint32_t>(n));
    const bool scalar = h.kind == HoleText::Kind::kScalar && !h.has_shape;
    const Dims dims = scalar ? Dims() : ShapeOf(h, Shapes()[i], random);
    DType type = DType::kF32;
    if (!h.types.empty() && !h.types.Has(type))
      for (int k = kNumDTypes; k-- > 1;)
        if (h.types.Has(static_cast<DType>(k))) type = static_cast<DType>(k);
    if (h.kind == HoleText::Kind::kAny) {
      const ValueType t(TensorType{type, Shape(dims)});
      s.inputs.push_back({h.name, t, t});
    } else {
      Tensor t = Tensor::Zeros(type, dims);
      for (int64_t k = 0; k < t.num_elements(); ++k)
        t.Set(k, IsFloat(type) ? 0.5 + random.Uniform() : random.Below(3));
      s.constants.push_back({h.name, t});
    }
  }
  for (const StatementText& st : p.statements) {
    if (st.constant) {
      s.constants.push_back({st.results[0], *st.constant});
      continue;
    }
    Sketch::Op op{st.ops[0], st.operands, st.results};
    for (const AttributeText& a : st.attributes)
      if (a.variable.empty()) op.attrs[a.name] = a.value;
    s.nodes.push_back(std::move(op));
  }
  s.outputs = p.outputs;
  return s;
}

}  // namespace

std::string MakeExample(const UserRule& rule, const OpRegistry& ops, uint64_t seed) {
  Random random(seed);
  for (int attempt = 0; attempt < kTries; ++attempt) {
    const Sketch s = Guess(rule.text.matches[0], attempt, random);
    auto g = s.Build(ops);
    if (!g.ok()) continue;
    std::string text = Print(*g);
    RewriteLog log;
    const auto fired = ApplyRules(*g, std::span(&rule.rule, 1), {}, log);
    // Where it does not end, the rule suite says so.
    if (!fired.ok() || *fired >= 1) return text;
  }
  return "";
}

}  // namespace infer
