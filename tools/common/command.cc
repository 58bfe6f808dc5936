#include "tools/common/command.h"

#include <unistd.h>

#include <cmath>
#include <cstdio>

#include "lib/support/readable.h"
#include "lib/support/strings.h"
#include "tools/common/streams.h"

namespace infer {

ExitCode ExitCodeOf(const Status& s) {
  switch (s.code()) {
    case Code::kOk: return kExitOk;
    case Code::kInvalidArgument: return kExitUsage;
    case Code::kInvalidModel: return kExitBadInput;
    case Code::kUnsupported: return kExitUnsupported;
    case Code::kIo: return kExitIo;
    case Code::kResource: return kExitOutOfMemory;
    case Code::kCancelled:
    case Code::kInternal: return kExitInternal;
  }
  return kExitInternal;
}

void Context::Print(std::string_view text) { out_ += Printable(text, EndsOfLine::kAll); }

void Context::PrintLine(std::string_view text) {
  Print(text);
  out_ += '\n';
}

Status Context::Stream(std::string_view text) const {
  return WriteStream(json_path == "-" ? stderr : stdout, text);
}

void Context::Warn(std::string text) {
  std::fprintf(stderr, "%s: warning: %s\n", tool_.c_str(),
               Printable(text, EndsOfLine::kIndented).c_str());
  warnings_.push_back(std::move(text));
}

void Context::Note(std::string_view text) const {
  if (!quiet) std::fprintf(stderr, "%s\n", Printable(text, EndsOfLine::kIndented).c_str());
}

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

void Context::Progress(std::string_view step, int64_t done, int64_t total) {
  static const bool terminal = isatty(STDERR_FILENO) != 0;
  if (quiet || !terminal || total <= 0) return;
  const auto now = std::chrono::steady_clock::now();
  if (progress_step_ != step || done < progress_first_) {
    progress_step_ = step;
    progress_start_ = now;
    progress_first_ = done;
  }
  if (done < total && now - last_progress_ < std::chrono::milliseconds(100)) return;
  last_progress_ = now;
  constexpr int64_t kWidth = 30;
  const auto filled = static_cast<size_t>(kWidth * done / total);
  const std::string bar = std::string(filled, '#') + std::string(kWidth - filled, '.');
  const std::chrono::duration<double> spent = now - progress_start_;
  const std::string left = TimeLeft(spent.count(), done - progress_first_, total - done);
  std::fprintf(stderr, "\r%-12.*s [%s] %lld/%lld%-14s%s", static_cast<int>(step.size()),
               step.data(), bar.c_str(), static_cast<long long>(done),
               static_cast<long long>(total), left.c_str(), done >= total ? "\n" : "");
  if (done >= total) progress_step_.clear();
}

void Context::Step(std::string name) {
  const auto now = std::chrono::steady_clock::now();
  if (!step_.empty()) {
    const double ms = std::chrono::duration<double, std::milli>(now - step_start_).count();
    steps_.emplace_back(step_, ms);
    if (verbose) std::fprintf(stderr, "%8.3f s  %s\n", ms / 1000, step_.c_str());
  }
  step_ = std::move(name);
  step_start_ = now;
}

}  // namespace infer
