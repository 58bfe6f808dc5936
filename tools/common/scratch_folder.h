#pragma once
/// A folder for what programs exchange with what they start.
#include <memory>
#include <string>

#include "lib/support/status.h"

namespace infer {

/// Of the system: $TMPDIR, else /tmp.
std::string TemporaryFolder();

/// A new folder for temporary files, removed with all it holds by the destructor.
class ScratchFolder {
 public:
  static Result<std::unique_ptr<ScratchFolder>> Make();
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  explicit ScratchFolder(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

}  // namespace infer
