#include "runtime/engine/settings.h"

#include "lib/support/strings.h"

namespace infer::engine {
namespace {

Status CheckQueue(const QueueLimits& q) {
  if (q.max_requests < 1)
    return InvalidArgument(Cat("a queue of ", q.max_requests, " requests takes none"));
  if (q.max_bytes < 0) return InvalidArgument(Cat("a queue of ", q.max_bytes, " bytes"));
  return {};
}

Status CheckBatch(const BatchRules& b) {
  if (b.max_rows < 1) return InvalidArgument(Cat("runs of ", b.max_rows, " rows (max_rows)"));
  if (b.max_delay_ns < 0) return InvalidArgument(Cat("a delay of ", b.max_delay_ns, " ns"));
  const char* unused = b.max_delay_ns > 0 ? "max_delay_ns"
                       : b.high_waits     ? "high_waits"
                       : b.adapts         ? "adapts"
                                          : nullptr;
  if (b.max_rows > 1 || !unused) return {};
  return InvalidArgument(Cat(unused, " has no effect where max_rows is 1"));
}

Status CheckBuckets(const Buckets& b) {
  for (int64_t extent : b.extents)
    if (extent <= 0) return InvalidArgument(Cat("a bucket of extent ", extent));
  if (!b.symbol.empty() && b.extents.empty())
    return InvalidArgument(Cat("buckets along '", b.symbol, "' have no extents"));
  return {};
}

Status CheckState(const StateRules& s) {
  const StateRules usual;
  if (s.pairs.empty() && (s.idle_ns != usual.idle_ns || s.max_sequences != usual.max_sequences))
    return InvalidArgument("it keeps no state: idle_ns and max_sequences have no effect");
  if (s.max_sequences < 1 || s.idle_ns < 1)
    return InvalidArgument("it keeps no sequence for any time");
  return {};
}

}  // namespace

Status Check(const EngineOptions& o) {
  if (o.threads < 0) return InvalidArgument(Cat("an engine of ", o.threads, " threads"));
  if (o.ageing_ns < 0) return InvalidArgument(Cat("ageing by ", o.ageing_ns, " ns"));
  if (o.memory_bytes < 0)
    return InvalidArgument(Cat("a memory budget of ", o.memory_bytes, " bytes"));
  if (o.topology && o.placement == Placement::kAnywhere)
    return InvalidArgument("the topology has no effect: the engine places no instances");
  if (o.executor && o.threads > 0)
    return InvalidArgument("threads have no effect: the executor that is given has its own");
  return {};
}

Status Check(const std::string& model, const ModelOptions& o) {
  const auto check = [&] {
    if (o.instances < 1) return InvalidArgument(Cat(o.instances, " instances"));
    if (o.memory_bytes < 0)
      return InvalidArgument(Cat("a memory budget of ", o.memory_bytes, " bytes"));
    INFER_TRY(CheckQueue(o.queue));
    INFER_TRY(CheckBatch(o.batch));
    INFER_TRY(CheckBuckets(o.buckets));
    return CheckState(o.state);
  };
  if (Status s = check(); !s.ok()) return std::move(s).In(Cat("model '", model, "'"));
  return {};
}

}  // namespace infer::engine
