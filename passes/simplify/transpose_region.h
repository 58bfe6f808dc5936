#pragma once
/// Operators that work the same whatever the order of axes, and what it costs to have a connected
/// set of them work in another order.
#include <map>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "passes/rewrite/patch.h"

namespace infer {

using Perm = std::vector<int64_t>;

/// What changes in a node when its data operands come in another order of axes: data operand `d`
/// becomes d' with d = Transpose(d', perm).
struct MovedNode {
  std::vector<size_t> data;           ///< the operands that change
  AttrMap attrs;                      ///< all attributes, axes mapped
  std::map<size_t, Tensor> replaced;  ///< operands that get another constant (axes, pads)
  Perm out_perm;                      ///< each result r is Transpose(r', out_perm)
};

/// nullopt: the operator depends on the order, or on something that is not known.
std::optional<MovedNode> MoveNode(const Node& n, const Perm& perm);
/// Cheap: MoveNode may say yes.
bool MayMove(const Node& n);

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
    MovedNode moved;
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
