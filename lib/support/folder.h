#pragma once
/// Names in the file system: what a folder holds, and where links lead.
#include <string>
#include <vector>

#include "lib/support/status.h"

namespace infer {

/// Names of a folder's entries without "." and "..", sorted. Io. (The iterators of std::filesystem
/// throw where a folder cannot be read to its end.)
Result<std::vector<std::string>> EntriesOf(const std::string& folder);

/// The file that an output of this name is: symbolic links are followed, also to what is not there
/// yet. Io for a loop of links.
Result<std::string> OutputPath(const std::string& path);

/// Keeps others that take it out while it lives: for what is read, changed and written back under a
/// name in the folder. A lock on the folder itself (flock) leaves no file behind. Where the file
/// system has no locks there is none, and the last to write wins.
class FolderLock {
 public:
  explicit FolderLock(const std::string& folder);  ///< waits
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int fd_;
};

}  // namespace infer
