#pragma once
/// What a file declares of values beside what inference knows of them. No protobuf here.
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "lib/ir/editor.h"

namespace infer::onnx_io {

/// What `declared` adds where inference knows nothing. A symbol that inference derived is never
/// narrowed: declarations of inner values are often left over from another shape.
Shape FillUnknown(const Shape& inferred, const Shape& declared);

/// Declarations of the results of a graph's nodes. They count where extents hang on what the run
/// computes (NonZero, Reshape to a computed shape): there the run compares. Where all of them
/// follow from extents of the operands, a run infers them, whatever numbers are declared; so
/// nothing may be derived from such numbers. Names of extents are taken at their word, and with
/// them the rank.
class DeclaredTypes {
 public:
  explicit DeclaredTypes(const OpRegistry& ops) : ops_(ops) {}
  /// Every node of the graph, in order, before its results are declared.
  void Enter(const Node& node);
  /// Adds what the file declares of result `output` of the node last entered. Another element type
  /// or kind is an error. Another shape is a warning: inference is right about inner values, and
  /// files exist whose shapes, ranks too, are left over from elsewhere.
  Status Add(const ValueType& declared, size_t output, GraphEditor& editor,
             std::vector<std::string>& warnings);

 private:
  /// `inferred` with what counts of `declared`.
  Shape Countable(const Shape& inferred, const Shape& declared, size_t output);
  void Settle();

  const OpRegistry& ops_;
  const Node* node_ = nullptr;
  // By result of node_: shapes in which what follows from operands' extents alone is not unknown.
  std::optional<std::vector<Shape>> settled_;
  bool fits_ = false;  // some of the extents tried for the operands, so that settled_ tells
  // Results whose elements follow from extents: Shape, and arithmetic on what it gives.
  std::unordered_set<const Value*> of_extents_;
};

}  // namespace infer::onnx_io
