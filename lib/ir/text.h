#pragma once
/// The text form of a graph: what tests, rules, bodies and dumps speak. Parse(Print(g)) has g's
/// fingerprint.
///
///     graph NAME(x: f32[2,N], n: i64[]) -> (y: f32[2,N], z) {   # a comment
///       c = const f32[3] {0.5, 1, 2}        # or: const f32[3] ~7   (standard normal, seed 7)
///       k = const i64[2] {1, -1}            # strings: const str[1] {"a"}
///       y = Mul(x, c)
///       a, _, b = infer::Op(x, _, c) {alpha=0.5, axes=[0, 1], mode="same", to=f32[2]}
///       z = If(n) [y, c] {then_branch=graph(y, c) -> (y) {}, else_branch=graph(y, c) -> (c) {}}
///     }
///
/// `_` is an omitted operand or result; [..] after the operands lists captures. Types of inner
/// subgraph inputs may be left out (they follow from the operands). An attribute's value is an int
/// (1), a float (1.0, 1e-5, inf, nan), a string, a list of one kind, a tensor (const ...) or @name
/// (a body's parameter). A body's operator may be @name, too: a string "Op" or "Op {attributes}".
/// Values are typed by inference; `y: type` on outputs is checked.
#include "lib/ir/graph.h"

namespace infer {

struct ParseOptions {
  /// Values of @name in a body. An attribute whose @name is monostate is left out.
  const AttrMap* parameters = nullptr;
  /// Where the text comes from: errors then begin with "FILE:3:7: ".
  std::string file = {};
  /// Where the graph begins in it; what stands before only counts lines.
  size_t offset = 0;
};

/// InvalidModel "line 3: ...".
Result<Graph> ParseGraph(std::string_view text, const OpRegistry& ops,
                         const ParseOptions& options = {});

struct PrintOptions {
  /// Constants longer than this print as `const f32[64] #hash` (not parsable); -1: print all.
  int64_t max_elements = -1;
  bool types = false;  ///< comment with the type of every result
};
std::string Print(const Graph& g, const PrintOptions& options = {});

}  // namespace infer
