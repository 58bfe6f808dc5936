#include "tools/common/scratch_folder.h"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "lib/support/strings.h"

namespace infer {

namespace fs = std::filesystem;

std::string TemporaryFolder() {
  std::error_code error;
  const fs::path path = fs::temp_directory_path(error);
  return error ? "/tmp" : path.string();
}

Result<std::unique_ptr<ScratchFolder>> ScratchFolder::Make() {
  std::string path = TemporaryFolder() + "/infer-peers-XXXXXX";
  if (!::mkdtemp(path.data())) return IoError(Cat(path, ": ", std::strerror(errno)));
  return std::unique_ptr<ScratchFolder>(new ScratchFolder(std::move(path)));
}

ScratchFolder::~ScratchFolder() {
  std::error_code error;
  fs::remove_all(path_, error);
}

}  // namespace infer
