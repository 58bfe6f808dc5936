#include "quant/recipe/cost_table.h"

#include <algorithm>
#include <initializer_list>

#include "lib/ir/inference.h"
#include "lib/support/isa.h"
#include "lib/support/strings.h"

namespace infer {
namespace {

struct FamilyPrice {
  std::string_view family;
  StepPrice vnni, without;  // processors with AVX-512 VNNI, and those without
};

// tools/infer_opt/recipe_costs.py over 46 models in FP32 and INT8, 2 cores of an Intel Xeon with
// AMX that others used, too: with AMX and held to VNNI (80 pairs of reports), and held to AVX2
// (36). Attention by tools/infer_opt/attention_costs.py: the models had it in few shapes.
constexpr FamilyPrice kBuiltIn[] = {
    {"attention f32", {0, 7.294, 0.1936}, {0, 15.18, 0.1389}},
    {"attention int8", {8.747, 3.235, 0.3614}, {3.493, 16.09, 0.2785}},
    {"chain", {0.09871, 53.55, 0}, {0.09049, 43.59, 0.01338}},
    {"conv amx", {3.886, 0.08805, 0.1646}, {0.6924, 25, 0.03976}},
    {"conv f32", {0.4057, 7.084, 0.01726}, {0.7645, 7.778, 0.0147}},
    {"conv int8", {1.039, 1.795, 0}, {0.6924, 25, 0.03976}},
    {"conv1x1 f32", {0.4404, 2.936, 0.03833}, {1.628, 34.94, 0.01181}},
    {"conv1x1 int8", {0.8773, 1.92, 0}, {0.6924, 25, 0.03976}},
    {"depthwise f32", {0.8443, 2.058, 0.02803}, {0.7527, 3.723, 0.02228}},
    {"depthwise int8", {0.8008, 1.775, 0.1328}, {0.6924, 25, 0.03976}},
    {"elements f32", {0.08087, 60.56, 0.003184}, {0.1059, 60.37, 0}},
    {"elements int8", {0.04233, 37.5, 0}, {0.04564, 25.81, 0}},
    {"move", {0, 2.316, 0.02296}, {0.01457, 5.878, 0.01249}},
    {"pool f32", {0.2137, 0, 0.05068}, {0.2689, 0, 0.04984}},
    {"pool int8", {2.348, 80.93, 0}, {0.9625, 44.76, 0}},
    {"product f32", {0.2711, 5.217, 0.007901}, {0.1414, 11.15, 0.007297}},
    {"product int8", {0.4596, 1.882, 0}, {0.1831, 6.413, 0}},
    {"quantize", {0.02268, 2.377e-05, 0.05953}, {0.04181, 1.404e-05, 0.0353}},
    {"reference", {0, 50, 0.5}, {0, 50, 0.5}},
    {"slow move", {0.9728, 0.0001009, 0.0553}, {0.7699, 14.32, 0.03807}},
    {"small conv f32", {0.9417, 6.129, 0.04164}, {0.4973, 25.29, 0.005496}},
    {"small conv int8", {1.039, 1.795, 0}, {0.717, 7.141, 0}},
    {"strided move", {0.06333, 79.86, 0.01555}, {0.07041, 21.96, 0.01134}},
    {"table", {0.07892, 0, 0.0143}, {0.04867, 0, 0.1252}},
    {"winograd", {0.5626, 3.259, 0.01653}, {0.4104, 3.551, 0.08121}},
};

struct OrtPrice {
  std::string_view family;
  StepPrice price;
};

// tests/judge/ort_costs.py on an AMD EPYC with AVX512_VNNI, 2 cores, nothing beside it but idle
// work, 2026-12-01: 384 chains of layers or blocks and 48 mixed networks, each in FP32 and INT8.
constexpr double kSureOfOrt = 0.92;
constexpr OrtPrice kOnnxRuntime[] = {
    {"average pool int8", {1.03, 722.7, 0}},
    {"call", {2.723, 0, 0}},
    {"concat int8", {1.455, 0, 0.01661}},
    {"conv 1-d f32", {0.4827, 3.223, 0.01929}},
    {"conv f32", {1.033, 3.696, 0.01376}},
    {"conv int8", {0.6723, 0.8547, 0.009724}},
    {"conv1x1 f32", {0.3206, 3.552, 0.00352}},
    {"conv1x1 int8", {0.4965, 0.6819, 0.007976}},
    {"depthwise 1-d f32", {0.0757, 50.91, 0}},
    {"depthwise f32", {0.3329, 8.98, 0}},
    {"depthwise int8", {0.9204, 10.67, 0.001532}},
    {"dequantize", {0.2103, 0, 0.0209}},
    {"dequantize weights", {0.2577, 901, 0.03461}},
    {"elements f32", {0.2227, 29.44, 0.00398}},
    {"elements int8", {0.3314, 80.62, 0.002579}},
    {"few-channel conv f32", {0.3822, 5.315, 0.01799}},
    {"few-channel conv int8", {1.335, 0.5656, 0.04032}},
    {"functions f32", {0.162, 18.52, 0.02109}},
    {"global pool f32", {0.3603, 110.1, 0.005705}},
    {"global pool int8", {0.7391, 75.95, 0.03673}},
    {"grouped conv f32", {0.2729, 1.53, 0.02417}},
    {"grouped conv int8", {0.1301, 2460, 0.02962}},
    {"layout", {0.2201, 0, 0.009989}},
    {"layout int8", {0.3109, 0, 0.05606}},
    {"max pool int8", {2.386, 718.2, 0}},
    {"max pool last int8", {2.026, 1228, 0.08463}},
    {"move", {0.2507, 0, 0.006725}},
    {"move int8", {0.4035, 0, 0.005922}},
    {"multiplied depthwise f32", {0.3389, 48.38, 0}},
    {"multiplied depthwise int8", {0, 0, 0.6585}},
    {"pool f32", {0.5241, 6.376, 0.004329}},
    {"product f32", {0.273, 3.699, 0.004715}},
    {"product int8", {0.78, 0.3701, 0.02327}},
    {"product nbits", {0.8659, 5.565, 0}},
    {"quantize", {0.3057, 0, 0.01457}},
    {"rows f32", {0.3288, 80.86, 0}},
    {"softmax f32", {0, 42.17, 0}},
    {"softmax int8", {0, 411.7, 0}},
    {"table int8", {0.1701, 0.259, 0.08394}},
    {"transposed conv f32", {0.5185, 4.038, 0.03399}},
    {"vector product f32", {0.2252, 22.53, 0}},
    {"vector product int8", {0.7152, 6.216, 0.00288}},
    {"view", {0.08778, 0, 0}},
    {"wide conv f32", {2.972, 6.233, 0}},
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

/// Of the operators of a step: "DequantizeLinear+Conv+QuantizeLinear".
struct StepParts {
  std::string_view main;  // the first that computes something, or the first
  bool computes = false, convolves = false, multiplies = false;
};

StepParts PartsOf(std::string_view op) {
  StepParts p{op.substr(0, op.find('+'))};
  for (std::string_view rest = op; !rest.empty();) {
    const std::string_view one = rest.substr(0, rest.find('+'));
    rest.remove_prefix(std::min(rest.size(), one.size() + 1));
    if (!IsQdq(one) && !p.computes) p.main = one;
    p.computes = p.computes || !IsQdq(one);
    p.convolves = p.convolves || one == "Conv" || one == "ConvTranspose";
    p.multiplies = p.multiplies || one == "MatMul" || one == "Gemm";
  }
  return p;
}

bool StartsWithOneOf(std::string_view kernel, std::initializer_list<std::string_view> starts) {
  return std::any_of(starts.begin(), starts.end(),
                     [&](std::string_view s) { return kernel.starts_with(s); });
}

std::string_view ConvFamily(std::string_view kernel, bool is_int8) {
  if (Has(kernel, "winograd")) return "winograd";
  if (Has(kernel, "dw") || Has(kernel, "depthwise") || Has(kernel, "jit_int8"))
    return is_int8 ? "depthwise int8" : "depthwise f32";
  if (Has(kernel, "amx")) return "conv amx";
  if (Has(kernel, "conv_1x1") || Has(kernel, "gemm") || Has(kernel, "bytes"))
    return is_int8 ? "conv1x1 int8" : "conv1x1 f32";
  if (kernel.starts_with("own:")) return is_int8 ? "small conv int8" : "small conv f32";
  return is_int8 ? "conv int8" : "conv f32";
}

}  // namespace

CostTable CostTable::Stored(bool vnni) {
  CostTable t{vnni ? "built-in: x64, AVX-512 VNNI, 1 thread" : "built-in: x64, AVX2, 1 thread", {}};
  for (const FamilyPrice& f : kBuiltIn) t.prices.emplace(f.family, vnni ? f.vnni : f.without);
  return t;
}

const CostTable& CostTable::BuiltIn() {
  static const CostTable table = Stored(RunsIsa(Isa::kVnni));
  return table;
}

const CostTable& CostTable::OfOnnxRuntime() {
  static const CostTable table = [] {
    CostTable t{"built-in: ONNX Runtime 1.30, x64, AVX-512 VNNI, 1 thread", {}};
    t.runtime = CostsOf::kOnnxRuntime;
    t.sure = kSureOfOrt;
    for (const auto& [family, price] : kOnnxRuntime) t.prices.emplace(family, price);
    return t;
  }();
  return table;
}

std::span<const std::string_view> CostFamilies(CostsOf runtime) {
  return runtime == CostsOf::kOurs ? std::span<const std::string_view>(kFamilies) : OrtFamilies();
}

std::string_view FamilyOf(const StepInfo& step, std::string_view kernel) {
  if (kernel == "view") return "";
  if (RunsOnReference(kernel)) return "reference";
  if (Has(kernel, ":ref:")) return "slow move";
  if (Has(kernel, "attention"))
    return Has(step.op, "DequantizeLinear") ? "attention int8" : "attention f32";
  const StepParts parts = PartsOf(step.op);
  const bool is_int8 = step.precision.ends_with("s32") ||
                       (step.op.starts_with("DequantizeLinear") && parts.computes);
  if (parts.convolves) return ConvFamily(kernel, is_int8);
  if (parts.multiplies) return is_int8 ? "product int8" : "product f32";
  if (!parts.computes) return "quantize";
  if (kernel.starts_with("own:runs")) return "move";
  if (StartsWithOneOf(kernel, {"own:strided", "own:rows", "own:gather", "own:index", "own:pixels"}))
    return "strided move";
  if (parts.main.ends_with("Pool")) return is_int8 ? "pool int8" : "pool f32";
  if (kernel.starts_with("own:table")) return "table";
  if (kernel.starts_with("own:chain")) return "chain";
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

Result<double> OrtMicroseconds(const Graph& g, std::span<const Datum> inputs,
                               const FileReader& reader, const CostTable& table) {
  const Target& target = reader.target ? *reader.target : *FindTarget("ort");
  const FileVersions file{reader.opset > 0 ? reader.opset : target.opset, target.ir_version};
  Graph shaped = g.Clone();
  std::map<std::string, Dims> dims;
  for (size_t i = 0; i < inputs.size() && i < g.inputs().size(); ++i)
    if (inputs[i].is_tensor()) dims.emplace(g.inputs()[i]->name(), inputs[i].tensor().dims());
  INFER_TRY(SpecializeInputs(shaped, dims));
  double us = 0;
  for (const OrtStep& step : OrtStepsOf(shaped, file, target, !reader.target))
    if (const auto price = table.prices.find(step.family); price != table.prices.end())
      us += price->second.launch_us * step.launches + price->second.mflop_us * step.mflop +
            price->second.kb_us * step.kb;
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
