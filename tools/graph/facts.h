#pragma once
/// Facts of a node in a picture beside its place: work, bytes, time, error, precision.
#include <map>
#include <optional>
#include <string>

#include "lib/ir/graph.h"
#include "runtime/api/program.h"
#include "tools/common/report.h"

namespace infer {

/// Milliseconds by the name of a node's first result.
using NodeTimes = std::map<std::string, double>;

/// Measurements from elsewhere, which are laid over the picture.
struct Overlay {
  struct Step {
    std::optional<double> ms;
    std::string kernel, precision;
    int nodes = 1;  ///< of the model that the step computes
  };
  std::map<std::string, Step> by_result;  ///< of the step's last node
  std::map<std::string, Step> by_node;    ///< by names of nodes, of those that it computes, too
  std::map<std::string, double> sqnr_by_value;
  bool has_times = false;

  void AddTimes(const NodeTimes& times);
  void AddSteps(const Program& program);
  /// Reports of `run --layers` and of `infer-bench run` (time, kernel and precision of each step),
  /// of `compare --layers` (SQNR of each layer). InvalidModel: another report, or one without
  /// layers. Io.
  Status AddReport(const std::string& path);
};

struct NodeFacts {
  int64_t flops = -1, bytes_moved = -1;  ///< -1: shapes are not known
  int64_t parameters = 0;                ///< numbers in its constants
  std::optional<double> ms, sqnr_db;
  std::string precision;  ///< of the step that computes it, else the type of its first result
  std::string kernel;
};
/// `sized`: the node where open dimensions have extents, for costs; may be null.
NodeFacts FactsOf(const Node& n, const Node* sized, const OpRegistry& ops, const Overlay& overlay);

/// Kinds of operators that the picture tells apart by colour.
enum class NodeColour : uint8_t { kProducts, kStatistics, kElements, kMoves, kCodes, kOther };
NodeColour ColourOf(const Node& n);

}  // namespace infer
