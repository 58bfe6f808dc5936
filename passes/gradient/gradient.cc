#include "passes/gradient/gradient.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "lib/ir/body.h"
#include "lib/ir/editor.h"
#include "lib/ir/inline.h"
#include "lib/ops/gradients/gradients.h"
#include "lib/support/strings.h"

namespace infer {
namespace {

bool IsFloatTensor(const Value& v) { return v.type().is_tensor() && IsFloat(v.dtype()); }

class Differentiation {
 public:
  Differentiation(Graph& g, size_t loss) : g_(g), editor_(g), loss_(loss) {}

  Result<std::vector<Value*>> Run(const std::vector<std::string>& wanted) {
    INFER_TRY(Check(wanted));
    INFER_TRY(Expand());
    MarkDependents();
    INFER_TRY(CheckReadersOfCodes());
    editor_.InsertAtEnd();
    INFER_TRY(Seed());
    // The nodes that are there now; rules add theirs behind them.
    std::vector<const Node*> nodes;
    for (const auto& n : g_.nodes()) nodes.push_back(n.get());
    for (auto n = nodes.rbegin(); n != nodes.rend(); ++n) INFER_TRY(Back(**n));
    std::vector<Value*> found;
    for (const Value* v : wanted_) {
      const auto it = gradients_.find(v);
      found.push_back(it == gradients_.end() ? nullptr : it->second);
    }
    return found;
  }

 private:
  Status Check(const std::vector<std::string>& wanted) {
    if (loss_ >= g_.outputs().size()) return InvalidArgument("there is no such output");
    for (const std::string& name : wanted) {
      Value* v = g_.FindValue(name);
      if (!v || v->producer())
        return InvalidArgument(Cat("'", name, "' is no input and no constant of the graph"));
      if (!IsFloatTensor(*v)) return InvalidArgument(Cat("'", name, "' is not floating-point"));
      wanted_.push_back(v);
    }
    return {};
  }

  /// Puts what they are made of in place of nodes on the way that have no rule.
  Status Expand() {
    constexpr int kMostRounds = 8;  // parts may be made of others themselves
    for (int round = 0; round < kMostRounds; ++round) {
      MarkDependents();
      std::vector<Node*> nodes;
      for (const auto& n : g_.nodes())
        if (IsOnTheWay(*n) && !FindGradient(n->def()) &&
            (n->def().decompose || !n->def().body.empty()))
          nodes.push_back(n.get());
      if (nodes.empty()) return {};
      for (Node* n : nodes) INFER_TRY(Replace(*n));
    }
    return {};
  }

  Status Replace(Node& n) {
    std::vector<Value*> operands;
    auto parts = PartsOf(n, g_.ops(), operands);
    if (!parts.ok()) return Named(n, parts.status());
    editor_.InsertBefore(n);
    std::vector<std::string> names = n.fused_from();
    auto made = InlineGraph(editor_, *parts, operands, names);
    if (!made.ok()) return Named(n, made.status());
    for (size_t i = 0; i < n.outputs().size(); ++i)
      if (n.output(i) && i < made->size() && (*made)[i])
        INFER_TRY(editor_.ReplaceAllUses(n.output(i), (*made)[i]));
    editor_.Erase(n);
    return {};
  }

  /// Values that depend on a wanted one through floating-point tensors and codes.
  void MarkDependents() {
    depends_.clear();
    depends_.insert(wanted_.begin(), wanted_.end());
    for (const auto& n : g_.nodes()) {
      if (std::none_of(n->inputs().begin(), n->inputs().end(),
                       [&](const Value* v) { return v && depends_.contains(v); }))
        continue;
      for (const Value* v : n->outputs())
        if (v && HasGradient(*v)) depends_.insert(v);
    }
  }

  /// Floating-point tensors and the codes that quantization makes of them.
  static bool HasGradient(const Value& v) {
    const Node* n = v.producer();
    return v.type().is_tensor() &&
           (n ? ResultHasGradient(n->def(), v.dtype()) : IsFloat(v.dtype()));
  }

  /// Codes are integers: nothing but dequantization is differentiated on them.
  Status CheckReadersOfCodes() const {
    for (const auto& n : g_.nodes())
      for (const Value* v : n->inputs())
        if (v && depends_.contains(v) && !IsFloatTensor(*v) && !n->Is(Trait::kDequantize))
          return Named(*n, Unsupported(Cat("it computes on the codes '", v->name(), "'")));
    return {};
  }

  bool IsOnTheWay(const Node& n) const {
    return std::any_of(n.outputs().begin(), n.outputs().end(),
                       [&](const Value* v) { return v && depends_.contains(v); });
  }

  Status Seed() {
    const Value* loss = g_.outputs()[loss_];
    if (!IsFloatTensor(*loss) || !loss->tensor_type().is_static() ||
        NumElements(loss->shape().static_dims()) != 1)
      return InvalidArgument(Cat("'", loss->name(), "' is ", ToString(loss->type()),
                                 ": a loss is one floating-point number"));
    Tensor one(loss->dtype(), loss->shape().static_dims());
    one.Set(0, 1);
    gradients_[loss] = editor_.AddConstant(std::move(one), "loss_gradient");
    return {};
  }

