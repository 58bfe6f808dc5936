#pragma once
/// Who reads which constant in a graph and all its subgraphs, by content: what a file holds once,
/// however many branches hold a copy. Constant folding asks it what a file gains and loses.
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "lib/ir/graph.h"

namespace infer {

class ConstantReaders {
 public:
  explicit ConstantReaders(const Graph& g) { Add(g); }

  /// Nodes of one class compute the same from the same constants, in whatever graph: all of them
  /// become constants together, and their results are one.
  uint64_t ClassOf(const Node& n) const { return class_of_.at(&n); }
  bool Knows(const Node& n) const { return class_of_.contains(&n); }
  /// Bytes of the operands of `n` that nobody else reads but its class, and that no other node of
  /// the class has freed.
  int64_t FreedBy(const Node& n) const;
  void SetFreed(const Node& n);
  /// Whether only nodes of these classes read what the constant `v` holds, which nothing freed yet.
  bool OnlyReadBy(const Value& v, const std::unordered_set<uint64_t>& classes) const;
  /// Whether somebody reads or returns each of these contents.
  bool Have(const std::vector<uint64_t>& contents) const;

  /// To be called before and after operands of `n` become constants or `n` is erased.
  void Remove(const Node& n);
  void Add(const Node& n);
  /// A constant that a graph returns.
  void AddReturned(const Tensor& t);

 private:
  void Add(const Graph& g);
  std::vector<const Value*> Freed(const Node& n) const;
  std::unordered_map<const Node*, uint64_t> class_of_;
  std::unordered_set<uint64_t> freed_;  // contents
  /// By content: how often each class reads it. Results of a graph count as a class of their own.
  std::unordered_map<uint64_t, std::unordered_map<uint64_t, int64_t>> readers_;
};

}  // namespace infer
