#include "tools/engines/worker.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <ctime>

#include "lib/support/file.h"
#include "lib/support/folder.h"
#include "lib/support/retry.h"
#include "lib/support/strings.h"
#include "tools/common/report.h"

namespace infer::peers {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kPollMs = 100;  // how soon a stop token is seen
constexpr size_t kMaxAnswer = size_t{1} << 28;

struct Pipe {
  int read = -1, write = -1;
  bool Open() {
    int fds[2];
    if (::pipe2(fds, O_CLOEXEC) != 0) return false;
    read = fds[0];
    write = fds[1];
    return true;
  }
  void Close(int& fd) const {
    if (fd >= 0) ::close(fd);
    fd = -1;
  }
  ~Pipe() {
    Close(read);
    Close(write);
  }
};

std::vector<char*> Pointers(std::vector<std::string>& texts) {
  std::vector<char*> out;
  for (std::string& t : texts) out.push_back(t.data());
  out.push_back(nullptr);
  return out;
}

/// The caller's environment, with `over` in place of variables of the same name.
std::vector<std::string> Environment(const std::vector<std::string>& over) {
  std::vector<std::string> out = over;
  for (char** e = environ; *e; ++e) {
    const std::string_view entry = *e;
    const std::string_view name = entry.substr(0, entry.find('=') + 1);
    if (std::none_of(over.begin(), over.end(),
                     [&](const std::string& o) { return o.rfind(name, 0) == 0; }))
      out.emplace_back(entry);
  }
  return out;
}

cpu_set_t MaskOf(const std::vector<int>& cpus) {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  for (int cpu : cpus) CPU_SET(cpu, &mask);
  return mask;
}

/// In the child: only what is safe between fork and exec. Never returns.
[[noreturn]] void Become(char* const* argv, char* const* env, int in, int out, int log, int error,
                         const cpu_set_t* mask, pid_t parent) {
  ::setpgid(0, 0);  // Ctrl-C reaches us, and we end it
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);  // the parent has gone already
  bool ok = ::dup2(in, 0) >= 0 && ::dup2(out, 1) >= 0 && ::dup2(log, 2) >= 0;
  if (mask) ok = ok && ::sched_setaffinity(0, sizeof *mask, mask) == 0;
  std::signal(SIGPIPE, SIG_DFL);
  std::signal(SIGXFSZ, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  if (ok) ::execvpe(argv[0], argv, env);
  const int why = errno;
  (void)!::write(error, &why, sizeof why);
  ::_exit(127);
}

double Seconds(Clock::duration d) { return std::chrono::duration<double>(d).count(); }

}  // namespace

Result<std::unique_ptr<Worker>> Worker::Start(const WorkerSpec& spec) {
  INFER_CHECK(!spec.argv.empty());
  std::unique_ptr<Worker> w(new Worker);
  w->log_ = spec.log;
  Pipe in, out, error;
  const int log = Retry(
      [&] { return ::open(spec.log.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600); });
  if (log < 0) return IoError(Cat(spec.log, ": ", std::strerror(errno)));
  if (!in.Open() || !out.Open() || !error.Open()) {
    ::close(log);
    return IoError(Cat("no pipe to a worker: ", std::strerror(errno)));
  }
  std::vector<std::string> argv = spec.argv, env = Environment(spec.environment);
  const std::vector<char*> argv_pointers = Pointers(argv), env_pointers = Pointers(env);
  const cpu_set_t mask = MaskOf(spec.cpus);
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid == 0)
    Become(argv_pointers.data(), env_pointers.data(), in.read, out.write, log, error.write,
           spec.cpus.empty() ? nullptr : &mask, parent);
  ::close(log);
  if (pid < 0) return IoError(Cat("no worker process: ", std::strerror(errno)));
  w->pid_ = pid;
  error.Close(error.write);
  int why = 0;
  if (Retry([&] { return ::read(error.read, &why, sizeof why); }) == sizeof why) {
    w->End(false);
    const std::string text = Cat(spec.argv[0], ": ", std::strerror(why));
    return why == ENOENT || why == EACCES ? Unsupported(text) : IoError(text);
  }
  std::swap(w->in_, in.write);
  std::swap(w->out_, out.read);
  return w;
}

Worker::~Worker() {
  End(true);  // there is nothing that it would have to save
  if (in_ >= 0) ::close(in_);
  if (out_ >= 0) ::close(out_);
}

