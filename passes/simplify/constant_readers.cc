#include "passes/simplify/constant_readers.h"

#include <algorithm>

#include "lib/support/hash.h"

namespace infer {
namespace {

constexpr uint64_t kReturned = 1;

uint64_t ClassFor(const Node& n) {
  const bool known = n.def().deterministic && n.subgraphs().empty() &&
                     std::all_of(n.inputs().begin(), n.inputs().end(),
                                 [](const Value* v) { return !v || v->is_constant(); });
  Hasher h;
  if (!known) return h.Add(reinterpret_cast<uintptr_t>(&n)).value();
  h.Add(n.def().domain).Add(n.def().name).Add(HashOf(n.attrs())).Add(n.outputs().size());
  for (const Value* v : n.inputs()) h.Add(v ? HashOf(*v->constant()) : 0);
  return h.value();
}

}  // namespace

void ConstantReaders::Add(const Graph& g) {
  for (const auto& n : g.nodes()) {
    Add(*n);
    for (const auto& [attr, sub] : n->subgraphs()) Add(*sub);
  }
  for (const Value* v : g.outputs())
    if (v->is_constant()) AddReturned(*v->constant());
}

void ConstantReaders::AddReturned(const Tensor& t) { ++readers_[HashOf(t)][kReturned]; }

void ConstantReaders::Add(const Node& n) {
  const uint64_t cls = class_of_[&n] = ClassFor(n);
  for (const Value* v : n.inputs())
    if (v && v->is_constant()) ++readers_[HashOf(*v->constant())][cls];
}

void ConstantReaders::Remove(const Node& n) {
  const auto it = class_of_.find(&n);
  if (it == class_of_.end()) return;
  for (const Value* v : n.inputs()) {
    if (!v || !v->is_constant()) continue;
    auto& classes = readers_.at(HashOf(*v->constant()));
    if (--classes.at(it->second) == 0) classes.erase(it->second);
  }
  class_of_.erase(it);
}

std::vector<const Value*> ConstantReaders::Freed(const Node& n) const {
  std::vector<const Value*> out;
  for (const Value* v : n.inputs()) {
    if (!v || !v->is_constant()) continue;
    const uint64_t content = HashOf(*v->constant());
    const auto& classes = readers_.at(content);
    const bool mine = classes.size() == 1 && classes.contains(ClassOf(n));
    const bool twice = std::any_of(out.begin(), out.end(), [&](const Value* other) {
      return HashOf(*other->constant()) == content;
    });
    if (mine && !twice && !freed_.contains(content)) out.push_back(v);
  }
  return out;
}

int64_t ConstantReaders::FreedBy(const Node& n) const {
  int64_t bytes = 0;
  for (const Value* v : Freed(n)) bytes += v->constant()->byte_size();
  return bytes;
}

void ConstantReaders::SetFreed(const Node& n) {
  for (const Value* v : Freed(n)) freed_.insert(HashOf(*v->constant()));
}

bool ConstantReaders::OnlyReadBy(const Value& v,
                                 const std::unordered_set<uint64_t>& classes) const {
  const uint64_t content = HashOf(*v.constant());
  const auto& readers = readers_.at(content);
  return !freed_.contains(content) &&
         std::all_of(readers.begin(), readers.end(),
                     [&](const auto& reader) { return classes.contains(reader.first); });
}

bool ConstantReaders::Have(const std::vector<uint64_t>& contents) const {
  return std::all_of(contents.begin(), contents.end(), [&](uint64_t content) {
    const auto it = readers_.find(content);
    return it != readers_.end() && !it->second.empty();
  });
}

}  // namespace infer
