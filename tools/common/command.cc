#include "tools/common/command.h"

#include <unistd.h>

#include <cstdio>

#include "lib/support/readable.h"

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

void Context::Warn(std::string text) {
  std::fprintf(stderr, "%s: warning: %s\n", tool_.c_str(),
               Printable(text, EndsOfLine::kIndented).c_str());
  warnings_.push_back(std::move(text));
}

void Context::Note(std::string_view text) const {
  if (!quiet) std::fprintf(stderr, "%s\n", Printable(text, EndsOfLine::kIndented).c_str());
}

void Context::Progress(std::string_view step, int64_t done, int64_t total) {
  static const bool terminal = isatty(STDERR_FILENO) != 0;
  if (quiet || !terminal || total <= 0) return;
  const auto now = std::chrono::steady_clock::now();
  if (done < total && now - last_progress_ < std::chrono::milliseconds(100)) return;
  last_progress_ = now;
  constexpr int64_t kWidth = 30;
  const auto filled = static_cast<size_t>(kWidth * done / total);
  const std::string bar = std::string(filled, '#') + std::string(kWidth - filled, '.');
  std::fprintf(stderr, "\r%-12.*s [%s] %lld/%lld%s", static_cast<int>(step.size()), step.data(),
               bar.c_str(), static_cast<long long>(done), static_cast<long long>(total),
               done >= total ? "\n" : "");
}

void Context::Step(std::string name) {
  const auto now = std::chrono::steady_clock::now();
  if (!step_.empty())
    steps_.emplace_back(step_,
                        std::chrono::duration<double, std::milli>(now - step_start_).count());
  step_ = std::move(name);
  step_start_ = now;
}

}  // namespace infer
