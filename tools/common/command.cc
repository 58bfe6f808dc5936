#include "tools/common/command.h"

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

void Context::Progress(std::string_view step, int64_t done, int64_t total) {
  if (quiet) return;
  const std::string text =
      progress_.Text(tool_, step, done, total, std::chrono::steady_clock::now());
  std::fputs(text.c_str(), stderr);
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
