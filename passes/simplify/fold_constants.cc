#include <algorithm>

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

  Status FoldNode(GraphEditor& e, Node& n, PassContext& context) {
    if (n.Is(Trait::kDequantize) || MakesStoredWeights(n)) return {};
    const bool known = std::all_of(n.inputs().begin(), n.inputs().end(),
                                   [](const Value* v) { return !v || v->is_constant(); });
    if (!known || (n.outputs().empty())) return {};
    for (const Value* v : n.outputs())
      if (v && !v->type().is_tensor()) return {};
    // What the same node in another branch came to is there already.
    const auto twin = done_.find(readers_->ClassOf(n));
    const bool again = twin != done_.end() && readers_->Have(twin->second);
    const int64_t freed = readers_->FreedBy(n), made = BytesOfResults(n);
    // Before the work is done, as far as types tell; a Range of 2^40 must not be tried.
    if (!again && made - freed > context.max_fold_growth_bytes) {
      Tell(context, n, "its result would be too large");
      return {};
    }
    if (!again && made - freed > context.fold_growth_left_bytes) {
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
    if (!again) context.fold_growth_left_bytes -= made - freed;
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
      const Dim count = v->shape().num_elements();
      const int64_t bits = std::max(BitWidth(v->dtype()), 1);
      if (!count.is_static() || count.value() > (kMaxResultBytes - bytes) * 8 / bits)
        return INT64_MAX;
      bytes += (count.value() * bits + 7) / 8;
    }
    return bytes;
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
  const OpRegistry* ops_ = nullptr;
};

}  // namespace

std::unique_ptr<Pass> FoldConstants() { return std::make_unique<ConstantFolding>(); }

}  // namespace infer
