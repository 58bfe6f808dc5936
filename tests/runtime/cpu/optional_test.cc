/// Inputs that are no tensors beside weights that a program of fixed shapes lets go.
#include <gtest/gtest.h>

#include "lib/ir/eval.h"
#include "lib/ir/text.h"
#include "lib/ops/registry.h"
#include "runtime/cpu/backend.h"

namespace infer {
namespace {

TEST(OptionalInput, MayBeGivenAsWhatItHolds) {
  const OpRegistry ops = AllOps();
  const auto g = ParseGraph(R"(graph g(x: f32[4,256], o: optional(f32[N])) -> (y, z) {
    w = const f32[256,256] ~1 y = MatMul(x, w) h = OptionalGetElement(o) z = Add(h, h) })",
                            ops);
  ASSERT_TRUE(g.ok()) << g.status().message();
  Tensor x(DType::kF32, {4, 256});
  for (int64_t i = 0; i < x.num_elements(); ++i) x.Set(i, static_cast<double>(i % 7) - 3);
  const Tensor held = Tensor::Of<float>({3}, {1, 2, 3});
  const Datum whole{OptionalDatum{std::make_shared<const Datum>(held)}};
  const auto program = MakeCpuBackend()->Compile(*g, {.threads = 1});
  ASSERT_TRUE(program.ok()) << program.status().message();
  const auto expected = Evaluate(*g, std::vector<Datum>{x, whole});
  ASSERT_TRUE(expected.ok()) << expected.status().message();
  for (const Datum& given : {whole, Datum(held), Datum(Tensor::Of<float>({1}, {5}))}) {
    const auto got = RunOnce(**program, std::vector<Datum>{x, given});
    ASSERT_TRUE(got.ok()) << got.status().message();
    const Tensor &y = (*got)[0].tensor(), &want = (*expected)[0].tensor();
    ASSERT_EQ(y.dims(), want.dims());
    for (int64_t i = 0; i < y.num_elements(); ++i) ASSERT_NEAR(y.At(i), want.At(i), 1e-3) << i;
    const Tensor& inside = given.is_optional() ? held : given.tensor();
    EXPECT_EQ((*got)[1].tensor().At(0), 2 * inside.At(0));
  }
}

TEST(OptionalInput, OfAnotherTypeIsRefused) {
  const OpRegistry ops = AllOps();
  const auto g = ParseGraph(R"(graph g(o: optional(f32[2]), s: seq(i64[N])) -> (y, n) {
    y = OptionalGetElement(o) n = SequenceLength(s) })",
                            ops);
  ASSERT_TRUE(g.ok()) << g.status().message();
  const auto program = MakeCpuBackend()->Compile(*g, {.threads = 1});
  ASSERT_TRUE(program.ok()) << program.status().message();
  const auto context = (*program)->NewContext();
  ASSERT_TRUE(context.ok());
  const auto holding = [](Datum d) {
    return Datum(OptionalDatum{std::make_shared<const Datum>(std::move(d))});
  };
  const auto bind = [&](size_t i, const Datum& d) { return (*context)->BindInput(i, d).code(); };
  const Tensor pair = Tensor::Of<float>({2}, {1, 2}), ints = Tensor::Int64s({1, 2});
  for (const Datum& d : {Datum(pair), holding(pair), Datum(OptionalDatum{})})
    EXPECT_EQ(bind(0, d), Code::kOk);
  for (const Datum& d :
       {Datum(ints), holding(ints), holding(Tensor::Of<float>({3}, {1, 2, 3})),
        Datum(SequenceDatum{{pair}}), holding(SequenceDatum{{pair}}), holding(Tensor()), Datum(),
        Datum(MapDatum{ints, std::make_shared<const Datum>(SequenceDatum{{pair, pair}})})})
    EXPECT_EQ(bind(0, d), Code::kInvalidArgument);
  // Shapes of elements are not compared.
  for (const Datum& d : {Datum(SequenceDatum{}), Datum(SequenceDatum{{ints, Tensor::Int64s({1})}}),
                         Datum(SequenceDatum{{Tensor::Scalar<int64_t>(1)}})})
    EXPECT_EQ(bind(1, d), Code::kOk);
  for (const Datum& d : {Datum(ints), Datum(SequenceDatum{{ints, pair}})})
    EXPECT_EQ(bind(1, d), Code::kInvalidArgument);
}

}  // namespace
}  // namespace infer
