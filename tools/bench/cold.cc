#include "tools/bench/cold.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>

#include "lib/ops/registry.h"
#include "lib/support/exceptions.h"
#include "lib/support/measure.h"
#include "lib/support/retry.h"
#include "lib/support/strings.h"
#include "tools/bench/allocations.h"
#include "tools/bench/distribution.h"
#include "tools/common/command.h"
#include "tools/common/host.h"
#include "tools/common/limits.h"
#include "tools/common/self.h"

extern "C" char** environ;  // NOLINT(readability-redundant-declaration): glibc hides it

namespace infer::bench {
namespace {

using Clock = std::chrono::steady_clock;

/// The clock is the machine's, so that parent and child can subtract.
double NowMs() {
  return std::chrono::duration<double, std::milli>(Clock::now().time_since_epoch()).count();
}

/// JSON for an argument: as CBOR, which takes names of any bytes as they are, in hexadecimal
/// digits.
std::string Packed(const Json& j) {
  std::string out;
  for (const uint8_t byte : Json::to_cbor(j)) {
    out += "0123456789abcdef"[byte >> 4];
    out += "0123456789abcdef"[byte & 15];
  }
  return out;
}

Json Unpacked(std::string_view text) {
  std::vector<uint8_t> bytes;
  for (size_t i = 0; i + 1 < text.size(); i += 2) {
    const auto digit = [](char c) { return c <= '9' ? c - '0' : c - 'a' + 10; };
    bytes.push_back(static_cast<uint8_t>(digit(text[i]) << 4 | digit(text[i + 1])));
  }
  return Json::from_cbor(bytes, true, false);
}

Json RequestOf(const SessionOptions& o) {
  return {{"precision", o.precision},
          {"batch", o.batch},
          {"set", o.model.set},
          {"shape", o.model.shape},
          {"external_root", o.model.external_root},
          {"lenient", o.model.lenient},
          {"device", o.device.device},
          {"threads", o.device.threads},
          {"level", o.device.level},
          {"compute", o.device.compute},
          {"memory", o.device.memory},
          {"tune_cache", o.device.tune_cache},
          {"input", o.inputs.input},
          {"fill", o.inputs.fill},
          {"seed", o.inputs.seed},
          {"extents", o.inputs.known_extents}};
}

SessionOptions OptionsOf(const Json& j) {
  SessionOptions o;
  o.precision = j.at("precision");
  o.batch = j.at("batch");
  o.model.set = j.at("set");
  o.model.shape = j.at("shape");
  o.model.external_root = j.at("external_root");
  o.model.lenient = j.at("lenient");
  o.device.device = j.at("device");
  o.device.threads = j.at("threads");
  o.device.level = j.at("level");
  o.device.compute = j.at("compute");
  o.device.memory = j.at("memory");
  o.device.tune_cache = j.at("tune_cache");
  o.inputs.input = j.at("input");
  o.inputs.fill = j.at("fill");
  o.inputs.seed = j.at("seed");
  o.inputs.known_extents = j.at("extents").get<OpenExtents>();
  return o;
}

/// A child process whose standard output is read.
class Child {
 public:
  static Result<std::unique_ptr<Child>> Start(const std::vector<std::string>& argv) {
    int ends[2];
    std::unique_ptr<Child> child(new Child);
    std::vector<char*> args;
    for (const std::string& a : argv) args.push_back(const_cast<char*>(a.c_str()));
    args.push_back(nullptr);
    if (::pipe2(ends, O_CLOEXEC) != 0) return ErrnoError("pipe");
    child->out_ = ends[0];
    posix_spawn_file_actions_t files;
    ::posix_spawn_file_actions_init(&files);
    ::posix_spawn_file_actions_adddup2(&files, ends[1], STDOUT_FILENO);
    ::posix_spawn_file_actions_addopen(&files, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    // The signals that this process waits for in a thread of its own are blocked here.
    posix_spawnattr_t attributes;
    ::posix_spawnattr_init(&attributes);
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    ::posix_spawnattr_setsigmask(&attributes, &none);
    ::posix_spawnattr_setsigdefault(&attributes, &all);
    ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    const int error =
        ::posix_spawn(&child->pid_, args[0], &files, &attributes, args.data(), environ);
    ::posix_spawnattr_destroy(&attributes);
    ::posix_spawn_file_actions_destroy(&files);
    ::close(ends[1]);
    if (error != 0) {
      child->pid_ = -1;
      errno = error;
      return ErrnoError(Cat("cannot start ", argv[0]));
    }
    return child;
  }
  ~Child() {
    if (out_ >= 0) ::close(out_);
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      (void)Wait();
    }
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  /// All that it writes. Cancelled: the stop came first. Io: the pipe cannot be read.
  Result<std::string> Read(const std::stop_token& stop) const {
    std::string text;
    for (;;) {
      if (stop.stop_requested()) return Cancelled("interrupted");
      pollfd readable{.fd = out_, .events = POLLIN, .revents = 0};
      if (::poll(&readable, 1, 50) <= 0) continue;
      char block[4096];
      const ssize_t n = ::read(out_, block, sizeof block);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return IoError(Cat("its answer cannot be read: ", std::strerror(errno)));
      if (n == 0) return text;
      text.append(block, static_cast<size_t>(n));
    }
  }
  /// How it ended.
  int Wait() {
    int status = 0;
    while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
    pid_ = -1;
    return status;
  }

 private:
  Child() = default;
  int out_ = -1;
  pid_t pid_ = -1;
};

/// Of a cold start that gave no answer.
Status HowItEnded(int status) {
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
    return ResourceExhausted("a cold start was killed: the machine may have had no memory left");
  if (WIFEXITED(status) && WEXITSTATUS(status) == kExitOutOfMemory)
    return ResourceExhausted("out of memory");
  return Internal(Cat("a cold start ended with ", WIFSIGNALED(status) ? "signal " : "code ",
                      WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status)));
}

Result<ColdStart> OneStart(const std::string& path, const std::string& request,
                           const std::stop_token& stop) {
  const double start = NowMs();
  INFER_ASSIGN(const std::string self, SelfPath());
  INFER_ASSIGN(auto child, Child::Start({self, kColdArgument, path, request}));
  INFER_ASSIGN(const std::string text, child->Read(stop));
  const int status = child->Wait();
  const Json answer = Json::parse(text, nullptr, false);
  if (!answer.is_object()) return HowItEnded(status);
  if (answer.contains("error")) return Status(answer.at("code").get<Code>(), answer.at("error"));
  ColdStart c;
  c.process_ms = answer.at("main_at").get<double>() - start;
  c.load_ms = answer.at("load_ms");
  c.compile_ms = answer.at("compile_ms");
  c.first_ms = answer.at("first_ms");
  c.total_ms = answer.at("done_at").get<double>() - start - answer.at("inputs_ms").get<double>() -
               answer.at("convert_ms").get<double>();
  c.rest_ms = c.total_ms - c.process_ms - c.load_ms - c.compile_ms - c.first_ms;
  c.peak_resident_bytes = answer.at("peak_resident_bytes");
  if (const Json& p = answer.at("pipelines"); !p.is_null())
    c.pipelines = PipelineInfo{p.at("made"), p.at("made_ms"), p.at("cache"), p.at("loaded_bytes")};
  if (answer.contains("allocated_peak_bytes"))
    c.allocated_peak_bytes = answer.at("allocated_peak_bytes").get<int64_t>();
  return c;
}

Result<Json> FirstResult(const std::string& path, const std::string& text) {
  const Json request = Unpacked(text);
  if (!request.is_object()) return InvalidArgument("no request");
  const OpRegistry ops = AllOps();
  Context context(ops, "cold start", {}, {}, {});
  context.quiet = true;
  INFER_ASSIGN(const Session s, OpenSession(context, path, OptionsOf(request)));
  const auto start = Clock::now();
  INFER_TRY(s.run->Run());
  Json answer{{"first_ms", MsSince(start)}, {"done_at", NowMs()},
              {"load_ms", s.load_ms},       {"convert_ms", s.convert_ms},
              {"inputs_ms", s.inputs_ms},   {"compile_ms", s.compile_ms},
              {"pipelines", nullptr},       {"peak_resident_bytes", PeakResidentBytes()}};
  if (const auto p = s.program->pipelines())
    answer["pipelines"] = {{"made", p->made},
                           {"made_ms", p->made_ms},
                           {"cache", p->cache},
                           {"loaded_bytes", p->loaded_bytes}};
  return answer;
}

template <typename F>
double MedianOf(const std::vector<ColdStart>& starts, F field) {
  std::vector<double> v;
  for (const ColdStart& s : starts) v.push_back(static_cast<double>(field(s)));
  return Describe(v).median;
}

/// null where nothing ran on shaders.
Json PipelinesJson(const std::vector<ColdStart>& starts) {
  if (!starts.front().pipelines) return {};
  const auto median = [&](auto field) {
    return MedianOf(starts, [&](const ColdStart& s) {
      return s.pipelines ? static_cast<double>((*s.pipelines).*field) : 0;
    });
  };
  Json caches = Json::array();
  for (const ColdStart& s : starts) caches.push_back(s.pipelines ? s.pipelines->cache : "");
  return {{"made", static_cast<int64_t>(median(&PipelineInfo::made))},
          {"made_ms", median(&PipelineInfo::made_ms)},
          {"loaded_bytes", static_cast<int64_t>(median(&PipelineInfo::loaded_bytes))},
          {"cache", std::move(caches)}};
}

}  // namespace

Result<std::vector<ColdStart>> MeasureColdStarts(const std::string& path,
                                                 const SessionOptions& options,
                                                 const ColdOptions& cold) {
  const std::string request = Packed(RequestOf(options));
  std::vector<ColdStart> starts;
  const auto begin = Clock::now();
  while (static_cast<int>(starts.size()) < cold.starts) {
    if (!starts.empty() && MsSince(begin) > cold.max_s * 1e3) break;
    auto one = OneStart(path, request, cold.stop);
    if (!one.ok() && cold.stop.stop_requested()) break;
    if (!one.ok()) return one.status().In("cold start");
    starts.push_back(*one);
  }
  return starts;
}

Json ToJson(const std::vector<ColdStart>& starts) {
  if (starts.empty()) return {};
  std::vector<double> totals;
  for (const ColdStart& s : starts) totals.push_back(s.total_ms);
  const Distribution d = Describe(totals);
  Json j = {{"starts", starts.size()},
            {"samples_ms", totals},
            {"median", d.median},
            {"median_ci95", {d.median_low, d.median_high}}};
  j["stages_ms"] = {{"process", MedianOf(starts, [](const auto& s) { return s.process_ms; })},
                    {"load", MedianOf(starts, [](const auto& s) { return s.load_ms; })},
                    {"compile", MedianOf(starts, [](const auto& s) { return s.compile_ms; })},
                    {"first", MedianOf(starts, [](const auto& s) { return s.first_ms; })},
                    {"rest", MedianOf(starts, [](const auto& s) { return s.rest_ms; })}};
  j["peak_resident_bytes"] =
      static_cast<int64_t>(MedianOf(starts, [](const auto& s) { return s.peak_resident_bytes; }));
  j["pipelines"] = PipelinesJson(starts);
  const bool counted = starts.front().allocated_peak_bytes.has_value();
  j["allocated_peak_bytes"] =
      counted ? Json(static_cast<int64_t>(MedianOf(
                    starts, [](const auto& s) { return s.allocated_peak_bytes.value_or(0); })))
              : Json();
  return j;
}

namespace {

Json AnswerOf(const char* path, const char* request, double main_at) {
  Result<Json> first = Internal("not run");
  try {
    first = FirstResult(path, request);
  } catch (...) {
    first = StatusOfException("");
  }
  Json answer = first.ok()
                    ? *std::move(first)
                    : Json{{"error", first.status().message()}, {"code", first.status().code()}};
  answer["main_at"] = main_at;
  if (const auto allocated = Allocated()) answer["allocated_peak_bytes"] = allocated->peak;
  return answer;
}

}  // namespace

int RunColdStart(const char* path, const char* request) {
  const double main_at = NowMs();
  // It is of no use to anybody else, and a model may run for ever.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  LimitMemoryToMachine();
  CountAllocations();
  try {
    const std::string text = JsonText(AnswerOf(path, request, main_at), -1);
    return std::fwrite(text.data(), 1, text.size(), stdout) == text.size() ? kExitOk : kExitIo;
  } catch (...) {
    return ExitCodeOf(StatusOfException(""));
  }
}

}  // namespace infer::bench
