/// Elements placed by indices of the run: good ones, negative ones, ones out of range.
#include "tests/suites/suite.h"

namespace infer {
namespace {

Datum Input(DType t, const Dims& dims) {
  Random random(3);
  return RandomInput(t, dims, random);
}
Datum I64(Dims dims, std::vector<int64_t> v) {
  return Tensor::Of<int64_t>(std::move(dims), std::span<const int64_t>(v));
}

/// The run of the compiled graph fails, as the reference does.
void ExpectRefused(std::string_view text, const std::vector<Datum>& inputs) {
  Graph g = *ParseGraph(text, SuiteOps());
  EXPECT_FALSE(Evaluate(g, inputs).ok());
  auto program = BackendUnderTest().Compile(g, {});
  ASSERT_TRUE(program.ok()) << program.status().message();
  EXPECT_FALSE(RunOnce(**program, inputs).ok()) << text;
}

constexpr std::string_view kTypes[] = {"f32", "i64", "u8", "f16", "bool", "f64"};

TEST(Indices, OneHot) {
  for (std::string_view type : kTypes)
    for (int64_t axis : {-1, 0, 1})
      CheckGraph(Cat("graph g(i: i64[2,3], v: ", type,
                     "[2]) -> (y) { d = const i64[] {5} y = OneHot(i, d, v) {axis=", axis, "} }"),
                 {I64({2, 3}, {0, 4, -1, 7, -9, 2}), Input(*ParseDType(type), {2})}, 0);
  CheckGraph("graph g(i: i32[4], v: f32[2]) -> (y) { d = const i64[1] {3} y = OneHot(i, d, v) }", 1,
             0);
}

/// Extents that follow from an input's, that come with the run, and that are declared, too.
TEST(Indices, ConstantOfShape) {
  for (std::string_view type : {"f32", "i64", "u8", "f16", "bool", "f64", "i4", "bf16", "i32"}) {
    const std::string fill = Cat(" y = ConstantOfShape(s) {value=const ", type, "[1] {1}} }");
    for (const Dims& dims : {Dims{3, 5}, Dims{1, 1}, Dims{70, 1999}, Dims{0, 4}}) {
      CheckGraph(Cat("graph g(x: f32[N,M]) -> (y) { s = Shape(x)", fill),
                 {Input(DType::kF32, dims)}, 0);
      CheckGraph(Cat("graph g(s: i64[2]) -> (y) {", fill), {I64({2}, dims)}, 0);
    }
  }
  CheckGraph("graph g(s: i64[0]) -> (y) { y = ConstantOfShape(s) }", {I64({0}, {})}, 0);
  CheckGraph("graph g(s: i64[1]) -> (y) { y = ConstantOfShape(s) {value=const f32[1] {nan}} }",
             {I64({1}, {9})}, 0);
  const std::string_view declared =
      "graph g(s: i64[2]) -> (y: f32[3,4]) { y = ConstantOfShape(s) {value=const f32[1] {2}} }";
  ExpectFast(CheckGraph(declared, {I64({2}, {3, 4})}, 0));
  ExpectRefused(declared, {I64({2}, {4, 3})});
  ExpectRefused(declared, {I64({2}, {3, -4})});
}

TEST(Indices, ScatterND) {
  for (std::string_view type : kTypes) {
    const DType t = *ParseDType(type);
    CheckGraph(Cat("graph g(x: ", type, "[4,3,2], i: i64[2,1], u: ", type,
                   "[2,3,2]) -> (y) { y = ScatterND(x, i, u) }"),
               {Input(t, {4, 3, 2}), I64({2, 1}, {3, -4}), Input(t, {2, 3, 2})}, 0);
    CheckGraph(Cat("graph g(x: ", type, "[4,3], i: i64[2,2,2], u: ", type,
                   "[2,2]) -> (y) { z = Identity(x) y = ScatterND(z, i, u) }"),
               {Input(t, {4, 3}), I64({2, 2, 2}, {0, 0, 3, -1, 1, 1, 0, 0}), Input(t, {2, 2})}, 0);
  }
  for (int64_t bad : {4, -5})
    ExpectRefused(
        "graph g(x: f32[4,3], i: i64[1,1], u: f32[1,3]) -> (y) { y = ScatterND(x, i, u) }",
        {Input(DType::kF32, {4, 3}), I64({1, 1}, {bad}), Input(DType::kF32, {1, 3})});
}

TEST(Indices, GatherND) {
  for (std::string_view type : kTypes) {
    const DType t = *ParseDType(type);
    CheckGraph(Cat("graph g(x: ", type, "[4,3,2], i: i64[3,2]) -> (y) { y = GatherND(x, i) }"),
               {Input(t, {4, 3, 2}), I64({3, 2}, {0, 0, 3, -1, -4, 2})}, 0);
    CheckGraph(Cat("graph g(x: ", type,
                   "[2,3,2], i: i64[2,2,1]) -> (y) { y = GatherND(x, i) {batch_dims=1} }"),
               {Input(t, {2, 3, 2}), I64({2, 2, 1}, {0, 2, -1, 1})}, 0);
  }
  ExpectRefused("graph g(x: f32[4], i: i64[2,1]) -> (y) { y = GatherND(x, i) }",
                {Input(DType::kF32, {4}), I64({2, 1}, {0, 4})});
}

TEST(Indices, ElementsAlongAnAxis) {
  for (std::string_view type : kTypes) {
    const DType t = *ParseDType(type);
    for (int64_t axis : {0, 1, -1}) {
      CheckGraph(Cat("graph g(x: ", type,
                     "[3,4], i: i64[2,3]) -> (y) { y = GatherElements(x, i) {axis=", axis, "} }"),
                 {Input(t, {3, 4}), I64({2, 3}, {0, 2, -1, 1, -3, 2})}, 0);
      CheckGraph(Cat("graph g(x: ", type, "[3,4], i: i64[2,3], u: ", type,
                     "[2,3]) -> (y) { y = ScatterElements(x, i, u) {axis=", axis, "} }"),
                 {Input(t, {3, 4}), I64({2, 3}, {0, 2, -1, 1, -3, 2}), Input(t, {2, 3})}, 0);
    }
  }
  CheckGraph(
      "graph g(x: f32[3], i: i64[2], u: f32[2]) -> (y) { y = ScatterElements(x, i, u) "
      "{reduction=\"add\"} }",
      {Input(DType::kF32, {3}), I64({2}, {1, 1}), Input(DType::kF32, {2})}, 1e-6);
  ExpectRefused("graph g(x: f32[3,4], i: i64[1,1]) -> (y) { y = GatherElements(x, i) {axis=1} }",
                {Input(DType::kF32, {3, 4}), I64({1, 1}, {4})});
}

}  // namespace
}  // namespace infer
