#include "tools/infer_bench/kernels/sources.h"

#include <algorithm>

#include "lib/ir/eval.h"
#include "lib/ir/op_name.h"
#include "lib/ir/text.h"
#include "lib/support/strings.h"
#include "tools/bench/precision.h"
#include "tools/zoo/zoo.h"

namespace infer::bench {
namespace {

bool HasKnownRanks(const Graph& g) {
  return std::all_of(g.inputs().begin(), g.inputs().end(),
                     [](const Value* v) { return v->type().is_tensor() && v->shape().has_rank(); });
}

/// A graph, in each of the precisions.
class Taker {
 public:
  Taker(Context& context, const KernelSources& sources, const TakeGraph& take)
      : context_(context), sources_(sources), take_(take) {}

  Status Take(const std::string& name, const Graph& graph) const {
    std::vector<std::string> precisions = sources_.precision;
    if (precisions.empty()) precisions.emplace_back(kAsIs);
    for (const std::string& precision : precisions) {
      if (context_.stop().stop_requested()) return {};
      Graph g = graph.Clone();
      if (precision != kAsIs) {
        INFER_ASSIGN(const auto backend, MakeBackend("cpu"));
        INFER_TRY(ConvertPrecision(g, precision, *backend, context_.stop()).In(name));
      }
      const std::string shown = precision == kAsIs ? name : Cat(name, " (", precision, ")");
      context_.Step(shown);
      INFER_TRY(TakeOne(shown, std::move(g), sources_.inputs));
    }
    return {};
  }

  Status TakeOne(const std::string& name, Graph g, const InputOptions& options) const {
    auto made = MakeInputs(g, options,
                           [&](const std::vector<Datum>& values) { return Evaluate(g, values); });
    if (!made.ok()) return std::move(made.status()).In(name);
    return take_(name, std::move(g), made->values).In(name);
  }

 private:
  Context& context_;
  const KernelSources& sources_;
  const TakeGraph& take_;
};

std::vector<std::string> ZooNames(const std::vector<std::string>& given) {
  if (std::find(given.begin(), given.end(), "all") == given.end()) return given;
  std::vector<std::string> names;
  for (const ZooModel& m : ZooModels()) names.emplace_back(m.name);
  return names;
}

Status TakeExamples(Context& context, const Taker& taker, uint64_t seed) {
  context.Step("examples");
  const auto defs = context.ops().all();
  int64_t done = 0;
  for (const OpDef* def : defs) {
    context.Progress("examples", ++done, static_cast<int64_t>(defs.size()));
    if (context.stop().stop_requested()) return {};
    if (def->example.empty() || !def->deterministic) continue;
    INFER_ASSIGN(Graph g, ParseGraph(def->example, context.ops()));
    if (!HasKnownRanks(g)) continue;
    const std::string name = Cat("example ", FullOpName(def->domain, def->name));
    INFER_TRY(taker.TakeOne(name, std::move(g), {.seed = seed}));
  }
  return {};
}

}  // namespace

void KernelSources::Declare(Options& o) {
  o.Positional("models", &models, "ONNX models", false, PathUse::kRead);
  o.Values("--zoo", &zoo, "Architectures of `infer-bench zoo`, or all");
  o.Flag("--examples", &examples, "The examples of operators; without any model they are taken");
  o.Values("--precision", &precision,
           Cat("What is made of the models: ", Join(PrecisionNames(), ", ")));
  model.Declare(o);
  inputs.Declare(o);
}

Status ForEachSource(Context& context, const KernelSources& sources, const TakeGraph& take) {
  for (const std::string& p : sources.precision) INFER_TRY(CheckPrecision(p));
  const Taker taker(context, sources, take);
  for (const std::string& path : sources.models) {
    INFER_ASSIGN(const Model model, LoadModel(context, path, sources.model));
    INFER_TRY(taker.Take(path, model.graph));
  }
  for (const std::string& name : ZooNames(sources.zoo)) {
    if (context.stop().stop_requested()) return {};
    INFER_ASSIGN(const Model model, MakeZooModel(name, {}, context.ops()));
    INFER_TRY(taker.Take(Cat("zoo ", name), model.graph));
  }
  if (sources.examples || (sources.models.empty() && sources.zoo.empty()))
    INFER_TRY(TakeExamples(context, taker, sources.inputs.seed));
  return {};
}

}  // namespace infer::bench
