#include "tools/common/sparsity_report.h"

#include "lib/support/readable.h"
#include "lib/support/strings.h"
#include "quant/prune/describe.h"

namespace infer {
namespace {

std::string SharePercent(int64_t part, int64_t whole) {
  return whole > 0 ? Fixed(100.0 * static_cast<double>(part) / static_cast<double>(whole), 1) : "-";
}

Json SparsityJson(const LayerSparsity& l) {
  Json j = {{"name", l.name},
            {"op", l.op},
            {"weights", l.weights},
            {"quantized", l.quantized},
            {"groups", l.plane.groups},
            {"rows", l.plane.all_rows()},
            {"channels", l.plane.channels},
            {"taps", l.plane.taps},
            {"count", l.count},
            {"zeros", l.zeros},
            {"zero_rows", l.zero_rows}};
  if (l.m > 0) j["n_of_m"] = {l.n, l.m};
  if (l.block_rows > 0) j["blocks"] = {l.block_rows, l.block_columns};
  return j;
}

}  // namespace

void ShowSparsity(Context& context, const Graph& g, Json& report) {
  std::vector<std::vector<std::string>> rows = {
      {"layer", "operator", "weights", "zeros", "zero %", "N:M", "blocks", "zero outputs"}};
  int64_t weights = 0, zeros = 0;
  Json layers = Json::array();
  for (const LayerSparsity& l : DescribeSparsity(g)) {
    weights += l.count;
    zeros += l.zeros;
    rows.push_back({l.name, l.quantized ? Cat(l.op, " (quantized)") : l.op, Cat(l.count),
                    Cat(l.zeros), SharePercent(l.zeros, l.count),
                    l.m > 0 ? Cat(l.n, ":", l.m) : "-",
                    l.block_rows > 0 ? Cat(l.block_rows, "x", l.block_columns) : "-",
                    l.zero_rows > 0 ? Cat(l.zero_rows) : "-"});
    layers.push_back(SparsityJson(l));
  }
  context.Print(TextTable(rows));
  context.PrintLine(Cat(zeros, " of ", weights, " weights of layers are zero (",
                        SharePercent(zeros, weights), " %)"));
  report["sparsity"] = {{"weights", weights}, {"zeros", zeros}, {"layers", std::move(layers)}};
}

}  // namespace infer
