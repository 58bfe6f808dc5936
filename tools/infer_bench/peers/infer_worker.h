#pragma once
/// Our own engine as a worker of `infer-bench peers`: the same protocol, in a process of its own
/// like every other.

namespace infer::peers {

/// What `infer-bench` gets as its only argument to be a worker. No command: users start `peers`.
inline constexpr char kWorkerArgument[] = "peers-worker";

/// Answers requests until the end of stdin. Returns the process's exit code.
int RunInferWorker();

}  // namespace infer::peers
