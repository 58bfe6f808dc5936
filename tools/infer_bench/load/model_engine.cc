#include "tools/infer_bench/load/model_engine.h"

#include <utility>

#include "lib/support/measure.h"

namespace infer::bench {

Result<std::unique_ptr<ModelEngine>> ModelEngine::Make(std::shared_ptr<const Program> program,
                                                       const std::vector<Datum>& inputs,
                                                       int64_t batch, int lanes,
                                                       std::stop_token stop) {
  INFER_CHECK(lanes > 0);
  if (batch <= 0) return InvalidArgument("a batch of 0 has no samples to answer");
  std::unique_ptr<ModelEngine> engine(new ModelEngine(std::move(program), batch, std::move(stop)));
  for (int i = 0; i < lanes; ++i) {
    INFER_ASSIGN(auto run, engine->program_->NewContext());
    for (size_t k = 0; k < inputs.size(); ++k) INFER_TRY(run->BindInput(k, inputs[k]));
    INFER_TRY(run->Run({.stop = engine->stop_}));
    engine->contexts_.push_back(std::move(run));
  }
  for (const auto& run : engine->contexts_)
    engine->threads_.emplace_back([e = engine.get(), r = run.get()] { e->Work(*r); });
  return engine;
}

ModelEngine::~ModelEngine() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
    queue_.clear();
  }
  work_.notify_all();
}

double ModelEngine::NowMs() { return MsSince(origin_); }

void ModelEngine::Submit(int64_t id, int64_t samples) {
  auto query = std::make_shared<Query>();
  query->done.push_back({.id = id});
  query->to_start = query->to_finish = (samples + batch_ - 1) / batch_;
  const int64_t runs = query->to_start;
  {
    const std::lock_guard lock(mutex_);
    queue_.push_back(std::move(query));
  }
  if (runs == 1)
    work_.notify_one();
  else
    work_.notify_all();
}

std::vector<Done> ModelEngine::Wait(double until_ms) {
  const auto until = origin_ + std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                                   std::chrono::duration<double, std::milli>(until_ms));
  std::unique_lock lock(mutex_);
  answered_.wait_until(lock, until, [&] { return !done_.empty(); });
  std::vector<Done> done;
  done.reserve(done_.size());
  for (Done& d : done_) done.push_back(std::move(d));
  done_.clear();
  return done;
}

void ModelEngine::Abandon() {
  std::unique_lock lock(mutex_);
  queue_.clear();
  answered_.wait(lock, [&] { return busy_ == 0; });
  done_.clear();
}

void ModelEngine::Work(RunContext& run) {
  std::unique_lock lock(mutex_);
  for (;;) {
    work_.wait(lock, [&] { return closing_ || !queue_.empty(); });
    if (closing_) return;
    const std::shared_ptr<Query> query = queue_.front();
    if (--query->to_start == 0) queue_.pop_front();
    if (query->started_ms < 0) query->started_ms = NowMs();
    ++busy_;
    lock.unlock();
    Status status = run.Run({.stop = stop_});
    const double finished_ms = NowMs();
    lock.lock();
    --busy_;
    Done& done = query->done.front();
    if (done.status.ok()) done.status = std::move(status);
    if (--query->to_finish == 0) {
      done.started_ms = query->started_ms;
      done.finished_ms = finished_ms;
      done_.splice(done_.end(), query->done);
    }
    answered_.notify_one();
  }
}

}  // namespace infer::bench
