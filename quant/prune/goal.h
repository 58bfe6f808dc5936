#pragma once
/// The goals that --structured and --low-rank share: which values they take, and how accuracy is
/// judged while a model is searched for.
#include "quant/recipe/held_out.h"

namespace infer {

/// InvalidArgument, in words for the user: a value that no search can begin with. `is_measured`:
/// something measures the speed-up. `samples`: of calibration, for a drop.
Status CheckBytesGoal(double bytes);
Status CheckSpeedupGoal(double times, bool is_measured);
Status CheckDropGoal(double drop, int64_t samples);

/// InvalidArgument: constants of `all` bytes are no more than the goal leaves.
Status CheckBytesToSave(double goal, double all);
/// Unsupported: `fastest` is the best speed-up of those that were tried.
Status SpeedupOutOfReach(double goal, double fastest);

/// Samples of calibration that a search for a drop fits to, and every fourth, which judges.
Samples FitPart(const Samples& samples);
Samples JudgePart(const Samples& samples);
/// At most so many: they may be sorted by class.
Samples EvenlySpaced(const Samples& samples, int64_t most);
/// Judges candidates for a drop on JudgePart of `samples`. Errors as HeldOut::Make.
Result<HeldOut> MakeDropJudge(const Graph& golden, const Samples& samples, const Backend& backend,
                              int threads, std::stop_token stop);
/// The share of answers that `g` loses: right ones by labels, else those that change.
/// InvalidArgument: the first output is no scores of classes.
Result<double> DropOf(const HeldOut& judge, const Graph& g);

/// Extents of a graph's inputs as the first of `samples` has them, by name; none without samples.
Result<std::map<std::string, Dims>> ExtentsOfFirst(const Graph& g, const Samples& samples);

}  // namespace infer
