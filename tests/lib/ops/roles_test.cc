/// Promises of the traits that say what a call does to operands of fixed positions, and of bounds,
/// on every operator's example; and that an operator which behaves so says so.
#include "lib/ir/roles.h"

#include <algorithm>

#include "tests/lib/ops/node_sample.h"

namespace infer {
namespace {

/// Index of element i of a result of extents `to` in an operand that broadcasts to it.
int64_t InOperand(int64_t i, const Dims& to, const Dims& from) {
  int64_t flat = 0, step = 1;
  for (size_t d = 1; d <= to.size(); ++d) {
    const int64_t at = i % to[to.size() - d];
    i /= to[to.size() - d];
    if (d > from.size()) continue;
    const int64_t extent = from[from.size() - d];
    flat += (extent == 1 ? 0 : at) * step;
    step *= extent;
  }
  return flat;
}

bool IsFloatTensor(const NodeSample& s, size_t i) {
  return s.HasTensor(i) && IsFloat(s.operand(i).dtype());
}

/// Whether the result is f of two operands that broadcast, element by element.
bool IsOfTwo(const NodeSample& s, const Tensor& y, double (*f)(double, double)) {
  if (s.operands.size() != 2 || !IsFloatTensor(s, 0) || !IsFloatTensor(s, 1) || !IsFloat(y.dtype()))
    return false;
  const Tensor &a = s.operand(0), &b = s.operand(1);
  const auto dims = Broadcast(a.dims(), b.dims());
  if (!dims.ok() || *dims != y.dims()) return false;
  for (int64_t i = 0; i < y.num_elements(); ++i) {
    const double want =
        f(a.At(InOperand(i, y.dims(), a.dims())), b.At(InOperand(i, y.dims(), b.dims())));
    if (!(std::abs(y.At(i) - want) <= 1e-5 * (1 + std::abs(want)))) return false;
  }
  return true;
}

/// Elements before, along and behind an axis.
struct AroundAxis {
  int64_t outer = 1, extent = 1, inner = 1;
  AroundAxis(const Dims& dims, int64_t axis) {
    if (axis < 0) axis += static_cast<int64_t>(dims.size());
    for (size_t d = 0; d < dims.size(); ++d)
      (static_cast<int64_t>(d) < axis    ? outer
       : static_cast<int64_t>(d) == axis ? extent
                                         : inner) *= dims[d];
  }
  int64_t At(int64_t o, int64_t e, int64_t i) const { return (o * extent + e) * inner + i; }
};

void ExpectPermuted(const NodeSample& s, const Tensor& y) {
  const Tensor& x = s.operand(0);
  const auto perm = PermOf(*s.node, x.rank());
  ASSERT_EQ(perm.size(), x.dims().size());
  const Dims strides = Strides(x.dims());
  for (int64_t i = 0; i < y.num_elements(); ++i) {
    int64_t rest = i, from = 0;
    for (size_t d = perm.size(); d-- > 0; rest /= y.dims()[d])
      from += rest % y.dims()[d] * strides[static_cast<size_t>(perm[d])];
    EXPECT_EQ(y.At(i), x.At(from)) << i;
  }
}

void ExpectJoined(const NodeSample& s, const Tensor& y) {
  const auto axis = s.node->Attr<int64_t>("axis");
  const AroundAxis to(y.dims(), axis);
  int64_t begin = 0;
  for (size_t k = 0; k < s.operands.size(); ++k) {
    const AroundAxis from(s.operand(k).dims(), axis);
    for (int64_t o = 0; o < from.outer; ++o)
      for (int64_t e = 0; e < from.extent; ++e)
        for (int64_t i = 0; i < from.inner; ++i)
          EXPECT_EQ(y.At(to.At(o, begin + e, i)), s.operand(k).At(from.At(o, e, i)));
    begin += from.extent;
  }
  EXPECT_EQ(begin, to.extent);
}

void ExpectLookedUp(const NodeSample& s, const Tensor& y) {
  const Tensor& indices = s.operand(1);
  const AroundAxis from(s.operand(0).dims(), s.node->Attr<int64_t>("axis"));
  ASSERT_EQ(y.num_elements(), from.outer * indices.num_elements() * from.inner);
  for (int64_t o = 0; o < from.outer; ++o)
    for (int64_t j = 0; j < indices.num_elements(); ++j)
      for (int64_t i = 0; i < from.inner; ++i) {
        const int64_t at = (indices.IntAt(j) + from.extent) % from.extent;
        EXPECT_EQ(y.At((o * indices.num_elements() + j) * from.inner + i),
                  s.operand(0).At(from.At(o, at, i)));
      }
}

/// Both directions: the code that is nearest to x / scale + zero point, and what a code stands for.
void ExpectCodes(const NodeSample& s, const Tensor& y) {
  const bool quantize = s.node->Is(Trait::kQuantize);
  ASSERT_TRUE(s.HasTensor(1));
  const Tensor &x = s.operand(0), &scale = s.operand(1);
  EXPECT_TRUE(IsFloat(scale.dtype()));
  EXPECT_EQ(IsInteger(y.dtype()), quantize);
  EXPECT_EQ(IsInteger(x.dtype()), !quantize);
  const AroundAxis around(x.dims(), s.node->Attr<int64_t>("axis"));
  for (int64_t i = 0; i < x.num_elements(); ++i) {
    const int64_t at = scale.num_elements() == 1 ? 0 : i / around.inner % around.extent;
    const double zero = s.HasTensor(2) ? s.operand(2).At(at) : 0;
    if (quantize) {
      EXPECT_LE(std::abs(y.At(i) - (x.At(i) / scale.At(at) + zero)), 0.5 + 1e-4) << i;
    } else {
      EXPECT_NEAR(y.At(i), (x.At(i) - zero) * scale.At(at), 1e-5) << i;
    }
  }
}

/// Each element depends on its row; the result is linear in input 1, and is input 2 where that is
/// 0.
void ExpectRowsNormalized(const NodeSample& s, const Tensor& y) {
  const Tensor &x = s.operand(0), &scale = s.operand(1);
  const AroundAxis around(x.dims(), s.node->Attr<int64_t>("axis"));
  const int64_t row = around.extent * around.inner;
  for (int64_t k = 0; k < x.num_elements(); ++k) {
    const auto after = s.With(0, Moved(x, k));
    ASSERT_TRUE(after);
    for (int64_t i = 0; i < y.num_elements(); ++i)
      EXPECT_TRUE(i / row == k / row || SameAt(y, *after, i)) << k << " reaches " << i;
  }
  Tensor twice = scale.Clone();
  for (int64_t k = 0; k < scale.num_elements(); ++k) twice.Set(k, 2 * scale.At(k));
  const auto at_twice = s.With(1, twice),
             at_zero = s.With(1, Tensor::Zeros(scale.dtype(), scale.dims()));
  ASSERT_TRUE(at_twice && at_zero);
  for (int64_t i = 0; i < y.num_elements(); ++i) {
    const double added =
        s.HasTensor(2) ? s.operand(2).At(InOperand(i, y.dims(), s.operand(2).dims())) : 0;
    EXPECT_NEAR(at_zero->At(i), added, 1e-6);
    EXPECT_NEAR(at_twice->At(i) - y.At(i), y.At(i) - added, 1e-4);
  }
}

/// Numbers far and near on both sides of 0, in place of operand 0.
Tensor Ramp(const Tensor& like) {
  constexpr double kNumbers[] = {-9, -2, -0.5, 0.5, 2, 9};
  Tensor x = like.Clone();
  for (int64_t k = 0; k < x.num_elements(); ++k) x.Set(k, kNumbers[k % 6]);
  return x;
}

/// The result is the operand held between its own extremes, and not the operand itself.
bool LooksClamped(const Tensor& x, const Tensor& y) {
  double low = INFINITY, high = -INFINITY;
  for (int64_t k = 0; k < y.num_elements(); ++k) {
    low = std::min(low, y.At(k));
    high = std::max(high, y.At(k));
  }
  bool same = true;
  for (int64_t k = 0; k < y.num_elements(); ++k) {
    if (y.At(k) != std::min(std::max(x.At(k), low), high)) return false;
    same = same && x.At(k) == y.At(k);
  }
  return !same && low < high;
}

class RolesOf : public ::testing::TestWithParam<const OpDef*> {};

TEST_P(RolesOf, AreWhatTheExampleShows) {
  const OpDef& def = *GetParam();
  const Traits traits = def.traits;
  const auto s = NodeSample::Of(def, def.example);
  if (!s || !s->HasTensor(0) || !def.deterministic) return;
  const auto result = s->Result();
  if (!result) return;
  if (traits.Has(Trait::kElementwise)) {
    EXPECT_EQ(traits.Has(Trait::kSum),
              IsOfTwo(*s, *result, [](double a, double b) { return a + b; }));
    EXPECT_EQ(traits.Has(Trait::kProduct),
              IsOfTwo(*s, *result, [](double a, double b) { return a * b; }));
  } else {
    EXPECT_FALSE(traits.HasAny(Trait::kSum | Trait::kProduct));
  }
  if (traits.Has(Trait::kPermutation)) ExpectPermuted(*s, *result);
  if (traits.Has(Trait::kConcatenation)) ExpectJoined(*s, *result);
  if (traits.Has(Trait::kSliceLookup)) ExpectLookedUp(*s, *result);
  if (traits.HasAny(Trait::kQuantize | Trait::kDequantize)) ExpectCodes(*s, *result);
  EXPECT_EQ(
      traits.HasAny(Trait::kQuantize | Trait::kDequantize),
      traits.Has(Trait::kQuantization) && traits.Has(Trait::kConversion) && s->operands.size() > 1);
  if (traits.Has(Trait::kRowNormalization)) ExpectRowsNormalized(*s, *result);
  EXPECT_EQ(traits.Has(Trait::kRowNormalization),
            traits.Has(Trait::kNormalization) && def.FindAttr("axis") && s->operands.size() > 1);
}

TEST_P(RolesOf, BoundsAreThoseOfTheResult) {
  const OpDef& def = *GetParam();
  const auto s = NodeSample::Of(def, def.example);
  if (!s || !IsFloatTensor(*s, 0) || !def.traits.Has(Trait::kUnary)) {
    EXPECT_FALSE(def.clamp) << "bounds are of operators with trait kUnary";
    return;
  }
  const Tensor x = Ramp(s->operand(0));
  const auto y = s->With(0, x);
  if (!y || y->dims() != x.dims() || !IsFloat(y->dtype())) return;
  EXPECT_EQ(LooksClamped(x, *y), def.clamp != nullptr);
  const auto clamp = ClampOf(*s->node);
  ASSERT_EQ(clamp.has_value(), def.clamp != nullptr);
  for (int64_t k = 0; clamp && k < x.num_elements(); ++k)
    EXPECT_EQ(y->At(k), std::min(std::max(x.At(k), clamp->low), clamp->high)) << k;
}

std::vector<const OpDef*> DefsWithRoles() {
  const auto all = TestOps().all();
  return {all.begin(), all.end()};
}

INSTANTIATE_TEST_SUITE_P(AllOps, RolesOf, ::testing::ValuesIn(DefsWithRoles()),
                         [](const auto& info) {
                           std::string name = Cat(info.param->domain, "_", info.param->name);
                           std::replace(name.begin(), name.end(), '.', '_');
                           return name;
                         });

}  // namespace
}  // namespace infer
