#include "passes/simplify/transpose_region.h"

#include <algorithm>
#include <set>

#include "lib/ir/op_name.h"
#include "lib/support/strings.h"
#include "passes/rewrite/queries.h"

namespace infer {
namespace {

constexpr size_t kMaxNodes = 200;     // of a region: a rewrite that large is rarely one island
constexpr int kMaxEvaluations = 100;  // each looks at the whole region

/// What transposing `v` reads and writes; 0 where it is not known.
int64_t BytesToMove(const Value& v, bool& known) {
  const Dim count = v.shape().num_elements();
  if (!count.is_static()) {
    known = false;
    return 0;
  }
  return 2 * count.value() * std::max(BitWidth(v.dtype()), 8) / 8;
}

Perm Identity(int rank) {
  Perm perm;
  for (int i = 0; i < rank; ++i) perm.push_back(i);
  return perm;
}

}  // namespace

TransposeRegion::TransposeRegion(Node& transpose, bool upwards) {
  const Perm perm = PermOf(transpose);
  if (perm.empty()) return;
  if (upwards) {
    Node* maker = transpose.input(0)->producer();
    if (maker) Add(*maker, InversePerm(perm));
  } else {
    Grow(transpose.output(), perm);
  }
  while (!queue_.empty() && entries_.size() < kMaxNodes) {
    const auto [n, p] = queue_.back();
    queue_.pop_back();
    Add(*n, p);
  }
}

/// The readers of a value that is Transpose(.., perm).
void TransposeRegion::Grow(Value* v, const Perm& perm) {
  if (IsIdentityPerm(perm) || perm.size() < 2) return;
  for (const Use& u : v->uses())
    if (!Has(u.user) && queue_.size() < 2 * kMaxNodes) queue_.emplace_back(u.user, perm);
}

void TransposeRegion::Add(Node& n, const Perm& perm) {
  if (Has(&n)) return;
  auto moved = PermuteNode(n, perm);
  if (!moved) return;
  index_[&n] = entries_.size();
  entries_.push_back({&n, perm, *std::move(moved)});
  const PermutedCall& m = entries_.back().moved;
  for (Value* v : n.outputs())
    if (v) Grow(v, m.out_perm);
  for (const size_t i : m.data) {
    Node* maker = n.input(i)->producer();
    if (!maker || Has(maker) || maker->Is(Trait::kPermutation) || !MayPermute(*maker)) continue;
    // Upwards only where the order stays the same: else there would be more than one way.
    const auto above = PermuteNode(*maker, perm);
    if (above && above->out_perm == perm) queue_.emplace_back(maker, perm);
  }
}

bool TransposeRegion::IsDataUse(const Use& u) const {
  const auto it = index_.find(u.user);
  if (it == index_.end()) return false;
  const auto& data = entries_[it->second].moved.data;
  return std::find(data.begin(), data.end(), u.operand) != data.end();
}

const Perm* TransposeRegion::PermOfResult(const Value* v) const {
  const auto it = index_.find(v->producer());
  return v->producer() && it != index_.end() ? &entries_[it->second].moved.out_perm : nullptr;
}

TransposeRegion::Source TransposeRegion::SourceOf(Value* v) const {
  if (const Perm* perm = PermOfResult(v)) return {v, *perm, true};
  if (v->producer() && v->producer()->Is(Trait::kPermutation))
    if (Perm perm = PermOf(*v->producer()); !perm.empty())
      return {v->producer()->input(0), std::move(perm), false};
  return {v, Identity(RankOf(*v)), false};
}

TransposeRegion::Change TransposeRegion::Evaluate(std::vector<const Node*>* blame) const {
  Change change;
  const auto add = [&](int sign, const Value& v) {
    change.count += sign;
    change.bytes += sign * BytesToMove(v, change.bytes_known);
  };
  std::set<std::pair<const Value*, Perm>> brought;  // operands in the other order, each made once
  std::set<const Node*> above;                      // transpositions that the region reads
  for (const Entry& e : entries_) {
    bool costs = false;
    for (const size_t i : e.moved.data) {
      Value* v = e.node->input(i);
      if (v->is_constant()) continue;
      const Source s = SourceOf(v);
      if (!s.inside && s.source != v) above.insert(v->producer());
      if (ComposePerms(s.perm, InversePerm(e.perm)) == Identity(static_cast<int>(e.perm.size())))
        continue;
      costs = true;
      if (brought.insert({v, e.perm}).second) add(+1, *v);
    }
    for (const Value* v : e.node->outputs()) {
      if (!v) continue;
      bool as_it_was = v->is_output();
      for (const Use& u : v->uses()) {
        if (IsDataUse(u) || IsWholeShape(*u.user)) continue;
        if (!u.user->Is(Trait::kPermutation)) {
          as_it_was = true;
        } else if (IsIdentityPerm(ComposePerms(e.moved.out_perm, PermOf(*u.user)))) {
          add(-1, *v);
        }
      }
      if (as_it_was && !IsIdentityPerm(e.moved.out_perm) && e.moved.out_perm.size() > 1) {
        costs = true;
        add(+1, *v);
      }
    }
    if (costs && blame) blame->push_back(e.node);
  }
  for (const Node* t : above) {
    const Value& v = *t->output();
    const bool dies = !v.is_output() && std::all_of(v.uses().begin(), v.uses().end(),
                                                    [&](const Use& u) { return IsDataUse(u); });
    if (dies) add(-1, v);
  }
  return change;
}

TransposeRegion::Change TransposeRegion::Settle() {
  int left = kMaxEvaluations;
  std::vector<const Node*> blame;
  Change best = Evaluate(&blame);
  while (!blame.empty() && left > 0) {
    bool improved = false;
    for (const Node* n : blame) {
      if (--left < 0) break;
      const auto backup_entries = entries_;
      const auto backup_index = index_;
      std::erase_if(entries_, [&](const Entry& e) { return e.node == n; });
      index_.clear();
      for (size_t i = 0; i < entries_.size(); ++i) index_[entries_[i].node] = i;
      std::vector<const Node*> next;
      const Change without = Evaluate(&next);
      if (without.NotWorseThan(best)) {
        best = without;
        blame = std::move(next);
        improved = true;
        break;
      }
      entries_ = backup_entries;
      index_ = backup_index;
    }
    if (!improved) break;
  }
  return best;
}

Status TransposeRegion::Build(PatchBuilder& b) const {
  std::vector<const Entry*> order;
  for (const Entry& e : entries_) order.push_back(&e);
  std::sort(order.begin(), order.end(),
            [](const Entry* a, const Entry* c) { return Graph::Before(*a->node, *c->node); });
  std::unordered_map<const Value*, Value*> moved;           // by the value as it was
  std::map<std::pair<const Value*, Perm>, Value*> brought;  // operands in the other order
  const auto bring = [&](Value* v, const Perm& perm) -> Result<Value*> {
    if (v->is_constant()) {
      const Tensor& t = *v->constant();
      if (t.num_elements() == 1) return v;
      Dims dims(perm.size() - static_cast<size_t>(t.rank()), 1);
      dims.insert(dims.end(), t.dims().begin(), t.dims().end());
      return b.Const(Transposed(t.Reshaped(dims), InversePerm(perm)));
    }
    Value*& made = brought[{v, perm}];
    if (made) return made;
    const Source s = SourceOf(v);
    Value* source = s.inside ? moved.at(s.source) : s.source;
    const Perm rest = ComposePerms(s.perm, InversePerm(perm));
    if (IsIdentityPerm(rest)) return made = source;
    INFER_ASSIGN(made, b("Transpose", {source}, {{"perm", rest}}));
    return made;
  };
  for (const Entry* e : order) {
    const Node& n = *e->node;
    std::vector<Value*> operands = n.inputs();
    for (const size_t i : e->moved.data) {
      INFER_ASSIGN(operands[i], bring(operands[i], e->perm));
    }
    for (const auto& [i, t] : e->moved.replaced) {
      if (operands.size() <= i) operands.resize(i + 1, nullptr);
      operands[i] = b.Const(t);
    }
    NodeOptions options;
    options.num_outputs = n.outputs().size();
    const std::string op =
        e->moved.op.empty() ? FullOpName(n.def().domain, n.op()) : std::string(e->moved.op);
    INFER_ASSIGN(Node * made, b.Add(op, std::move(operands), e->moved.attrs, std::move(options)));
    b.Cover(e->node);
    for (size_t i = 0; i < n.outputs().size(); ++i)
      if (n.output(i)) moved[n.output(i)] = made->output(i);
  }
  for (const Entry* e : order)
    for (Value* v : e->node->outputs()) {
      if (!v || v->is_dead()) continue;
      const Perm& perm = e->moved.out_perm;
      const bool same = perm.size() < 2 || IsIdentityPerm(perm);
      bool as_it_was = v->is_output();
      std::set<Node*> readers;
      for (const Use& u : v->uses()) {
        if (IsDataUse(u)) continue;
        if (!same && (u.user->Is(Trait::kPermutation) || IsWholeShape(*u.user)))
          readers.insert(u.user);
        else
          as_it_was = true;
      }
      for (Node* reader : readers) {
        Value* with = nullptr;
        if (reader->Is(Trait::kPermutation)) {
          const Perm rest = ComposePerms(perm, PermOf(*reader));
          with = moved.at(v);
          if (!IsIdentityPerm(rest)) {
            INFER_ASSIGN(with, b("Transpose", {with}, {{"perm", rest}}));
          }
        } else {
          INFER_ASSIGN(with, b("Shape", {moved.at(v)}));
          INFER_ASSIGN(with, b("Gather", {with, b.Ints(perm)}));
        }
        b.Cover(reader);
        b.Replace(reader->output(), with);
      }
      if (!as_it_was) continue;
      Value* with = moved.at(v);
      if (!same) {
        INFER_ASSIGN(with, b("Transpose", {with}, {{"perm", perm}}));
      }
      b.Replace(v, with);
    }
  return {};
}

}  // namespace infer
