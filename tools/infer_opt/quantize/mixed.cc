/// --mode mixed: a precision for every layer, from what each costs and gives when it is measured.
#include <algorithm>

#include "lib/support/file.h"
#include "lib/support/hash.h"
#include "lib/support/strings.h"
#include "quant/calibrate/cache.h"
#include "quant/prune/joint.h"
#include "runtime/api/build_identity.h"
#include "tools/common/host.h"
#include "tools/infer_opt/fuse/measure.h"
#include "tools/infer_opt/quantize/budget.h"
#include "tools/infer_opt/quantize/calibration_flags.h"
#include "tools/infer_opt/quantize/mode.h"
#include "tools/infer_opt/quantize/policy_file.h"
#include "tools/infer_opt/quantize/search_log.h"

namespace infer {
namespace {

/// Shares of the budget after which the golden model runs no more samples, fewer than all are
/// calibrated on, and weights are rounded by data and for the least squared error no more.
constexpr double kGoldenUntil = 0.1, kCalibrateUntil = 0.25, kDataUntil = 0.35, kSquaresUntil = 0.4;
/// What observing may take beside the golden model's run, and the candidate's beside it at the end.
constexpr double kOverGolden = 1.5;
constexpr double kMostReserved = 0.25;  // of the budget, for the comparison with the golden model
constexpr int64_t kTimingRuns = 40;  // TimePair and what it compiles, in runs of the golden model
constexpr int64_t kLeastCalibration = 32;
constexpr const char* kPrepared = "prepared 3";  // in the log: what there was time for

class MixedMode : public QuantizeMode {
 public:
  std::string_view name() const override { return "mixed"; }
  std::string_view help() const override {
    return "a precision per layer, found by measuring error, size and time of each";
  }
  bool needs_data() const override { return true; }
  bool has_weight_range() const override { return true; }
  bool can_prune() const override { return true; }
  void Declare(Options& o) override {
    o.Choice("--goal", &goal_, {"latency", "size"}, "mixed: what to make small within the limits");
    o.Value("--budget", &budget_, "mixed: time for the search, 90s, 10min or 1h; without: no end");
    o.Values("--precisions", &precisions_,
             "mixed: of f32, int8, int8-weights, int4-weights, int4-weights-256 and, with --target "
             "ort or infer, int8-nbits, int4-nbits: all unless given; and f16-weights");
    o.Value("--data-depth", &data_depth_,
            "mixed: layers that sum over at most so many inputs round weights in blocks by data",
            int64_t{0});
    o.Value("--layer-samples", &options_.layer_samples,
            "mixed: calibration samples that score one layer", int64_t{1});
    o.Value("--timing-ms", &options_.timing_ms,
            "mixed: milliseconds of one comparison of two models' times");
    o.Value("--verify-samples", &verify_samples_, "mixed: calibration samples that verify a policy",
            int64_t{1});
    o.Flag("--sensitivity", &options_.per_value, "mixed: also score every activation by itself");
    o.Value("--search-log", &log_, "mixed: where measurements are kept; a killed search goes on",
            PathUse::kNone);
    o.Value("--policy", &policy_, "mixed: take this policy (JSON) and search nothing",
            PathUse::kRead);
    o.Value("--save-policy", &save_policy_, "mixed: write the policy", PathUse::kWrite);
  }

  int64_t least_opset() const override { return kScalesOpset; }
  Status CheckOpset(const QuantizeJob& job) override {
    if (job.opset_limit == 0 || job.opset_limit >= kScalesOpset) return {};
    return Unsupported(Cat(
        "the file's opset ", job.opset_limit, " has no scales per channel, which came with opset ",
        kScalesOpset, ": --opset ", kScalesOpset, " raises it; --mode static does with fewer"));
  }

