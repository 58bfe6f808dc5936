/// Elements placed by indices of the run: good ones, negative ones, ones out of range.
#include <tuple>

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
  ExpectRefused("graph g(x: f32[3,4], i: i64[1,1]) -> (y) { y = GatherElements(x, i) {axis=1} }",
                {Input(DType::kF32, {3, 4}), I64({1, 1}, {4})});
}

/// All steps run on fast kernels, the last of them, on the cpu backend, on our own.
void ExpectScatter(const std::vector<StepInfo>& steps) {
  ExpectFast(steps);
  if (BackendUnderTest().name() != "cpu" || steps.empty()) return;
  EXPECT_EQ(steps.back().kernel, "own:scatter") << steps.back().op;
}

constexpr std::string_view kReductions[] = {"none", "add", "mul", "max", "min"};

/// Several updates of one place, in their order; NaN, infinities and zeros of both signs.
TEST(Indices, ScatterReduces) {
  for (std::string_view type : {"f32", "f64", "i32", "i64", "u8", "i8", "u16", "i16", "u32", "u64"})
    for (std::string_view how : kReductions) {
      const DType t = *ParseDType(type);
      Datum x = Input(t, {4, 3}), u = Input(t, {3, 3});
      if (IsFloat(t)) {
        x.tensor().Set(0, NAN);
        x.tensor().Set(1, -0.0);
        u.tensor().Set(0, 1);
        u.tensor().Set(1, 0.0);
        u.tensor().Set(4, NAN);
        u.tensor().Set(5, -INFINITY);
      }
      ExpectScatter(
          CheckGraph(Cat("graph g(x: ", type, "[4,3], i: i64[3,1], u: ", type,
                         "[3,3]) -> (y) { y = ScatterND(x, i, u) {reduction=\"", how, "\"} }"),
                     {x, I64({3, 1}, {0, -3, 0}), u}, 0));
      ExpectScatter(CheckGraph(
          Cat("graph g(x: ", type, "[4,3], i: i64[3,3], u: ", type,
              "[3,3]) -> (y) { y = ScatterElements(x, i, u) {reduction=\"", how, "\"} }"),
          {x, I64({3, 3}, {0, 0, -4, 1, 1, 0, 0, 3, 2}), u}, 0));
    }
}

/// Indices i from random numbers f.
constexpr std::string_view kRandomRows =
    "a = Abs(f) m = const f32[] {9} b = Mul(a, m) i = Cast(b) {to=7} ";

/// Runs of the result, short and long ones, in ranges of the result and in columns where there are
/// several lanes: by tuples, by repeated indices as exporters write them and as nobody sees that
/// they are, and of rows that a Gather picks.
TEST(Indices, ScatterRunsOfTheResult) {
  struct Case {
    int64_t rows, updates, run;
  };
  for (const auto& [rows, updates, run] :
       {Case{50, 40, 3}, Case{50, 40, 17}, Case{60, 2500, 20}, Case{60, 300, 700}})
    for (std::string_view how : kReductions) {
      const std::string shape = Cat("[", updates, ",", run, "]"),
                        reduction = Cat(" {reduction=\"", how, "\"} }"),
                        head = Cat("graph g(x: f32[", rows, ",", run, "], f: f32[", updates,
                                   ",1], u: f32", shape, ", p: i64[", updates, "]) -> (y) { ",
                                   kRandomRows);
      for (const std::string& tail :
           {std::string("y = ScatterND(x, i, u)"),
            std::string("r = Gather(u, p) y = ScatterND(x, i, r)"),
            Cat("e = const i64[2] {", updates, ",", run, "} j = Expand(i, e) ",
                "y = ScatterElements(x, j, u)"),
            Cat("e = const i64[2] {1,", run, "} j = Tile(i, e) y = ScatterElements(x, j, u)")}) {
        const std::string text = head + tail + reduction;
        ExpectScatter(CheckGraph(text, 1, 0));
        if (updates * run > 40000) CheckSameBits(text);
      }
    }
}

/// Rows that are picked and summed: picks out of range, a table that is the data, and shapes that
/// only the run knows.
TEST(Indices, ScatterOfPickedRows) {
  const std::string_view text =
      "graph g(x: f32[N,6], p: i64[E], i: i64[E,1]) -> (y) { z = Neg(x) u = Gather(z, p) "
      "y = ScatterND(z, i, u) {reduction=\"add\"} }";
  const Datum x = Input(DType::kF32, {5, 6}), i = I64({4, 1}, {0, -1, 0, 2});
  const auto steps = CheckGraph(text, {x, I64({4}, {1, 0, -2, 0}), i}, 0);
  ExpectScatter(steps);
  if (BackendUnderTest().name() == "cpu") {
    EXPECT_EQ(steps.back().op, "Gather+ScatterND");
  }
  CheckGraph(
      "graph g(a: i64[4,1]) -> (y) { x = Abs(a) y = ScatterND(x, x, x) {reduction=\"add\"} }",
      {I64({4, 1}, {3, 0, 3, 1})}, 0);
  CheckGraph(
      "graph g(a: i64[3,2]) -> (y) { x = Abs(a) y = ScatterElements(x, x, x) "
      "{reduction=\"add\"} }",
      {I64({3, 2}, {1, 0, 2, 1, 1, 2})}, 0);
  ExpectRefused(text, {x, I64({4}, {1, 0, 5, 0}), i});
  ExpectRefused(text, {x, I64({4}, {1, 0, -6, 0}), i});
}

