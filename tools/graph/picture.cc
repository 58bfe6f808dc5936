#include "tools/graph/picture.h"

#include <algorithm>
#include <unordered_map>

#include "lib/support/strings.h"
#include "tools/graph/groups.h"
#include "tools/graph/relate.h"

namespace infer {
namespace {

constexpr size_t kMaxLabel = 28;  // characters of a box's line, the rest is "..."

std::string Shortened(const std::string& text) {
  if (text.size() <= kMaxLabel) return text;
  size_t end = kMaxLabel - 1;
  while (end > 0 && (text[end] & 0xC0) == 0x80) --end;  // no half characters
  return text.substr(0, end) + "…";
}

/// Nodes and values of one graph after the other, bodies included.
class Collector {
 public:
  explicit Collector(Picture& p) : picture_(p) { p.groups.resize(1); }

  int AddNode(const Node& n, int group, Fate fate) {
    const auto index = static_cast<int>(picture_.nodes.size());
    PictureNode node;
    node.node = &n;
    node.fate = fate;
    node.group = group;
    node.label = n.op();
    picture_.nodes.push_back(std::move(node));
    return index;
  }

  void AddInput(const Value& v, int group, Fate fate) {
    PictureNode& n = AddEnd(v, group, fate, PictureNode::Kind::kInput);
    n.makes.push_back(ValueOf(v, fate));
  }
  void AddOutput(const Value& v, int group, Fate fate) {
    PictureNode& n = AddEnd(v, group, fate, PictureNode::Kind::kOutput);
    if (!v.is_constant()) n.reads.push_back(ValueOf(v, fate));
  }

  /// The inputs and outputs of a node; bodies of control flow become groups.
  void ConnectNode(int index, const Node& n, Fate fate) {
    for (const Value* v : n.inputs())
      if (v && !v->is_constant()) Append(Of(index).reads, ValueOf(*v, fate));
    for (const Value* v : n.outputs())
      if (v) Append(Of(index).makes, ValueOf(*v, fate));
    if (!n.subgraphs().empty()) AddBodies(index, n, fate);
  }

  void AddGraph(const Graph& g, int group, Fate fate) {
    const size_t first = picture_.nodes.size();
    for (const Value* v : g.inputs()) AddInput(*v, group, fate);
    for (const auto& n : g.nodes()) AddNode(*n, group, fate);
    const size_t end = picture_.nodes.size();
    for (const Value* v : g.outputs()) AddOutput(*v, group, fate);
    GroupByScope(picture_, first, end, group);
    for (size_t i = first; i < end; ++i)
      if (const Node* n = picture_.nodes[i].node) ConnectNode(static_cast<int>(i), *n, fate);
  }

  /// The value of one graph is that of the other.
  void SameValue(const Value& of, const Value& as) { values_[&of] = ValueOf(as, Fate::kSame); }

  /// The number of a value: one that both graphs have counts once; one that a single graph has is
  /// as that says.
  int ValueOf(const Value& v, Fate fate) {
    const auto [it, is_new] = values_.try_emplace(&v, static_cast<int>(picture_.values.size()));
    if (is_new) picture_.values.push_back({&v, fate});
    return it->second;
  }

 private:
  PictureNode& Of(int index) { return picture_.nodes[static_cast<size_t>(index)]; }
  static void Append(std::vector<int>& list, int value) {
    if (std::find(list.begin(), list.end(), value) == list.end()) list.push_back(value);
  }

  PictureNode& AddEnd(const Value& v, int group, Fate fate, PictureNode::Kind kind) {
    PictureNode node;
    node.kind = kind;
    node.value = &v;
    node.fate = fate;
    node.group = group;
    node.label = Shortened(v.name());
    picture_.nodes.push_back(std::move(node));
    return picture_.nodes.back();
  }

  int AddGroup(PictureGroup::Kind kind, std::string label, int parent) {
    PictureGroup& g = picture_.groups.emplace_back();
    g.kind = kind;
    g.label = std::move(label);
    g.parent = parent;
    return static_cast<int>(picture_.groups.size()) - 1;
  }

  void AddBodies(int index, const Node& n, Fate fate) {
    const int bodies = AddGroup(PictureGroup::Kind::kBodies, std::string(n.op()), Of(index).group);
    picture_.groups[static_cast<size_t>(bodies)].node = index;
    Of(index).bodies = bodies;
    for (const auto& [name, body] : n.subgraphs())
      AddGraph(*body, AddGroup(PictureGroup::Kind::kBody, name, bodies), fate);
  }

  Picture& picture_;
  std::unordered_map<const Value*, int> values_;
};

void Finish(Picture& p) {
  for (const PictureNode& n : p.nodes)  // a value is there as long as its maker
    for (const int v : n.makes)
      if (n.fate == Fate::kRemoved || n.fate == Fate::kAdded)
        p.values[static_cast<size_t>(v)].fate = n.fate;
  CutLargeGroups(p);
  for (PictureNode& n : p.nodes) {
    n.label = Shortened(n.label);
    n.detail = Shortened(n.detail);
  }
  LayOutGroups(p);
}

/// Nodes of both graphs in one order: what is removed stands before what replaced it, or where it
/// stood.
class Merger {
 public:
  Merger(const Graph& before, const Graph& after, Picture& p)
      : before_(before),
        after_(after),
        picture_(p),
        collector_(p),
        relation_(Relate(before, after)) {
    for (const auto& n : before.nodes()) old_.push_back(n.get());
    for (const auto& n : after.nodes()) new_.push_back(n.get());
    old_index_.assign(old_.size(), -1);
    new_index_.assign(new_.size(), -1);
  }

