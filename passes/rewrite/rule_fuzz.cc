#include "passes/rewrite/rule_fuzz.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "lib/ir/eval.h"
#include "lib/ir/inference.h"
#include "lib/ir/text.h"
#include "lib/ir/verify.h"
#include "lib/support/measure.h"
#include "lib/support/random.h"
#include "lib/support/strings.h"
#include "passes/rewrite/driver.h"
#include "passes/rewrite/verify_match.h"

namespace infer {
namespace {

struct Step {
  int kind;
  uint64_t seed;
};

/// What all nodes of a graph may deviate together.
double ToleranceOf(const Graph& g) {
  double sum = 0;
  for (const auto& n : g.nodes()) {
    double t = std::max(n->def().tolerance, 1e-6);
    for (const Value* v : n->outputs()) {
      if (!v || !v->type().is_tensor()) continue;
      if (v->dtype() == DType::kF16) t = std::max(t, 0x1p-9);
      if (v->dtype() == DType::kBF16) t = std::max(t, 0x1p-6);
    }
    sum += t;
  }
  return sum;
}

/// The largest finite magnitude in a tensor of floats.
double LargestOf(const Datum& d) {
  double largest = 0;
  if (!d.is_tensor() || !IsFloat(d.tensor().dtype())) return 0;
  for (int64_t i = 0; i < d.tensor().num_elements(); ++i)
    if (const double v = std::abs(d.tensor().At(i)); std::isfinite(v))
      largest = std::max(largest, v);
  return largest;
}

bool IsFinite(const Datum& d) {
  if (!d.is_tensor() || !IsFloat(d.tensor().dtype())) return true;
  for (int64_t i = 0; i < d.tensor().num_elements(); ++i)
    if (!std::isfinite(d.tensor().At(i))) return false;
  return true;
}

/// f16 and bf16 become f32; false: there were none.
bool Widen(Sketch& s) {
  bool widened = false;
  const auto is_narrow = [](DType t) { return t == DType::kF16 || t == DType::kBF16; };
  const auto widen = [&](ValueType& t) {
    if (!t.is_tensor() || !is_narrow(t.tensor().dtype)) return;
    t = ValueType(TensorType{DType::kF32, t.tensor().shape});
    widened = true;
  };
  for (Sketch::Input& i : s.inputs) {
    widen(i.type);
    widen(i.value);
  }
  for (auto& c : s.constants)
    if (is_narrow(c.tensor.dtype())) {
      c.tensor = c.tensor.Cast(DType::kF32);
      widened = true;
    }
  return widened;
}

class RuleFuzzer {
 public:
  RuleFuzzer(const Rule& rule, const OpRegistry& ops, const FuzzOptions& options)
      : rule_(rule), ops_(ops), options_(options) {}

  void Run(const std::string& example, uint64_t seed) {
    auto parsed = ParseGraph(example, ops_);
    if (!parsed.ok()) return Add(seed, parsed.status().message(), {}, example);
    const Sketch start = Sketch::Of(*parsed);
    Random random(seed, 77);
    std::vector<Step> steps(random.Below(static_cast<uint32_t>(options_.max_bends) + 1));
    for (Step& step : steps)
      step = {static_cast<int>(random.Below(static_cast<uint32_t>(NumBends()))), random.NextU64()};
    // A bend that makes the graph ill-typed is taken back.
    Sketch s = start;
    std::vector<Step> taken;
    for (const Step& step : steps) {
      Sketch bent = s;
      if (!Bend(bent, step.kind, step.seed, ops_) || !bent.Build(ops_).ok()) continue;
      s = std::move(bent);
      taken.push_back(step);
    }
    std::string what = Check(s, seed, true);
    if (what.empty()) return;
    Add(seed, Shrink(start, taken, seed, s, what), taken, Text(s));
  }
  FuzzResult Take() { return std::move(result_); }

 private:
  /// Leaves out bends while the graph fails.
  std::string Shrink(const Sketch& start, std::vector<Step>& steps, uint64_t seed, Sketch& failing,
                     std::string what) {
    for (size_t i = steps.size(); i-- > 0;) {
      std::vector<Step> fewer = steps;
      fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(i));
      Sketch s = start;
      for (const Step& step : fewer) Bend(s, step.kind, step.seed, ops_);
      std::string still = Check(s, seed, false);
      if (still.empty()) continue;
      what = std::move(still);
      steps = std::move(fewer);
      failing = std::move(s);
    }
    return what;
  }

  std::string Text(const Sketch& s) const {
    const auto g = s.Build(ops_);
    return g.ok() ? Print(*g) : g.status().message();
  }

  void Add(uint64_t seed, std::string what, const std::vector<Step>& steps, std::string graph) {
    std::vector<std::string_view> bends;
    for (const Step& s : steps) bends.push_back(BendName(s.kind));
    result_.failures.push_back(
        {rule_.name, std::move(what), seed, Join(bends, ", "), std::move(graph)});
  }

