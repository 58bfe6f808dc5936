#include "tools/infer_bench/peers/infer_worker.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <iostream>

#include "lib/ir/inference.h"
#include "lib/ops/registry.h"
#include "lib/support/exceptions.h"
#include "lib/support/measure.h"
#include "lib/support/strings.h"
#include "passes/pass/pipeline.h"
#include "tools/common/limits.h"
#include "tools/common/model_options.h"
#include "tools/common/report.h"
#include "tools/common/streams.h"
#include "tools/common/version.h"
#include "tools/engines/wire.h"

namespace infer::peers {
namespace {

using Clock = std::chrono::steady_clock;

/// $INFER_BENCH_SPIN: tests make every run longer by this share, to see that it is found.
double SpinShare() {
  const char* text = std::getenv("INFER_BENCH_SPIN");
  return text ? std::clamp(std::strtod(text, nullptr), 0.0, 100.0) : 0;
}

int64_t ThreadCpuNs() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
}

/// For how long this thread was ready to run while others had the processor.
class RunQueueWaits {
 public:
  RunQueueWaits() : fd_(open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC)) {}
  ~RunQueueWaits() {
    if (fd_ >= 0) close(fd_);
  }
  RunQueueWaits(const RunQueueWaits&) = delete;
  RunQueueWaits& operator=(const RunQueueWaits&) = delete;

  /// Nanoseconds since the thread began; -1 where the system does not say.
  int64_t Ns() const {
    char text[96];
    const ssize_t n = fd_ < 0 ? -1 : pread(fd_, text, sizeof text - 1, 0);
    if (n <= 0) return -1;
    text[n] = 0;
    const char* second = std::strchr(text, ' ');
    return second ? std::strtoll(second, nullptr, 10) : -1;
  }

 private:
  int fd_;
};

class InferEngine {
 public:
  explicit InferEngine(const OpRegistry& ops) : ops_(ops), spin_(SpinShare()) {}

  Result<Json> Answer(const Json& request) {
    const std::string op = request.value("op", "");
    if (op == "hello") return Json{{"engine", "infer"}, {"versions", {{"infer", kVersion}}}};
    if (op == "load") return Load(request);
    if (!run_) return InvalidArgument(Cat(op, ": no model is loaded"));
    if (op == "run") return Time(request.at("settle"), request.at("count"));
    if (op == "outputs") return Outputs(request.at("folder"));
    return InvalidArgument(Cat("unknown request: ", op));
  }

 private:
  Result<Json> Load(const Json& request) {
    std::vector<Datum> inputs;
    std::map<std::string, Dims> shapes;
    for (const Json& described : request.at("inputs")) {
      INFER_ASSIGN(Tensor t, ReadTensor(described));
      shapes[described.at("name")] = t.dims();
      inputs.emplace_back(std::move(t));
    }
    const Json& own = request.at("infer");
    const DeviceOptions device{.device = own.at("device"),
                               .threads = request.at("threads"),
                               .level = own.at("level"),
                               .compute = own.value("compute", "f32"),
                               .memory = own.value("memory", "fast")};
    const int rewrites = own.at("rewrites");

    const auto start = Clock::now();
    Context context(ops_, "infer-bench", {}, {}, {});
    ModelOptions options;
    options.external_root = request.value("external_root", "");
    options.lenient = request.value("lenient", false);
    INFER_ASSIGN(Model model, LoadModel(context, request.at("model"), options));
    INFER_TRY(SpecializeInputs(model.graph, shapes));
    if (rewrites > 0) INFER_TRY(Optimize(model.graph, {.level = rewrites}).status());
    INFER_ASSIGN(program_, CompileOwnedFor(std::move(model.graph), device));
    INFER_ASSIGN(run_, program_->NewContext());
    for (size_t i = 0; i < inputs.size(); ++i) INFER_TRY(run_->BindInput(i, inputs[i]));
    const double load_ms = MsSince(start);
    const auto loaded = Clock::now();
    INFER_TRY(run_->Run());
    const double first_ms = MsSince(loaded);
    return Json{{"load_ms", load_ms},
                {"first_ms", first_ms},
                {"timed", "RunContext::Run, inputs bound"},
                {"settings",
                 {{"device", device.device},
                  {"threads", device.threads},
                  {"level", device.level},
                  {"compute", device.compute},
                  {"memory", device.memory},
                  {"rewrites", rewrites}}}};
  }

