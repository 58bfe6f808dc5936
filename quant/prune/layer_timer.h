#pragma once
/// Times of layers by the cost table (quant/recipe/cost_table.h): each is compiled and run alone,
/// once for its kind.
#include <map>
#include <stop_token>

#include "lib/ir/graph.h"
#include "quant/recipe/cost_table.h"
#include "runtime/api/program.h"

namespace infer {

struct LayerTimerOptions {
  const CostTable* costs = &CostTable::BuiltIn();
  int threads = 0;
  std::stop_token stop = {};
};

class LayerTimer {
 public:
  LayerTimer(const Backend& backend, LayerTimerOptions options)
      : backend_(backend), options_(std::move(options)) {}

  /// The node on inputs of its own, with weights of its extents, none of them 0.
  static Result<Graph> Alone(const Node& node, const OpRegistry& ops);
  /// Of a graph of static extents, run on numbers that are not 0.
  Result<double> Of(Graph g);
  /// Of a graph that is compiled as it is and run once.
  Result<double> OfRun(Graph g, std::vector<Datum> inputs) const;

 private:
  const Backend& backend_;
  LayerTimerOptions options_;
  std::map<uint64_t, double> known_;  // by fingerprint
};

/// Not 0 anywhere, so that no kernel skips it.
Tensor FilledTensor(const Dims& dims);

}  // namespace infer
