#include "lib/tensor/equations.h"

namespace infer {
namespace {

thread_local std::vector<ExtentEquation>* t_equations = nullptr;

void State(const Dim& a, const Dim& b, bool broadcast) {
  if (!t_equations || a.is_unknown() || b.is_unknown() || a == b) return;
  if (a.is_static() && b.is_static()) return;
  t_equations->push_back({a, b, broadcast});
}

}  // namespace

CollectExtentEquations::CollectExtentEquations(std::vector<ExtentEquation>* out)
    : outer_(t_equations) {
  t_equations = out;
}

CollectExtentEquations::~CollectExtentEquations() { t_equations = outer_; }

void StateEqual(const Dim& a, const Dim& b) { State(a, b, false); }

bool StateBroadcast(const Dim& a, const Dim& b) {
  State(a, b, true);
  return t_equations != nullptr;
}

}  // namespace infer
