#pragma once
/// SIGINT, SIGTERM and SIGHUP, and the end of --timeout, as a stop token. A command that does not
/// look at the token within a second is ended anyway, its temporary files removed, with exit code
/// 128+n, after a timeout kExitTimedOut.
#include <functional>
#include <stop_token>
#include <thread>

namespace infer {

/// Blocks the signals in all threads made later and waits for them in one of its own. Ignores
/// SIGPIPE and SIGXFSZ: a refused write is an error like any other.
class SignalGuard {
 public:
  SignalGuard();
  ~SignalGuard();
  SignalGuard(const SignalGuard&) = delete;
  SignalGuard& operator=(const SignalGuard&) = delete;
  std::stop_token token() const { return stop_.get_token(); }

 private:
  std::stop_source stop_;
  std::jthread waiter_;
};

/// What is done before a command that does not look at its token is ended: a report of what there
/// is. Runs in the waiting thread, at most once. An empty function takes it back, and returns only
/// when it does not run and will not.
void SetLastWords(std::function<void()> words);

/// As timeout(1) has it.
inline constexpr int kExitTimedOut = 124;
/// The stop token asks so many seconds from now, while a SignalGuard lives.
void SetTimeout(double seconds);
/// The seconds, once they have passed; 0 before.
double TimedOut();

/// The signal that was caught, or 0.
int CaughtSignal();
/// Lets `n` count as caught, if none was.
void NoteSignal(int n);

}  // namespace infer
