#pragma once
/// Our own engine as a worker of `infer-bench peers`: the same protocol, in a process of its own
/// like every other.

#include <cstdint>

namespace infer::peers {

/// What `infer-bench` gets as its only argument to be a worker. No command: users start `peers`.
inline constexpr char kWorkerArgument[] = "peers-worker";

/// Answers requests until the end of stdin. Returns the process's exit code.
int RunInferWorker();

/// Nanoseconds that a run took without its waits for a processor. `outer_ns` is its time and a
/// little around it, in which the waits were read; `waited_ns` is from another clock, the
/// scheduler's, good to 1 % and 20 us. Where less than that is left nothing can be said: the result
/// is then `run_ns`, all of its time.
int64_t UndisturbedNs(int64_t run_ns, int64_t outer_ns, int64_t waited_ns);

}  // namespace infer::peers
