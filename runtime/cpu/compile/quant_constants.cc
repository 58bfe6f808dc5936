#include <algorithm>
#include <optional>
#include <unordered_set>

#include "lib/ir/eval.h"
#include "lib/ir/replacement.h"
#include "lib/ir/roles.h"
#include "runtime/cpu/compile/quant_spellings.h"
#include "runtime/cpu/compile/quant_walk.h"
#include "runtime/plan_ir/groups/quant_group.h"

namespace infer {
namespace {

/// A constant result may be larger than its operands by so many bytes.
constexpr int64_t kMostGrowth = int64_t{1} << 16;

class ConstantReader {
 public:
  explicit ConstantReader(Graph& g) : g_(g), editor_(g) {}

  Result<int> Run() {
    INFER_TRY(ForEachNode(g_, [this](Node& n) { return Skip(n); }));
    MarkParameters();
    INFER_TRY(ForEachNode(g_, [this](Node& n) { return Fold(n); }));
    if (gone_ > 0) editor_.Sweep();
    return gone_;
  }

 private:
  /// A view under the extents that are there, a conversion to the type that is there.
  static bool ChangesNothing(const Node& n) {
    const Value *const x = n.input(0), *const y = n.output();
    if (!x || !HasOneResult(n) || !x->type().is_tensor() || !y->type().is_tensor() ||
        x->dtype() != y->dtype() || n.Is(Trait::kQuantization))
      return false;
    return n.Is(Trait::kConversion) ||
           (n.Is(Trait::kView) && (n.Is(Trait::kUnary) || SameShape(*x, *y)));
  }

  Status Skip(Node& n) {
    if (n.inputs().empty() || n.outputs().empty() || !ChangesNothing(n)) return {};
    Value *const x = n.input(0), *const y = n.output();
    if (y->is_output()) return {};
    if (!x->type().Refines(y->type())) {
      auto both = Meet(x->type(), y->type());
      if (!both.ok() || x->is_input() || x->is_constant()) return {};
      editor_.SetType(x, *std::move(both));
    }
    INFER_TRY(editor_.ReplaceAllUses(y, x));
    editor_.Erase(n);
    ++gone_;
    return {};
  }

  /// Marks the scales and zero points of operators on codes, and all values that they are computed
  /// from.
  void MarkParameters() {
    for (auto it = g_.nodes().rbegin(); it != g_.nodes().rend(); ++it) {
      const Node& n = **it;
      const auto is_marked = [this](const Value* v) { return v && marked_.contains(v); };
      if (!n.Is(Trait::kQuantization) &&
          std::none_of(n.outputs().begin(), n.outputs().end(), is_marked))
        continue;
      marked_.insert(n.inputs().begin(), n.inputs().end());
    }
  }

  /// Bytes of tensors whose extents are known.
  static std::optional<int64_t> BytesOf(const std::vector<Value*>& values) {
    int64_t sum = 0;
    for (const Value* v : values) {
      if (!v) continue;
      if (!v->type().is_tensor() || !v->tensor_type().is_static()) return std::nullopt;
      const auto count = CheckedNumElements(v->shape().static_dims());
      if (!count || v->dtype() == DType::kString) return std::nullopt;
      sum += PackedBytes(v->dtype(), *count);
    }
    return sum;
  }

  Status Fold(Node& n) {
    // Kernels take the weights as codes.
    if (n.Is(Trait::kDequantize) || !n.subgraphs().empty() || !n.def().deterministic ||
        n.inputs().empty())
      return {};
    if (!std::all_of(n.inputs().begin(), n.inputs().end(),
                     [](const Value* v) { return !v || v->is_constant(); }) ||
        !std::all_of(n.outputs().begin(), n.outputs().end(), [this](const Value* v) {
          return !v || (marked_.contains(v) && !v->is_output());
        }))
      return {};
    const auto made = BytesOf(n.outputs()), read = BytesOf(n.inputs());
    if (!made || !read || *made > *read + kMostGrowth) return {};
    const auto results = EvaluateConstant(n, g_.ops());
    if (!results.ok()) return {};  // as a step, it says so when it runs
    for (size_t i = 0; i < n.outputs().size(); ++i)
      if (n.output(i) && !ValueType((*results)[i].tensor().type()).Refines(n.output(i)->type()))
        return {};
    for (size_t i = 0; i < n.outputs().size(); ++i)
      if (n.output(i)) editor_.SetConstant(n.output(i), (*results)[i].tensor());
    editor_.Erase(n);
    ++gone_;
    return {};
  }

  Graph& g_;
  GraphEditor editor_;
  std::unordered_set<const Value*> marked_;
  int gone_ = 0;
};

}  // namespace

Result<int> ReadQuantConstants(Graph& g) {
  return HasQuantization(g) ? ConstantReader(g).Run() : Result<int>(0);
}

}  // namespace infer
