#include "quant/prune/choose.h"

#include <algorithm>
#include <cmath>

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

 private:
  Result<PrunedMatrix> Refitted(const PruneCandidate& c) const {
    if (!moments_of_ || damping_ != c.damping) {
      INFER_ASSIGN(moments_of_, SecondOrder::Make(job_.plane, job_.dense, job_.pattern, job_.units,
                                                  moments_, {c.damping, true, c.shift}));
      damping_ = c.damping;
    }
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

LayerResult ByMagnitude(const LayerJob& job, std::string note) {
  LayerResult r;
  const bool dense = job.units == 0;
  r.matrix = Masked(job.dense, PlainMask(job));
  r.method = dense ? "dense" : job.keep ? "cut" : "magnitude";
  r.note = std::move(note);
  return r;
}

double Relative(double error, double energy) { return energy > 0 ? std::sqrt(error / energy) : 0; }

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

LayerResult PruneLayer(const LayerJob& job, const MomentsPair& moments) {
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
  const LayerPruner pruner(job, moments.fit);
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
  if (!second_order) return result;
  result.error = Relative(least, energy);
  result.dense_error = Relative(
      PrunedError(job.plane, Masked(job.dense, KeepMask(job.dense.size(), 1)), judge), energy);
  if (judge.data() == moments.fit.data() || !job.use_held_out) return result;
  const std::vector<LayerMoments> all = Merged(moments);
  if (auto again = LayerPruner(job, all).Make(*best); again.ok()) result.matrix = *std::move(again);
  return result;
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
