#include "tools/common/sparsity_report.h"

#include <algorithm>

#include "lib/support/readable.h"
#include "lib/support/strings.h"
#include "quant/prune/describe.h"

namespace infer {
namespace {

std::string SharePercent(int64_t part, int64_t whole) {
  return whole > 0 ? Fixed(100.0 * static_cast<double>(part) / static_cast<double>(whole), 1) : "-";
}

/// Kernels that skip zeros, in f32 and in INT8.
constexpr std::string_view kSparseSteps[] = {"sparse", "int8:sparse"};

const StepInfo* StepNamed(std::string_view name, const Program& program) {
  for (const StepInfo& s : program.steps())
    for (const auto* names : {&s.fused_from, &s.outputs})
      if (s.node == name || std::find(names->begin(), names->end(), name) != names->end())
        return &s;
  return nullptr;
}

/// Whether a layer of `op` may be in the step, whose operators are joined by +.
bool HasOperator(const StepInfo& s, const std::string& op) {
  const std::vector<std::string> all = Split(s.op, '+');
  return s.op.starts_with(op) || std::find(all.begin(), all.end(), op) != all.end();
}

/// Of the step that computes a layer, told by its name, by that of its result or, where nodes have
/// no names, of what alone reads that and may be in its step; nullptr: none.
const StepInfo* StepOf(const LayerSparsity& l, const Graph& g, const Program* program) {
  if (!program || l.zeros == 0 || l.name.empty()) return nullptr;
  if (const StepInfo* const s = StepNamed(l.name, *program)) return s;
  const Value* v = g.FindValue(l.name);
  while (v && v->has_one_use()) {
    v = v->uses()[0].user->output(0);
    if (!v) break;
    if (const StepInfo* const s = StepNamed(v->name(), *program))
      return HasOperator(*s, l.op) ? s : nullptr;
  }
  return nullptr;
}

bool SkipsZeros(const StepInfo& s) { return s.kernel.starts_with("own:sparse"); }

/// Whether it will be known for the extents of a run only.
bool MaySkipZeros(const StepInfo& s) {
  return std::find(std::begin(kSparseSteps), std::end(kSparseSteps), s.kernel) !=
         std::end(kSparseSteps);
}

/// "" where it skips zeros or nothing is known.
std::string WhyDense(const StepInfo& s) {
  for (const std::string& r : s.refusals)
    for (const std::string_view name : kSparseSteps)
      if (const std::string begin = Cat(name, ": "); r.starts_with(begin))
        return r.substr(begin.size());
  return "";
}

Json SparsityJson(const LayerSparsity& l, const StepInfo* step) {
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
  if (!step) return j;
  j["kernel"] = step->kernel;
  j["skips_zeros"] = SkipsZeros(*step);
  j["why_dense"] = SkipsZeros(*step) ? "" : WhyDense(*step);
  return j;
}

void PrintSkipping(Context& context, int64_t skipping, int64_t with_zeros) {
  if (with_zeros == 0) return;
  context.PrintLine(
      Cat(skipping, " of ", with_zeros, " layers with zeros run on a kernel that skips them here"));
}

std::string Runs(const StepInfo* step) {
  if (!step) return "-";
  if (SkipsZeros(*step)) return step->kernel;
  if (MaySkipZeros(*step)) return "by the extents of a run";
  const std::string why = WhyDense(*step);
  return why.empty() ? "dense" : Cat("dense: ", why);
}

}  // namespace

void ShowSparsity(Context& context, const Graph& g, const Program* program, Json& report) {
  std::vector<std::vector<std::string>> rows = {
      {"layer", "operator", "weights", "zeros", "zero %", "N:M", "blocks", "zero outputs", "runs"}};
  int64_t weights = 0, zeros = 0, with_zeros = 0, skipping = 0;
  Json layers = Json::array();
  for (const LayerSparsity& l : DescribeSparsity(g)) {
    weights += l.count;
    zeros += l.zeros;
    const StepInfo* const step = StepOf(l, g, program);
    with_zeros += l.zeros > 0;
    skipping += step && SkipsZeros(*step);
    rows.push_back({l.name, l.quantized ? Cat(l.op, " (quantized)") : l.op, Cat(l.count),
                    Cat(l.zeros), SharePercent(l.zeros, l.count),
                    l.m > 0 ? Cat(l.n, ":", l.m) : "-",
                    l.block_rows > 0 ? Cat(l.block_rows, "x", l.block_columns) : "-",
                    l.zero_rows > 0 ? Cat(l.zero_rows) : "-", Runs(step)});
    layers.push_back(SparsityJson(l, step));
  }
  context.Print(TextTable(rows));
  context.PrintLine(Cat(zeros, " of ", weights, " weights of layers are zero (",
                        SharePercent(zeros, weights), " %)"));
  if (program) PrintSkipping(context, skipping, with_zeros);
  report["sparsity"] = {{"weights", weights}, {"zeros", zeros}, {"layers", std::move(layers)}};
}

void TellSkipping(Context& context, const Graph& g, const Program& program) {
  int64_t with_zeros = 0, skipping = 0;
  for (const LayerSparsity& l : DescribeSparsity(g)) {
    const StepInfo* const step = StepOf(l, g, &program);
    with_zeros += l.zeros > 0;
    skipping += step && SkipsZeros(*step);
  }
  PrintSkipping(context, skipping, with_zeros);
}

}  // namespace infer
