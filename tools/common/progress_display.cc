#include "tools/common/progress_display.h"

#include <unistd.h>

#include <charconv>
#include <cmath>
#include <cstdlib>

#include "lib/support/strings.h"

namespace infer {
namespace {

constexpr std::chrono::milliseconds kRedraw{100};
constexpr std::chrono::seconds kOften{30};

std::string Bar(std::string_view step, int64_t done, int64_t total, std::string_view left) {
  constexpr int64_t kWidth = 30;
  constexpr size_t kStep = 12, kLeft = 14;
  const auto filled = static_cast<size_t>(kWidth * done / total);
  const auto padded = [](std::string_view text, size_t width) {
    return Cat(text, std::string(width - std::min(width, text.size()), ' '));
  };
  return Cat("\r", padded(step, kStep), " [", std::string(filled, '#'),
             std::string(kWidth - filled, '.'), "] ", done, "/", total, padded(left, kLeft),
             done >= total ? "\n" : "");
}

/// A whole number of seconds in the environment; anything else counts as not given.
std::chrono::seconds Often() {
  const char* given = std::getenv("INFER_PROGRESS_SECONDS");
  if (given == nullptr) return kOften;
  const std::string_view text = given;
  int seconds = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  const bool is_number = error == std::errc() && end == text.data() + text.size() && seconds >= 0;
  return is_number ? std::chrono::seconds(seconds) : kOften;
}

}  // namespace

std::string TimeLeft(double seconds, int64_t done, int64_t left) {
  if (done <= 0 || left <= 0) return "";
  const double more = seconds / static_cast<double>(done) * static_cast<double>(left);
  constexpr double kMost = 1e6;  // beyond, and for what is no number, nothing is told
  if (!(more < kMost)) return "";
  const int64_t s = std::llround(more);
  const auto two = [](int64_t v) { return Cat(v < 10 ? "0" : "", v); };
  return s < 3600 ? Cat(", ", s / 60, ":", two(s % 60), " left")
                  : Cat(", ", s / 3600, ":", two(s / 60 % 60), ":", two(s % 60), " left");
}

std::string ProgressDisplay::Text(std::string_view who, std::string_view step, int64_t done,
                                  int64_t total, Clock::time_point now) {
  if (total <= 0) return "";
  if (step_ != step || done < first_) {
    step_ = step;
    start_ = now;
    first_ = done;
  }
  const std::chrono::duration<double> spent = now - start_;
  const std::string left = TimeLeft(spent.count(), done - first_, total - done);
  const bool ends = done >= total;
  if (ends) step_.clear();
  if (to_ == To::kTerminal) {
    if (!ends && now - last_ < kRedraw) return "";
    last_ = now;
    return Bar(step, done, total, left);
  }
  if (ends || every_.count() == 0 || now - last_ < every_) return "";
  last_ = now;
  return Cat(who, ": ", step, " ", done, "/", total, left, "\n");
}

ProgressDisplay ProgressOnStderr() {
  return {isatty(STDERR_FILENO) != 0 ? ProgressDisplay::To::kTerminal : ProgressDisplay::To::kLog,
          Often(), ProgressDisplay::Clock::now()};
}

}  // namespace infer