/// Some indices are repeated behind the axis and some are not; fewer of them than of the data.
TEST(Indices, ElementsInRunsAndApart) {
  const auto indices = [](const Dims& dims, int64_t extent, bool repeated) {
    Random random(5);
    Tensor t(DType::kI64, dims);
    const int64_t run = dims[2] * dims[3];
    for (int64_t i = 0; i < t.num_elements(); ++i) {
      const bool alike = repeated && i / run % 3 != 0 && i % run != 0;
      t.Set(i, alike ? t.IntAt(i - 1) : random.Below(2 * extent) - extent);
    }
    return Datum(t);
  };
  for (const Dims& dims : {Dims{2, 3, 2, 5}, Dims{1, 7, 2, 5}, Dims{2, 3, 1, 4}, Dims{2, 0, 2, 5}})
    for (bool repeated : {false, true})
      for (int64_t axis : {1, 0, 3}) {
        const Dims data = {2, 7, 2, 5};
        if (axis != 1 && dims[1] > 3) continue;
        const std::string extents = Cat(dims[0], ",", dims[1], ",", dims[2], ",", dims[3], "]");
        const Datum i = indices(dims, data[static_cast<size_t>(axis)], repeated);
        for (std::string_view how : kReductions)
          CheckGraph(Cat("graph g(x: f32[2,7,2,5], i: i64[", extents, ", u: f32[", extents,
                         ") -> (y) { y = ScatterElements(x, i, u) {axis=", axis, ", reduction=\"",
                         how, "\"} }"),
                     {Input(DType::kF32, data), i, Input(DType::kF32, dims)}, 0);
        CheckGraph(Cat("graph g(x: f32[2,7,2,5], i: i64[", extents,
                       ") -> (y) { y = GatherElements(x, i) {axis=", axis, "} }"),
                   {Input(DType::kF32, data), i}, 0);
      }
}

/// Rows of elements: each width, both types of indices, rows along the axis and across it, and a
/// bad index in any of several lanes.
TEST(Indices, RowsOfElements) {
  for (std::string_view type : {"f32", "i64", "u8", "f16"})
    for (std::string_view index : {"i64", "i32"})
      for (const auto& [data, dims, axis] :
           {std::tuple(Dims{5, 70}, Dims{5, 133}, 1), std::tuple(Dims{70, 5}, Dims{133, 5}, 0),
            std::tuple(Dims{6, 9, 40}, Dims{6, 30, 37}, 1),
            std::tuple(Dims{200, 90}, Dims{200, 250}, 1)}) {
        const auto text = [](const Dims& d) {
          std::vector<std::string> parts;
          for (int64_t v : d) parts.push_back(Cat(v));
          return Join(parts, ",");
        };
        const std::string graph =
            Cat("graph g(x: ", type, "[", text(data), "], i: ", index, "[", text(dims),
                "]) -> (y) { y = GatherElements(x, i) {axis=", axis, "} }");
        const int64_t extent = data[static_cast<size_t>(axis)];
        Random random(8);
        Tensor i(*ParseDType(index), dims);
        for (int64_t k = 0; k < i.num_elements(); ++k)
          i.SetInt(k, random.Below(2 * extent) - extent);
        const Datum x = Input(*ParseDType(type), data);
        const auto steps = CheckGraph(graph, {x, i}, 0);
        if (BackendUnderTest().name() == "cpu") {
          ExpectFast(steps);
        }
        for (int64_t bad : {extent, -extent - 1}) {
          Tensor j = i.Clone();
          j.SetInt(j.num_elements() - 1, bad);
          ExpectRefused(graph, {x, j});
        }
      }
}

/// On several lanes, too; the indices are repeated as tuples, by Expand and by Tile.
TEST(Indices, ScatterRefusesBadIndices) {
  for (std::string_view tail :
       {"y = ScatterND(x, i, u)",
        "e = const i64[2] {40,900} j = Expand(i, e) y = ScatterElements(x, j, u)",
        "e = const i64[2] {1,900} j = Tile(i, e) y = ScatterElements(x, j, u)"}) {
    const std::string text = Cat("graph g(x: f32[3,900], f: f32[40,1], u: f32[40,900]) -> (y) { ",
                                 kRandomRows, tail, " {reduction=\"add\"} }");
    ExpectRefused(text, RandomInputs(*ParseGraph(text, SuiteOps()), 1));
  }
}

}  // namespace
}  // namespace infer
