/// Promises of every operator's traits, on its example: elements are moved, or the right
/// results change when an element of an operand does.
#include <set>

#include "tests/lib/ops/node_sample.h"

namespace infer {
namespace {

/// Flat index in an operand of extents `from` of element i of a result of extents `to`.
int64_t BroadcastIndex(int64_t i, const Dims& to, const Dims& from) {
  int64_t flat = 0, step = 1;
  for (size_t d = 0; d < to.size(); ++d) {
    const int64_t at = i % to[to.size() - 1 - d];
    i /= to[to.size() - 1 - d];
    if (d >= from.size()) continue;
    const int64_t extent = from[from.size() - 1 - d];
    flat += (extent == 1 ? 0 : at) * step;
    step *= extent;
  }
  return flat;
}

/// Whether a change of element k of operand i changes no result but those that broadcasting gives
/// it to.
bool StaysInPlace(const NodeSample& s, size_t i) {
  const auto before = s.Result();
  if (!before || !IsNumeric(*before) || !IsNumeric(s.operand(i))) return true;
  if (s.operand(i).rank() > before->rank()) return false;
  for (int64_t k = 0; k < std::min<int64_t>(s.operand(i).num_elements(), 12); ++k) {
    const auto after = s.With(i, Moved(s.operand(i), k));
    if (!after) continue;  // refused: an exponent, a shift
    if (after->dims() != before->dims()) return false;
    for (int64_t r = 0; r < after->num_elements(); ++r)
      if (!SameAt(*before, *after, r) &&
          BroadcastIndex(r, before->dims(), s.operand(i).dims()) != k)
        return false;
  }
  return true;
}

/// Whether a number of input 0's positions in result `o` grow by a constant step along each axis.
bool IsStridedPart(const NodeSample& s, size_t o) {
  Tensor positions = s.operand(0).Clone();
  if (!IsFloat(positions.dtype())) return false;
  for (int64_t k = 0; k < positions.num_elements(); ++k) positions.Set(k, static_cast<double>(k));
  const auto part = s.With(0, positions, o);
  if (!part || part->num_elements() == 0) return false;
  const Dims strides = Strides(part->dims());
  for (int a = 0; a < part->rank(); ++a) {
    if (part->dim(a) < 3) continue;
    const int64_t stride = strides[static_cast<size_t>(a)];
    const double step = part->At(stride) - part->At(0);
    for (int64_t k = 0; k + stride < part->num_elements(); ++k)
      if (k / stride % part->dim(a) + 1 < part->dim(a) &&
          part->At(k + stride) - part->At(k) != step)
        return false;
  }
  return true;
}

/// Result 0 grows as input 0 does, or as all floating-point operands do.
void ExpectScales(const NodeSample& s, const Tensor& result, double factor, bool all) {
  std::vector<Datum> given = s.operands;
  for (size_t i = 0; i < (all ? given.size() : 1); ++i) {
    if (!s.HasTensor(i) || !IsFloat(s.operand(i).dtype())) continue;
    Tensor t = s.operand(i).Clone();
    for (int64_t k = 0; k < t.num_elements(); ++k) t.Set(k, factor * s.operand(i).At(k));
    given[i] = std::move(t);
  }
  const auto scaled = s.Result(given);
  ASSERT_TRUE(scaled);
  for (int64_t k = 0; k < result.num_elements(); ++k)
    EXPECT_NEAR(scaled->At(k), factor * result.At(k), 1e-5 * (1 + std::abs(result.At(k)))) << k;
}

class TraitsOf : public ::testing::TestWithParam<const OpDef*> {};

TEST_P(TraitsOf, AreWhatTheExampleShows) {
  const OpDef& def = *GetParam();
  const Traits traits = def.traits;
  ASSERT_FALSE(traits.empty()) << "an operator says what it is (lib/ops/traits.h)";
  EXPECT_EQ(traits.Has(Trait::kRandom), !def.deterministic && !traits.Has(Trait::kControlFlow));
  const auto s = NodeSample::Of(def, def.example);
  if (!s || !s->HasTensor(0)) return;
  EXPECT_EQ(traits.Has(Trait::kControlFlow), !s->node->subgraphs().empty());
  if (traits.Has(Trait::kRandom)) return;
  const auto result = s->Result();
  if (!result) return;
  const Tensor& x = s->operand(0);
  if (traits.Has(Trait::kView)) {
    ASSERT_EQ(result->byte_size(), x.byte_size());
    EXPECT_TRUE(std::ranges::equal(result->bytes(), x.bytes()));
  }
  const bool adds = s->node->attrs().count("reduction") > 0;  // to what was there
  if (traits.Has(Trait::kMove) && !adds && IsNumeric(*result)) {
    std::set<double> elements = {0};
    for (size_t i = 0; i < s->operands.size(); ++i)
      if (s->HasTensor(i) && IsNumeric(s->operand(i)))
        for (int64_t k = 0; k < s->operand(i).num_elements(); ++k)
          elements.insert(s->operand(i).At(k));
    if (!traits.Has(Trait::kQuantization)) {
      for (int64_t k = 0; k < result->num_elements(); ++k)
        EXPECT_TRUE(elements.count(result->At(k))) << k << ": " << result->At(k);
    }
  }
  if (traits.Has(Trait::kUnary)) {
    EXPECT_EQ(result->dims(), x.dims());
    EXPECT_TRUE(StaysInPlace(*s, 0));
  }
  if (traits.Has(Trait::kElementwise))
    for (size_t i = 0; i < s->operands.size(); ++i)
      if (s->HasTensor(i)) {
        EXPECT_TRUE(StaysInPlace(*s, i)) << "operand " << i;
      }
  // One operand whose elements stay in their places: what else could it be?
  if (IsFloat(x.dtype()) && x.num_elements() > 1 && x.rank() > 1 && s->operands.size() == 1 &&
      IsNumeric(*result) && result->dims() == x.dims() && StaysInPlace(*s, 0)) {
    EXPECT_TRUE(traits.HasAny(Trait::kUnary | Trait::kView | Trait::kModel | Trait::kMove) ||
                traits.HasAny(Trait::kElementwise | Trait::kShapeMath));
  }
  if (traits.Has(Trait::kNormalization)) {
    EXPECT_EQ(result->dims(), x.dims());
  }
  if (traits.Has(Trait::kReduction)) {
    EXPECT_LE(result->num_elements(), x.num_elements());
  }
  if (traits.Has(Trait::kShapeMath)) {
    for (int64_t k = 0; k < x.num_elements(); ++k)
      if (const auto after = s->With(0, Moved(x, k))) {
        EXPECT_EQ(ToString(*after, 99), ToString(*result, 99));
      }
  }
  if (traits.Has(Trait::kStrided)) {
    for (size_t o = 0; o < s->node->outputs().size(); ++o) EXPECT_TRUE(IsStridedPart(*s, o));
  }
  if (traits.Has(Trait::kNonNegative)) {
    for (int64_t k = 0; k < result->num_elements(); ++k) EXPECT_GE(result->At(k), 0);
  }
  if (traits.Has(Trait::kConversion)) {
    EXPECT_EQ(result->dims(), x.dims());
  }
  if (traits.Has(Trait::kLookup)) {
    ASSERT_TRUE(s->HasTensor(1));
    EXPECT_TRUE(IsInteger(s->operand(1).dtype()));
  }
  if (traits.Has(Trait::kHomogeneous)) ExpectScales(*s, *result, 3, false);
  if (traits.Has(Trait::kAdditive)) ExpectScales(*s, *result, -2, true);
  const auto activation = s->node->attrs().find("activation");
  if (traits.Has(Trait::kContraction) && x.dtype() == DType::kF32 &&
      !traits.Has(Trait::kQuantization) && activation == s->node->attrs().end()) {
    Tensor twice = x.Clone(), zero = Tensor::Zeros(x.dtype(), x.dims());
    for (int64_t k = 0; k < x.num_elements(); ++k) twice.Set(k, 2 * x.At(k));
    const auto at_twice = s->With(0, twice), at_zero = s->With(0, zero);
    ASSERT_TRUE(at_twice && at_zero);
    for (int64_t k = 0; k < result->num_elements(); ++k)
      EXPECT_NEAR(at_twice->At(k) + at_zero->At(k), 2 * result->At(k),
                  1e-4 * (1 + std::abs(result->At(k))));
  }
}

std::vector<const OpDef*> AllDefs() {
  const auto all = TestOps().all();
  return {all.begin(), all.end()};
}

INSTANTIATE_TEST_SUITE_P(AllOps, TraitsOf, ::testing::ValuesIn(AllDefs()), [](const auto& info) {
  std::string name = Cat(info.param->domain, "_", info.param->name);
  std::replace(name.begin(), name.end(), '.', '_');
  return name;
});

}  // namespace
}  // namespace infer
