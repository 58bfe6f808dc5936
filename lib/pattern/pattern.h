#pragma once
/// Patterns are data: a DAG of operators with holes, that a value of a graph may fit
/// (lib/pattern/match.h). The same Pattern object used twice must bind the same value, so
/// `Op("Max", x, Op("Mul", x, c))` cannot be taken for max(x, y*c). Modifiers (Shared, Where, ...)
/// return a *new* pattern: apply them where the pattern is made.
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lib/ir/graph.h"

namespace infer {

class Pattern {
 public:
  enum class Kind : uint8_t {
    kAny,       ///< every value
    kConstant,  ///< a value known before the run
    kOp,        ///< a result of one of `ops` whose operands fit `operands`
    kOneOf,     ///< whatever fits one of `operands`; tried in order
  };
  struct OpName {
    std::string domain, name;
  };
  /// A condition on the bound value; `text` completes "'x' is not ...".
  struct Condition {
    std::string text;
    std::function<bool(const Value&)> holds;
  };
  struct Data {
    Kind kind = Kind::kAny;
    std::vector<OpName> ops = {};
    std::vector<Pattern> operands = {};
    std::vector<Condition> where = {};
    size_t output = 0;         ///< which result of the node
    bool shared = false;       ///< may have uses outside of the match
    bool or_omitted = false;   ///< as an operand: may be missing
    bool more_inputs = false;  ///< the node may have further inputs
    bool ordered = false;      ///< operands of a commutative operator are not swapped
    /// Patterns with the same token are results of one node (OpResults).
    std::shared_ptr<const int> same_node = {};
  };

  /// Any value.
  Pattern() : Pattern(Data{}) {}
  explicit Pattern(Data d) : d_(std::make_shared<const Data>(std::move(d))) {}

  /// Inner values of a match disappear, so by default nothing else may read them. This one stays
  /// where something does.
  Pattern Shared() const;
  Pattern Where(std::string text, std::function<bool(const Value&)> holds) const;
  /// The producer's attribute (or its default) equals `value`.
  Pattern With(std::string attr, AttrValue value) const;
  Pattern OrOmitted() const;
  Pattern MoreInputs() const;
  Pattern Ordered() const;
  Pattern Output(size_t i) const;

  const Data& operator*() const { return *d_; }
  const Data* operator->() const { return d_.get(); }
  const Data* id() const { return d_.get(); }

 private:
  std::shared_ptr<const Data> d_;
};

Pattern Any();
Pattern Constant();
/// A constant with one element.
Pattern Scalar();
/// A constant all of whose elements are `value`, as far as their type can say it.
Pattern Number(double value);
/// `names`: "Mul", "infer::Silu", or alternatives "Squeeze|Reshape"; "*": every operator. Operands
/// in order; those that the pattern does not name must be omitted in the graph unless MoreInputs().
Pattern Op(std::string_view names, std::vector<Pattern> operands);
template <typename... P>
Pattern Op(std::string_view names, const Pattern& first, const P&... rest) {
  return Op(names, std::vector<Pattern>{first, rest...});
}
/// The first `count` results of one node. Results that are not used in a pattern must be dead.
std::vector<Pattern> OpResults(std::string_view names, const std::vector<Pattern>& operands,
                               size_t count);
Pattern OneOf(std::vector<Pattern> alternatives);
/// `names`(x) or x itself: a cast, a transposition or the like that may stand there.
Pattern Optional(std::string_view names, const Pattern& x);

/// x, next(x), next(next(x)) and so on, `most` times at most; the first that fits.
Pattern UpTo(size_t most, const Pattern& x, const std::function<Pattern(const Pattern&)>& next);

/// "Mul(a, Sigmoid(a))": holes that occur twice get a letter, others are "_".
std::string Describe(const Pattern& p);
/// Operators that the root of a match may be, alternatives resolved; none where it may be any.
std::vector<Pattern::OpName> RootOps(const Pattern::Data& p);
inline std::vector<Pattern::OpName> RootOps(const Pattern& p) { return RootOps(*p); }
/// The longest path from the root to a leaf, in operators.
int Height(const Pattern& p);
/// How many operators the smallest alternative has: optional casts are not missed.
int CountOps(const Pattern& p);

/// Every element is `wanted`; where that is no short number (sqrt 2), within what rounding it to
/// the type explains, 1e-4 relative for f32: files carry constants like 1.4142.
bool IsNumber(const Tensor& t, double wanted);

}  // namespace infer
