#include "runtime/api/program.h"

#include <memory>

#include "lib/ir/carried.h"
#include "lib/support/exceptions.h"
#include "lib/support/lane_pool.h"
#include "lib/support/strings.h"
#include "runtime/api/pending_completion.h"

namespace infer {
namespace {

/// A run on a standing thread.
class StartedRun final : public PendingCompletion {
 public:
  StartedRun(RunContext& context, RunOptions options) {
    RunAside([this, &context, options = std::move(options)] { End(context.Run(options)); });
  }
  ~StartedRun() override { static_cast<void>(Wait()); }
};

/// A run that could not begin.
class FailedStart final : public Completion {
 public:
  explicit FailedStart(Status why) : why_(std::move(why)) {}
  bool done() const override { return true; }
  Status Wait() override { return why_; }

 private:
  Status why_;
};

}  // namespace

std::shared_ptr<Completion> RunContext::Start(RunOptions options) {
  try {
    return std::make_shared<StartedRun>(*this, std::move(options));
  } catch (...) {
    return std::make_shared<FailedStart>(StatusOfException("while a run was started"));
  }
}

ResidentValues CachesOf(const Graph& graph) {
  ResidentValues caches;
  for (const CarriedValue& c : FindCarried(graph)) {
    caches.inputs.push_back(c.input);
    caches.outputs.push_back(c.output);
  }
  return caches;
}

// Contexts that have a device keep the value.
// NOLINTNEXTLINE(performance-unnecessary-value-param)
Status RunContext::BindResident(size_t i, DeviceTensor /*value*/) {
  return Unsupported(Cat("input ", i, " does not lie on a device"));
}

Result<DeviceTensor> RunContext::resident_output(size_t o) const {
  return Unsupported(Cat("output ", o, " does not lie on a device"));
}

Status RunContext::Carry(size_t o, size_t i) {
  auto there = resident_output(o);
  if (there.ok()) {
    Status bound = BindResident(i, *std::move(there));
    if (bound.code() != Code::kUnsupported) return bound;
  } else if (there.status().code() != Code::kUnsupported) {
    return there.status();
  }
  return BindInput(i, output(o));
}

Result<std::string> Backend::HowComputes(Compute compute) const {
  INFER_TRY(RefuseCompute(name(), compute));
  return std::string();
}

Status RefuseCompute(std::string_view backend, Compute compute) {
  if (compute == Compute::kF32) return {};
  return Unsupported(Cat("backend ", backend, " does not compute in ", Name(compute)));
}

Result<std::vector<Datum>> RunOnce(const Program& program, std::span<const Datum> inputs,
                                   const RunOptions& options) {
  if (inputs.size() != program.inputs().size())
    return InvalidArgument(
        Cat("got ", inputs.size(), " inputs, the model has ", program.inputs().size()));
  INFER_ASSIGN(auto context, program.NewContext());
  for (size_t i = 0; i < inputs.size(); ++i) INFER_TRY(context->BindInput(i, inputs[i]));
  INFER_TRY(context->Run(options));
  std::vector<Datum> out;
  for (size_t i = 0; i < program.outputs().size(); ++i) out.push_back(context->output(i));
  return out;
}

}  // namespace infer
