#pragma once
/// Finding a pattern in a graph: what it bound, or why it does not fit.
#include <optional>
#include <span>

#include "lib/pattern/pattern.h"

namespace infer {

/// What a pattern bound. Valid until the graph changes.
class Match {
 public:
  /// The value that `p` bound; nullptr for an omitted operand. Pre: p took part (see Has).
  Value* operator[](const Pattern& p) const;
  /// `p` took part in the alternative that fits, and bound a value.
  bool Has(const Pattern& p) const;
  /// Which alternative of a OneOf fits. Pre: it took part.
  size_t choice(const Pattern& p) const;
  /// The node that makes p's value. Pre: p is an operator.
  const Node& node(const Pattern& p) const { return *(*this)[p]->producer(); }
  const Tensor& tensor(const Pattern& p) const { return *(*this)[p]->constant(); }
  double scalar(const Pattern& p) const { return tensor(p).At(0); }
  Value* root() const { return bound_.front().value; }
  /// Every node that an operator of the pattern bound, once, root first.
  const std::vector<Node*>& nodes() const { return nodes_; }

 private:
  friend class Matcher;
  struct Binding {
    const Pattern::Data* pattern;
    Value* value;
    size_t choice;
  };
  const Binding* Find(const Pattern& p) const;
  std::vector<Binding> bound_;
  std::vector<Node*> nodes_;
};

/// The mismatch found deepest in a pattern.
struct Mismatch {
  int matched = 0;                 ///< operators that fitted before it
  int of = 0;                      ///< operators of the pattern
  std::string text;                ///< "'r' is not = 1.41421, it is 1.5"
  std::vector<const Node*> nodes;  ///< what those operators bound, root first
  /// "matched 3 of 5 nodes (Mul_7, Add_6, Erf_5): 'r' is not = 1.41421, it is 1.5".
  std::string ToString() const;
  /// Of a pattern of three operators or more more than two thirds fitted: worth to be told.
  bool is_near() const { return of >= 3 && 3 * matched > 2 * of; }
};

/// Binds `roots[0]` to the DAG that computes `root`, and every further root to a value that shares
/// an operand with what is bound before it (siblings over one value), or that has the first root
/// among its parts: then matching begins inside, and the first root is an inner value of the match.
/// Operands of commutative operators are tried in both orders. On failure `why`, when given, says
/// what was in the way.
std::optional<Match> FindMatch(std::span<const Pattern> roots, Value* root,
                               Mismatch* why = nullptr);
/// The same where the values of several roots are given. Pre: one at least.
std::optional<Match> FindMatch(std::span<const Pattern> roots, std::span<Value* const> values,
                               Mismatch* why = nullptr);
inline std::optional<Match> FindMatch(const Pattern& p, Value* root, Mismatch* why = nullptr) {
  return FindMatch(std::span(&p, 1), root, why);
}

}  // namespace infer
