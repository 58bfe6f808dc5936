#pragma once
/// Operators that work the same whatever the order of axes, and what it costs to have a connected
/// set of them work in another order.
#include <map>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "lib/ops/move/permute.h"
#include "passes/rewrite/patch.h"

namespace infer {

/// nullopt: the operator depends on the order of axes, or on something that is not known. Data
/// operand d comes as d' with d = Transpose(d', perm).
std::optional<PermutedCall> PermuteNode(const Node& n, const Perm& perm);
/// Cheap: PermuteNode may say yes.
bool MayPermute(const Node& n);

/// A set of nodes that may work in the order of axes from before a Transpose.
class TransposeRegion {
 public:
  /// Grows from the readers of `transpose`, or, `upwards`, from what makes its operand.
  TransposeRegion(Node& transpose, bool upwards);

  /// Transpositions more or fewer, and the bytes that they move.
  struct Change {
    int64_t count = 0, bytes = 0;
    bool bytes_known = true;
    bool Pays() const {
      if (count < 0) return !bytes_known || bytes <= 0;
      return count == 0 && bytes_known && bytes < 0;
    }
    bool NotWorseThan(const Change& o) const {
      return count < o.count || (count == o.count && bytes <= o.bytes);
    }
  };
  /// Leaves out nodes that cost more than they bring.
  Change Settle();
  /// Puts the nodes in the other order into `b`.
  Status Build(PatchBuilder& b) const;

 private:
  struct Entry {
    Node* node;
    Perm perm;
    PermutedCall moved;
  };
  /// What a value is without its transposition: value = Transpose(source, perm), in or before the
  /// region.
  struct Source {
    Value* source;
    Perm perm;
    bool inside;  ///< `source` stands for the moved form of that value
  };
  void Add(Node& n, const Perm& perm);
  void Grow(Value* v, const Perm& perm);
  bool Has(const Node* n) const { return index_.count(n) > 0; }
  bool IsDataUse(const Use& u) const;
  Source SourceOf(Value* v) const;
  const Perm* PermOfResult(const Value* v) const;
  Change Evaluate(std::vector<const Node*>* blame) const;

  std::vector<Entry> entries_;
  std::unordered_map<const Node*, size_t> index_;
  std::vector<std::pair<Node*, Perm>> queue_;
};

}  // namespace infer
