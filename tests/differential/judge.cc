#include "tests/differential/judge.h"

#include <algorithm>
#include <cmath>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "lib/ir/editor.h"
#include "lib/ir/eval.h"
#include "lib/ir/inference.h"
#include "lib/onnx/export.h"
#include "lib/onnx/import.h"
#include "lib/support/random.h"
#include "lib/support/strings.h"
#include "passes/pass/pipeline.h"
#include "passes/rewrite/verify_match.h"
#include "runtime/cpu/backend.h"
#include "runtime/reference/backend.h"

namespace infer {
namespace {

const Backend& Reference() {
  static const std::unique_ptr<Backend> backend = MakeReferenceBackend();
  return *backend;
}
const Backend& Cpu() {
  static const std::unique_ptr<Backend> backend = MakeCpuBackend();
  return *backend;
}

using Outputs = Result<std::vector<Datum>>;

/// Asks its token to stop after so many seconds.
class Deadline {
 public:
  explicit Deadline(double seconds)
      : thread_([this, seconds](const std::stop_token& done) {
          std::unique_lock lock(mutex_);
          if (!ended_.wait_for(lock, done, std::chrono::duration<double>(seconds),
                               [&] { return done.stop_requested(); }))
            source_.request_stop();
        }) {}
  std::stop_token token() const { return source_.get_token(); }

 private:
  std::stop_source source_;
  std::mutex mutex_;
  std::condition_variable_any ended_;
  std::jthread thread_;  // last: ends before what it reads
};

Outputs RunOn(const Backend& backend, const Graph& g, std::span<const Datum> inputs,
              const CompileOptions& compile, double seconds) {
  const Deadline deadline(seconds);
  INFER_ASSIGN(const auto program, backend.Compile(g, compile));
  return RunOnce(*program, inputs, {.stop = deadline.token()});
}

bool IsExhausted(const Outputs& o) {
  return o.status().code() == Code::kResource || o.status().code() == Code::kCancelled;
}

/// What all nodes may deviate together.
double ToleranceOf(const Graph& g) {
  double sum = 0;
  for (const auto& n : g.nodes()) {
    sum += ToleranceOf(*n);
    // The model asks for products of bytes.
    if (n->Is("MatMulNBits", "com.microsoft") && n->Attr<int64_t>("accuracy_level") == 4)
      sum += 0.05;
    for (const auto& [attr, sub] : n->subgraphs()) sum += ToleranceOf(*sub);
  }
  return sum;
}

/// The worst output; infinity where integers or NaN differ. InvalidModel: types differ.
Result<double> WorstError(std::span<const Datum> want, std::span<const Datum> got) {
  double worst = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    const auto error = RelativeError(want[i], got[i]);
    if (!error.ok()) return InvalidModel(Cat("output ", i, " is ", error.status().message()));
    worst = std::max(worst, *error);
  }
  return worst;
}

/// Each float moved by at most `relative` of the largest magnitude in its tensor.
Tensor WithNoise(const Tensor& t, double relative, Random& random) {
  if (!IsFloat(t.dtype()) || BitWidth(t.dtype()) < 16) return t;
  double largest = 0;
  for (int64_t i = 0; i < t.num_elements(); ++i)
    if (std::isfinite(t.At(i))) largest = std::max(largest, std::abs(t.At(i)));
  Tensor out(t.dtype(), t.dims());
  for (int64_t i = 0; i < t.num_elements(); ++i)
    out.Set(i, t.At(i) + relative * largest * random.Uniform(-1, 1));
  return out;
}

/// Values that overflow on the way, or that noise of the size of the tolerance, on inputs,
/// constants and what lies between, moves as far.
class RoundingJudge {
 public:
  RoundingJudge(const Graph& g, std::span<const Datum> inputs, std::span<const Datum> want)
      : g_(g), inputs_(inputs), want_(want) {
    const auto tap = [&](const Value&, const Datum& d) { See(d); };
    (void)Evaluate(g, inputs, {.tap = tap}).ok();
    for (const auto& v : g.values())
      if (v->is_constant()) See(*v->constant());
    for (const auto& n : g.nodes())  // a scale of 1e38 overflows inside an operator
      for (const auto& [name, attr] : n->attrs())
        if (const float* f = std::get_if<float>(&attr)) See(Tensor::Scalar(*f));
    for (const auto& n : g.nodes()) masked_ = std::max(masked_, RoundingOfMask(*n));
    const auto is_float = [](const Datum& d) {
      return d.is_tensor() && IsFloat(d.tensor().dtype());
    };
    // Integers make numbers around 1: windows, random tables.
    if (std::none_of(inputs.begin(), inputs.end(), is_float)) largest_ = std::max(largest_, 1.0);
  }