  /// What is wrong, or "". Graphs that cannot be built or run are no failures.
  std::string Check(const Sketch& s, uint64_t seed, bool count) {
    auto built = s.Build(ops_);
    auto inputs = s.Values(ops_, seed);
    if (!built.ok() || !inputs.ok() || !Verify(*built).ok()) {
      result_.skipped += count;
      return "";
    }
    largest_ = 0;
    bool finite = true;
    const auto tap = [&](const Value&, const Datum& d) {
      largest_ = std::max(largest_, LargestOf(d));
      finite = finite && IsFinite(d);
    };
    const auto wanted = Evaluate(*built, *inputs, {.tap = tap});
    if (!wanted.ok()) {
      result_.skipped += count;
      return "";
    }
    result_.graphs += count;
    std::string what = CheckAlone(*built, *inputs, *wanted, count);
    if (what.empty() && options_.pipeline) what = CheckPipeline(*built, *inputs, *wanted);
    if (what.find(" deviates by ") == std::string::npos) return what;
    // What overflows on the way may not do so when it is computed in one piece, and what 16 bits
    // cannot tell apart may differ much after a division: there f32 is the judge.
    Sketch wide = s;
    if (!finite || (Widen(wide) && wide.Build(ops_).ok() && Check(wide, seed, false).empty())) {
      result_.rounding += count;
      return "";
    }
    return what;
  }

  std::string CheckAlone(const Graph& before, const std::vector<Datum>& inputs,
                         const std::vector<Datum>& wanted, bool count) {
    Graph after = before.Clone();
    const uint64_t print = Fingerprint(after);
    RewriteLog log;
    const auto fired = ApplyRules(after, std::span(&rule_, 1), {}, log);
    if (!fired.ok()) return Cat("alone: ", fired.status().message());
    if (*fired == 0)
      return Fingerprint(after) == print ? "" : "alone: the graph changed without a rewrite";
    if (count) {
      ++result_.fired;
      result_.rewrites += *fired;
    }
    // Types below a rewrite may lag behind; the pass manager refines them, too.
    Graph refined = after.Clone();
    if (const Status s = RefineTypes(refined); !s.ok()) return Cat("alone: ", s.message());
    std::string what = Compare(before, refined, inputs, wanted);
    if (!what.empty()) return Cat("alone: ", what);
    const uint64_t done = Fingerprint(after);
    const auto again = ApplyRules(after, std::span(&rule_, 1), {}, log);
    if (!again.ok()) return Cat("alone, second run: ", again.status().message());
    if (*again != 0 || Fingerprint(after) != done) return "alone: a second run changes the graph";
    return "";
  }

  std::string CheckPipeline(const Graph& before, const std::vector<Datum>& inputs,
                            const std::vector<Datum>& wanted) {
    Graph after = before.Clone();
    if (const Status s = options_.pipeline(after); !s.ok()) {
      // A scale below 0 that the model computes: the model is to blame.
      const bool scale =
          s.code() == Code::kInvalidModel && s.message().find(": quant: ") != s.message().npos;
      return scale ? "" : Cat("pipeline: ", s.message());
    }
    std::string what = Compare(before, after, inputs, wanted);
    return what.empty() ? "" : Cat("pipeline: ", what);
  }

  /// The laws of the graph, its interface, and its values.
  std::string Compare(const Graph& before, const Graph& after, const std::vector<Datum>& inputs,
                      const std::vector<Datum>& wanted) const {
    if (const Status s = Verify(after); !s.ok()) return s.message();
    if (before.inputs().size() != after.inputs().size() ||
        before.outputs().size() != after.outputs().size())
      return "another number of inputs or outputs";
    for (size_t i = 0; i < before.outputs().size(); ++i)
      if (before.outputs()[i]->name() != after.outputs()[i]->name())
        return Cat("output '", before.outputs()[i]->name(), "' became '",
                   after.outputs()[i]->name(), "'");
    const auto found = Evaluate(after, inputs);
    if (!found.ok()) return Cat(found.status().message(), "\n", Print(after));
    const double tolerance = ToleranceOf(before) + ToleranceOf(after);
    for (size_t i = 0; i < wanted.size(); ++i) {
      const auto error = RelativeError(wanted[i], (*found)[i]);
      const std::string name = before.outputs()[i]->name();
      if (!error.ok()) return Cat("output '", name, "' is ", error.status().message());
      // What cancels down to rounding is as precise as what it was made from.
      const double size = LargestOf(wanted[i]);
      const bool cancels = size < 1e-3 * largest_ && *error * size <= tolerance * largest_;
      if (!(*error <= tolerance) && !cancels)
        return Cat("output '", name, "' deviates by ", *error, " (tolerance ", tolerance, ") in\n",
                   Print(after));
    }
    return "";
  }

  const Rule& rule_;
  const OpRegistry& ops_;
  const FuzzOptions& options_;
  double largest_ = 0;  // of all values of the graph that is checked
  FuzzResult result_;
};

}  // namespace

FuzzResult FuzzRule(const Rule& rule, std::span<const std::string> examples, const OpRegistry& ops,
                    const FuzzOptions& options) {
  RuleFuzzer fuzzer(rule, ops, options);
  const auto start = std::chrono::steady_clock::now();
  for (int64_t i = 0; i < options.graphs && !examples.empty(); ++i) {
    if (MsSince(start) > 1e3 * options.max_seconds) break;
    const uint64_t seed = options.seed + static_cast<uint64_t>(i);
    fuzzer.Run(examples[seed % examples.size()], seed);
  }
  return fuzzer.Take();
}

}  // namespace infer
