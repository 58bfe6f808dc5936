#include "quant/prune/choose.h"

#include <algorithm>
#include <cmath>

#include "lib/support/function_ref.h"
#include "lib/support/strings.h"

namespace infer {
namespace {

/// Beyond this depth the mask by alternating directions takes longer than the rest together.
constexpr int64_t kMaxAlternatingDepth = 1200;
/// Rows per input from which one damping is enough: more to choose from lost up to 1 dB at the
/// outputs.
constexpr int64_t kPlentyOfRows = 10;
constexpr double kDamping = 0.01;

struct PruneCandidate {
  enum class Kind : uint8_t { kDense, kMagnitude, kWanda, kSweep, kSweepRefit, kAlternating };
  Kind kind = Kind::kMagnitude;
  double damping = kDamping;
  bool shift = false;
};
using CandidateKind = PruneCandidate::Kind;

/// The mask that magnitude chooses, or the one that was decided.
KeepMask PlainMask(const LayerJob& job) {
  if (job.keep) return *job.keep;
  if (job.units == 0) return KeepMask(job.dense.size(), 1);
  return KeepBest(job.plane, job.pattern, MagnitudeScores(job.dense), job.units);
}

std::string NameOf(const PruneCandidate& c, const LayerJob& job) {
  const bool has_zeros = job.units > 0 && !job.keep;
  std::string name = job.keep ? "cut" : "magnitude";
  if (c.kind == CandidateKind::kDense) name = "dense";
  if (c.kind == CandidateKind::kWanda) name = "wanda";
  if (c.kind == CandidateKind::kSweep) name = "sparsegpt";
  if (c.kind == CandidateKind::kSweepRefit) name = has_zeros ? "sparsegpt+refit" : "refit";
  if (c.kind == CandidateKind::kAlternating) name = "alternating+refit";
  const bool refitted =
      c.kind == CandidateKind::kSweepRefit || c.kind == CandidateKind::kAlternating;
  return c.shift && !refitted ? name + "+bias" : name;
}

/// All that a layer's candidates are made from.
class LayerPruner {
 public:
  LayerPruner(const LayerJob& job, std::span<const LayerMoments> moments)
      : job_(job), moments_(moments) {}

  Result<PrunedMatrix> Make(const PruneCandidate& c) const {
    if (c.kind == CandidateKind::kSweepRefit || c.kind == CandidateKind::kAlternating)
      return Refitted(c);
    PrunedMatrix p;
    if (c.kind == CandidateKind::kSweep) {
      INFER_ASSIGN(SecondOrder s,
                   SecondOrder::Make(job_.plane, job_.dense, job_.pattern, job_.units, moments_,
                                     {c.damping, false, false}));
      INFER_ASSIGN(p, s.Sweep());
    } else {
      p = Masked(job_.dense, Mask(c.kind));
    }
    if (c.shift) ShiftMeans(job_.plane, moments_, p);
    return p;
  }
  /// The same with the means of its results put right; `made` is that of the candidate without.
  PrunedMatrix Shifted(const PrunedMatrix& made) const {
    PrunedMatrix p = made;
    ShiftMeans(job_.plane, moments_, p);
    return p;
  }
  /// Codes for what the candidate made. Pre: the job has a grid.
  Result<PrunedCodes> Rounded(const PruneCandidate& c, const PrunedMatrix& made,
                              CodeWay way) const {
    const CodesRequest request{job_.plane, job_.dense, *job_.grid, made, way};
    if (moments_.empty() || moments_.front().h.empty()) return FindCodes(request, nullptr);
    INFER_TRY(Prepare({c.kind, c.damping, job_.takes_shift}));
    INFER_ASSIGN(PrunedCodes rounded, FindCodes(request, &*moments_of_));
    if (job_.takes_shift) ShiftMeans(job_.plane, moments_, rounded.matrix);
    return rounded;
  }