  Result<Json> Time(int64_t settle, int64_t count) {
    for (int64_t i = 0; i < settle; ++i) INFER_TRY(run_->Run());
    std::vector<int64_t> ns, undisturbed;
    const RunQueueWaits waits;
    const auto since = [](Clock::time_point t) {
      return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - t).count();
    };
    for (int64_t i = 0; i < count; ++i) {
      // The waits are read inside of a longer time: none is taken off that did not lengthen it.
      const auto outer = Clock::now();
      const int64_t before = waits.Ns();
      const int64_t cpu_before = spin_ > 0 ? ThreadCpuNs() : 0;
      const auto start = Clock::now();
      INFER_TRY(run_->Run());
      if (spin_ > 0) Spin(cpu_before);
      ns.push_back(since(start));
      if (before < 0) continue;
      const int64_t waited = waits.Ns() - before;
      undisturbed.push_back(UndisturbedNs(ns.back(), since(outer), waited));
    }
    return Json{{"ns", ns}, {"undisturbed_ns", undisturbed}};
  }

  /// Keeps the processor busy until the run, which had used `before` of it when it began, has used
  /// spin_ more: of processor time, since waits are no part of what a program costs.
  void Spin(int64_t before) const {
    const auto used = static_cast<double>(ThreadCpuNs() - before);
    while (static_cast<double>(ThreadCpuNs() - before) < used * (1 + spin_)) {
    }
  }

  Result<Json> Outputs(const std::string& folder) {
    Json listed = Json::array();
    for (size_t i = 0; i < program_->outputs().size(); ++i) {
      const std::string& name = program_->outputs()[i]->name();
      const Datum& value = run_->output(i);
      if (!value.is_tensor()) return Unsupported(Cat("output '", name, "' is no tensor"));
      INFER_ASSIGN(Json described,
                   WriteTensor(value.tensor(), name, Cat(folder, "/output_", i, ".raw")));
      listed.push_back(std::move(described));
    }
    return Json{{"outputs", std::move(listed)}};
  }

  const OpRegistry& ops_;
  double spin_;
  std::shared_ptr<const Program> program_;
  std::unique_ptr<RunContext> run_;
};

Json AnswerLine(InferEngine& engine, const std::string& line) {
  Result<Json> answer = Internal("not asked");
  try {
    answer = engine.Answer(Json::parse(line));
  } catch (const Json::exception& e) {
    answer = InvalidArgument(Cat("not of the protocol: ", e.what()));
  } catch (...) {
    answer = StatusOfException("");
  }
  if (!answer.ok()) return {{"ok", false}, {"error", answer.status().message()}};
  (*answer)["ok"] = true;
  return *std::move(answer);
}

}  // namespace

int64_t UndisturbedNs(int64_t run_ns, int64_t outer_ns, int64_t waited_ns) {
  if (waited_ns <= 0) return run_ns;
  const int64_t left = outer_ns - waited_ns;
  return left > waited_ns / 100 + 20'000 ? std::min(left, run_ns) : run_ns;
}

int RunInferWorker() {
  LimitMemoryToMachine();
  const OpRegistry ops = AllOps();
  InferEngine engine(ops);
  for (std::string line; std::getline(std::cin, line);) {
    if (!WriteStream(stdout, JsonText(AnswerLine(engine, line), -1)).ok()) return kExitIo;
  }
  return kExitOk;
}

}  // namespace infer::peers
