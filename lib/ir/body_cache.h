#pragma once
/// The parsed bodies of fused operators, by definition, registry and attributes. Internal to
/// lib/ir; not thread-safe.
#include <map>
#include <memory>
#include <vector>

#include "lib/ir/graph.h"

namespace infer {

class BodyCache {
 public:
  struct Key {
    const OpDef* def = nullptr;
    const OpRegistry* ops = nullptr;
    uint64_t hash = 0;  ///< of the attributes
    bool operator==(const Key&) const = default;
    auto operator<=>(const Key&) const = default;
  };
  explicit BodyCache(size_t most) : most_(most) {}

  /// nullptr: not there. Two sets of attributes may have one hash: the attributes decide.
  std::shared_ptr<const Graph> Find(const Key& key, const AttrMap& attrs) const {
    const auto found = bodies_.find(key);
    if (found == bodies_.end()) return nullptr;
    for (const Body& b : found->second)
      if (b.attrs == attrs) return b.graph;
    return nullptr;
  }
  /// The body that is kept: one that another thread added first wins.
  std::shared_ptr<const Graph> Add(const Key& key, const AttrMap& attrs,
                                   std::shared_ptr<const Graph> graph) {
    if (auto there = Find(key, attrs)) return there;
    if (size_ >= most_) {
      bodies_.clear();
      size_ = 0;
    }
    bodies_[key].push_back({attrs, graph});
    ++size_;
    return graph;
  }

 private:
  struct Body {
    AttrMap attrs;
    std::shared_ptr<const Graph> graph;
  };
  size_t most_, size_ = 0;
  std::map<Key, std::vector<Body>> bodies_;
};

}  // namespace infer
