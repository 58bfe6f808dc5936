/// Every operator's example on the backend under test, against the reference evaluator.
#include "tests/suites/suite.h"

namespace infer {
namespace {

class OperatorExample : public ::testing::TestWithParam<const OpDef*> {};

TEST_P(OperatorExample, AgreesWithReference) {
  const OpDef& def = *GetParam();
  auto g = ParseGraph(def.example, SuiteOps());
  ASSERT_TRUE(g.ok()) << g.status().message();
  for (const Value* v : g->inputs())
    if (!v->type().is_tensor() || !v->shape().has_rank())
      GTEST_SKIP() << "input '" << v->name() << "' of the example has no known rank";
  if (!def.deterministic) GTEST_SKIP() << def.name << " is random";
  for (uint64_t seed = 1; seed <= 3; ++seed)
    CheckGraph(def.example, seed, std::max(def.tolerance, 1e-6));
}

/// The example's text with some of its outputs: bit i of `kept` stands for output i. Empty where it
/// has no such output.
std::string WithOutputs(std::string_view text, unsigned kept) {
  const size_t begin = text.find("-> (") + 4, end = text.find(") {", begin);
  const auto names = Split(text.substr(begin, end - begin), ',');
  if (names.size() < 2 || kept + 1 >= (1u << names.size())) return "";
  std::vector<std::string> left;
  for (size_t i = 0; i < names.size(); ++i)
    if (kept >> i & 1) left.emplace_back(names[i]);
  return Cat(text.substr(0, begin), Join(left, ", "), text.substr(end));
}

std::vector<const OpDef*> OpsWithExamples() {
  std::vector<const OpDef*> out;
  for (const OpDef* d : SuiteOps().all())
    if (!d->example.empty()) out.push_back(d);
  return out;
}

/// Whichever of an operator's results nobody reads, kernels find the others at their places.
TEST(Operators, ResultsThatNobodyReadsTakeNoPlace) {
  int run = 0;
  for (const OpDef* def : OpsWithExamples()) {
    if (!def->deterministic) continue;
    std::string text;
    for (unsigned kept = 1; !(text = WithOutputs(def->example, kept)).empty(); ++kept) {
      auto g = ParseGraph(text, SuiteOps());
      ASSERT_TRUE(g.ok()) << g.status().message() << "\n" << text;
      const bool ranked = std::all_of(g->inputs().begin(), g->inputs().end(), [](const Value* v) {
        return v->type().is_tensor() && v->shape().has_rank();
      });
      if (!ranked) break;
      CheckGraph(text, kept, std::max(def->tolerance, 1e-6));
      ++run;
    }
  }
  EXPECT_GT(run, 50);
}

/// Constants of u64 from 2^63 on, which no int64 holds: computed as they are, before the run and in
/// it.
TEST(Operators, LargeUnsignedConstants) {
  const uint64_t a = 18446744073709551613u, b = 7, high = (uint64_t{1} << 63) + 5;
  const Tensor x = Tensor::Of<uint64_t>({3}, {a, high, 2}),
               y = Tensor::Of<uint64_t>({3}, {b, 3, a});
  const struct {
    std::string_view op;
    Tensor want;
  } cases[] = {
      {"Max", Tensor::Of<uint64_t>({3}, {a, high, a})},
      {"Min", Tensor::Of<uint64_t>({3}, {b, 3, 2})},
      {"Div", Tensor::Of<uint64_t>({3}, {a / b, high / 3, 0})},
      {"Mod", Tensor::Of<uint64_t>({3}, {a % b, high % 3, 2})},
      {"Add", Tensor::Of<uint64_t>({3}, {a + b, high + 3, 2 + a})},
      {"Sub", Tensor::Of<uint64_t>({3}, {a - b, high - 3, 2 - a})},
      {"Mul", Tensor::Of<uint64_t>({3}, {a * b, high * 3, 2 * a})},
      {"Less", Tensor::Of<bool>({3}, {false, false, true})},
      {"GreaterOrEqual", Tensor::Of<bool>({3}, {true, true, false})},
      {"Equal", Tensor::Of<bool>({3}, {false, false, false})},
  };
  constexpr std::string_view kX = "const u64[3] {18446744073709551613, 9223372036854775813, 2}",
                             kY = "const u64[3] {7, 3, 18446744073709551613}";
  for (const auto& c : cases) {
    const std::vector<std::pair<std::string, std::vector<Datum>>> forms = {
        {Cat("graph g() -> (z) { x = ", kX, " y = ", kY, " z = ", c.op, "(x, y) }"), {}},
        {Cat("graph g(x: u64[3]) -> (z) { y = ", kY, " z = ", c.op, "(x, y) }"), {x}},
        {Cat("graph g(x: u64[3], y: u64[3]) -> (z) { z = ", c.op, "(x, y) }"), {x, y}},
    };
    for (const auto& [text, inputs] : forms) {
      CheckGraph(text, inputs);
      auto g = ParseGraph(text, SuiteOps());
      ASSERT_TRUE(g.ok()) << g.status().message();
      auto program = BackendUnderTest().Compile(*g, {});
      ASSERT_TRUE(program.ok()) << program.status().message();
      auto got = RunOnce(**program, inputs);
      ASSERT_TRUE(got.ok()) << got.status().message();
      EXPECT_TRUE(BitEqual((*got)[0].tensor(), c.want))
          << text << ": " << ToString((*got)[0].tensor()) << " wants " << ToString(c.want);
    }
  }
  // What follows from them: a cast, a choice, a fill.
  CheckGraph("graph g() -> (z) { x = const u64[2] {9223372036854775813, 3} z = Cast(x) {to=7} }",
             std::vector<Datum>{});
  CheckGraph("graph g() -> (z) { x = const u64[2] {9223372036854775813, 3} z = Cast(x) {to=1} }",
             std::vector<Datum>{});
  CheckGraph("graph g() -> (z) { x = const u64[2] {9223372036854775813, 3} z = Cast(x) {to=8} }",
             std::vector<Datum>{});
  CheckGraph(Cat("graph g(c: bool[3]) -> (z) { x = ", kX, " y = ", kY, " z = Where(c, x, y) }"));
  EXPECT_EQ(ToString(x), "u64[3] {18446744073709551613, 9223372036854775813, 2}");
}

INSTANTIATE_TEST_SUITE_P(AllOps, OperatorExample, ::testing::ValuesIn(OpsWithExamples()),
                         [](const auto& info) {
                           std::string name = Cat(info.param->domain, "_", info.param->name);
                           for (char& c : name)
                             if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
                           return Cat("op_", name);
                         });

}  // namespace
}  // namespace infer
