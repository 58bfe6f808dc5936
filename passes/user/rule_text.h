#pragma once
/// A file of rules as read, before anything is made of it (docs/rules.md has the grammar).
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/ops/op_def.h"

namespace infer {

/// What a hole of a pattern may be bound to: `x`, `w: const f32[N,3]`, `k: scalar`, `b?: f32|f16`.
struct HoleText {
  std::string name;
  enum class Kind : uint8_t { kAny, kConstant, kScalar } kind = Kind::kAny;
  bool optional = false;   ///< may be an omitted operand
  TypeSet types = {};      ///< empty: every type
  bool has_shape = false;  ///< false: every shape
  bool more_dims = false;  ///< `[..., N]`: any dimensions before the others
  std::vector<Dim> dims = {};
  size_t at = 0;  ///< offset in the file
};

struct AttributeText {
  std::string name;
  AttrValue value = {};
  std::string variable = {};  ///< of `$variable`; then `value` is not used
  size_t at = 0;
};

/// a, _ = Op|Other(x, _) {axis=1, mode=$mode}   or   c = const ...
struct StatementText {
  std::vector<std::string> results;  ///< "" is `_`
  std::optional<Tensor> constant = {};
  std::vector<const OpDef*> ops = {};
  std::vector<std::string> operands = {};  ///< "" is `_`
  std::vector<AttributeText> attributes = {};
  size_t at = 0;
};

/// graph NAME(holes) -> (outputs) { statements }. Every name is defined once, before its use.
struct PatternText {
  std::vector<HoleText> holes;
  std::vector<std::string> outputs;
  std::vector<StatementText> statements;
  size_t at = 0;

  const HoleText* FindHole(std::string_view name) const;
  /// The statement that makes `name`; nullptr for a hole.
  const StatementText* FindMaker(std::string_view name) const;
  /// Where `$variable` gets its value: the attribute that is said to be it, or else the one of that
  /// name, if one statement alone has it. {nullptr, ""} when there is none.
  std::pair<const StatementText*, std::string> FindVariable(std::string_view variable) const;
  /// Names that `root` is made from, with itself.
  std::set<std::string> Cone(std::string_view root) const;
  /// `of` is made from `output`.
  bool IsAncestor(std::string_view output, std::string_view of) const;
  /// Outputs that no other output is made from, by index; the first is the pattern's root.
  std::vector<size_t> Roots() const;
};

struct RuleText {
  std::string name, doc;
  std::vector<PatternText> matches;  ///< alternatives, at least one
  PatternText replacement;
  std::vector<std::string> fires;
  std::vector<std::pair<std::string, std::string>> silent;  ///< graph, reason
  std::string source;                                       ///< the rule as it stands in the file
  size_t at = 0;
};

/// InvalidModel "FILE:3:7: expected ...". Operators and attributes are looked up in `ops`; examples
/// are graphs that parse.
Result<std::vector<RuleText>> ParseRuleTexts(std::string_view text, const std::string& file,
                                             const OpRegistry& ops);

}  // namespace infer
