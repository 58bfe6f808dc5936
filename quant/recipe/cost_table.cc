#include "quant/recipe/cost_table.h"

#include <algorithm>

#include "lib/support/strings.h"

namespace infer {
namespace {

struct FamilyPrice {
  std::string_view family;
  StepPrice price;
};

// tools/infer_opt/recipe_costs.py over 34 reports of 17 models, FP32 and INT8, 2 cores of an AMD
// EPYC with AVX-512 VNNI that others used too.
constexpr FamilyPrice kBuiltIn[] = {
    {"attention f32", {2.133, 0, 0.1833}},
    {"attention int8", {4.221, 0, 0.4198}},
    {"conv f32", {1.014, 13.26, 0}},
    {"conv int8", {1.027, 2.452, 0}},
    {"conv1x1 f32", {0.3144, 8.915, 0.02595}},
    {"conv1x1 int8", {0.4751, 2.507, 0.07812}},
    {"depthwise f32", {0.3192, 12.51, 0.01594}},
    {"depthwise int8", {0.5716, 15.74, 0.01984}},
    {"elements f32", {0.07439, 93.75, 0.01267}},
    {"elements int8", {0.06026, 5.227, 0}},
    {"move", {0.1012, 0, 0.01486}},
    {"product f32", {0.4929, 7.13, 0.009546}},
    {"product int8", {0.589, 2.13, 0.001402}},
    {"quantize", {0.05201, 8.857e-06, 0.0224}},
    {"reference", {0, 50, 0.5}},
    {"slow move", {0.6045, 0.0001961, 0.1011}},
    {"winograd", {0.7858, 2.91, 0.03781}},
};
constexpr auto kFamilies = [] {
  std::array<std::string_view, std::size(kBuiltIn)> names;
  for (size_t i = 0; i < names.size(); ++i) names[i] = kBuiltIn[i].family;
  return names;
}();

bool Has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

bool IsQdq(std::string_view op) { return op == "QuantizeLinear" || op == "DequantizeLinear"; }

/// The first operator of "DequantizeLinear+Conv+QuantizeLinear" that computes something.
std::string_view MainOf(std::string_view op) {
  for (std::string_view rest = op; !rest.empty();) {
    const std::string_view one = rest.substr(0, rest.find('+'));
    if (!IsQdq(one)) return one;
    rest.remove_prefix(std::min(rest.size(), one.size() + 1));
  }
  return op.substr(0, op.find('+'));
}

bool IsMove(std::string_view kernel) {
  constexpr std::string_view kMoves[] = {"own:runs",   "own:strided", "own:rows",
                                         "own:gather", "own:index",   "own:pixels"};
  return std::any_of(std::begin(kMoves), std::end(kMoves),
                     [&](std::string_view k) { return kernel.starts_with(k); });
}

}  // namespace

const CostTable& CostTable::BuiltIn() {
  static const CostTable table = [] {
    CostTable t{"built-in: x64, AVX-512 VNNI, 1 thread", {}};
    for (const FamilyPrice& f : kBuiltIn) t.prices.emplace(f.family, f.price);
    return t;
  }();
  return table;
}

std::span<const std::string_view> CostFamilies() { return kFamilies; }

std::string_view FamilyOf(const StepInfo& step, std::string_view kernel) {
  if (kernel == "view") return "";
  if (kernel == "reference") return "reference";
  if (Has(kernel, ":ref:")) return "slow move";
  if (Has(kernel, "attention")) return Has(kernel, "vnni") ? "attention int8" : "attention f32";
  const std::string_view main = MainOf(step.op);
  const bool is_int8 =
      step.precision.ends_with("s32") || (step.op.starts_with("DequantizeLinear") && !IsQdq(main));
  if (main == "Conv" || main == "ConvTranspose") {
    if (Has(kernel, "winograd")) return "winograd";
    if (Has(kernel, "dw") || Has(kernel, "depthwise") || Has(kernel, "jit_int8"))
      return is_int8 ? "depthwise int8" : "depthwise f32";
    if (Has(kernel, "conv_1x1") || Has(kernel, "gemm") || Has(kernel, "bytes"))
      return is_int8 ? "conv1x1 int8" : "conv1x1 f32";
    return is_int8 ? "conv int8" : "conv f32";
  }
  if (main == "MatMul" || main == "Gemm") return is_int8 ? "product int8" : "product f32";
  if (IsQdq(main)) return "quantize";
  if (IsMove(kernel)) return "move";
  return is_int8 ? "elements int8" : "elements f32";
}

double RunMicroseconds(const Program& program, const RunContext& run, const CostTable& table) {
  const std::vector<StepInfo>& steps = program.steps();
  const auto costs = run.step_costs();
  const auto kernels = run.step_kernels();
  double us = 0;
  for (size_t i = 0; i < steps.size(); ++i) {
    const std::string_view kernel = i < kernels.size() ? kernels[i] : steps[i].kernel;
    const auto price = table.prices.find(FamilyOf(steps[i], kernel));
    if (price == table.prices.end()) continue;
    const Cost& c = i < costs.size() ? costs[i] : steps[i].cost;
    us += price->second.launch_us + price->second.mflop_us * static_cast<double>(c.flops) / 1e6 +
          price->second.kb_us * static_cast<double>(c.bytes_read + c.bytes_written) / 1e3;
  }
  return us;
}

int64_t EstimatedFileBytes(const Graph& g) {
  constexpr int64_t kOfTensor = 24, kOfNode = 12, kOfAttribute = 24;
  const auto name = [](std::string_view n) { return static_cast<int64_t>(n.size()) + 2; };
  int64_t bytes = 0;
  for (const auto& v : g.values())
    if (v->is_constant()) bytes += kOfTensor + name(v->name()) + v->constant()->byte_size();
  for (const auto& n : g.nodes()) {
    bytes += kOfNode + name(n->op()) + name(n->name()) +
             kOfAttribute * static_cast<int64_t>(n->attrs().size());
    for (const Value* v : n->inputs()) bytes += v ? name(v->name()) : 2;
    for (const Value* v : n->outputs()) bytes += v ? name(v->name()) : 2;
  }
  return bytes;
}

double CompileSeconds(const Program& program) {
  constexpr double kOfStep = 1e-3, kOfByte = 3e-9;
  double seconds = 0;
  for (const StepInfo& s : program.steps())
    seconds += kOfStep + kOfByte * static_cast<double>(s.constant_bytes);
  return seconds;
}

}  // namespace infer