  Result<QuantizeReport> Quantize(const QuantizeJob& job, Graph& g, Json& report) override {
    const auto start = std::chrono::steady_clock::now();
    INFER_TRY(Configure(job, start));
    QuantizeOptions q;
    q.scheme.weights.reduce_range = job.weight_range.Reduces(job.for_ort);
    q.scheme.include = job.include;
    q.scheme.exclude = job.exclude;
    INFER_TRY(job.flags.Apply(job, q));
    MixedOptions mixed = Rounding(job);
    // Zeros are fitted to other samples than those that judge policies.
    const Parts parts = job.pruning ? PartsOf(job.calibration) : Parts{job.calibration, {}};
    if (job.pruning) mixed.change = job.pruning->By(parts.fit);
    if (!policy_.empty()) {
      INFER_ASSIGN(const MixedModel model, MixedModel::Make(g, parts.fit, job.backend, q, mixed));
      INFER_ASSIGN(const Policy policy, ReadPolicy(policy_));
      return Write(job, model, policy, g, report);
    }
    INFER_ASSIGN(const auto store, OpenStore(job, g));
    INFER_ASSIGN(const Prepared prepared,
                 Prepare(job, g, q, std::move(mixed), parts, start, *store));
    INFER_ASSIGN(const Policy policy, Search(job, prepared.model, prepared.judge, *store, report));
    return Write(job, prepared.model, policy, g, report);
  }

 private:
  static constexpr int64_t kScalesOpset = 13;
  struct Prepared {
    Judge judge;
    MixedModel model;
  };
  /// Samples of calibration that fit, and that judge; without `judge` all do both.
  struct Parts {
    Samples fit, judge;
  };

  /// Every fourth judges. Of fewer than kLeastCalibration all do both.
  static Parts PartsOf(const Samples& samples) {
    if (samples.count < kLeastCalibration) return {samples, {}};
    std::vector<int64_t> fit, judge;
    for (int64_t i = 0; i < samples.count; ++i) (i % 4 == 3 ? judge : fit).push_back(i);
    return {Subset(samples, std::move(fit)), Subset(samples, std::move(judge))};
  }

  MixedOptions Rounding(const QuantizeJob& job) const {
    MixedOptions mixed;
    mixed.data_depth = data_depth_;
    mixed.precisions = options_.precisions;
    mixed.rounding = [&job](int64_t done, int64_t total) {
      job.context.Progress("round weights", done, total);
    };
    return mixed;
  }

  /// The golden model's run, calibration and rounding, within their shares of the budget. What
  /// there was time for is kept: a search that goes on needs the same samples and weights.
  Result<Prepared> Prepare(const QuantizeJob& job, const Graph& g, const QuantizeOptions& q,
                           MixedOptions mixed, const Parts& parts, Instant start,
                           MeasurementStore& store) {
    const bool limited = !budget_.empty();
    const auto budget = options_.deadline - start;
    const auto at = [&](double share) {
      return limited ? start + std::chrono::duration_cast<Instant::duration>(share * budget)
                     : Instant::max();
    };
    const Numbers* const kept = store.Find(kPrepared);
    const auto count = [&](const char* name) { return static_cast<int64_t>(kept->at(name)); };
    job.context.Step("mixed: golden model");
    INFER_ASSIGN(Judge judge,
                 Judge::Make(g, parts.judge.count > 0 ? parts.judge : parts.fit,
                             kept ? count("golden") : verify_samples_, job.backend, job.threads,
                             job.context.stop(), kept ? Instant::max() : at(kGoldenUntil)));
    Samples calibration = parts.fit;
    if (kept) {
      calibration.count = count("calibration");
      mixed.rounded = {count("by data"), count("squares"), count("data samples")};
    } else if (limited) {
      const auto fit = static_cast<int64_t>(SecondsTo(at(kCalibrateUntil)) /
                                            (kOverGolden * judge.golden_seconds()));
      calibration.count =
          std::clamp(fit, std::min(kLeastCalibration, calibration.count), calibration.count);
      mixed.data_until = at(kDataUntil);
      mixed.squares_until = at(kSquaresUntil);
    }
    if (limited) options_.deadline -= Reserve(job, judge.golden_seconds(), budget);
    job.context.Step("mixed: calibrate and round");
    INFER_ASSIGN(MixedModel model, MixedModel::Make(g, calibration, job.backend, q, mixed));
    if (limited && !kept) {
      const auto number = [](int64_t n) { return static_cast<double>(n); };
      INFER_TRY(store.Add(kPrepared, {{"golden", number(judge.samples())},
                                      {"calibration", number(calibration.count)},
                                      {"by data", number(model.rounded_layers().data)},
                                      {"squares", number(model.rounded_layers().squares)},
                                      {"data samples", number(model.rounded_layers().samples)}}));
    }
    return Prepared{std::move(judge), std::move(model)};
  }

