#include "tools/infer_opt/quantize/calibration_flags.h"

#include <filesystem>

#include "lib/support/strings.h"

namespace infer {

void CalibrationFlags::Declare(Options& o) {
  o.Value("--observer", &observer,
          "auto, mse, entropy, minmax, percentile:99.99 or moving-average:0.9");
  o.Value("--calib-cache", &cache,
          "Folder: what calibration saw is kept there, continued and used again",
          PathUse::kWriteFolder);
}

Status CalibrationFlags::Apply(const QuantizeJob& job, QuantizeOptions& options) const {
  INFER_ASSIGN(options.observer, ParseObserver(observer));
  options.threads = job.threads;
  options.stop = job.context.stop();
  options.tell = [&job](const std::string& line) { job.context.Note(line); };
  options.progress = [&job](int64_t done, int64_t total) {
    job.context.Progress("calibrate", done, total);
  };
  options.calibration_cache = cache;
  if (cache.empty()) return {};
  std::error_code error;
  std::filesystem::create_directories(cache, error);
  return error ? IoError(Cat("--calib-cache ", cache, ": ", error.message())) : Status();
}

}  // namespace infer
