#pragma once
/// --eval-command: a program of the user's that judges a model by a number of its own (mAP, word
/// error rate, ...), and the gate on it.
#include <string>

#include "quant/accuracy/gate.h"
#include "tools/common/command.h"
#include "tools/common/report.h"

namespace infer {

struct EvalFlags {
  std::string command;            ///< "python3 map.py {model}"; "": none
  std::string better = "higher";  ///< or "lower"
  std::string max_loss = "1%";    ///< beside the golden model's number: a share of it, or so much
  void Declare(Options& options);
  bool given() const { return !command.empty(); }
  /// InvalidArgument: no {model} in the command, or a loss that is no number.
  Status Check() const;
};

/// The number that the command prints of the model in `path`: the last word of its output that is
/// one. Runs it by /bin/sh; its standard error goes to ours. InvalidArgument: it fails, or prints
/// no number. Cancelled: the stop token fired.
Result<double> RunEvalCommand(const EvalFlags& flags, const std::string& path,
                              const std::stop_token& stop);

/// The gate of two such numbers; "eval-command" in reports.
GateResult CheckEval(const EvalFlags& flags, double golden, double candidate);
/// Runs the command on both files and fills report["eval_command"].
Result<GateResult> JudgeByCommand(Context& context, const EvalFlags& flags,
                                  const std::string& golden_path, const std::string& candidate_path,
                                  Json& report);

}  // namespace infer
