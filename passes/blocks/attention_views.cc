#include "passes/blocks/attention.h"
#include "passes/rewrite/queries.h"
#include "passes/rewrite/same_extent.h"

namespace infer {

bool SameDim(const Value& a, int i, const Value& b, int j) {
  return a.shape()[i].KnownEqual(b.shape()[j]) || SameExtent(a, i, b, j);
}

Result<Value*> WithLastTwoExchanged(Value* v, PatchBuilder& b) {
  if (RankOf(*v) < 2) return InvalidModel("needs operands of two axes or more");
  std::vector<int64_t> perm;
  for (int i = 0; i < RankOf(*v); ++i) perm.push_back(i);
  std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
  // Of an input of unknown rank nothing would be known any more.
  if (v->producer() && v->producer()->Is(Trait::kPermutation) &&
      RankOf(*v->producer()->input(0)) == RankOf(*v)) {
    perm = ComposePerms(PermOf(*v->producer(), RankOf(*v)), perm);
    v = v->producer()->input(0);
    if (IsIdentityPerm(perm)) return v;
  }
  return b("Transpose", {v}, {{"perm", perm}});
}

Value* BeforeHeadsWereFolded(const Value& v) {
  if (!v.producer() || !v.producer()->Is("Reshape")) return nullptr;
  Value* from = v.producer()->input(0);
  if (RankOf(v) != 3 || RankOf(*from) != 4) return nullptr;
  const bool fits = (from->shape()[0] * from->shape()[1]).KnownEqual(v.shape()[0]) &&
                    SameDim(*from, 2, v, 1) && SameDim(*from, 3, v, 2);
  return fits ? from : nullptr;
}

bool ExchangesMiddle(const Value& v) {
  return PermOf(*v.producer()) == std::vector<int64_t>{0, 2, 1, 3};
}

Result<Value*> AttentionAgain(const Node& attention, std::vector<Value*> inputs, AttrMap attrs,
                              PatchBuilder& b) {
  INFER_ASSIGN(Node * node, b.Add("Attention", std::move(inputs), std::move(attrs),
                                  {.num_outputs = attention.outputs().size()}));
  for (size_t i = 1; i < attention.outputs().size(); ++i)
    if (Value* old = attention.output(i); old && !old->is_dead()) b.Replace(old, node->output(i));
  return node->output();
}

}  // namespace infer
