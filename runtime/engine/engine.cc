#include "runtime/engine/engine.h"

#include <chrono>
#include <new>
#include <thread>

#include "lib/support/exceptions.h"
#include "lib/support/strings.h"
#include "runtime/engine/core.h"
#include "runtime/engine/patience.h"
#include "runtime/engine/routes.h"
#include "runtime/engine/settings.h"

namespace infer::engine {

struct Engine::Awaiter::Told {
  std::optional<Outcome> outcome;
  std::thread::id submitter = std::this_thread::get_id();
  // Of the submitting thread alone.
  bool submitting = true, at_once = false;
};

Result<std::unique_ptr<Engine>> Engine::Make(EngineOptions options) {
  INFER_TRY(Check(options));
  // Two steps of priority later than any moment is still a moment.
  options.ageing_ns = std::min(options.ageing_ns, kNever / 4);
  try {
    std::shared_ptr<Homes> homes;
    if (options.placement != Placement::kAnywhere) {
      INFER_TRY(CanPinLanes());
      homes = std::make_shared<Homes>(options.placement,
                                      options.topology ? *options.topology : ThisTopology());
    }
    if (!options.clock) options.clock = SteadyClock();
    if (!options.executor) {
      INFER_ASSIGN(options.executor, MakeThreadExecutor(options.threads));
    }
    return std::unique_ptr<Engine>(
        new Engine(std::make_shared<Core>(std::move(options), std::move(homes))));
  } catch (...) {
    return StatusOfException("while the engine was made");
  }
}

Engine::Engine(std::shared_ptr<Core> core)
    : core_(std::move(core)), routes_(std::make_shared<Routes>(core_)) {}

Engine::~Engine() {
  if (core_->forked())
    (void)new (std::nothrow)
        std::shared_ptr<Routes>(routes_);  // a mutex may be held by a thread that is not here
  else
    core_->Shutdown();
}

Status Engine::Load(const std::string& name, ModelSource source, ModelOptions options) {
  if (!core_->forked()) INFER_TRY(routes_->CheckVersion(name, source.program.get(), options));
  return core_->Load(name, std::move(source), std::move(options));
}

Status Engine::Register(const std::string& name, ModelLoader loader, ModelOptions options,
                        int64_t expected_bytes) {
  if (!core_->forked()) INFER_TRY(routes_->CheckName(name));
  return core_->Register(name, std::move(loader), std::move(options), expected_bytes);
}
Status Engine::Prefetch(const std::string& name) { return core_->Prefetch(name); }
MemoryStats Engine::Memory() const { return core_->Memory(); }

Status Engine::Unload(const std::string& name) { return core_->Unload(name); }

Status Engine::SetRoute(const std::string& name, RoutePolicy policy) {
  return routes_->Set(name, std::move(policy));
}
Status Engine::RemoveRoute(const std::string& name) { return routes_->Remove(name); }
Status Engine::RecordOutcome(const Ticket& ticket, bool good) {
  return routes_->RecordOutcome(ticket, good);
}
std::vector<RouteStats> Engine::StatsOfRoutes() const { return routes_->Stats(); }

void Engine::Submit(Request request, Callback callback) {
  // A callback may destroy the engine before this returns.
  const std::shared_ptr<Routes> routes = routes_;
  routes->Submit(std::move(request), std::move(callback), {});
}

Future Engine::Submit(Request request) {
  const auto promise = std::make_shared<std::promise<Outcome>>();
  Future future;
  future.told_ = promise->get_future();
  future.core_ = core_;
  // Another thread's callback may destroy the engine before this returns.
  const std::shared_ptr<Routes> routes = routes_;
  routes->Submit(std::move(request), [promise](Outcome o) { promise->set_value(std::move(o)); },
                 {.taken = &future.request_});
  return future;
}

Outcome Engine::Infer(Request request) {
  struct Answer {
    Outcome outcome;
    std::atomic<bool> there{false};
  };
  const auto answer = std::make_shared<Answer>();
  const auto begin = std::chrono::steady_clock::now();
  const std::shared_ptr<Routes> routes = routes_;
  routes->Submit(std::move(request),
                 [answer](Outcome o) {
                   answer->outcome = std::move(o);
                   answer->there.store(true, std::memory_order_release);
                   answer->there.notify_one();
                 },
                 {.helps = true});
  thread_local Patience patience;
  if (!patience.Look([&] { return answer->there.load(std::memory_order_acquire); }))
    answer->there.wait(false, std::memory_order_acquire);
  patience.Waited(std::chrono::steady_clock::now() - begin);
  return std::move(answer->outcome);
}

Engine::Awaiter Engine::Await(Request request) { return {*this, std::move(request)}; }

bool Engine::Awaiter::await_suspend(std::coroutine_handle<> coroutine) {
  const auto told = std::make_shared<Told>();
  told_ = told;
  // Behind Submit the coroutine, and this with it, may be gone.
  engine_.Submit(std::move(request_), [told, coroutine](Outcome o) {
    told->outcome = std::move(o);
    if (std::this_thread::get_id() == told->submitter && told->submitting)
      told->at_once = true;
    else
      coroutine.resume();
  });
  told->submitting = false;
  return !told->at_once;
}

Outcome Engine::Awaiter::await_resume() { return *std::move(told_->outcome); }

void Engine::Close() { core_->Close(); }
void Engine::Drain() { core_->Drain(); }
void Engine::Shutdown() { core_->Shutdown(); }
std::vector<ModelStats> Engine::Stats() const { return core_->Stats(); }

}  // namespace infer::engine