  /// Whether `error` is what rounding alone may do.
  bool Explains(double error, double tolerance) {
    if (overflows_ || error <= tolerance + masked_) return true;
    // What cancels down to rounding is as precise as what it was made from.
    double size = INFINITY;
    for (const Datum& d : want_) size = std::min(size, LargestOf(d));
    if (error * size <= tolerance * largest_) return true;
    // One operator that computes in one step has no excuse. A recurrent one feeds its rounding
    // back.
    if (g_.num_nodes() == 0) return false;
    const OpDef& def = g_.nodes().front()->def();
    const bool one_step = def.body.empty() && !def.decompose && !def.traits.Has(Trait::kRecurrent);
    if (g_.num_nodes() == 1 && one_step) return false;
    for (uint64_t seed = 1; seed <= 8; ++seed)
      if (error <= tolerance + 4 * Sensitivity(tolerance, seed)) return true;
    return false;
  }

 private:
  /// Two bits of the filter, -10000 by default, which com.microsoft's attention adds to scores:
  /// where all keys of a query are hidden, its scores are as precise as that. 0: there is no mask.
  static double RoundingOfMask(const Node& n) {
    if (!n.def().FindAttr("mask_filter_value")) return 0;
    for (size_t i = 0; i < n.inputs().size() && i < n.def().inputs.size(); ++i) {
      const std::string_view name = n.def().inputs[i].name;
      if (n.input(i) && (name == "mask_index" || name == "key_padding_mask"))
        return std::abs(static_cast<double>(n.Attr<float>("mask_filter_value"))) * 0x1p-22;
    }
    return 0;
  }
  static double LargestOf(const Datum& d) {
    double largest = 0;
    if (!d.is_tensor() || !IsFloat(d.tensor().dtype())) return INFINITY;
    for (int64_t i = 0; i < d.tensor().num_elements(); ++i)
      largest = std::max(largest, std::abs(d.tensor().At(i)));
    return largest;
  }
  void See(const Datum& d) {
    if (!d.is_tensor() || !IsFloat(d.tensor().dtype())) return;
    for (int64_t i = 0; i < d.tensor().num_elements(); ++i) {
      const double v = std::abs(d.tensor().At(i));
      if (!(v < (d.tensor().dtype() == DType::kF16 ? 3e4 : 1e18))) overflows_ = true;
      largest_ = std::max(largest_, v);
    }
  }
  /// How far noise on inputs, constants and what lies between moves the worst output.
  double Sensitivity(double relative, uint64_t seed) {
    Random random(seed);
    std::unordered_map<const Value*, Datum> values;
    const auto noise = [&](const Datum& d) {
      const bool moves = d.is_tensor() && d.tensor().defined();
      return moves ? Datum(WithNoise(d.tensor(), relative, random)) : d;
    };
    for (const auto& v : g_.values())
      if (v->is_constant()) values[v.get()] = noise(*v->constant());
    for (size_t i = 0; i < inputs_.size(); ++i) values[g_.inputs()[i]] = noise(inputs_[i]);
    std::unordered_map<const Value*, Datum> exact =
        values;  // what an output is, without noise of its own
    for (const auto& n : g_.nodes()) {
      if (!n->subgraphs().empty()) return AtInputs(relative, seed);
      std::vector<const Datum*> given;
      for (const Value* v : n->inputs()) given.push_back(v ? &values.at(v) : nullptr);
      auto results = EvaluateNode(*n, given, g_.ops());
      if (!results.ok()) return INFINITY;
      for (size_t i = 0; i < n->outputs().size(); ++i) {
        if (!n->output(i)) continue;
        values[n->output(i)] = noise((*results)[i]);
        exact[n->output(i)] = std::move((*results)[i]);
      }
    }
    std::vector<Datum> got;
    for (const Value* v : g_.outputs()) got.push_back(exact.at(v));
    const auto error = WorstError(want_, got);
    return error.ok() ? *error : INFINITY;
  }
  /// Noise on inputs and constants alone, where subgraphs see values around them.
  double AtInputs(double relative, uint64_t seed) {
    Random random(seed);
    Graph noisy = g_.Clone();
    GraphEditor editor(noisy);
    for (const auto& v : noisy.values())
      if (v->is_constant())
        editor.SetConstant(v.get(), WithNoise(*v->constant(), relative, random));
    std::vector<Datum> inputs(inputs_.begin(), inputs_.end());
    for (Datum& d : inputs)
      if (d.is_tensor() && d.tensor().defined()) d = WithNoise(d.tensor(), relative, random);
    const auto got = Evaluate(noisy, inputs);
    if (!got.ok()) return INFINITY;
    const auto error = WorstError(want_, *got);
    return error.ok() ? *error : INFINITY;
  }

