#include "runtime/cpu/compile/expand.h"

#include <algorithm>

#include "lib/ir/body.h"
#include "lib/ir/editor.h"
#include "lib/ir/eval.h"
#include "lib/support/strings.h"
#include "runtime/cpu/kernels/common/kernels.h"

namespace infer {
namespace {

bool HasKnownExtent(const Value* v, int axis) {
  return !v || (v->type().is_tensor() && v->shape().has_rank() && v->shape().rank() > axis &&
                v->shape()[axis].is_static());
}

/// Scale and bias of a normalization over rows may have more elements than the rows, as far as
/// inference tells: their parts would broadcast the rows to them.
bool MayBeWiderThanRows(const Node& n) {
  const Shape& x = n.input(0)->shape();
  for (size_t i = 1; i < n.inputs().size(); ++i) {
    if (!n.input(i)) continue;
    const Shape& s = n.input(i)->shape();
    for (int back = 1; back <= s.rank(); ++back) {
      if (s[-back].is_static() && s[-back].value() == 1) continue;
      if (!x.has_rank() || back > x.rank() || x[-back] != s[-back]) return true;
    }
  }
  return false;
}

/// The operator refuses what its parts take: a label that is no class (an index of GatherElements
/// below 0 counts from the end), a window or grid of negative size, a state of another length than
/// the kernel's, a bias or mask of more axes than what it is added to. Whole where inference cannot
/// have seen it.
bool ChecksMoreThanParts(const Node& n) {
  for (size_t i = 1; i < n.inputs().size(); ++i)
    if (const Value* v = n.input(i); v && v->type().is_tensor() && !v->shape().has_rank())
      return true;
  if (n.Is(Trait::kRowNormalization) && MayBeWiderThanRows(n)) return true;
  if (n.Is("AffineGrid") || n.Is("CenterCropPad")) return !CallOf(n).elements(1);
  if (n.Is(Trait::kGenerator) && IsInteger(n.input(0)->dtype())) return !n.input(0)->constant();
  if (n.Is("CausalConvWithState")) return !HasKnownExtent(n.input(3), 2);
  return n.Is(Trait::kLoss);
}

bool IsMadeOfOthers(const Node& n) {
  if ((n.def().body.empty() && !n.def().decompose) || ChecksMoreThanParts(n)) return false;
  return std::all_of(n.inputs().begin(), n.inputs().end(), [](const Value* v) {
    return !v ||
           (v->type().is_tensor() && v->dtype() != DType::kF64 && v->dtype() != DType::kUndefined);
  });
}

class Expander {
 public:
  Expander(Graph& g, Node& node) : editor_(g), ops_(g.ops()), node_(node) {
    editor_.InsertBefore(node);
  }

  /// False: the node stays.
  Result<bool> Run() {
    std::vector<Value*> operands;
    const auto parts = PartsOf(node_, ops_, operands);
    if (!parts.ok() || parts->inputs().size() != operands.size()) return false;
    for (size_t i = 0; i < operands.size(); ++i) is_[parts->inputs()[i]] = operands[i];
    for (const auto& n : parts->nodes())
      if (!n->subgraphs().empty() || !Add(*n)) return Undo();
    std::vector<Value*> results(node_.outputs().size());
    for (size_t i = 0; i < results.size(); ++i) {
      if (!node_.output(i)) continue;
      if (i >= parts->outputs().size()) return Undo();
      results[i] = In(parts->outputs()[i]);
      // What only passes through would have two names.
      if (!results[i] || !results[i]->producer() || !IsMade(results[i]->producer())) return Undo();
      // The model may know more of the type than inference does.
      const auto both = Meet(results[i]->type(), node_.output(i)->type());
      if (!both.ok()) return Undo();
      editor_.SetType(results[i], *both);
    }
    std::vector<std::pair<Value*, std::string>> names;
    for (size_t i = 0; i < results.size(); ++i) {
      Value* old = node_.output(i);
      if (!old) continue;
      if (!old->is_output()) names.emplace_back(results[i], old->name());
      INFER_TRY(editor_.ReplaceAllUses(old, results[i]));
    }
    editor_.Erase(node_);
    for (const auto& [v, name] : names) editor_.Rename(v, editor_.FreshName(name));
    return true;
  }

 private:
  bool IsMade(const Node* n) const {
    return std::find(made_.begin(), made_.end(), n) != made_.end();
  }

