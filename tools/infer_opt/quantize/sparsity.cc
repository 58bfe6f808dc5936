#include "tools/infer_opt/quantize/sparsity.h"

#include "lib/support/strings.h"
#include "tools/common/share.h"
#include "tools/infer_opt/prune/report.h"

namespace infer {

void SparsityFlags::Declare(Options& o) {
  o.Value("--sparsity", &sparsity,
          "So many weights become zero while they are rounded, those that cost least: 50%, or 2:4, "
          "of each 4 neighbours along the inputs at most 2 stay");
  o.Value(
      "--blocks", &blocks,
      "RxC, as 16x4: with --sparsity 75% blocks of R outputs and C inputs become zero together; "
      "without it half of them. INT8 gains speed from 16x4");
}

Result<SparsityPattern> SparsityFlags::Pattern() const {
  SparsityPattern p;
  if (!blocks.empty()) {
    auto parsed = ParseBlocks(blocks);
    if (!parsed.ok()) return std::move(parsed.status()).In("--blocks");
    p = *parsed;
    if (sparsity.empty()) return p;
  }
  if (sparsity.find(':') != std::string::npos) {
    if (!blocks.empty())
      return InvalidArgument(
          "--sparsity N:M says how many weights become zero; leave --blocks out");
    auto nm = ParseNm(sparsity);
    return nm.ok() ? std::move(nm)
                   : Result<SparsityPattern>(std::move(nm.status()).In("--sparsity"));
  }
  const auto share = ParseShare(sparsity);
  if (!share) return InvalidArgument(Cat("--sparsity ", sparsity, ": write 50% or 2:4"));
  p.share = share->value;
  if (Status s = CheckShare(p.share); !s.ok()) return std::move(s).In("--sparsity");
  return p;
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