  const Graph& g_;
  std::span<const Datum> inputs_, want_;
  double largest_ = 0;
  double masked_ = 0;  ///< of results, by the rounding of scores that a mask was added to
  bool overflows_ = false;
};

class ModelJudge {
 public:
  ModelJudge(const Graph& g, std::span<const Datum> inputs, const JudgeOptions& options)
      : g_(g),
        inputs_(inputs),
        options_(options),
        want_(RunOn(Reference(), g, inputs, {.threads = 1}, options.seconds)) {}

  Verdict Run() {
    if (IsExhausted(want_)) return {Verdict::kExhausted, want_.status().message()};
    for (const int level : options_.levels) CheckLevel(level);
    if (options_.fuse) CheckFused();
    if (verdict_.kind == Verdict::kAgree && !want_.ok())
      return {Verdict::kRefused, want_.status().message()};
    return verdict_;
  }

 private:
  /// The worst is kept.
  void Say(Verdict::Kind kind, std::string what) {
    if (kind > verdict_.kind) verdict_ = {kind, std::move(what)};
  }

  void CheckLevel(int level) {
    std::optional<Outputs> first;
    for (const int threads : options_.threads) {
      const std::string where = Cat("cpu, level ", level, ", threads ", threads);
      Outputs got =
          RunOn(Cpu(), g_, inputs_, {.level = level, .threads = threads}, options_.seconds);
      Compare(where, got, ToleranceOf(g_));
      if (first && first->ok() && got.ok())
        for (size_t i = 0; i < got->size(); ++i)
          if (const auto e = RelativeError((**first)[i], (*got)[i]); !e.ok() || *e != 0)
            Say(Verdict::kDiffer, Cat(where, ": output ", i, " has other bits than on one thread"));
      if (!first) first = std::move(got);
    }
  }

