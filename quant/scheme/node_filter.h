#pragma once
/// Which nodes a user means: by glob or regular expression over names, or by operator type.
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/ir/graph.h"

namespace infer {

struct NodePattern {
  enum class Kind {
    kGlob,   ///< shell-style, whole name
    kRegex,  ///< RE2 syntax, anywhere in the name
    kOp,     ///< operator type, exact
    kValue,  ///< a value that the node makes, exact
  };
  Kind kind = Kind::kGlob;
  std::string text;
};
std::string ToString(const NodePattern& p);  ///< "glob 'conv*'"
/// As users write it: "conv*" is a glob over names, "re:TEXT" a regular expression, "op:Conv" an
/// operator type.
NodePattern ParseNodePattern(const std::string& text);

/// A compiled list of patterns. A node's names are its own, those of the original nodes that it
/// stands for, and the values that it makes. Its operators are its own and that of the product or
/// convolution of the original graph that it stands for: preparation makes Gemm of MatMul.
class NodeFilter {
 public:
  /// InvalidArgument: a regular expression that RE2 refuses.
  /// `original`: the graph before it was prepared; nullptr: there is no other.
  static Result<NodeFilter> Compile(std::span<const NodePattern> patterns,
                                    const Graph* original = nullptr);
  NodeFilter() = default;
  bool empty() const { return entries_.empty(); }
  /// The first pattern that matches; nullptr for none.
  const NodePattern* Match(const Node& node) const;
  /// InvalidArgument that lists every pattern which matches no node of any of `graphs`.
  Status CheckEachMatches(std::span<const Graph* const> graphs, std::string_view option) const;

 private:
  struct Entry;
  std::vector<std::shared_ptr<const Entry>> entries_;
};

}  // namespace infer