  static Status Named(const Node& n, Status s) {
    return std::move(s).In(Cat("no gradient through ", Describe(n)));
  }

  /// Gives the operands of `n` what its results' gradients say.
  Status Back(const Node& n) {
    std::vector<size_t> asked;
    for (size_t i = 0; i < n.inputs().size(); ++i)
      if (n.input(i) && depends_.contains(n.input(i)) && HasGradient(*n.input(i)))
        asked.push_back(i);
    const bool reaches_loss =
        std::any_of(n.outputs().begin(), n.outputs().end(),
                    [&](const Value* v) { return v && gradients_.contains(v); });
    if (asked.empty() || !reaches_loss) return {};
    if (!n.subgraphs().empty())
      return Named(n, Unsupported("bodies of control flow are not differentiated"));
    INFER_TRY(CheckExtents(n));
    auto rule = GradientOf(CallOf(n), asked, g_.ops());
    if (!rule.ok()) return Named(n, rule.status());
    auto made = InlineGraph(editor_, *rule, OperandsOfRule(n), n.fused_from());
    if (!made.ok()) return Named(n, made.status());
    for (size_t k = 0; k < asked.size(); ++k) {
      auto added = Add(*n.input(asked[k]), (*made)[k]);
      if (!added.ok()) return Named(n, std::move(added));
    }
    return {};
  }

  static Status CheckExtents(const Node& n) {
    for (const auto* values : {&n.inputs(), &n.outputs()})
      for (const Value* v : *values)
        if (v && (!v->type().is_tensor() || !v->tensor_type().is_static()))
          return Named(n, Unsupported(Cat("'", v->name(), "' is ", ToString(v->type()),
                                          ": gradients want extents that are known")));
    return {};
  }

  std::vector<Value*> OperandsOfRule(const Node& n) {
    std::vector<Value*> operands, results;
    for (Value* v : n.inputs())
      if (v) operands.push_back(v);
    for (Value* v : n.outputs())
      if (v && HasGradient(*v)) results.push_back(v);
    operands.insert(operands.end(), results.begin(), results.end());
    for (const Value* v : results) {
      const auto it = gradients_.find(v);
      operands.push_back(it != gradients_.end() ? it->second : Zeros(*v));
    }
    return operands;
  }

  /// Of a result that the loss does not depend on.
  Value* Zeros(const Value& v) {
    return editor_.AddConstant(Tensor::Zeros(v.dtype(), v.shape().static_dims()));
  }

  /// Adds one more gradient of `v`, summed to its shape.
  Status Add(const Value& v, Value* gradient) {
    INFER_ASSIGN(gradient, SumTo(gradient, v.shape().static_dims()));
    Value*& sum = gradients_[&v];
    if (sum) {
      INFER_ASSIGN(gradient, editor_.Add("Add", {sum, gradient}));
    }
    sum = gradient;
    return {};
  }

  /// The one place where broadcasting is undone: sums over the axes that `dims` lacks or has with
  /// extent 1.
  Result<Value*> SumTo(Value* v, const Dims& dims) {
    const Dims from = v->shape().static_dims();
    if (from == dims) return v;
    // A rule may leave the gradient of an operand that was not broadcast smaller than the operand.
    std::vector<int64_t> axes;
    const size_t more = from.size() - std::min(from.size(), dims.size());
    for (size_t a = 0; a < from.size(); ++a)
      if (a < more || (dims[a - more] == 1 && from[a] != 1))
        axes.push_back(static_cast<int64_t>(a));
    // Neighbouring axes at once, from the last: kernels of reductions want those.
    while (!axes.empty()) {
      std::vector<int64_t> run = {axes.back()};
      axes.pop_back();
      for (; !axes.empty() && axes.back() == run.front() - 1; axes.pop_back())
        run.insert(run.begin(), axes.back());
      INFER_ASSIGN(v, editor_.Add("ReduceSum", {v, Constant(run)}, {{"keepdims", int64_t{1}}}));
    }
    if (NumElements(v->shape().static_dims()) < NumElements(dims)) {
      INFER_ASSIGN(v, editor_.Add("Expand", {v, Constant(dims)}));
    }
    if (v->shape().static_dims() == dims) return v;
    return editor_.Add("Reshape", {v, Constant(dims)});
  }

  Value* Constant(const std::vector<int64_t>& values) {
    return editor_.AddConstant(Tensor::Int64s(values));
  }

  Graph& g_;
  GraphEditor editor_;
  size_t loss_;
  std::vector<Value*> wanted_;
  std::unordered_set<const Value*> depends_;
  std::unordered_map<const Value*, Value*> gradients_;
};

}  // namespace

Result<std::vector<Value*>> AddGradients(Graph& g, size_t loss,
                                         const std::vector<std::string>& wanted) {
  return Differentiation(g, loss).Run(wanted);
}

}  // namespace infer
