/// infer-opt inspect: what is in a model: interface, operators, sizes, cost; on request the graph
/// as text, or the kernels that a device would run.
#include <algorithm>
#include <map>

#include "lib/ir/body.h"
#include "lib/ir/op_name.h"
#include "lib/ir/text.h"
#include "lib/support/readable.h"
#include "lib/support/strings.h"
#include "tools/common/device_share.h"
#include "tools/common/model_options.h"
#include "tools/common/plan_report.h"
#include "tools/common/report.h"
#include "tools/common/sparsity_report.h"
#include "tools/common/target_text.h"
#include "tools/infer_opt/commands.h"
#include "tools/infer_opt/inspect/graph.h"

namespace infer {
namespace {

struct Census {
  std::map<std::string, int64_t> operators;
  std::map<std::string, Cost> cost;
  Cost total;
  int64_t nodes_without_static_shape = 0;
  OpenExtents extents;  ///< with which costs are told
  int64_t weights = 0, weight_bytes = 0, parameters = 0;
};

void AddCost(Cost& sum, const Cost& c) {
  sum.flops += c.flops;
  sum.bytes_read += c.bytes_read;
  sum.bytes_written += c.bytes_written;
}

/// Sequences and optionals have no shape, so that none can be unknown.
bool HasUnknownShape(const Node& n) {
  return std::any_of(n.outputs().begin(), n.outputs().end(), [](const Value* v) {
    return v && v->type().is_tensor() && !v->type().tensor().is_static();
  });
}

bool HasTensorsOnly(const Node& n) {
  return std::all_of(n.outputs().begin(), n.outputs().end(),
                     [](const Value* v) { return !v || v->type().is_tensor(); });
}

void Count(const Graph& g, Census& c) {
  for (const auto& v : g.values())
    if (const Tensor* t = v->constant()) {
      ++c.weights;
      c.weight_bytes += t->byte_size();
      c.parameters += t->num_elements();
    }
  for (const auto& n : g.nodes()) {
    const std::string op = FullOpName(n->def().domain, n->op());
    ++c.operators[op];
    if (HasUnknownShape(*n)) {
      ++c.nodes_without_static_shape;
    } else if (HasTensorsOnly(*n)) {
      const Cost cost = CostOfNode(*n, g.ops());
      AddCost(c.cost[op], cost);
      AddCost(c.total, cost);
    }
    for (const auto& [name, sub] : n->subgraphs()) Count(*sub, c);
  }
}

std::string PrintValues(std::string_view what, const std::vector<Value*>& values) {
  std::string out;
  for (const Value* v : values)
    out += Cat(what, "  ", Printable(v->name()), ": ", Printable(ToString(v->type())), "\n");
  return out;
}

double Mega(int64_t n) { return static_cast<double>(n) / 1e6; }

int64_t Moved(const Cost& c) { return c.bytes_read + c.bytes_written; }

std::string CostShare(int64_t part, int64_t whole) {
  return whole > 0 ? Fixed(100 * static_cast<double>(part) / static_cast<double>(whole), 1) : "-";
}

/// 1200000 as "1.2 M".
std::string Counted(int64_t n) {
  if (n < 10'000) return Cat(n);
  return n < 1'000'000 ? Cat(Rounded(static_cast<double>(n) / 1e3, 4), " k")
                       : Cat(Rounded(static_cast<double>(n) / 1e6, 4), " M");
}

struct OperatorCost {
  std::string op;
  int64_t nodes = 0;
  Cost cost;
};
std::vector<OperatorCost> CostliestFirst(const Census& c) {
  std::vector<OperatorCost> all;
  for (const auto& [op, n] : c.operators) {
    const auto it = c.cost.find(op);
    all.push_back({op, n, it == c.cost.end() ? Cost() : it->second});
  }
  std::stable_sort(all.begin(), all.end(), [](const OperatorCost& a, const OperatorCost& b) {
    return a.cost.flops != b.cost.flops ? a.cost.flops > b.cost.flops
                                        : Moved(a.cost) > Moved(b.cost);
  });
  return all;
}

class InspectCommand : public Command {
 public:
  std::string_view name() const override { return "inspect"; }
  std::string_view help() const override { return "Show what is in a model and what would run"; }
  std::string_view examples() const override {
    return "Examples:\n"
           "  infer-opt inspect model.onnx\n"
           "  infer-opt inspect model.onnx --kernels --set batch=1\n"
           "  infer-opt inspect model.onnx --plan=epilogues\n"
           "  infer-opt inspect model.onnx --sparsity\n"
           "  infer-opt inspect model.onnx --graph model.html --measure\n"
           "  infer-opt inspect model.onnx int8.onnx --graph difference.svg\n"
           "  infer-opt inspect model.onnx --text\n"
           "  infer-opt inspect model.onnx --target ort-1.22\n";
  }
  void Declare(Options& o) override {
    o.Positional("model", &path_, "The ONNX model", true, PathUse::kRead);
    model_.Declare(o);
    device_.Declare(o);
    device_.DeclareCompute(o);
    o.Section("What to show");
    o.Flag("--text", &text_, "Print the graph in text form");
    o.Flag("--kernels", &kernels_,
           "Per node: the kernel and precision chosen, and why better ones refused");
    o.OptionalValue("--plan", &plan_, "final",
                    "What the device makes of the model: steps, layouts, launches, memory; "
                    "--plan=all: after every step of compiling, --plan=STEP: after that one");
    o.Flag("--sparsity", &sparsity_,
           "Per layer: zeros in its weights, N:M and blocks that they form, and whether a kernel "
           "skips them here");
    std::vector<std::string> names = {"ort"};
    for (const Target& t : Targets()) names.emplace_back(t.name);
    o.Choice("--target", &target_, names,
             "Check that this runtime takes the file, and tell what it computes in integers");
    graph_.Declare(o);
  }

  Result<ExitCode> Run(Context& context) override {
    INFER_TRY(graph_.Check());
    context.Step("import");
    INFER_ASSIGN(Model model, LoadModel(context, path_, model_));
    Census census;
    const Graph sized = WithFoundExtents(model.graph, &census.extents);
    Count(sized, census);
    Json report = NewReport(context, "infer-opt/inspect@1");
    report["model"] = ToJson(model, path_);
    report["producer"] = model.info.producer_name;
    report["ir_version"] = model.info.ir_version;
    AddCensus(report, census);
    bool fits = true;
    if (const Target* t = FindTarget(target_)) {
      context.Step("target");
      INFER_ASSIGN(const auto cpu, MakeBackend("cpu"));
      INFER_ASSIGN(const TargetReport found, CheckTarget(model.graph, VersionsOf(model), *t, *cpu));
      context.Print(ToText(found, *t));
      report["target"] = infer::ToJson(found, *t);
      fits = found.errors() == 0;
    } else if (text_) {
      context.Print(infer::Print(model.graph, {.max_elements = 8, .types = true}));
    } else if (sparsity_) {
      // Of a model that this device does not run zeros are told all the same.
      const auto program = CompileFor(model.graph, device_, PlanObserver());
      ShowSparsity(context, model.graph, program.ok() ? program->get() : nullptr, report);
    } else if (!kernels_ && plan_.empty()) {
      PrintSummary(context, model, census);
    }
    if (kernels_ || !plan_.empty()) {
      context.Step("compile");
      INFER_TRY(TellCompute(context, device_));
      std::vector<PlanView> views;
      const PlanObserver observe = [&](const PlanView& v) { views.push_back(v); };
      // Layouts, launches and memory come of extents alone.
      const bool of_extents = !plan_.empty() && !census.extents.empty();
      INFER_ASSIGN(const auto program,
                   CompileFor(of_extents ? sized : model.graph, device_, observe));
      report["device"] = device_.device;
      report["compute"] = device_.compute;
      if (kernels_) {
        const std::vector<std::optional<Cost>> costs = CostsOf(*program, sized);
        ShowKernels(context, *program, costs, report);
        TellProducts(context, *program, device_.computes());
        if (!costs.empty() && !census.extents.empty())
          context.PrintLine(Cat("MFLOP and MB with ", ToString(census.extents)));
        INFER_TRY(ShowShare(context, *program, views, sized, census.extents, report));
      }
      if (!plan_.empty()) INFER_TRY(ShowPlan(context, plan_, views, report));
      if (of_extents) context.PrintLine(Cat("plan with ", ToString(census.extents)));
    }
    if (graph_.wanted()) INFER_TRY(graph_.Write(context, model, path_, model_, device_));
    INFER_TRY(WriteReport(context, std::move(report)));
    return fits ? kExitOk : kExitGateFailed;
  }

 private:
  static void AddCensus(Json& report, const Census& c) {
    report["weights"] = {
        {"count", c.weights}, {"parameters", c.parameters}, {"bytes", c.weight_bytes}};
    report["cost"] = ToJson(c.total);
    report["extents"] = c.extents;
    report["nodes_without_static_shape"] = c.nodes_without_static_shape;
    report["operators"] = Json::array();
    for (const auto& [op, n] : c.operators) {
      const auto it = c.cost.find(op);
      report["operators"].push_back(
          {{"op", op}, {"count", n}, {"cost", ToJson(it == c.cost.end() ? Cost() : it->second)}});
    }
  }

  void PrintSummary(Context& context, const Model& model, const Census& c) const {
    std::vector<std::string> opsets;
    for (const auto& [domain, version] : model.info.opsets)
      opsets.push_back(Cat(domain.empty() ? "ai.onnx" : domain, " ", version));
    context.PrintLine(
        Cat("model   ", path_, "  (", Join(opsets, ", "), ", IR ", model.info.ir_version, ", by ",
            model.info.producer_name.empty() ? "?" : Printable(model.info.producer_name), ")"));
    context.Print(PrintValues("input ", model.graph.inputs()));
    context.Print(PrintValues("output", model.graph.outputs()));
    context.PrintLine(Cat("weights ", c.weights, " tensors, ", Counted(c.parameters),
                          " parameters, ", HumanBytes(c.weight_bytes)));
    context.PrintLine(Cat("cost    ", Fixed(Mega(c.total.flops), 3),
                          " MFLOP (a multiplication and an addition are two), ",
                          HumanBytes(c.total.bytes_read + c.total.bytes_written), " moved",
                          c.extents.empty() ? "" : Cat("  (with ", ToString(c.extents), ")")));
    if (const int64_t n = c.nodes_without_static_shape; n > 0)
      context.PrintLine(
          Cat("        without ", n, n == 1 ? " node" : " nodes",
              HasOpenDims(model.graph) && c.extents.empty()
                  ? " of unknown shape (--set, --shape make them known)"
                  : " whose shape follows from values that inference does not compute"));
    std::vector<std::vector<std::string>> rows = {
        {"operator", "nodes", "MFLOP", "% of FLOP", "MB moved", "% of MB"}};
    for (const auto& [op, n, cost] : CostliestFirst(c)) {
      const int64_t moved = Moved(cost);
      rows.push_back({op, Cat(n), Fixed(Mega(cost.flops), 3), CostShare(cost.flops, c.total.flops),
                      Fixed(Mega(moved), 3), CostShare(moved, Moved(c.total))});
    }
    context.Print("\n" + TextTable(rows));
  }

  /// The cost of the step that makes `output`, where the graph tells more than the step: bodies of
  /// control flow count as in the summary, and what follows from values of the run is unknown.
  static std::optional<Cost> InGraph(const Graph& sized, const std::string& output,
                                     std::optional<Cost> of_step) {
    const Value* v = sized.FindValue(output);
    const Node* n = v ? v->producer() : nullptr;
    if (!n) return of_step;
    if (HasUnknownShape(*n)) return std::nullopt;
    if (n->subgraphs().empty() || !of_step) return of_step;
    Census bodies;
    for (const auto& [name, sub] : n->subgraphs()) Count(*sub, bodies);
    AddCost(*of_step, bodies.total);
    return of_step;
  }

  /// By step, nullopt where it is not known; empty where no extents are known for the open
  /// dimensions.
  static std::vector<std::optional<Cost>> CostsOf(const Program& program, const Graph& sized) {
    const std::vector<Cost> of_steps = StepCosts(program, sized);
    std::vector<std::optional<Cost>> costs(of_steps.begin(), of_steps.end());
    for (size_t i = 0; i < costs.size(); ++i)
      for (const std::string& output : program.steps()[i].outputs)
        if (!output.empty()) {
          costs[i] = InGraph(sized, output, costs[i]);
          break;
        }
    return costs;
  }

  /// As the program counts them.
  static std::vector<Cost> StepCosts(const Program& program, const Graph& sized) {
    std::vector<Cost> costs;
    std::vector<Dims> dims;
    bool is_open = false;
    for (const Value* v : sized.inputs()) {
      dims.emplace_back();
      if (!v->type().is_tensor()) continue;
      is_open |= !v->shape().is_static();
      if (v->shape().is_static()) dims.back() = v->shape().static_dims();
    }
    if (is_open) return {};
    for (const StepInfo& s : program.steps()) costs.push_back(s.cost);
    const bool program_is_open = std::any_of(
        program.inputs().begin(), program.inputs().end(),
        [](const Value* v) { return v->type().is_tensor() && !v->shape().is_static(); });
    if (!program_is_open) return costs;
    auto sized_costs = program.CostsFor(dims);
    return sized_costs.ok() ? *std::move(sized_costs) : std::vector<Cost>();
  }

  static void TellProducts(Context& context, const Program& program, Compute compute) {
    if (compute == Compute::kF32) return;
    const auto& steps = program.steps();
    const auto in_it = std::count_if(steps.begin(), steps.end(), [&](const StepInfo& s) {
      return s.precision.starts_with(Name(compute));
    });
    context.PrintLine(Cat(in_it, " of ", steps.size(), " steps multiply in ", Name(compute),
                          "; a product that does not says why, and all else computes in f32"));
  }

  /// Of a device that steps are placed on. Transfers are planned for extents: where the program was
  /// compiled with open ones, which count as 1 then, once more with those that were found.
  Status ShowShare(Context& context, const Program& program, std::span<const PlanView> views,
                   const Graph& sized, const OpenExtents& extents, Json& report) const {
    report["device_share"] = Json();
    if (!program.device()) return {};
    INFER_ASSIGN(const auto backend, MakeBackend(device_.device));
    std::optional<DeviceShare> share = ShareOf(views, backend->name());
    const bool with_found = plan_.empty() && !extents.empty();
    if (with_found) {
      std::vector<PlanView> found;
      const auto compiled =
          CompileFor(sized, device_, [&](const PlanView& v) { found.push_back(v); });
      share = compiled.ok() ? ShareOf(found, backend->name()) : std::nullopt;
    }
    if (!share) {
      context.Note("crossings are planned for extents (--set, --shape)");
      return {};
    }
    report["device_share"] = infer::ToJson(*share);
    context.PrintLine(Cat(infer::ToText(*share, backend->name()),
                          with_found ? Cat(", with ", ToString(extents)) : ""));
    return {};
  }

  static void ShowKernels(Context& context, const Program& program,
                          const std::vector<std::optional<Cost>>& costs, Json& report) {
    std::vector<std::vector<std::string>> rows = {
        {"node", "operator", "kernel", "precision", "MFLOP", "MB", "why not a better one"}};
    report["kernels"] = Json::array();
    for (size_t i = 0; i < program.steps().size(); ++i) {
      const StepInfo& s = program.steps()[i];
      const std::optional<Cost> cost = costs.empty() ? std::nullopt : costs[i];
      rows.push_back({s.node.empty() && !s.outputs.empty() ? s.outputs[0] : s.node,
                      ShownOperators(s.op), s.kernel, s.precision,
                      cost ? Fixed(Mega(cost->flops), 2) : "-",
                      cost ? Fixed(Mega(Moved(*cost)), 3) : "-",
                      s.refusals.empty() ? "" : s.refusals.front()});
      report["kernels"].push_back({{"node", s.node},
                                   {"op", s.op},
                                   {"kernel", s.kernel},
                                   {"precision", s.precision},
                                   {"cost", cost ? ToJson(*cost) : Json()},
                                   {"fused_from", s.fused_from},
                                   {"refusals", s.refusals},
                                   {"outputs", s.outputs}});
    }
    context.Print(TextTable(rows));
  }

  std::string path_, plan_, target_;
  ModelOptions model_;
  DeviceOptions device_;
  GraphFlags graph_;
  bool text_ = false, kernels_ = false, sparsity_ = false;
};

}  // namespace

std::unique_ptr<Command> MakeInspectCommand() { return std::make_unique<InspectCommand>(); }

}  // namespace infer