  void CheckFused() {
    Graph fused = g_.Clone();
    const auto done = Optimize(fused);
    if (!done.ok()) {
      // What is broken whenever it runs may be seen only now: a scale below 0 that is computed.
      if (want_.ok() && done.status().message().find(": quant: ") == std::string::npos)
        Say(Verdict::kDiffer, Cat("fuse: ", done.status().message()));
      return;
    }
    // A rewrite may leave out what fails, never the other way round.
    if (!want_.ok()) return;
    const double tolerance = ToleranceOf(g_) + ToleranceOf(fused);
    Compare("fused, reference",
            RunOn(Reference(), fused, inputs_, {.threads = 1}, options_.seconds), tolerance);
    Compare("fused, cpu", RunOn(Cpu(), fused, inputs_, {.threads = 1}, options_.seconds),
            tolerance);
    if (!ReadAgain(Model(g_.Clone())).ok()) return;  // there is no file of this graph
    const auto again = ReadAgain(Model(std::move(fused)));
    if (!again.ok())
      return Say(again.status().code() == Code::kUnsupported ? verdict_.kind : Verdict::kDiffer,
                 Cat("the fused file: ", again.status().message()));
    Compare("the fused file, reference",
            RunOn(Reference(), again->graph, inputs_, {.threads = 1}, options_.seconds), tolerance);
  }

  /// Unsupported: no file can hold it.
  Result<Model> ReadAgain(const Model& model) const {
    INFER_ASSIGN(const std::string bytes, ExportModelBytes(model));
    auto again = ImportModelBytes(bytes, g_.ops());
    if (!again.ok()) return InvalidModel(again.status().message());
    return again;
  }

  void Compare(const std::string& where, const Outputs& got, double tolerance) {
    if (IsExhausted(got)) return Say(Verdict::kExhausted, Cat(where, ": ", got.status().message()));
    if (!want_.ok() || !got.ok()) {
      // Of two faults each may name the one that it meets first.
      const bool alike = want_.ok() == got.ok() && got.status().code() != Code::kInternal &&
                         (g_.num_nodes() > 1 || want_.status().code() == got.status().code());
      if (!alike && !IsOverruled(got, tolerance))
        Say(Verdict::kDiffer, Cat(where, ": ", Say(got), ", the reference: ", Say(want_)));
      return;
    }
    const auto error = WorstError(*want_, *got);
    if (error.ok() && *error <= tolerance) return;
    // Another shape counts as an infinite error: how many numbers differ may depend on rounding.
    const bool rounding =
        RoundingJudge(g_, inputs_, *want_).Explains(error.ok() ? *error : INFINITY, tolerance);
    Say(rounding ? Verdict::kRounding : Verdict::kDiffer,
        error.ok() ? Cat(where, ": deviates by ", *error, ", tolerance ", tolerance)
                   : Cat(where, ": ", error.status().message()));
  }
  /// Whether one side refused a type that the model declares, and the other, which inferred another
  /// one, gave the numbers of the model without its declarations.
  bool IsOverruled(const Outputs& got, double tolerance) {
    const Outputs& refused = got.ok() ? want_ : got;
    const Outputs& ran = got.ok() ? got : want_;
    if (!ran.ok() || refused.status().message().find("the model says") == std::string::npos)
      return false;
    Graph undeclared = g_.Clone();
    if (!InferTypes(undeclared).ok()) return false;
    const Outputs want = RunOn(Reference(), undeclared, inputs_, {.threads = 1}, options_.seconds);
    if (!want.ok()) return false;
    const auto error = WorstError(*want, *ran);
    return error.ok() && (*error <= tolerance ||
                          RoundingJudge(undeclared, inputs_, *want).Explains(*error, tolerance));
  }
  static std::string Say(const Outputs& o) {
    return o.ok() ? "runs"
                  : Cat("code ", static_cast<int>(o.status().code()), " ", o.status().message());
  }

  const Graph& g_;
  std::span<const Datum> inputs_;
  const JudgeOptions& options_;
  const Outputs want_;
  Verdict verdict_;
};

}  // namespace

Verdict Judge(const Graph& g, std::span<const Datum> inputs, const JudgeOptions& options) {
  return ModelJudge(g, inputs, options).Run();
}

}  // namespace infer
