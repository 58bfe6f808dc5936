#include "tools/common/eval_command.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstring>

#include "lib/support/readable.h"
#include "lib/support/strings.h"
#include "tools/common/share.h"

namespace infer {
namespace {

constexpr std::string_view kModel = "{model}";
constexpr size_t kMostOutput = size_t{1} << 20;  // of what the command prints, the end

/// As one word of a shell.
std::string ShellQuoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? "'\\''" : std::string(1, c);
  return out + "'";
}

std::optional<ShareText> ParseLoss(std::string_view text) {
  const auto loss = ParseShare(text);
  return loss && loss->value >= 0 ? loss : std::nullopt;
}

/// A child whose standard output is read; killed with all that it started when this ends early.
class Child {
 public:
  explicit Child(const std::string& shell_command) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) return;
    posix_spawn_file_actions_t files;
    ::posix_spawn_file_actions_init(&files);
    ::posix_spawn_file_actions_adddup2(&files, ends[1], STDOUT_FILENO);
    posix_spawnattr_t attributes;
    ::posix_spawnattr_init(&attributes);
    ::posix_spawnattr_setpgroup(&attributes, 0);
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    ::posix_spawnattr_setsigmask(&attributes, &none);
    ::posix_spawnattr_setsigdefault(&attributes, &all);
    ::posix_spawnattr_setflags(
        &attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    std::string shell = "sh", option = "-c", command = shell_command;
    char* argv[] = {shell.data(), option.data(), command.data(), nullptr};
    if (::posix_spawn(&pid_, "/bin/sh", &files, &attributes, argv, environ) != 0) pid_ = -1;
    ::posix_spawnattr_destroy(&attributes);
    ::posix_spawn_file_actions_destroy(&files);
    ::close(ends[1]);
    out_ = ends[0];
  }
  ~Child() {
    if (out_ >= 0) ::close(out_);
    if (pid_ > 0) {
      ::kill(-pid_, SIGKILL);
      Wait();
    }
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  bool started() const { return pid_ > 0; }

  /// Reads to the end of the output.
  Status Read(std::string& text, const std::stop_token& stop) const {
    constexpr int kAskStopMs = 100;
    char buffer[4096];
    while (!stop.stop_requested()) {
      pollfd p = {out_, POLLIN, 0};
      if (::poll(&p, 1, kAskStopMs) <= 0) continue;
      const ssize_t n = ::read(out_, buffer, sizeof(buffer));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return IoError(Cat("--eval-command: ", std::strerror(errno)));
      if (n == 0) return {};
      text.append(buffer, static_cast<size_t>(n));
      if (text.size() > 2 * kMostOutput) text.erase(0, text.size() - kMostOutput);
    }
    return Cancelled("stopped");
  }

  /// How it ended, as waitpid tells it.
  int Wait() {
    int status = 0;
    while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
    pid_ = -1;
    return status;
  }

 private:
  pid_t pid_ = -1;
  int out_ = -1;
};

std::optional<double> LastNumber(const std::string& text) {
  std::string words = text;
  std::replace_if(
      words.begin(), words.end(), [](char c) { return std::strchr("\n\r\t,:=", c) != nullptr; },
      ' ');
  std::optional<double> last;
  for (const std::string& word : Split(words, ' '))
    if (const auto v = word.empty() ? std::nullopt : ParseDouble(word); v && std::isfinite(*v))
      last = v;
  return last;
}

}  // namespace

void EvalFlags::Declare(Options& options) {
  options.Value("--eval-command COMMAND", &command,
                "Gate: a program of yours that prints a number; {model} in it becomes the path of "
                "the model: 'python3 map.py {model}'");
  options.Choice("--eval-better", &better, {"higher", "lower"}, "Which number is the better one");
  options.Value("--max-eval-loss LOSS", &max_loss,
                "How much worse its number may be: a share (1%) of the golden model's, or so much "
                "(0.004)");
}

Status EvalFlags::Check() const {
  if (!ParseLoss(max_loss))
    return InvalidArgument(Cat("--max-eval-loss ", max_loss, ": write 1% or 0.004"));
  if (given() && command.find(kModel) == std::string::npos)
    return InvalidArgument(
        Cat("--eval-command: ", kModel, " is missing: it becomes the path of the model"));
  return {};
}

Result<double> RunEvalCommand(const EvalFlags& flags, const std::string& path,
                              const std::stop_token& stop) {
  std::string command = flags.command;
  const std::string word = ShellQuoted(path);
  for (size_t at = command.find(kModel); at != std::string::npos;
       at = command.find(kModel, at + word.size()))
    command.replace(at, kModel.size(), word);
  Child child(command);
  if (!child.started()) return IoError("--eval-command: /bin/sh cannot be started");
  std::string text;
  INFER_TRY(child.Read(text, stop));
  const int status = child.Wait();
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
    return InvalidArgument(
        Cat("--eval-command: '", command, "' ",
            WIFEXITED(status)
                ? Cat("ends with exit code ", WEXITSTATUS(status))
                : Cat("was ended by signal ", WIFSIGNALED(status) ? WTERMSIG(status) : 0)));
  if (const auto number = LastNumber(text)) return *number;
  return InvalidArgument(Cat("--eval-command: '", command, "' prints no number"));
}

Result<GateResult> JudgeByCommand(Context& context, const EvalFlags& flags,
                                  const std::string& golden_path, const std::string& candidate_path,
                                  Json& report) {
  context.Step("evaluation command");
  INFER_ASSIGN(const double golden, RunEvalCommand(flags, golden_path, context.stop()));
  INFER_ASSIGN(const double candidate, RunEvalCommand(flags, candidate_path, context.stop()));
  report["eval_command"] = {{"command", flags.command},
                            {"better", flags.better},
                            {"golden", golden},
                            {"candidate", candidate}};
  return CheckEval(flags, golden, candidate);
}

GateResult CheckEval(const EvalFlags& flags, double golden, double candidate) {
  const ShareText limit = *ParseLoss(flags.max_loss);
  const double worse = flags.better == "higher" ? golden - candidate : candidate - golden;
  GateResult r;
  r.name = "eval-command";
  r.limit = limit.value;
  r.measured = limit.percent && golden != 0 ? worse / std::abs(golden) : worse;
  // A share of nothing: any loss is too much.
  r.passed = limit.percent && golden == 0 ? worse <= 0 : r.measured <= r.limit;
  const double factor = limit.percent ? 100 : 1;
  const std::string_view unit = limit.percent ? " %" : "";
  r.message =
      Cat("eval command: golden ", Rounded(golden, 6), ", candidate ", Rounded(candidate, 6), " (",
          flags.better, " is better): loss ", Rounded(r.measured * factor, 4), unit, ", limit ",
          Rounded(r.limit * factor, 4), unit);
  return r;
}

}  // namespace infer
