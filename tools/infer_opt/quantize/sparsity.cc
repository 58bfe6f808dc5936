#include "tools/infer_opt/quantize/sparsity.h"

#include "tools/infer_opt/prune/report.h"

namespace infer {

void DeclareSparsity(Options& o, SparsityFlags& flags) {
  o.Value("--sparsity", &flags.sparsity,
          "So many weights become zero while they are rounded, those that cost least: 50%, or 2:4, "
          "of each 4 neighbours along the inputs at most 2 stay");
  o.Value(
      "--blocks", &flags.blocks,
      "RxC, as 16x4: with --sparsity 75% blocks of R outputs and C inputs become zero together; "
      "without it half of them. INT8 gains speed from 16x4");
}

Result<std::unique_ptr<JointPruning>> MakePruning(const SparsityFlags& flags,
                                                  const QuantizeJob& job) {
  if (!flags.wanted()) return std::unique_ptr<JointPruning>();
  PruneOptions options;
  INFER_ASSIGN(options.pattern, flags.Pattern());
  options.scope = {job.include, job.exclude};
  options.threads = job.threads;
  options.stop = job.context.stop();
  options.progress = [&context = job.context](const std::string& step, int64_t done,
                                              int64_t total) {
    context.Progress(step, done, total);
  };
  if (job.calibration.count == 0)
    job.context.Warn(
        "no calibration data (--calib X or --data X): weights become zero by magnitude alone, and "
        "none makes up for what is lost");
  return std::make_unique<JointPruning>(std::move(options), job.backend);
}

void TellPruning(Context& context, const JointPruning& pruning, Json& report) {
  for (const std::string& w : pruning.report().warnings) context.Warn(w);
  report["pruning"] = ToJson(pruning.report(), pruning.options());
  context.Print(SummaryText(pruning.report(), pruning.options()));
}

}  // namespace infer
