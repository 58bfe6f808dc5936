#pragma once
/// What inference states about extents that are still open: two of them must be equal for the
/// operator to be well-typed (total = past + new). Whoever looks for extents that fit collects the
/// statements; nobody else pays for them.
#include <vector>

#include "lib/tensor/shape.h"

namespace infer {

struct ExtentEquation {
  Dim a, b;                ///< not equal as expressions, and not both static
  bool broadcast = false;  ///< likely: one of the two may be 1 instead
};

/// While it lives, what is stated on this thread goes to `out`; of several the youngest collects.
/// Pre: `out` outlives it; scopes end in reverse order.
class CollectExtentEquations {
 public:
  explicit CollectExtentEquations(std::vector<ExtentEquation>* out);
  ~CollectExtentEquations();
  CollectExtentEquations(const CollectExtentEquations&) = delete;
  CollectExtentEquations& operator=(const CollectExtentEquations&) = delete;

 private:
  std::vector<ExtentEquation>* outer_;
};

/// States that `a` and `b` are equal wherever the operator runs. Nothing where one is unknown, both
/// are static, or they are equal already. Meet and Broadcast (lib/tensor/shape.h) state what they
/// find; inference functions state what they do not compute by these.
void StateEqual(const Dim& a, const Dim& b);
/// The same, but one of them may be 1, or the two are only likely to be equal. Whether somebody
/// collects: then what follows is inferred as if they were equal, so that equations behind it are
/// found, too.
bool StateBroadcast(const Dim& a, const Dim& b);

}  // namespace infer
