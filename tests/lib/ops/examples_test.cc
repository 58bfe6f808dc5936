/// Laws that every operator's example must keep: it parses, verifies and runs; the inferred types
/// and elements are those of the evaluated values; and they still hold when the inputs' extents
/// are replaced by symbols or not known at all.
#include "lib/ir/editor.h"
#include "lib/ir/verify.h"
#include "tests/lib/ops/graph_values.h"

namespace infer {
namespace {

/// What `v` says about itself does not contradict `d`.
void ExpectHolds(const Value& v, const Datum& d, const std::string& where) {
  const Status fits = CheckDatum(d, v.type(), v.name());
  EXPECT_TRUE(fits.ok()) << where << fits.message();
  if (!v.elements() || !d.is_tensor()) return;
  ASSERT_EQ(static_cast<int64_t>(v.elements()->size()), d.tensor().num_elements()) << where;
  for (size_t i = 0; i < v.elements()->size(); ++i) {
    const Dim& e = (*v.elements())[i];
    if (!e.is_static()) continue;
    EXPECT_EQ(e.value(), d.tensor().IntAt(static_cast<int64_t>(i))) << where << v.name();
  }
}

class Examples : public ::testing::TestWithParam<const OpDef*> {};

TEST_P(Examples, InferenceAgreesWithEvaluation) {
  const OpDef& def = *GetParam();
  auto parsed = ParseGraph(def.example, TestOps());
  ASSERT_TRUE(parsed.ok()) << parsed.status().message();
  Graph& g = *parsed;
  ASSERT_TRUE(Verify(g).ok()) << Verify(g).message();
  Random random(3);
  std::vector<Datum> inputs;
  for (const Value* v : g.inputs()) {
    if (!v->type().is_tensor())  // sequences and optionals are fed by their own tests
      GTEST_SKIP() << "input '" << v->name() << "' of the example is no tensor";
    inputs.push_back(ExampleInput(v->tensor_type(), random));
  }
  std::map<std::string, Datum> values;
  EvalOptions options;
  options.tap = [&](const Value& v, const Datum& d) { values[v.name()] = d; };
  auto out = Evaluate(g, inputs, options);
  ASSERT_TRUE(out.ok()) << out.status().message();
  const auto check = [&](const std::string& where) {
    for (const auto& v : g.values())
      if (auto it = values.find(v->name()); it != values.end()) ExpectHolds(*v, it->second, where);
  };
  check("static: ");
  for (const std::string_view variant : {"symbolic", "unknown", "no rank"}) {
    GraphEditor editor(g);
    for (size_t i = 0; i < g.inputs().size(); ++i) {
      const TensorType type = inputs[i].tensor().type();
      std::vector<Dim> dims;
      for (int k = 0; k < type.shape.rank(); ++k)
        dims.push_back(variant == "symbolic" ? Dim::Symbol(Cat("n", i, "_", k)) : Dim());
      editor.SetType(g.inputs()[i],
                     TensorType{type.dtype, variant == "no rank" ? Shape() : Shape(dims)});
    }
    const Status s = InferTypes(g);
    ASSERT_TRUE(s.ok()) << variant << ": " << s.message();
    check(Cat(variant, ": "));
  }
}

std::vector<const OpDef*> OpsWithExamples() {
  std::vector<const OpDef*> out;
  for (const OpDef* d : TestOps().all())
    if (!d->example.empty()) out.push_back(d);
  return out;
}

INSTANTIATE_TEST_SUITE_P(AllOps, Examples, ::testing::ValuesIn(OpsWithExamples()),
                         [](const auto& info) {
                           return Cat(info.param->domain.empty()      ? "onnx"
                                      : info.param->domain == "infer" ? "infer"
                                                                      : "ext",
                                      "_", info.param->name);
                         });

}  // namespace
}  // namespace infer