 private:
  Status Prepare(const PruneCandidate& c) const {
    if (moments_of_ && damping_ == c.damping) return {};
    moments_of_.reset();  // two at once would be the largest part of all
    INFER_ASSIGN(moments_of_, SecondOrder::Make(job_.plane, job_.dense, job_.pattern, job_.units,
                                                moments_, {c.damping, true, c.shift}));
    damping_ = c.damping;
    return {};
  }

  Result<PrunedMatrix> Refitted(const PruneCandidate& c) const {
    INFER_TRY(Prepare(c));
    if (job_.units == 0 || job_.keep) return moments_of_->Refit(PlainMask(job_));
    if (c.kind == CandidateKind::kAlternating) {
      INFER_ASSIGN(KeepMask keep, moments_of_->AlternatingMask());
      return moments_of_->Refit(std::move(keep));
    }
    INFER_ASSIGN(PrunedMatrix swept, moments_of_->Sweep());
    return moments_of_->Refit(std::move(swept.keep), swept.weights);
  }

  KeepMask Mask(CandidateKind kind) const {
    if (kind == CandidateKind::kDense || kind == CandidateKind::kMagnitude || job_.units == 0 ||
        job_.keep)
      return PlainMask(job_);
    const auto scores = WandaScores(job_.plane, job_.dense, moments_);
    return job_.pattern.kind == SparsityPattern::Kind::kUnstructured
               ? KeepBestOfRows(job_.plane, scores, job_.units)
               : KeepBest(job_.plane, job_.pattern, scores, job_.units);
  }