  Value* In(const Value* v) {
    if (!v) return nullptr;
    const auto [it, is_new] = is_.try_emplace(v, nullptr);
    if (is_new && v->constant())
      it->second = editor_.AddConstant(*v->constant(), Cat(Prefix(), v->name()));
    return it->second;
  }

  std::string Prefix() const {
    const Value* first = node_.output(0);
    return Cat(first ? first->name() : node_.name(), "_");
  }

  /// Weights in another order take no more memory than they do, whatever their size.
  static bool OnlyMoves(const Node& n) {
    return n.IsAny(Trait::kView | Trait::kPermutation) && n.outputs().size() == 1;
  }

  /// Results of small constants become constants: the parts of a bias, a mask; so do weights that
  /// are moved only.
  bool Fold(const Node& n, const std::vector<Value*>& operands) {
    if (!n.def().deterministic || n.inputs().empty()) return false;
    int64_t elements = 0;
    std::vector<Datum> values;
    std::vector<const Datum*> given;
    for (const Value* v : operands) {
      if (v && !v->constant()) return false;
      values.push_back(v ? Datum(*v->constant()) : Datum());
      if (v) elements += v->constant()->num_elements();
    }
    if (elements > kMostFolded && !OnlyMoves(n)) return false;
    for (size_t i = 0; i < operands.size(); ++i)
      given.push_back(operands[i] ? &values[i] : nullptr);
    const auto results = EvaluateNode(n, given, ops_);
    if (!results.ok()) return false;
    for (size_t i = 0; i < n.outputs().size(); ++i) {
      if (!n.output(i)) continue;
      if (!(*results)[i].is_tensor()) return false;
      if ((*results)[i].tensor().num_elements() > std::max(elements, kMostFolded)) return false;
    }
    for (size_t i = 0; i < n.outputs().size(); ++i)
      if (n.output(i))
        is_[n.output(i)] =
            editor_.AddConstant((*results)[i].tensor(), Cat(Prefix(), n.output(i)->name()));
    return true;
  }

  bool Add(const Node& n) {
    std::vector<Value*> operands;
    for (const Value* v : n.inputs()) operands.push_back(In(v));
    while (!operands.empty() && !operands.back()) operands.pop_back();
    if (Fold(n, operands)) return true;
    NodeOptions options{.name = node_.name(), .fused_from = node_.fused_from()};
    for (const Value* v : n.outputs())
      options.output_names.push_back(v ? editor_.FreshName(Cat(Prefix(), v->name())) : "");
    auto made = editor_.AddNode(n.def(), std::move(operands), n.attrs(), std::move(options));
    if (!made.ok()) return false;
    made_.push_back(*made);
    for (size_t i = 0; i < n.outputs().size(); ++i)
      if (n.output(i)) is_[n.output(i)] = (*made)->output(i);
    return true;
  }

  bool Undo() {
    for (auto n = made_.rbegin(); n != made_.rend(); ++n) editor_.Erase(**n);
    return false;
  }

  /// Elements of constants that are computed with while compiling.
  static constexpr int64_t kMostFolded = int64_t{1} << 17;

  GraphEditor editor_;
  const OpRegistry& ops_;
  Node& node_;
  std::unordered_map<const Value*, Value*> is_;  // values of the parts, in the graph
  std::vector<Node*> made_;
};

}  // namespace

Result<int> ExpandNodes(Graph& g, const KernelList& kernels, const CompileOptions& options) {
  int gone = 0;
  // Parts may be made of others themselves.
  constexpr int kMostRounds = 8;
  for (int round = 0; round < kMostRounds; ++round) {
    if (std::none_of(g.nodes().begin(), g.nodes().end(),
                     [](const auto& n) { return IsMadeOfOthers(*n); }))
      break;
    std::vector<const Node*> nodes;
    Plan plan = PartitionByNode(std::move(g));
    for (const PlanStep& step : plan.steps)
      if (IsMadeOfOthers(*step.main) && !AnyKernel(plan, kernels, options)(step))
        nodes.push_back(step.main);
    g = std::move(plan.graph);
    const int before = gone;
    for (const Node* n : nodes) {
      // The graph is ours again; the plan showed its nodes as constant.
      INFER_ASSIGN(const bool done, Expander(g, const_cast<Node&>(*n)).Run());
      gone += done;
    }
    if (gone == before) break;
  }
  return gone;
}

}  // namespace infer
