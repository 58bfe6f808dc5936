#pragma once
/// Progress of a long step: on a terminal a bar that is drawn again and again, elsewhere (logs
/// of CI, files) a line now and then.
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace infer {

/// ", 1:05 left": what `left` items take when `done` took `seconds`; "" when nobody can tell.
std::string TimeLeft(double seconds, int64_t done, int64_t left);

class ProgressDisplay {
 public:
  using Clock = std::chrono::steady_clock;
  enum class To { kTerminal, kLog };

  /// To a log goes at most one line in `every`, the first one `every` after `now`; 0: none.
  ProgressDisplay(To to, std::chrono::seconds every, Clock::time_point now)
      : to_(to), every_(every), last_(now) {}

  /// The text to print now for `done` of `total` items of `step`; "" where it is too early.
  /// `who`: the command, for lines of a log. done == total ends the step.
  std::string Text(std::string_view who, std::string_view step, int64_t done, int64_t total,
                   Clock::time_point now);

 private:
  To to_;
  std::chrono::seconds every_;
  Clock::time_point last_, start_{};
  std::string step_;   // the step whose time left is told; "" between steps
  int64_t first_ = 0;  // what was done when it was first heard of
};

/// For stderr as it is. INFER_PROGRESS_SECONDS says how often a line goes to a log (default: 30).
ProgressDisplay ProgressOnStderr();

}  // namespace infer