  const LayerJob& job_;
  std::span<const LayerMoments> moments_;
  // Of the candidate before, which mostly has the same damping.
  mutable std::optional<SecondOrder> moments_of_;
  mutable double damping_ = 0;
};

std::vector<PruneCandidate> CandidatesOf(const LayerJob& job, const LayerMoments& sample,
                                         bool second_order) {
  std::vector<PruneCandidate> all;
  const auto add = [&](CandidateKind kind, double damping = kDamping) {
    const bool refitted = kind == CandidateKind::kSweepRefit || kind == CandidateKind::kAlternating;
    if (!refitted || !job.takes_shift) all.push_back({kind, damping, false});
    if (job.takes_shift && second_order) all.push_back({kind, damping, true});
  };
  const bool automatic = job.method == PruneMethod::kAuto;
  if (job.units == 0) {
    add(CandidateKind::kDense);
    if (!automatic) return {all.front()};
  } else {
    if (automatic || job.method == PruneMethod::kMagnitude) add(CandidateKind::kMagnitude);
    if (!job.keep && (automatic || job.method == PruneMethod::kWanda)) add(CandidateKind::kWanda);
    if (second_order && !job.keep && (automatic || job.method == PruneMethod::kSparseGpt))
      add(CandidateKind::kSweep);
  }
  if (!automatic || !second_order) return all;
  const bool few = sample.rows < kPlentyOfRows * job.plane.depth();
  const double dampings[] = {kDamping, 0.1, 1.0};
  for (const double damping : std::span(dampings).first(few ? 3 : 1)) {
    add(CandidateKind::kSweepRefit, damping);
    if (job.units > 0 && !job.keep && job.plane.depth() <= kMaxAlternatingDepth)
      add(CandidateKind::kAlternating, damping);
  }
  return all;
}

/// Why there are no second moments to choose by; "" where there are.
std::string WhyNoMoments(const MomentsPair& m) {
  if (m.fit.empty()) return "no data";
  for (const auto* part : {&m.fit, &m.held_out})
    for (const LayerMoments& x : *part)
      if (!x.finite()) return "its calibration data hold NaN or infinity";
  for (const LayerMoments& x : m.fit)
    if (x.rows == 0) return "it read nothing in the calibration data";
  return "";
}

std::vector<LayerMoments> Merged(const MomentsPair& m) {
  std::vector<LayerMoments> all = m.fit;
  for (size_t g = 0; g < all.size(); ++g) all[g].Add(m.held_out[g]);
  return all;
}

double Relative(double error, double energy) { return energy > 0 ? std::sqrt(error / energy) : 0; }

/// Takes the way to the codes that errs least on `judge`; without second moments the nearest. A way
/// that fails is left out.
CodeWay RoundBest(const LayerPruner& pruner, const PruneCandidate& c, const LayerJob& job,
                  std::span<const LayerMoments> judge, LayerResult& result, double& least) {
  std::vector<CodeWay> ways = {CodeWay::kNearest};
  if (!judge.empty()) ways.push_back(CodeWay::kSweep);
  if (!judge.empty() && job.units > 0 && !job.keep) ways.push_back(CodeWay::kJoint);
  const PrunedMatrix made = result.matrix;
  CodeWay best = CodeWay::kNearest;
  for (const CodeWay way : ways) {
    auto rounded = pruner.Rounded(c, made, way);
    if (!rounded.ok()) continue;
    const double error = judge.empty() ? 0 : PrunedError(job.plane, rounded->matrix, judge);
    if (result.codes && !(error < least)) continue;
    best = way;
    least = error;
    result.matrix = std::move(rounded->matrix);
    result.codes = std::move(rounded->codes);
  }
  return best;
}

/// "sparsegpt+refit+gptq", "joint".
void AddTo(std::string& method, CodeWay way) {
  if (way == CodeWay::kJoint)
    method = Name(way);
  else
    method += Cat("+", Name(way));
}

LayerResult ByMagnitude(const LayerJob& job, std::string note) {
  LayerResult r;
  const bool dense = job.units == 0;
  r.matrix = Masked(job.dense, PlainMask(job));
  r.method = dense ? "dense" : job.keep ? "cut" : "magnitude";
  r.note = std::move(note);
  if (!job.grid) return r;
  double unused = 0;
  AddTo(r.method, RoundBest(LayerPruner(job, {}), {}, job, {}, r, unused));
  return r;
}

}  // namespace

std::optional<PruneMethod> PruneMethodNamed(std::string_view name) {
  for (const PruneMethod m :
       {PruneMethod::kAuto, PruneMethod::kMagnitude, PruneMethod::kWanda, PruneMethod::kSparseGpt})
    if (Name(m) == name) return m;
  return std::nullopt;
}

std::string_view Name(PruneMethod m) {
  switch (m) {
    case PruneMethod::kAuto: return "auto";
    case PruneMethod::kMagnitude: return "magnitude";
    case PruneMethod::kWanda: return "wanda";
    case PruneMethod::kSparseGpt: return "sparsegpt";
  }
  return "";
}

namespace {

/// `merged` gives the moments of all rows, once and last.
LayerResult PruneLayerBy(const LayerJob& job, const MomentsPair& moments,
                         FunctionRef<std::vector<LayerMoments>()> merged) {
  LayerResult result;
  result.note = WhyNoMoments(moments);
  if (!result.note.empty()) return ByMagnitude(job, std::move(result.note));
  const bool second_order = !moments.fit.front().h.empty();
  const std::vector<LayerMoments>& judge =
      moments.held_out.front().rows > 0 ? moments.held_out : moments.fit;
  std::vector<PruneCandidate> candidates = CandidatesOf(job, moments.fit.front(), second_order);
  if (!second_order) {
    result.note = Cat("it sums over ", job.plane.depth(), " inputs, more than ", kMaxPruneDepth,
                      ": scores alone");
    // Scores cannot be judged without moments: Wanda knows more of the data.
    if (job.method == PruneMethod::kMagnitude || job.units == 0 || job.keep)
      candidates.resize(1);
    else
      candidates = {{CandidateKind::kWanda, kDamping, false}};
  }
  std::optional<LayerPruner> fitted(std::in_place, job, moments.fit);
  const LayerPruner& pruner = *fitted;
  const double energy = OutputEnergy(judge);
  std::optional<PruneCandidate> best;
  double least = 0;
  std::optional<PrunedMatrix> without_shift;  // of the candidate before
  for (const PruneCandidate& c : candidates) {
    const bool differs_by_shift = c.shift && without_shift.has_value();
    Result<PrunedMatrix> made =
        differs_by_shift ? Result<PrunedMatrix>(pruner.Shifted(*without_shift)) : pruner.Make(c);
    without_shift.reset();
    if (made.ok() && !c.shift) without_shift = *made;
    if (!made.ok()) {
      result.note = made.status().message();
      continue;
    }
    const double error = second_order ? PrunedError(job.plane, *made, judge) : 0;
    if (c.kind == CandidateKind::kMagnitude && !c.shift && second_order)
      result.magnitude_error = Relative(error, energy);
    if (best && !(error < least)) continue;
    best = c;
    least = error;
    result.matrix = *std::move(made);
  }
  if (!best) {  // a factorisation that failed, of the only candidate
    best = PruneCandidate{CandidateKind::kWanda, kDamping, false};
    result.matrix = *pruner.Make(*best);
    least = PrunedError(job.plane, result.matrix, judge);
  }
  result.method = NameOf(*best, job);
  CodeWay way = CodeWay::kNearest;
  if (job.grid) {
    const std::span<const LayerMoments> all = judge;
    way = RoundBest(pruner, *best, job, second_order ? all : all.first(0), result, least);
    AddTo(result.method, way);
  }
  if (!second_order) return result;
  result.error = Relative(least, energy);
  result.dense_error = Relative(
      PrunedError(job.plane, Masked(job.dense, KeepMask(job.dense.size(), 1)), judge), energy);
  if (judge.data() == moments.fit.data() || !job.use_held_out) return result;
  fitted.reset();
  const std::vector<LayerMoments> all = merged();
  const LayerPruner on_all(job, all);
  auto again = on_all.Make(*best);
  if (!again.ok()) return result;
  if (!job.grid) {
    result.matrix = *std::move(again);
  } else if (auto rounded = on_all.Rounded(*best, *again, way); rounded.ok()) {
    result.matrix = std::move(rounded->matrix);
    result.codes = std::move(rounded->codes);
  }
  return result;
}

}  // namespace

LayerResult PruneLayer(const LayerJob& job, const MomentsPair& moments) {
  return PruneLayerBy(job, moments, [&] { return Merged(moments); });
}

LayerResult PruneLayer(const LayerJob& job, MomentsPair&& moments) {
  return PruneLayerBy(job, moments, [&] {
    for (size_t g = 0; g < moments.fit.size(); ++g) {
      moments.fit[g].Add(moments.held_out[g]);
      moments.held_out[g] = {};
    }
    return std::move(moments.fit);
  });
}

std::optional<std::vector<double>> ErrorCurve(const LayerJob& job, const MomentsPair& moments,
                                              std::span<const int64_t> units) {
  if (!WhyNoMoments(moments).empty() || moments.fit.front().h.empty()) return std::nullopt;
  const std::vector<LayerMoments>& judge =
      moments.held_out.front().rows > 0 ? moments.held_out : moments.fit;
  const double energy = OutputEnergy(judge);
  auto s = SecondOrder::Make(job.plane, job.dense, job.pattern, 0, moments.fit,
                             {kDamping, false, job.takes_shift});
  if (!s.ok()) return std::nullopt;
  std::vector<double> errors;
  for (const int64_t n : units) {
    s->SetUnits(n);
    auto swept = s->Sweep();
    if (!swept.ok()) return std::nullopt;
    errors.push_back(energy > 0 ? PrunedError(job.plane, *swept, judge) / energy : 0);
  }
  return errors;
}

}  // namespace infer
