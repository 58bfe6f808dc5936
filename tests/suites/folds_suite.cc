/// Running sums and products, and reductions of integers and over axes that lie apart: every type,
/// axis and direction, at the boundaries of vectors and blocks, with what wraps and what is NaN.
#include <limits>

#include "tests/suites/suite.h"

namespace infer {
namespace {

/// All steps run on fast kernels; on the cpu backend, on one whose name begins so.
void ExpectLastKernel(const std::vector<StepInfo>& steps, std::string_view name) {
  if (BackendUnderTest().name() != "cpu" || steps.empty()) return;
  ExpectFast(steps);
  EXPECT_EQ(steps.back().kernel.substr(0, name.size()), name) << steps.back().op;
}

/// Numbers whose sums and products leave the type.
Tensor Large(std::string_view type, const Dims& dims) {
  Tensor t(*ParseDType(type), dims);
  Random random(11);
  for (int64_t i = 0; i < t.num_elements(); ++i)
    if (IsFloat(t.dtype()))
      t.Set(i, static_cast<double>(int64_t{random.Below(2001)} - 1000) / 500);
    else if (t.dtype() == DType::kBool)
      t.SetInt(i, random.Below(2));
    else
      t.SetInt(i, (int64_t{random.Below(1 << 20)} << (i % 3 * 20)) - (i % 2) * 3);
  return t;
}

std::string DimsText(const Dims& dims) {
  std::vector<std::string> parts;
  for (int64_t d : dims) parts.push_back(Cat(d));
  return Join(parts, ",");
}

TEST(Folds, Running) {
  const Dims shapes[] = {{9, 1}, {1, 70}, {3, 5, 130}, {17, 3}, {2, 7, 1, 259}, {33}};
  for (std::string_view type : {"f32", "f64", "i32", "i64", "u32", "u64"})
    for (const Dims& dims : shapes)
      for (int axis = -1; axis < static_cast<int>(dims.size()); ++axis)
        for (int how = 0; how < 4; ++how)
          ExpectLastKernel(CheckGraph(Cat("graph g(x: ", type, "[", DimsText(dims),
                                          "]) -> (y) { a = const i64[] {", axis,
                                          "} y = CumSum(x, a) {exclusive=", how % 2,
                                          ", reverse=", how / 2, "} }"),
                                      {Large(type, dims)}, 0),
                           "own:running");
  for (std::string_view type : {"f32", "i32", "i64"})
    for (int axis : {0, 1})
      ExpectLastKernel(CheckGraph(Cat("graph g(x: ", type, "[5,67]) -> (y) { a = const i32[] {",
                                      axis, "} y = CumProd(x, a) {exclusive=1} }"),
                                  {Large(type, {5, 67})}, 0),
                       "own:running");
  for (std::string_view type : {"f16", "bf16"})
    CheckGraph(Cat("graph g(x: ", type, "[4,40]) -> (y) { a = const i64[] {1} y = CumSum(x, a) }"),
               {Large(type, {4, 40})}, 1e-2);
}

/// The axis comes with the run, and the extents, too; NaN and infinities go on.
TEST(Folds, RunningAlongAnyAxis) {
  const std::string_view text = "graph g(x: f32[N,M], a: i64[]) -> (y) { y = CumSum(x, a) }";
  Tensor x = Large("f32", {6, 150});
  x.Set(7, NAN);
  x.Set(400, INFINITY);
  x.Set(450, -INFINITY);
  const auto along = [](int64_t axis) {
    return Datum(Tensor::Of<int64_t>({}, std::span<const int64_t>(&axis, 1)));
  };
  for (int64_t axis : {0, 1, -1, -2}) CheckGraph(text, {x, along(axis)}, 0);
  for (const Dims& dims : {Dims{0, 3}, Dims{3, 0}})
    CheckGraph(text, {Large("f32", dims), along(1)}, 0);
  Graph g = *ParseGraph(text, SuiteOps());
  auto program = BackendUnderTest().Compile(g, {});
  ASSERT_TRUE(program.ok()) << program.status().message();
  for (int64_t bad : {2, -3}) {
    const std::vector<Datum> inputs = {Datum(x), along(bad)};
    EXPECT_FALSE(RunOnce(**program, inputs).ok()) << bad;
  }
  CheckSameBits("graph g(x: f32[40,30,70]) -> (y) { a = const i64[] {1} y = CumSum(x, a) }");
  CheckSameBits("graph g(x: f32[700,90]) -> (y) { a = const i64[] {1} y = CumSum(x, a) }");
}

constexpr std::string_view kAxes[] = {"0", "1", "-1", "0,2", "1,3", "0,3", "1,2", "0,1,2,3"};

TEST(Folds, ReductionsOfIntegers) {
  const Dims shapes[] = {{2, 3, 4, 5}, {3, 1, 5, 70}, {7, 9, 2, 1}, {1, 65, 1, 3}};
  for (std::string_view op : {"ReduceSum", "ReduceMean", "ReduceProd", "ReduceMax", "ReduceMin"})
    for (std::string_view type : {"i32", "i64", "u32", "u8", "i8", "bool"}) {
      const bool narrow = type == "u8" || type == "i8" || type == "bool";
      if (narrow && op != "ReduceMax" && op != "ReduceMin") continue;
      for (const Dims& dims : shapes)
        for (std::string_view axes : kAxes) {
          const auto count = 1 + std::count(axes.begin(), axes.end(), ',');
          ExpectLastKernel(
              CheckGraph(Cat("graph g(x: ", type, "[", DimsText(dims), "]) -> (y) { a = const i64[",
                             count, "] {", axes, "} y = ", op, "(x, a) {keepdims=0} }"),
                         {Large(type, dims)}, 0),
              "own:folds");
        }
    }
  ExpectLastKernel(CheckGraph("graph g(x: i64[300]) -> (y) { y = ReduceMax(x) }", 1, 0),
                   "own:folds");
  CheckGraph("graph g(x: i64[N,3]) -> (y) { a = const i64[1] {0} y = ReduceSum(x, a) }",
             {Large("i64", {0, 3})}, 0);
  CheckSameBits("graph g(x: i32[40,100,30]) -> (y) { a = const i64[2] {0,2} y = ReduceSum(x, a) }");
}

TEST(Folds, AxesThatLieApart) {
  for (std::string_view op : {"ReduceMean", "ReduceSum", "ReduceProd", "ReduceMax", "ReduceMin",
                              "ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSum"})
    for (const Dims& dims : {Dims{2, 3, 4, 5}, Dims{3, 2, 5, 131}, Dims{4, 3, 70, 1}})
      for (std::string_view axes : {"0,2", "1,3", "0,3", "0,2,3", "0,1,3"}) {
        const auto count = 1 + std::count(axes.begin(), axes.end(), ',');
        const std::string text =
            Cat("graph g(x: f32[", DimsText(dims), "]) -> (y) { a = const i64[", count, "] {", axes,
                "} y = ", op, "(x, a) }");
        Tensor x = Large("f32", dims);
        if (op == "ReduceLogSum")
          for (int64_t i = 0; i < x.num_elements(); ++i) x.Set(i, std::abs(x.At(i)) + 0.1);
        // Products that are exact, and stay within f32, in any order: at most 13 factors of 1.5.
        if (op == "ReduceProd")
          for (int64_t i = 0; i < x.num_elements(); ++i)
            x.Set(i, std::copysign(i % 301 == 7   ? 1.5
                                   : i % 64 != 5  ? 1
                                   : i % 128 < 64 ? 2
                                                  : 0.5,
                                   x.At(i)));
        ExpectLastKernel(CheckGraph(text, std::vector<Datum>{x}, 1e-6), "own:");
        x.Set(1, NAN);
        x.Set(x.num_elements() - 1, -INFINITY);
        CheckGraph(text, std::vector<Datum>{x}, 1e-6);
      }
  CheckSameBits(
      "graph g(x: f32[9,70,40,20]) -> (y) { a = const i64[2] {0,2} y = ReduceMean(x, a) }");
}

/// Many rows without elements take no memory of their own.
TEST(Folds, ManyRowsOfNothing) {
  for (std::string_view type : {"f16", "f32", "i32"})
    for (std::string_view op : {"ReduceSum", "ReduceMax", "ReduceMean"}) {
      const Tensor x(*ParseDType(type), {1 << 30, 0});
      CheckGraph(Cat("graph g(x: ", type, "[1073741824,0]) -> (y) { a = const i64[] {0} y = ", op,
                     "(x, a) }"),
                 {x}, 0);
    }
}

}  // namespace
}  // namespace infer