std::string Worker::End(bool kill) {
  if (!alive()) return "ended before";
  // With what it has started: a child of OpenVINO's has outlived its worker.
  if (kill && ::kill(-pid_, SIGKILL) != 0) ::kill(pid_, SIGKILL);
  int status = 0;
  while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
  if (WIFSIGNALED(status)) return Cat("ended by signal ", WTERMSIG(status));
  return Cat("ended with exit code ", WEXITSTATUS(status));
}

std::string Worker::LogTail() const {
  auto text = ReadFile(log_);
  if (!text.ok()) return "";
  constexpr size_t kMost = 2000;
  std::string_view tail = *text;
  if (tail.size() > kMost) tail = tail.substr(tail.size() - kMost);
  return std::string(Trim(tail));
}

Status Worker::Fail(std::string text, bool missing) {
  failure_ = {missing, text};
  return Unsupported(std::move(text));
}

Result<std::string> Worker::ReadLine(double timeout_s, const std::stop_token& stop) {
  const auto start = Clock::now();
  for (;;) {
    if (const size_t end = buffer_.find('\n'); end != std::string::npos) {
      std::string line = buffer_.substr(0, end);
      buffer_.erase(0, end + 1);
      return line;
    }
    if (stop.stop_requested()) return Cancelled("interrupted");
    if (Seconds(Clock::now() - start) > timeout_s) {
      End(true);
      return Fail(Cat("no answer within ", timeout_s, " s: killed"));
    }
    pollfd waiting{out_, POLLIN, 0};
    if (::poll(&waiting, 1, kPollMs) <= 0) continue;
    char chunk[65536];
    const ssize_t n = ::read(out_, chunk, sizeof chunk);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0 || buffer_.size() > kMaxAnswer) {
      const std::string how = End(n > 0);
      const std::string said = LogTail();
      return Fail(said.empty() ? how : Cat(how, ": ", said));
    }
    buffer_.append(chunk, static_cast<size_t>(n));
  }
}

Result<Json> Worker::Ask(const Json& request, double timeout_s, const std::stop_token& stop) {
  if (!alive()) return Fail(failure_.text.empty() ? "has ended" : failure_.text);
  const std::string line = JsonText(request, -1);
  for (size_t done = 0; done < line.size();) {
    const ssize_t n = ::write(in_, line.data() + done, line.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) break;  // its end is told below, where its last words are read
    done += static_cast<size_t>(n);
  }
  INFER_ASSIGN(const std::string text, ReadLine(timeout_s, stop));
  Json answer = Json::parse(text, nullptr, false);
  if (!answer.is_object() || !answer.contains("ok") || !answer["ok"].is_boolean()) {
    End(true);
    return Fail(Cat("answered what is not of the protocol: ", text.substr(0, 200)));
  }
  if (!answer["ok"].get<bool>())
    return Fail(answer.value("error", "failed without a reason"), answer.value("missing", false));
  return answer;
}

double Worker::CpuSeconds() const {
  clockid_t clock;
  timespec t{};
  if (!alive() || ::clock_getcpuclockid(pid_, &clock) != 0 || ::clock_gettime(clock, &t) != 0)
    return 0;
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

namespace {

/// The threads of a process that may run elsewhere. Without /proc nobody can tell: none.
std::vector<pid_t> ThreadsBeyond(pid_t process, const cpu_set_t& allowed) {
  std::vector<pid_t> beyond;
  const auto tasks = EntriesOf(Cat("/proc/", process, "/task"));
  if (!tasks.ok()) return beyond;
  for (const std::string& task : *tasks) {
    const auto id = ParseInt(task);
    cpu_set_t mask, both;
    if (!id || ::sched_getaffinity(static_cast<pid_t>(*id), sizeof mask, &mask) != 0) continue;
    CPU_AND(&both, &mask, &allowed);
    if (!CPU_EQUAL(&both, &mask)) beyond.push_back(static_cast<pid_t>(*id));
  }
  return beyond;
}

}  // namespace

bool Worker::StaysOn(const std::vector<int>& cpus) const {
  return ThreadsBeyond(pid_, MaskOf(cpus)).empty();
}

std::vector<std::string> Worker::BringBack(const std::vector<int>& cpus) const {
  const cpu_set_t allowed = MaskOf(cpus);
  std::vector<std::string> names;
  for (const pid_t thread : ThreadsBeyond(pid_, allowed)) {
    const auto name = ReadFile(Cat("/proc/", pid_, "/task/", thread, "/comm"));
    if (::sched_setaffinity(thread, sizeof allowed, &allowed) == 0)
      names.emplace_back(name.ok() ? Trim(*name) : "");
  }
  return names;
}

}  // namespace infer::peers