  static double SecondsTo(Instant t) {
    return std::chrono::duration<double>(t - std::chrono::steady_clock::now()).count();
  }

  /// Of the budget, for what follows the search: timing the choice, and comparing it with the
  /// golden model on the evaluation data.
  static Instant::duration Reserve(const QuantizeJob& job, double golden_seconds,
                                   Instant::duration budget) {
    const auto runs =
        static_cast<double>(kTimingRuns) + kOverGolden * static_cast<double>(job.compared_after);
    return std::min(std::chrono::duration_cast<Instant::duration>(
                        std::chrono::duration<double>(runs * golden_seconds)),
                    std::chrono::duration_cast<Instant::duration>(kMostReserved * budget));
  }

  Result<QuantizeReport> Write(const QuantizeJob& job, const MixedModel& model,
                               const Policy& policy, Graph& g, Json& report) const {
    INFER_ASSIGN(MixedGraph made, model.Apply(policy));
    report["policy"] = PolicyJson(policy, model);
    if (!save_policy_.empty())
      INFER_TRY(WriteFileAtomically(save_policy_, JsonText(report["policy"], 1)));
    made.report.warnings.insert(made.report.warnings.end(), warnings_.begin(), warnings_.end());
    const auto& layers = made.report.layers;
    const bool multiplies_codes =
        std::any_of(layers.begin(), layers.end(),
                    [](const QuantizedLayer& l) { return l.precision == "int8"; });
    WeightRangeFlags::TellSaturation(job.context,
                                     multiplies_codes && !job.weight_range.Reduces(job.for_ort),
                                     IsForOthers(job), report);
    g = std::move(made.graph);
    return std::move(made.report);
  }

  Status Configure(const QuantizeJob& job, Instant start) {
    options_.goal = goal_ == "size" ? SearchGoal::kSize : SearchGoal::kLatency;
    options_.limits = job.limits;
    options_.max_bytes = job.max_bytes;
    options_.threads = job.threads;
    options_.stop = job.context.stop();
    options_.progress = [&job](int64_t done, int64_t total) {
      job.context.Progress("search", done, total);
    };
    if (!budget_.empty()) {
      INFER_ASSIGN(const auto budget, ParseBudget("--budget", budget_));
      options_.deadline = start + budget;
    }
    constexpr int64_t kInt4Opset = 21;
    const bool has_int4 = job.opset_limit == 0 || job.opset_limit >= kInt4Opset;
    const auto is_blocked = [](Precision p) { return IsBlocks(p) && !IsNBits(p); };
    if (precisions_.empty()) {
      if (!has_int4 && std::erase_if(options_.precisions, is_blocked) > 0)
        job.context.Note(Cat("opset ", job.opset_limit,
                             " has no 4-bit weights: not tried (--opset ", kInt4Opset,
                             " has them)"));
      // Weights of f16 are widened in every run, which costs more than it spares.
      std::erase(options_.precisions, Precision::kF16Weights);
      if (!job.microsoft) std::erase_if(options_.precisions, IsNBits);
      return {};
    }
    options_.precisions = {Precision::kF32};
    for (const std::string& name : precisions_) {
      const auto p = ParsePrecision(name);
      if (!p) return InvalidArgument(Cat("--precisions ", name, ": there is no such precision"));
      if (is_blocked(*p) && !has_int4)
        return Unsupported(Cat("--precisions ", name, " needs opset ", kInt4Opset,
                               ", the file has ", job.opset_limit, ": --opset ", kInt4Opset));
      if (IsNBits(*p) && !job.microsoft)
        return InvalidArgument(
            Cat("--precisions ", name, " is an operator of com.microsoft: --target ort or infer"));
      if (std::count(options_.precisions.begin(), options_.precisions.end(), *p) == 0)
        options_.precisions.push_back(*p);
    }
    return {};
  }

