#include <algorithm>
#include <unordered_set>

#include "lib/ir/eval.h"
#include "lib/ir/roles.h"
#include "lib/support/strings.h"
#include "passes/simplify/constant_readers.h"
#include "passes/simplify/simplify.h"

namespace infer {
namespace {

constexpr int64_t kMaxResultBytes = int64_t{1} << 40;  ///< of what is looked at closer

constexpr std::string_view kNotFolded = "not folded: ";

class ConstantFolding : public Pass {
 public:
  std::string name() const override { return "fold-constants"; }

  Result<bool> Run(Graph& g, PassContext& context) override {
    folded_ = 0;
    done_.clear();
    in_cone_.clear();
    // Every run looks at every node: what an earlier one left alone may be gone.
    std::erase_if(context.notes, [](const std::string& n) { return n.starts_with(kNotFolded); });
    readers_.emplace(g);
    INFER_TRY(ForEachGraph(g, [&](Graph& graph, int) { return RunOne(graph, context); }));
    return folded_ > 0;
  }

 private:
  Status RunOne(Graph& g, PassContext& context) {
    ops_ = &g.ops();
    GraphEditor e(g);
    const int64_t before = folded_;
    for (auto it = g.nodes().begin(); it != g.nodes().end();) {
      Node& n = **it++;
      if (!n.subgraphs().empty() || !n.def().deterministic) continue;
      INFER_ASSIGN(const bool by_shape, FoldKnownElements(e, n));
      if (by_shape) continue;
      INFER_TRY(FoldNode(e, n, context));
    }
    // What a result known from shapes alone was computed from may now be dead.
    if (folded_ > before) e.Sweep();
    return {};
  }

  /// Results that inference knows in full: Shape of static extents and the arithmetic on it.
  Result<bool> FoldKnownElements(GraphEditor& e, Node& n) {
    std::vector<Tensor> values;
    for (const Value* v : n.outputs()) {
      if (!v || !v->elements() || !v->type().is_tensor() || !v->shape().has_rank()) return false;
      if (v->shape().rank() > 1 || (v->dtype() != DType::kI64 && v->dtype() != DType::kI32))
        return false;
      const auto& elements = *v->elements();
      if (!std::all_of(elements.begin(), elements.end(),
                       [](const Dim& d) { return d.is_static(); }))
        return false;
      Dims dims;
      if (v->shape().rank() == 1) dims.push_back(static_cast<int64_t>(elements.size()));
      if (dims.empty() && elements.size() != 1) return false;
      Tensor t(v->dtype(), dims);
      for (size_t i = 0; i < elements.size(); ++i)
        t.SetInt(static_cast<int64_t>(i), elements[i].value());
      values.push_back(std::move(t));
    }
    if (values.empty()) return false;
    INFER_TRY(Replace(e, n, std::move(values)));
    return true;
  }

  /// Whether the node becomes a constant once all its operands are.
  static bool MayFold(const Node& n) {
    if (!n.subgraphs().empty() || !n.def().deterministic || n.outputs().empty()) return false;
    if (n.Is(Trait::kDequantize) || MakesStoredWeights(n)) return false;
    return std::all_of(n.outputs().begin(), n.outputs().end(),
                       [](const Value* v) { return !v || v->type().is_tensor(); });
  }

  /// Finds what becomes constant with `n`, such as the steps that standardize weights: each makes
  /// as much as it reads while its operand stays, but together they leave one constant for another.
  /// Folds all of it where that grows the model by no more than one node may.
  void EnterCone(const Node& n, PassContext& context) {
    constexpr size_t kMostNodes = 64;
    std::unordered_set<const Node*> cone = {&n};
    std::unordered_set<const Value*> made_here(n.outputs().begin(), n.outputs().end());
    std::vector<const Node*> open = {&n};
    while (!open.empty()) {
      const Node* const at = open.back();
      open.pop_back();
      for (const Value* v : at->outputs()) {
        if (!v) continue;
        for (const Use& use : v->uses()) {
          const Node& user = *use.user;
          const bool known = std::all_of(
              user.inputs().begin(), user.inputs().end(),
              [&](const Value* i) { return !i || i->is_constant() || made_here.contains(i); });
          if (!known || !MayFold(user) || !cone.insert(&user).second) continue;
          if (cone.size() > kMostNodes) return;
          made_here.insert(user.outputs().begin(), user.outputs().end());
          open.push_back(&user);
        }
      }
    }
    const auto dies = [&](const Value& v) {
      return !v.is_output() && std::all_of(v.uses().begin(), v.uses().end(),
                                           [&](const Use& use) { return cone.contains(use.user); });
    };
    if (cone.size() == 1) return;
    std::unordered_set<uint64_t> classes;
    for (const Node* node : cone) classes.insert(readers_->ClassOf(*node));
    int64_t grown = 0, read = 0;
    std::unordered_set<uint64_t> freed;
    for (const Node* node : cone) {
      for (const Value* v : node->outputs()) {
        if (!v || dies(*v)) continue;
        const int64_t bytes = BytesOf(*v);
        if (bytes > kMaxResultBytes) return;
        grown += bytes;
      }
      for (const Value* v : node->inputs()) {
        if (!v || !v->is_constant()) continue;
        read = std::max(read, v->constant()->byte_size());
        if (readers_->OnlyReadBy(*v, classes) && freed.insert(HashOf(*v->constant())).second)
          grown -= v->constant()->byte_size();
      }
    }
    if (grown > context.max_fold_growth_bytes || grown > context.fold_growth_left_bytes) return;
    // A few bytes must not become gigabytes on the way. A table of positions, a row for each pair
    // of places in a window, may go through a layer of some hundred channels.
    constexpr int64_t kMostOnTheWay = int64_t{16} << 20;
    for (const Value* v : made_here)
      if (v && BytesOf(*v) > std::max(2 * read, kMostOnTheWay)) return;
    context.fold_growth_left_bytes -= std::max<int64_t>(grown, 0);
    in_cone_.insert(cone.begin(), cone.end());
  }

