#include "lib/support/folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <memory>

#include "lib/support/path_parts.h"
#include "lib/support/retry.h"
#include "lib/support/strings.h"

namespace infer {

Result<std::vector<std::string>> EntriesOf(const std::string& folder) {
  DIR* const opened = ::opendir(folder.c_str());
  if (!opened) return ErrnoError(Cat("cannot open folder '", folder, "'"));
  const std::unique_ptr<DIR, int (*)(DIR*)> dir(opened, ::closedir);
  std::vector<std::string> names;
  for (;;) {
    errno = 0;
    const dirent* entry = ::readdir(dir.get());
    if (!entry && errno != 0) return ErrnoError(Cat("cannot read folder '", folder, "'"));
    if (!entry) break;
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

Result<std::string> OutputPath(const std::string& path) {
  constexpr int kMostLinks = 40;
  std::string at = path;
  for (int link = 0; link < kMostLinks; ++link) {
    struct stat s;
    if (at.empty() || ::lstat(at.c_str(), &s) != 0 || !S_ISLNK(s.st_mode)) return at;
    std::array<char, PATH_MAX> target;
    const ssize_t n = ::readlink(at.c_str(), target.data(), target.size());
    if (n < 0) return ErrnoError(Cat("cannot read link '", at, "'"));
    std::string to(target.data(), static_cast<size_t>(n));
    at = to.starts_with('/') ? std::move(to) : Cat(FolderOf(at), "/", to);
  }
  errno = ELOOP;
  return ErrnoError(Cat("cannot write '", path, "'"));
}

FolderLock::FolderLock(const std::string& folder)
    : fd_(Retry([&] { return ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); })) {
  if (fd_ >= 0) (void)Retry([&] { return ::flock(fd_, LOCK_EX); });
}

FolderLock::~FolderLock() {
  if (fd_ >= 0) ::close(fd_);
}

}  // namespace infer