  /// What the measurements of a log are of.
  Result<std::string> Identity(const QuantizeJob& job, const Graph& g) const {
    Hasher h;
    INFER_ASSIGN(const uint64_t data, LabelledDataKey(job.calibration, job.context.stop()));
    h.Add(kPrepared)
        .Add(BuildIdentity())
        .Add(Fingerprint(g))
        .Add(job.backend.name())
        .Add(static_cast<uint64_t>(job.threads))
        .Add(data)
        .Add(static_cast<uint64_t>(verify_samples_));
    for (const auto* patterns : {&job.include, &job.exclude}) {
      h.Add("patterns");
      for (const NodePattern& p : *patterns) h.Add(ToString(p));
    }
    for (const Precision p : options_.precisions) h.Add(Name(p));
    h.Add(static_cast<uint64_t>(options_.layer_samples)).Add(static_cast<uint64_t>(data_depth_));
    h.Add(std::to_string(options_.timing_ms)).Add(job.flags.observer);
    h.Add(static_cast<uint64_t>(job.weight_range.Reduces(job.for_ort)));
    if (job.pruning) h.Add(ToString(job.pruning->options().pattern));
    const HostFacts host = GetHostFacts();
    return std::to_string(h.Add(host.cpu_model).Add(host.isa).value());
  }

  Result<std::unique_ptr<MeasurementStore>> OpenStore(const QuantizeJob& job,
                                                      const Graph& g) const {
    std::unique_ptr<MeasurementStore> store = std::make_unique<MemoryStore>();
    if (log_.empty() || !policy_.empty()) return store;
    INFER_ASSIGN(const std::string of, Identity(job, g));
    INFER_ASSIGN(store, SearchLog::Open(log_, of));
    return store;
  }

  Result<Policy> Search(const QuantizeJob& job, const MixedModel& model, const Judge& judge,
                        MeasurementStore& store, Json& report) {
    job.context.Step("mixed: search");
    INFER_ASSIGN(const SearchResult found,
                 SearchPolicy(model, judge, job.backend, options_, store));
    report["search"] = ToJson(found, options_);
    job.context.Print(ToText(found, options_) + "\n");
    warnings_ = found.warnings;
    job.context.Step("mixed: time the choice");
    return Timed(job, model, judge, found, report);
  }

  /// Times the chosen policy as a whole against f32.
  Result<Policy> Timed(const QuantizeJob& job, const MixedModel& model, const Judge& judge,
                       const SearchResult& found, Json& report) const {
    const auto compiled = [&](const Policy& policy) -> Result<std::shared_ptr<const Program>> {
      INFER_ASSIGN(MixedGraph g, model.Apply(policy));
      CompileOptions compile;
      compile.threads = job.threads;
      return job.backend.CompileOwned(std::move(g.graph), compile);
    };
    const Policy& policy = found.chosen.policy;
    INFER_ASSIGN(const auto f32, compiled(model.Uniform(Precision::kF32)));
    INFER_ASSIGN(const auto chosen, compiled(policy));
    INFER_ASSIGN(const PairTiming t, TimePair(*f32, *chosen, judge.inputs(0), job.context.stop()));
    report["search"]["latency"] = infer::ToJson(t);
    job.context.Print(Cat("whole model, FP32 -> mixed: ", ToText(t), "\n"));
    return policy;
  }

  SearchOptions options_;
  std::string goal_ = "latency", budget_, log_, policy_, save_policy_;
  std::vector<std::string> precisions_, warnings_;
  int64_t verify_samples_ = 512, data_depth_ = MixedOptions().data_depth;
};

}  // namespace

std::unique_ptr<QuantizeMode> MakeMixedMode() { return std::make_unique<MixedMode>(); }

}  // namespace infer
