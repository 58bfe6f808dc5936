#include <algorithm>

#include "lib/ir/inference.h"
#include "lib/support/hash.h"
#include "passes/simplify/simplify.h"

namespace infer {
namespace {

class CommonSubexpressions : public Pass {
 public:
  std::string name() const override { return "merge-duplicates"; }

  Result<bool> Run(Graph& g, PassContext&) override {
    Merging equal{.types = Types::kEqual};
    INFER_TRY(Merge(g, equal));
    if (equal.passed_over == 0) return equal.merged > 0;
    // Of two equal results the file may declare one only; that says the same of the other. Where
    // what reads the other contradicts it, a declaration is wrong, and both stay.
    Graph trial = g.Clone();
    Merging tried{.types = Types::kAtLeast};
    INFER_TRY(Merge(trial, tried));
    Merging rest{.types = Types::kAtLeast};
    if (RefineTypes(trial).ok()) INFER_TRY(Merge(g, rest));
    return equal.merged + rest.merged > 0;
  }

 private:
  /// Types that readers may get in place of theirs.
  enum class Types : uint8_t { kEqual, kAtLeast };
  struct Merging {
    Types types = Types::kEqual;
    int64_t merged = 0;
    int64_t passed_over = 0;  ///< equal nodes of which the first one's types say more
  };

  static Status Merge(Graph& g, Merging& m) {
    return ForEachGraph(g, [&](Graph& graph, int) -> Status {
      m.merged += MergeConstants(graph);
      return MergeNodes(graph, m);
    });
  }

  /// One constant per content. To a reader the graph is the same, so it does not count as a change;
  /// what the sweep finds does.
  static int MergeConstants(Graph& g) {
    GraphEditor e(g);
    std::unordered_map<uint64_t, std::vector<Value*>> seen;
    for (const auto& owned : g.values()) {
      Value* v = owned.get();
      if (!v->is_constant() || v->is_output() || v->is_dead()) continue;
      std::vector<Value*>& same_hash = seen[HashOf(*v->constant())];
      const auto twin = std::find_if(same_hash.begin(), same_hash.end(), [&](const Value* other) {
        return BitEqual(*other->constant(), *v->constant());
      });
      if (twin == same_hash.end())
        same_hash.push_back(v);
      else
        INFER_CHECK(e.ReplaceAllUses(v, *twin).ok());  // same type, and no output
    }
    return e.Sweep();
  }

  static uint64_t KeyOf(const Node& n) {
    Hasher h;
    h.Add(n.def().domain).Add(n.def().name).Add(HashOf(n.attrs())).Add(n.outputs().size());
    for (const Value* v : Operands(n)) h.Add(reinterpret_cast<uintptr_t>(v));
    return h.value();
  }
  static std::vector<Value*> Operands(const Node& n) {
    std::vector<Value*> operands = n.inputs();
    if (n.def().commutative && operands.size() == 2) std::sort(operands.begin(), operands.end());
    return operands;
  }
  static bool Same(const Node& a, const Node& b) {
    if (&a.def() != &b.def() || a.outputs().size() != b.outputs().size()) return false;
    for (size_t i = 0; i < a.outputs().size(); ++i) {
      const Value *x = a.outputs()[i], *y = b.outputs()[i];
      if (!x != !y || (x && !x->type().Refines(y->type()))) return false;
    }
    return Operands(a) == Operands(b) && a.attrs() == b.attrs();
  }

  static bool SaysNoMore(const Node& a, const Node& b) {
    for (size_t i = 0; i < a.outputs().size(); ++i)
      if (a.output(i) && !b.output(i)->type().Refines(a.output(i)->type())) return false;
    return true;
  }

  static Status MergeNodes(Graph& g, Merging& m) {
    GraphEditor e(g);
    std::unordered_map<uint64_t, std::vector<Node*>> seen;
    for (auto it = g.nodes().begin(); it != g.nodes().end();) {
      Node* n = (it++)->get();
      if (!n->def().deterministic || !n->subgraphs().empty()) continue;
      std::vector<Node*>& same_hash = seen[KeyOf(*n)];
      const auto twin = std::find_if(same_hash.begin(), same_hash.end(),
                                     [&](const Node* other) { return Same(*other, *n); });
      if (twin == same_hash.end()) {
        same_hash.push_back(n);
        continue;
      }
      if (m.types == Types::kEqual && !SaysNoMore(**twin, *n)) {
        ++m.passed_over;
        continue;
      }
      std::vector<std::string> names = (*twin)->fused_from();
      for (const std::string& name : n->fused_from())
        if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
      e.SetFusedFrom(**twin, std::move(names));
      bool stays = false, moved = false;
      for (size_t i = 0; i < n->outputs().size(); ++i) {
        Value *from = n->output(i), *to = (*twin)->output(i);
        if (!from) continue;
        // An output gives its name to the one that stays, though nobody reads it.
        moved = moved || !from->uses().empty() || (from->is_output() && !to->is_output());
        if (!from->is_output() || !to->is_output()) {
          INFER_TRY(e.ReplaceAllUses(from, to));
          continue;
        }
        stays = true;  // both names are needed, but nobody has to read both
        const std::vector<Use> uses(from->uses().begin(), from->uses().end());
        for (const Use& use : uses) e.SetOperand(*use.user, use.operand, to);
      }
      if (!stays) e.Erase(*n);
      m.merged += !stays || moved;
    }
    return {};
  }
};

}  // namespace

std::unique_ptr<Pass> MergeDuplicates() { return std::make_unique<CommonSubexpressions>(); }

}  // namespace infer
