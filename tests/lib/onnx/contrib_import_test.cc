/// Operators of ONNX Runtime that become others on import.
#include <gmock/gmock.h>

#include "lib/ir/eval.h"
#include "lib/ir/verify.h"
#include "lib/onnx/import.h"
#include "lib/support/strings.h"
#include "tests/lib/onnx/models.h"

namespace infer {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

/// A model of one node of com.microsoft that reads graph inputs of these types.
struct Operand {
  const char* name;
  std::vector<int64_t> dims;
  onnx::TensorProto::DataType type = onnx::TensorProto::FLOAT;
};
onnx::ModelProto ModelOf(const std::string& op, const std::vector<Operand>& inputs,
                         const std::vector<std::string>& outputs = {"y"}) {
  onnx::ModelProto m = EmptyModel(21, 10);
  auto* domain = m.add_opset_import();
  domain->set_domain("com.microsoft");
  domain->set_version(1);
  onnx::GraphProto& g = *m.mutable_graph();
  g.clear_input();
  g.clear_output();
  std::vector<std::string> names;
  for (const Operand& o : inputs) {
    names.push_back(o.name);
    if (*o.name) SetTensorType(*g.add_input(), o.name, o.dims, o.type);
  }
  for (const std::string& name : outputs)
    if (!name.empty()) g.add_output()->set_name(name);
  onnx::NodeProto& node = *g.add_node();
  node.set_op_type(op);
  node.set_domain("com.microsoft");
  for (const std::string& name : names) node.add_input(name);
  for (const std::string& name : outputs) node.add_output(name);
  return m;
}

std::vector<std::string> OpsOf(const Graph& g) {
  std::vector<std::string> ops;
  for (const auto& n : g.nodes()) ops.push_back(std::string(n->op()));
  return ops;
}

TEST(ContribImport, QuantizeLinearBecomesTheStandardOne) {
  const auto m = Import(
      ModelOf("QuantizeLinear", {{"x", {2}}, {"s", {}}, {"z", {}, onnx::TensorProto::UINT16}}));
  ASSERT_TRUE(m.ok()) << m.status().message();
  ASSERT_EQ(m->graph.nodes().size(), 1u);
  EXPECT_EQ(m->graph.nodes().front()->def().domain, "");
  EXPECT_EQ(ToString(m->graph.outputs()[0]->type()), "u16[2]");
}

TEST(ContribImport, MatMulIntegerToFloatIsScaledAndBiased) {
  const auto u8 = onnx::TensorProto::UINT8;
  const auto m = Import(ModelOf("MatMulIntegerToFloat", {{"a", {1, 2}, u8},
                                                         {"b", {2, 2}, u8},
                                                         {"as", {}},
                                                         {"bs", {2}},
                                                         {"", {}},
                                                         {"bz", {2}, u8},
                                                         {"bias", {2}}}));
  ASSERT_TRUE(m.ok()) << m.status().message();
  EXPECT_THAT(OpsOf(m->graph), UnorderedElementsAre("MatMulInteger", "Cast", "Mul", "Mul", "Add"));
  const Datum in[] = {Tensor::Of<uint8_t>({1, 2}, {2, 3}),
                      Tensor::Of<uint8_t>({2, 2}, {5, 6, 7, 8}),
                      Tensor::Scalar(0.5f),
                      Tensor::Of<float>({2}, {1, 2}),
                      Tensor::Of<uint8_t>({2}, {4, 8}),
                      Tensor::Of<float>({2}, {100, 200})};
  const auto y = Evaluate(m->graph, in);
  ASSERT_TRUE(y.ok()) << y.status().message();
  // (2*1 + 3*3) / 2 + 100 and (2*-2 + 3*0) + 200
  EXPECT_THAT((*y)[0].tensor().ToFloats(), ElementsAre(105.5f, 196.f));
}

TEST(ContribImport, DynamicQuantizeMatMulQuantizesItsFirstOperand) {
  const auto m =
      Import(ModelOf("DynamicQuantizeMatMul",
                     {{"a", {1, 2}}, {"b", {2, 1}, onnx::TensorProto::INT8}, {"bs", {}}}));
  ASSERT_TRUE(m.ok()) << m.status().message();
  EXPECT_THAT(OpsOf(m->graph),
              UnorderedElementsAre("DynamicQuantizeLinear", "MatMulInteger", "Cast", "Mul", "Mul"));
  const Datum in[] = {Tensor::Of<float>({1, 2}, {0, 255}), Tensor::Of<int8_t>({2, 1}, {7, -3}),
                      Tensor::Scalar(2.f)};
  const auto y = Evaluate(m->graph, in);
  ASSERT_TRUE(y.ok()) << y.status().message();
  EXPECT_THAT((*y)[0].tensor().ToFloats(), ElementsAre(-1530.f));
}

TEST(ContribImport, EmbedLayerNormalizationCountsItsMask) {
  const auto i32 = onnx::TensorProto::INT32;
  const auto m = Import(ModelOf("EmbedLayerNormalization",
                                {{"ids", {1, 2}, i32},
                                 {"", {}},
                                 {"words", {3, 2}},
                                 {"positions", {4, 2}},
                                 {"", {}},
                                 {"gamma", {2}},
                                 {"beta", {2}},
                                 {"mask", {1, 2}, i32}},
                                {"y", "count", "sum"}));
  ASSERT_TRUE(m.ok()) << m.status().message();
  const Datum in[] = {Tensor::Of<int32_t>({1, 2}, {2, 0}),
                      Tensor::Of<float>({3, 2}, {1, 2, 3, 4, 5, 6}),
                      Tensor::Of<float>({4, 2}, {10, 20, 30, 10, 0, 0, 0, 0}),
                      Tensor::Of<float>({2}, {1, 2}),
                      Tensor::Of<float>({2}, {0, 1}),
                      Tensor::Of<int32_t>({1, 2}, {1, 0})};
  const auto y = Evaluate(m->graph, in);
  ASSERT_TRUE(y.ok()) << y.status().message();
  EXPECT_THAT((*y)[0].tensor().ToFloats(), ElementsAre(-1, 3, 1, -1));
  EXPECT_THAT((*y)[1].tensor().ToInts(), ElementsAre(1));
  EXPECT_THAT((*y)[2].tensor().ToFloats(), ElementsAre(15, 26, 31, 12));
}

TEST(ContribImport, RefusesWhatItWouldDrop) {
  onnx::ModelProto m = ModelOf("QuantizeLinear", {{"x", {2}}, {"s", {}}});
  auto& a = *m.mutable_graph()->mutable_node(0)->add_attribute();
  a.set_name("block_size");
  a.set_type(onnx::AttributeProto::INT);
  a.set_i(16);
  EXPECT_THAT(Import(m).status().message(), HasSubstr("no attribute 'block_size'"));
}

}  // namespace
}  // namespace infer
