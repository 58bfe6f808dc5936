/// Sanity of every operator of the registry.
#include "lib/ops/registry.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "lib/ir/text.h"
#include "lib/support/strings.h"

namespace infer {
namespace {

/// A type string is a variable of the constraints, an element type, or one wrapped in seq/optional.
bool IsKnownType(const OpDef& def, std::string_view type) {
  for (const TypeConstraint& c : def.constraints)
    if (c.var == type) return true;
  for (std::string_view wrap : {"seq(", "optional("})
    if (type.starts_with(wrap) && type.ends_with(")"))
      return IsKnownType(def, type.substr(wrap.size(), type.size() - wrap.size() - 1));
  return ParseDType(type).has_value();
}

bool HasKind(const AttrValue& v, AttrKind kind) {
  switch (kind) {
    case AttrKind::kInt: return std::holds_alternative<int64_t>(v);
    case AttrKind::kFloat: return std::holds_alternative<float>(v);
    case AttrKind::kString: return std::holds_alternative<std::string>(v);
    case AttrKind::kInts: return std::holds_alternative<std::vector<int64_t>>(v);
    case AttrKind::kFloats: return std::holds_alternative<std::vector<float>>(v);
    case AttrKind::kStrings: return std::holds_alternative<std::vector<std::string>>(v);
    case AttrKind::kTensor: return std::holds_alternative<Tensor>(v);
    default: return false;
  }
}

void CheckParams(const OpDef& def, const std::vector<ParamDef>& params) {
  std::set<std::string_view> names;
  for (size_t i = 0; i < params.size(); ++i) {
    EXPECT_TRUE(names.insert(params[i].name).second) << params[i].name << " stands twice";
    EXPECT_TRUE(IsKnownType(def, params[i].type)) << params[i].name << ": " << params[i].type;
    EXPECT_TRUE(params[i].arity != Arity::kVariadic || i + 1 == params.size())
        << params[i].name << " is variadic but not last";
  }
}

TEST(Registry, EveryOperatorIsWellFormed) {
  const OpRegistry ops = AllOps();
  ASSERT_FALSE(ops.all().empty());
  for (const OpDef* def : ops.all()) {
    SCOPED_TRACE(Cat(def->domain, "::", def->name));
    EXPECT_FALSE(def->doc.empty());
    ASSERT_FALSE(def->versions.empty());
    EXPECT_TRUE(std::is_sorted(def->versions.begin(), def->versions.end()));
    EXPECT_EQ(std::adjacent_find(def->versions.begin(), def->versions.end()), def->versions.end());
    EXPECT_GE(def->since, def->versions.front());
    EXPECT_LE(def->since, def->versions.back());
    CheckParams(*def, def->inputs);
    CheckParams(*def, def->outputs);
    std::set<std::string_view> attrs;
    for (const AttrDef& a : def->attrs) {
      EXPECT_TRUE(attrs.insert(a.name).second) << a.name << " stands twice";
      const bool has_default = !std::holds_alternative<std::monostate>(a.default_value);
      EXPECT_TRUE(!has_default || HasKind(a.default_value, a.kind)) << a.name;
      EXPECT_FALSE(has_default && a.required) << a.name;
    }
    std::set<std::string_view> vars;
    for (const TypeConstraint& c : def->constraints) {
      EXPECT_TRUE(vars.insert(c.var).second) << c.var << " stands twice";
      EXPECT_FALSE(c.types.empty()) << c.var;
    }
  }
}

/// What an example says when it is run is the business of examples_test.cc.
TEST(Registry, EveryOperatorHasAnExampleThatUsesIt) {
  const OpRegistry ops = AllOps();
  for (const OpDef* def : ops.all()) {
    SCOPED_TRACE(Cat(def->domain, "::", def->name));
    if (def->retired()) continue;
    if (def->example.empty()) {
      // tests/lib/ir and the conformance cases run these.
      EXPECT_TRUE(def->name == "Loop" || def->name == "Scan") << "no example";
      continue;
    }
    const auto g = ParseGraph(def->example, ops);
    ASSERT_TRUE(g.ok()) << g.status().message();
    EXPECT_TRUE(std::any_of(g->nodes().begin(), g->nodes().end(),
                            [&](const auto& node) { return &node->def() == def; }));
  }
}

TEST(Registry, FindsByDomain) {
  const OpRegistry ops = AllOps();
  ASSERT_NE(ops.Find("Add"), nullptr);
  EXPECT_EQ(ops.Find("ai.onnx", "Add"), ops.Find("Add"));
  EXPECT_EQ(ops.Find("com.microsoft", "Add"), nullptr);
  EXPECT_NE(ops.Find("com.microsoft", "Gelu"), ops.Find("Gelu"));
}

}  // namespace
}  // namespace infer
