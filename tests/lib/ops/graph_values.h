#pragma once
/// Text graphs in, values out: what tests of operators are written with.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <complex>
#include <string>
#include <utility>
#include <vector>

#include "lib/ir/eval.h"
#include "lib/ir/graph.h"
#include "lib/ir/inference.h"
#include "lib/ir/text.h"
#include "lib/ops/registry.h"
#include "lib/support/random.h"
#include "lib/support/strings.h"

namespace infer {

inline const OpRegistry& TestOps() {
  static const OpRegistry ops = AllOps();
  return ops;
}

/// "f32[2] {1, 2}" of every output, joined by "; ", or the error's message.
inline std::string ValuesOf(std::string_view text, const std::vector<Datum>& inputs = {}) {
  auto g = ParseGraph(text, TestOps());
  if (!g.ok()) return g.status().message();
  auto out = Evaluate(*g, inputs);
  if (!out.ok()) return out.status().message();
  std::vector<std::string> texts;
  for (const Datum& d : *out) texts.push_back(d.is_tensor() ? ToString(d.tensor(), 64) : "?");
  return Join(texts, "; ");
}

/// "f32[2,N]" of every output, with known elements as "i64[2] = {N, 3}"; or the error's message.
inline std::string TypesOf(std::string_view text) {
  auto g = ParseGraph(text, TestOps());
  if (!g.ok()) return g.status().message();
  std::vector<std::string> texts;
  for (const Value* v : g->outputs()) {
    std::string s = ToString(v->type());
    if (v->elements()) {
      std::vector<std::string> e;
      for (const Dim& d : *v->elements()) e.push_back(d.ToString());
      s += Cat(" = {", Join(e, ", "), "}");
    }
    texts.push_back(std::move(s));
  }
  return Join(texts, "; ");
}

/// Small values, of both signs where the type has them; an open extent becomes 2.
inline Tensor ExampleInput(const TensorType& type, Random& random) {
  Dims dims;
  for (const Dim& d : type.shape.dims()) dims.push_back(d.is_static() ? d.value() : 2);
  Tensor t(type.dtype, dims);
  for (int64_t i = 0; i < t.num_elements(); ++i) {
    if (type.dtype == DType::kString)
      t.mutable_strings()[static_cast<size_t>(i)] = Cat("s", random.Below(3));
    else if (type.dtype == DType::kBool || IsUnsignedInteger(type.dtype))
      t.SetInt(i, random.Below(2));
    else if (IsInteger(type.dtype))
      t.SetInt(i, 1 + random.Below(2));
    else
      t.Set(i, random.Normal());
  }
  return t;
}

/// One operator on constants: the body of a graph whose result is y.
struct ValueCase {
  std::string_view body;    ///< "x = const ... y = Op(x)"
  std::string_view expect;  ///< ToString of y, or a part of the error's message
};
inline void CheckValues(std::initializer_list<ValueCase> cases) {
  for (const ValueCase& c : cases)
    EXPECT_THAT(ValuesOf(Cat("graph g() -> (y) { ", c.body, " }")),
                ::testing::HasSubstr(std::string(c.expect)))
        << c.body;
}

struct TypeCase {
  std::string_view graph;
  std::string_view expect;
};
inline void CheckTypes(std::initializer_list<TypeCase> cases) {
  for (const TypeCase& c : cases)
    EXPECT_THAT(TypesOf(c.graph), ::testing::HasSubstr(std::string(c.expect))) << c.graph;
}

/// Random elements of any type: normal floats, integers from the lowest 256 of the type.
inline Tensor RandomTensor(Random& random, DType t, Dims dims) {
  Tensor out(t, std::move(dims));
  const uint32_t mask = (1u << std::min(BitWidth(t), 8)) - 1;
  for (int64_t i = 0; i < out.num_elements(); ++i) {
    const auto at = static_cast<size_t>(i);
    if (t == DType::kString)
      out.mutable_strings()[at] = std::string(1, 'a' + random.Below(26));
    else if (t == DType::kC64)
      out.mutable_data<std::complex<float>>()[at] = {static_cast<float>(random.Normal()), 1};
    else if (t == DType::kC128)
      out.mutable_data<std::complex<double>>()[at] = {random.Normal(), 2};
    else if (t == DType::kBool)
      out.SetInt(i, random.Below(2));
    else if (IsInteger(t))
      out.SetInt(i, IntegerMin(t) + static_cast<int64_t>(random.NextU32() & mask));
    else
      out.Set(i, random.Normal());
  }
  return out;
}

}  // namespace infer
