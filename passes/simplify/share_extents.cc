/// What shape arithmetic computes again and again. Exporters ask for the shape of whatever is at
/// hand: of scores, which then cannot be fused, or of each layer's own values.
#include <unordered_map>

#include "lib/support/strings.h"
#include "passes/rewrite/driver.h"
#include "passes/simplify/simplify.h"

namespace infer {
namespace {

constexpr size_t kMostElements = 16;

/// "i64 batch, seq+1" where all elements are known to be these and one of them is open: what is a
/// number is constant folding's.
std::optional<std::string> KeyOf(const Value& v) {
  if (!v.type().is_tensor() || !IsInteger(v.dtype()) || v.is_constant() || !v.elements() ||
      v.elements()->empty() || v.elements()->size() > kMostElements)
    return std::nullopt;
  std::vector<std::string> texts;
  bool open = false;
  for (const Dim& d : *v.elements()) {
    if (d.is_unknown()) return std::nullopt;
    open = open || !d.is_static();
    texts.push_back(d.ToString());
  }
  if (!open) return std::nullopt;
  return Cat(Name(v.dtype()), ' ', Join(texts, ", "));
}

bool IsViewOf(const Value& v, const Value& of) {
  const Node& n = *v.producer();
  return n.Is(Trait::kView) && n.input(0) == &of;
}

class ShareExtents : public Pass {
 public:
  std::string name() const override { return "share-extents"; }

  Result<bool> Run(Graph& g, PassContext&) override {
    int shared = 0;
    INFER_TRY(ForEachGraph(g, [&](Graph& graph, int) { return RunOn(graph, shared); }));
    return shared > 0;
  }

 private:
  static Status RunOn(Graph& g, int& shared) {
    GraphEditor e(g);
    std::unordered_map<std::string, Value*> first;
    for (const Value* v : g.inputs())
      if (auto key = KeyOf(*v)) first.try_emplace(*std::move(key), const_cast<Value*>(v));
    for (auto it = g.nodes().begin(); it != g.nodes().end();) {
      Node& n = **it++;
      for (Value* v : n.outputs()) {
        if (!v || v->is_dead() || v->is_output()) continue;
        auto key = KeyOf(*v);
        if (!key) continue;
        const auto [at, is_new] = first.try_emplace(*std::move(key), v);
        if (is_new || IsViewOf(*v, *at->second)) continue;
        Value* to = at->second;
        if (!to->type().Refines(v->type())) {
          if (!v->shape().is_static()) continue;
          e.InsertAfter(n);
          INFER_ASSIGN(
              to, e.Add("Reshape", {to, e.AddConstant(Tensor::Int64s(v->shape().static_dims()))}));
          e.SetElements(to, v->elements());
        }
        INFER_TRY(e.ReplaceAllUses(v, to));
        ++shared;
      }
    }
    if (shared > 0) e.Sweep();
    return {};
  }
};

}  // namespace

std::unique_ptr<Pass> ShareKnownExtents() { return std::make_unique<ShareExtents>(); }

}  // namespace infer
