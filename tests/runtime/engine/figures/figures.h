#pragma once
/// What the measured figures of the engine share: models that take a chosen time, loads on a model,
/// and what the process holds. Times are of CLOCK_MONOTONIC.
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <condition_variable>
#include <ctime>
#include <fstream>
#include <iostream>
#include <thread>

#include "lib/support/measure.h"
#include "lib/support/random.h"
#include "lib/support/readable.h"
#include "lib/support/strings.h"
#include "runtime/cpu/backend.h"
#include "tests/runtime/engine/hooked_program.h"

namespace infer::engine::figures {

using Steady = std::chrono::steady_clock;

/// One figure, on a line of its own.
template <typename... Parts>
void Tell(const Parts&... parts) {
  std::cout << Cat(parts...) << std::endl;
}

inline std::string Us(double us) { return Cat(Rounded(us, 3), " us"); }
inline std::string Ms(double ms) { return Cat(Rounded(ms, 3), " ms"); }
inline std::string Percent(double share) { return Cat(Rounded(100 * share, 3), " %"); }

/// `layers` products with [width, width], a Tanh behind each. Rows are independent.
inline std::string ChainText(int layers, int width) {
  std::string text = Cat("graph g(x: f32[N,", width, "]) -> (y) { s0 = Identity(x) ");
  for (int i = 0; i < layers; ++i)
    text += Cat("c", i, " = const f32[", width, ",", width, "] ~", i + 1, " p", i, " = MatMul(s", i,
                ", c", i, ") s", i + 1, " = Tanh(p", i, ") ");
  return text + Cat("y = Identity(s", layers, ") }");
}

inline ModelSource CompiledFor(const Graph& graph, int threads = 1) {
  auto source = CompileSource(*MakeCpuBackend(), graph.Clone(), {.threads = threads});
  EXPECT_TRUE(source.ok()) << source.status().message();
  return *std::move(source);
}

inline std::unique_ptr<RunContext> ContextOf(const ModelSource& source,
                                             const std::vector<Datum>& inputs) {
  auto context = source.program->NewContext();
  EXPECT_TRUE(context.ok()) << context.status().message();
  for (size_t i = 0; i < inputs.size(); ++i) EXPECT_TRUE((*context)->BindInput(i, inputs[i]).ok());
  EXPECT_TRUE((*context)->Run().ok());
  return *std::move(context);
}

/// Milliseconds of a bare run, the median of `runs`.
inline double BareMs(const ModelSource& source, const std::vector<Datum>& inputs, int runs = 15) {
  const auto context = ContextOf(source, inputs);
  std::vector<double> ms;
  for (int i = 0; i < runs; ++i) {
    const auto start = Steady::now();
    EXPECT_TRUE(context->Run().ok());
    ms.push_back(MsSince(start));
  }
  return Quantile(ms, 0.5);
}

/// Milliseconds of the longest launch: each of its medians over `runs` profiled runs.
inline double LongestLaunchMs(const ModelSource& source, const std::vector<Datum>& inputs,
                              int runs = 9) {
  const auto context = ContextOf(source, inputs);
  std::map<size_t, std::vector<double>> by_step;
  for (int i = 0; i < runs; ++i) {
    EXPECT_TRUE(context->Run({.profile = true}).ok());
    for (const StepTiming& t : context->profile()) by_step[t.step].push_back(t.duration_ms);
  }
  double longest = 0;
  for (const auto& [step, ms] : by_step) longest = std::max(longest, Quantile(ms, 0.5));
  return longest;
}

inline Datum Ones(Dims dims) {
  Tensor t(DType::kF32, std::move(dims));
  for (float& v : t.mutable_data<float>()) v = 1;
  return t;
}

/// A chain of a model that takes about `ms` here and now, on one lane.
struct SizedModel {
  Graph graph;
  ModelSource source;
  std::vector<Datum> inputs;
  double bare_ms = 0;
};
inline SizedModel ChainOfMs(double ms, int64_t rows, int width) {
  const std::vector<Datum> inputs = {Ones({rows, width})};
  constexpr int kProbe = 8;
  const double probe_ms = BareMs(CompiledFor(Parsed(ChainText(kProbe, width))), inputs);
  const int layers = std::max(1, static_cast<int>(kProbe * ms / probe_ms + 0.5));
  SizedModel m{Parsed(ChainText(layers, width)), {}, inputs};
  m.source = CompiledFor(m.graph);
  m.bare_ms = BareMs(m.source, inputs);
  return m;
}

inline std::unique_ptr<Engine> EngineOf(int threads) {
  auto engine = Engine::Make({.threads = threads});
  EXPECT_TRUE(engine.ok()) << engine.status().message();
  return *std::move(engine);
}

/// How many are on their way; may be destroyed once Await has returned.
class OnTheirWay {
 public:
  void Begin(int64_t n = 1) {
    const std::lock_guard lock(mutex_);
    n_ += n;
  }
  void End() {
    const std::lock_guard lock(mutex_);
    if (--n_ == 0) none_.notify_all();
  }
  void Await() {
    std::unique_lock lock(mutex_);
    none_.wait(lock, [this] { return n_ == 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable none_;
  int64_t n_ = 0;
};

/// Keeps `in_flight` requests going: each is followed by the next when it ends, on the thread that
/// tells it. Belongs to one thread; the engine outlives it.
class ClosedLoop {
 public:
  ClosedLoop(Engine& engine, Request request, int in_flight)
      : engine_(engine), request_(std::move(request)), in_flight_(in_flight) {}
  ~ClosedLoop() { End(); }
  ClosedLoop(const ClosedLoop&) = delete;
  ClosedLoop& operator=(const ClosedLoop&) = delete;

  void Begin() {
    ends_ = false;
    way_.Begin(in_flight_);
    for (int i = 0; i < in_flight_; ++i) Next();
  }
  /// Waits for those that have not ended.
  void End() {
    ends_ = true;
    way_.Await();
  }
  int64_t answered() const { return answered_; }
  int64_t failed() const { return failed_; }

  /// Answers per second of `seconds`.
  double RateFor(double seconds) {
    Begin();
    const auto start = Steady::now();
    const int64_t before = answered_;
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
    const double rate = static_cast<double>(answered_ - before) / MsSince(start) * 1e3;
    End();
    return rate;
  }

 private:
  void Next() {
    engine_.Submit(request_, [this](const Outcome& o) {
      ++(o.end == State::kSucceeded ? answered_ : failed_);
      if (ends_)
        way_.End();
      else
        Next();
    });
  }

  Engine& engine_;
  Request request_;
  int in_flight_;
  std::atomic<bool> ends_{true};
  std::atomic<int64_t> answered_{0}, failed_{0};
  OnTheirWay way_;
};

/// What an open loop found.
struct Answers {
  std::vector<double> ms;  ///< of those that succeeded, from the moment at which they were due
  std::array<int64_t, kEnds> ends = {};
  std::vector<double> reject_us;      ///< of the caller's, for a Submit that rejected
  std::vector<double> reject_cpu_us;  ///< of its thread's processor time
  double seconds = 0;                 ///< in which requests came
  int64_t of(State end) const { return ends[EndIndex(end)]; }
  int64_t came() const {
    int64_t n = 0;
    for (int64_t of_end : ends) n += of_end;
    return n;
  }
  void Add(const Answers& o) {
    ms.insert(ms.end(), o.ms.begin(), o.ms.end());
    reject_us.insert(reject_us.end(), o.reject_us.begin(), o.reject_us.end());
    reject_cpu_us.insert(reject_cpu_us.end(), o.reject_cpu_us.begin(), o.reject_cpu_us.end());
    for (size_t i = 0; i < kEnds; ++i) ends[i] += o.ends[i];
    seconds += o.seconds;
  }
};

inline double ThreadCpuUs() {
  timespec t{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) * 1e6 + static_cast<double>(t.tv_nsec) / 1e3;
}

/// Sends requests by Poisson's law, `per_s` a second, from this thread, which does not wait for
/// answers but behind the last. The same seed gives the same moments.
class OpenLoop {
 public:
  OpenLoop(Engine& engine, Request request, double per_s, uint64_t seed)
      : engine_(engine), request_(std::move(request)), gap_ns_(1e9 / per_s), random_(seed) {}

  Answers RunFor(double seconds) {
    const auto start = Steady::now();
    const double end_ns = 1e9 * seconds;
    for (double at_ns = Gap(); at_ns < end_ns; at_ns += Gap()) {
      const auto due = start + std::chrono::nanoseconds(static_cast<int64_t>(at_ns));
      std::this_thread::sleep_until(due);
      Send(due);
    }
    answers_.seconds = MsSince(start) / 1e3;
    way_.Await();
    const std::lock_guard lock(mutex_);
    return std::move(answers_);
  }

 private:
  double Gap() { return -std::log1p(-random_.Uniform()) * gap_ns_; }

  void Send(Steady::time_point due) {
    way_.Begin();
    const double cpu_us = ThreadCpuUs();
    const auto begin = Steady::now();
    const auto self = std::this_thread::get_id();
    engine_.Submit(request_, [this, due, begin, cpu_us, self](const Outcome& o) {
      {
        const std::lock_guard lock(mutex_);
        ++answers_.ends[EndIndex(o.end)];
        if (o.end == State::kSucceeded) answers_.ms.push_back(MsSince(due));
        if (o.end == State::kRejected && std::this_thread::get_id() == self) {
          answers_.reject_us.push_back(1e3 * MsSince(begin));
          answers_.reject_cpu_us.push_back(ThreadCpuUs() - cpu_us);
        }
      }
      way_.End();
    });
  }

  Engine& engine_;
  Request request_;
  double gap_ns_;
  Random random_;
  OnTheirWay way_;
  std::mutex mutex_;
  Answers answers_;
};

/// Bytes in memory of this process now.
inline int64_t ResidentBytes() {
  int64_t all = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> all >> resident;
  return resident * ::sysconf(_SC_PAGESIZE);
}

/// The most of them since ForgetPeak.
inline int64_t PeakBytes() {
  std::ifstream f("/proc/self/status");
  for (std::string word; f >> word;)
    if (int64_t kib = 0; word == "VmHWM:" && f >> kib) return kib * 1024;
  ADD_FAILURE() << "the system does not tell the peak";
  return 0;
}
inline void ForgetPeak() {
  std::ofstream f("/proc/self/clear_refs");
  f << "5" << std::flush;
  EXPECT_TRUE(f.good()) << "the system keeps the peak";
}

inline std::string MiB(int64_t bytes) {
  return Cat(Fixed(static_cast<double>(bytes) / (1 << 20), 1), " MiB");
}

}  // namespace infer::engine::figures