  void Merge() {
    JoinValues();
    AddInputs();
    const size_t first = picture_.nodes.size();
    size_t next = 0;  // of `before`
    for (size_t i = 0; i < new_.size(); ++i) {
      const int same = relation_.same_in_before[i];
      int until = same;
      for (const int b : relation_.replaced[i]) until = std::max(until, b + 1);
      while (static_cast<int>(next) < until) AddOld(next++);
      AddNew(i, same);
    }
    while (next < old_.size()) AddOld(next++);
    const size_t end = picture_.nodes.size();
    AddOutputs();
    GroupByScope(picture_, first, end, 0);
    Partner();
    GroupReplaced(picture_);
    Connect();
  }

 private:
  static const Value* Named(const std::vector<Value*>& values, const std::string& name) {
    const auto it = std::find_if(values.begin(), values.end(),
                                 [&](const Value* v) { return v->name() == name; });
    return it == values.end() ? nullptr : *it;
  }

  void JoinValues() {
    for (const Value* v : before_.inputs())
      if (const Value* same = Named(after_.inputs(), v->name())) collector_.SameValue(*v, *same);
    for (size_t b = 0; b < old_.size(); ++b) {
      const int same = relation_.same_in_after[b];
      if (same < 0) continue;
      const Node& n = *new_[static_cast<size_t>(same)];
      for (size_t k = 0; k < old_[b]->outputs().size(); ++k)
        if (const Value* v = old_[b]->outputs()[k]; v && n.output(k))
          collector_.SameValue(*v, *n.output(k));
    }
  }

  void AddInputs() {
    for (const Value* v : after_.inputs())
      collector_.AddInput(*v, 0, Named(before_.inputs(), v->name()) ? Fate::kSame : Fate::kAdded);
    for (const Value* v : before_.inputs())
      if (!Named(after_.inputs(), v->name())) collector_.AddInput(*v, 0, Fate::kRemoved);
  }

  void AddOutputs() {
    for (const Value* v : after_.outputs()) {
      const Value* same = Named(before_.outputs(), v->name());
      collector_.AddOutput(*v, 0, same ? Fate::kSame : Fate::kAdded);
      // The node that made it before is drawn as its maker, too.
      if (same && !same->is_constant()) {
        auto& reads = picture_.nodes.back().reads;
        const int value = collector_.ValueOf(*same, Fate::kRemoved);
        if (std::find(reads.begin(), reads.end(), value) == reads.end()) reads.push_back(value);
      }
    }
    for (const Value* v : before_.outputs())
      if (!Named(after_.outputs(), v->name())) collector_.AddOutput(*v, 0, Fate::kRemoved);
  }

  void AddOld(size_t b) {
    if (relation_.same_in_after[b] >= 0 || old_index_[b] >= 0) return;
    old_index_[b] = collector_.AddNode(*old_[b], 0, Fate::kRemoved);
  }

  void AddNew(size_t i, int same) {
    const int index = collector_.AddNode(*new_[i], 0, same < 0 ? Fate::kAdded : Fate::kSame);
    new_index_[i] = index;
    if (same < 0) return;
    old_index_[static_cast<size_t>(same)] = index;
    PictureNode& n = picture_.nodes[static_cast<size_t>(index)];
    n.news = Differences(*old_[static_cast<size_t>(same)], *new_[i]);
    if (!n.news.empty()) n.fate = Fate::kChanged;
  }

  void Partner() {
    for (size_t i = 0; i < new_.size(); ++i)
      for (const int b : relation_.replaced[i]) {
        const int old = old_index_[static_cast<size_t>(b)], now = new_index_[i];
        picture_.nodes[static_cast<size_t>(now)].partners.push_back(old);
        picture_.nodes[static_cast<size_t>(old)].partners.push_back(now);
      }
  }

  /// Values of `after` first, so that what both have is named as there.
  void Connect() {
    for (size_t i = 0; i < new_.size(); ++i)
      collector_.ConnectNode(new_index_[i], *new_[i],
                             relation_.same_in_before[i] < 0 ? Fate::kAdded : Fate::kSame);
    for (size_t b = 0; b < old_.size(); ++b) {
      if (relation_.same_in_after[b] < 0) {
        collector_.ConnectNode(old_index_[b], *old_[b], Fate::kRemoved);
        continue;
      }
      for (const Value* v : old_[b]->inputs()) {
        if (!v || v->is_constant()) continue;
        auto& reads = picture_.nodes[static_cast<size_t>(old_index_[b])].reads;
        const int value = collector_.ValueOf(*v, Fate::kRemoved);
        if (std::find(reads.begin(), reads.end(), value) == reads.end()) reads.push_back(value);
      }
    }
  }

  const Graph& before_;
  const Graph& after_;
  Picture& picture_;
  Collector collector_;
  Relation relation_;
  std::vector<const Node*> old_, new_;
  std::vector<int> old_index_, new_index_;  // in the picture
};

}  // namespace

Picture Draw(const Graph& g) {
  Picture p;
  Collector(p).AddGraph(g, 0, Fate::kSame);
  Finish(p);
  return p;
}

Picture DrawDiff(const Graph& before, const Graph& after) {
  Picture p;
  Merger(before, after, p).Merge();
  Finish(p);
  return p;
}

}  // namespace infer