  Status FoldNode(GraphEditor& e, Node& n, PassContext& context) {
    const bool known = std::all_of(n.inputs().begin(), n.inputs().end(),
                                   [](const Value* v) { return !v || v->is_constant(); });
    if (!known || !MayFold(n)) return {};
    // What the same node in another branch came to is there already.
    const auto twin = done_.find(readers_->ClassOf(n));
    const bool again = twin != done_.end() && readers_->Have(twin->second);
    const int64_t freed = readers_->FreedBy(n), made = BytesOfResults(n);
    // Before the work is done, as far as types tell; a Range of 2^40 must not be tried.
    if (!again && made - freed > context.max_fold_growth_bytes && !in_cone_.contains(&n))
      EnterCone(n, context);
    const bool in_cone = in_cone_.contains(&n);
    if (!again && !in_cone && made - freed > context.max_fold_growth_bytes) {
      Tell(context, n, "its result would be too large");
      return {};
    }
    if (!again && !in_cone && made - freed > context.fold_growth_left_bytes) {
      Tell(context, n, "constants have grown as far as they may");
      return {};
    }
    const auto results = EvaluateConstant(n, *ops_);
    if (!results.ok()) {
      Tell(context, n, results.status().message());
      return {};
    }
    std::vector<Tensor> values;
    for (size_t i = 0; i < n.outputs().size(); ++i) {
      const Value* v = n.outputs()[i];
      if (!v) continue;
      const Tensor& t = (*results)[i].tensor();
      if (!ValueType(t.type()).Refines(v->type())) {  // whoever declared it was wrong
        Tell(context, n,
             Cat("it gives ", infer::ToString(t.type()), ", the model says ",
                 infer::ToString(v->type())));
        return {};
      }
      values.push_back(t);
    }
    if (!again && !in_cone) context.fold_growth_left_bytes -= made - freed;
    readers_->SetFreed(n);
    std::vector<uint64_t>& results_of_class = done_[readers_->ClassOf(n)];
    results_of_class.clear();
    for (const Tensor& t : values) results_of_class.push_back(HashOf(t));
    return Replace(e, n, std::move(values));
  }

  /// Upper bound; INT64_MAX where types do not tell.
  static int64_t BytesOfResults(const Node& n) {
    int64_t bytes = 0;
    for (const Value* v : n.outputs()) {
      if (!v) continue;
      const int64_t more = BytesOf(*v);
      if (more > kMaxResultBytes - bytes) return INT64_MAX;
      bytes += more;
    }
    return bytes;
  }
  static int64_t BytesOf(const Value& v) {
    const Dim count = v.shape().num_elements();
    const int64_t bits = std::max(BitWidth(v.dtype()), 1);
    if (!count.is_static() || count.value() > kMaxResultBytes * 8 / bits) return INT64_MAX;
    return (count.value() * bits + 7) / 8;
  }

  Status Replace(GraphEditor& e, Node& n, std::vector<Tensor> values) {
    size_t next = 0;
    const std::vector<Value*> outputs = n.outputs();
    readers_->Remove(n);
    for (Value* v : outputs) {
      if (!v) continue;
      for (const Use& use : v->uses()) readers_->Remove(*use.user);
      if (v->is_output()) readers_->AddReturned(values[next]);
      e.SetConstant(v, std::move(values[next++]));
      for (const Use& use : v->uses())
        if (!readers_->Knows(*use.user)) readers_->Add(*use.user);
    }
    in_cone_.erase(&n);
    e.Erase(n);
    ++folded_;
    return {};
  }

  void Tell(PassContext& context, const Node& n, const std::string& why) {
    std::string note = Cat(kNotFolded, Describe(n), ": ", why);
    if (std::find(context.notes.begin(), context.notes.end(), note) == context.notes.end() &&
        context.notes.size() < 1000)
      context.notes.push_back(std::move(note));
  }

  int64_t folded_ = 0;
  std::optional<ConstantReaders> readers_;
  std::unordered_map<uint64_t, std::vector<uint64_t>> done_;  // by class: contents of the results
  std::unordered_set<const Node*> in_cone_;  // that fold together, whatever each makes
  const OpRegistry* ops_ = nullptr;
};

}  // namespace

std::unique_ptr<Pass> FoldConstants() { return std::make_unique<ConstantFolding>(); }

}  // namespace infer
