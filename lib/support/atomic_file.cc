#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <random>
#include <utility>

#include "lib/support/file.h"
#include "lib/support/folder.h"
#include "lib/support/path_parts.h"
#include "lib/support/retry.h"
#include "lib/support/strings.h"

namespace infer {
namespace {

Status WriteFailed(std::string_view what, std::string_view path) {
  return ErrnoError(Cat(what, " '", path, "'"));
}

FileId IdOfStat(const struct stat& s) {
  return {static_cast<uint64_t>(s.st_dev), static_cast<uint64_t>(s.st_ino)};
}

/// Temporary files that a signal handler must remove. A slot is claimed (path set before `used`)
/// and released by AtomicFile; more than fit are removed by destructors only.
struct Unfinished {
  std::atomic<bool> claimed{false}, used{false};
  std::array<char, 4096> path{};
};
std::array<Unfinished, 16> unfinished;

int Claim(const std::string& path) {
  for (size_t i = 0; i < unfinished.size(); ++i) {
    Unfinished& u = unfinished[i];
    if (path.size() >= u.path.size() || u.claimed.exchange(true)) continue;
    std::memcpy(u.path.data(), path.c_str(), path.size() + 1);
    u.used.store(true, std::memory_order_release);
    return static_cast<int>(i);
  }
  return -1;
}

void Release(int slot) {
  if (slot < 0) return;
  unfinished[static_cast<size_t>(slot)].used.store(false);
  unfinished[static_cast<size_t>(slot)].claimed.store(false);
}

/// ".NAME.tmp.PID.RANDOM". The process id is for people; whether the writer lives, its lock says: a
/// process of another container or host has a number that means nothing here.
std::string TemporaryPrefix(const std::string& name) { return Cat(".", name, ".tmp."); }

/// Whether a file of this name, which begins with `prefix`, is one that we write: other programs
/// may have files that only begin like it.
bool IsTemporary(std::string_view file, std::string_view prefix) {
  if (!file.starts_with(prefix)) return false;
  file.remove_prefix(prefix.size());
  const size_t dot = file.find('.');
  const auto is_number = [](std::string_view text) {
    return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
  };
  return dot != std::string_view::npos && is_number(file.substr(0, dot)) &&
         is_number(file.substr(dot + 1));
}

bool TryLock(int fd) {
  return Retry([&] { return ::flock(fd, LOCK_EX | LOCK_NB); }) == 0;
}

/// Removes temporary files of `name` that no process holds locked. Where the file system has no
/// locks, or the file is another user's, they stay.
void SweepStale(const std::string& folder, int folder_fd, const std::string& name) {
  const std::string prefix = TemporaryPrefix(name);
  const auto entries = EntriesOf(folder);
  if (!entries.ok()) return;
  for (const std::string& file : *entries) {
    if (!IsTemporary(file, prefix)) continue;
    // For writing: a lock over NFS asks for that.
    const int fd = Retry([&] {
      return ::openat(folder_fd, file.c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    });
    if (fd < 0) continue;
    struct stat s;
    if (::fstat(fd, &s) == 0 && S_ISREG(s.st_mode) && TryLock(fd))
      ::unlinkat(folder_fd, file.c_str(), 0);
    ::close(fd);
  }
}

/// Locks a file that was just made. False: somebody took it for a stale one in between.
bool HoldNew(int fd) {
  // Without locks (ENOLCK, EOPNOTSUPP) nobody else has one either, and it stays.
  if (!TryLock(fd) && errno == EWOULDBLOCK) return false;
  struct stat s;
  return ::fstat(fd, &s) == 0 && s.st_nlink > 0;
}

struct Temporary {
  std::string name;
  int fd = -1, slot = -1;
};

/// A new file that is locked.
Result<Temporary> MakeTemporary(const std::string& folder, int folder_fd, const std::string& name) {
  std::random_device random;
  for (int attempt = 0; attempt < 100; ++attempt) {
    Temporary t;
    t.name = Cat(TemporaryPrefix(name), static_cast<int64_t>(getpid()), ".",
                 static_cast<int64_t>(random()));
    t.slot = Claim(Cat(folder, "/", t.name));
    // With the mode that it ends with: only the system knows the umask without changing it.
    t.fd = Retry([&] {
      return ::openat(folder_fd, t.name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                      0666);
    });
    const int error = errno;
    if (t.fd >= 0 && HoldNew(t.fd)) return t;
    Release(t.slot);
    errno = error;
    if (t.fd >= 0)
      ::close(t.fd);
    else if (error != EEXIST)
      return WriteFailed("cannot write in folder", folder);
  }
  return WriteFailed("cannot write", Cat(folder, "/", name));
}

Status Reserve(int fd, int64_t bytes) {
  int error = bytes > 0 ? EINTR : 0;
  while (error == EINTR) error = ::posix_fallocate(fd, 0, static_cast<off_t>(bytes));
  // EOPNOTSUPP and EINVAL: a file system without reservation; writing will tell.
  if (error != ENOSPC && error != EFBIG && error != EDQUOT) return {};
  errno = error;
  return ErrnoError("cannot write");
}

}  // namespace

Result<std::unique_ptr<AtomicFile>> AtomicFile::Create(const std::string& given,
                                                       const std::vector<FileId>& inputs,
                                                       int64_t expected_bytes) {
  INFER_ASSIGN(const std::string path, OutputPath(given));
  std::unique_ptr<AtomicFile> file(new AtomicFile);
  file->folder_ = FolderOf(path);
  file->name_ = BaseName(path);
  file->inputs_ = inputs;
  if (file->name_.empty()) return InvalidArgument(Cat("'", path, "' names no file"));
  struct stat s;
  if (::stat(path.c_str(), &s) == 0) {
    if (!S_ISREG(s.st_mode)) return IoError(Cat("'", path, "' is not a regular file"));
    if (std::find(inputs.begin(), inputs.end(), IdOfStat(s)) != inputs.end())
      return InvalidArgument(
          Cat("'", path, "' is an input; write to another file and replace it yourself"));
  }
  file->folder_fd_ =
      Retry([&] { return ::open(file->folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); });
  if (file->folder_fd_ < 0) return WriteFailed("cannot open folder", file->folder_);
  SweepStale(file->folder_, file->folder_fd_, file->name_);
  INFER_ASSIGN(Temporary made, MakeTemporary(file->folder_, file->folder_fd_, file->name_));
  file->temporary_ = std::move(made.name);  // no copy: without memory for it nobody would remove it
  file->fd_ = made.fd;
  file->slot_ = made.slot;
  // What was reserved before an error is cut off, too.
  file->reserved_ = expected_bytes;
  INFER_TRY(Reserve(file->fd_, expected_bytes).In(path));
  return file;
}

AtomicFile::~AtomicFile() {
  if (fd_ >= 0) {
    ::close(fd_);
    ::unlinkat(folder_fd_, temporary_.c_str(), 0);
  }
  Release(slot_);
  if (folder_fd_ >= 0) ::close(folder_fd_);
}

Status AtomicFile::Write(const void* data, size_t size) {
  INFER_CHECK(fd_ >= 0);
  const auto* p = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t put = Retry([&] { return ::write(fd_, p, std::min(size, size_t{1} << 30)); });
    if (put < 0) return WriteFailed("cannot write", Cat(folder_, "/", name_));
    p += put;
    size -= static_cast<size_t>(put);
    size_ += put;
  }
  return {};
}

Status AtomicFile::Commit() {
  INFER_CHECK(fd_ >= 0);
  const std::string path = Cat(folder_, "/", name_);
  struct stat s;
  if (::fstatat(folder_fd_, name_.c_str(), &s, 0) == 0 &&
      std::find(inputs_.begin(), inputs_.end(), IdOfStat(s)) != inputs_.end())
    return InvalidArgument(Cat("'", path, "' is an input"));
  if (size_ < reserved_ && Retry([&] { return ::ftruncate(fd_, static_cast<off_t>(size_)); }) != 0)
    return WriteFailed("cannot write", path);
  // Closed, and so unlocked, when it has its name: no sweep may take it for a stale one. What a
  // close could still report, fsync has reported.
  if (Retry([&] { return ::fsync(fd_); }) != 0 ||
      Retry([&] {
        return ::renameat(folder_fd_, temporary_.c_str(), folder_fd_, name_.c_str());
      }) != 0)
    return WriteFailed("cannot write", path);
  ::close(std::exchange(fd_, -1));
  Release(std::exchange(slot_, -1));
  if (Retry([&] { return ::fsync(folder_fd_); }) != 0 && errno != EINVAL)
    return WriteFailed("cannot sync folder", folder_);
  return {};
}

Status WriteFileAtomically(const std::string& path, std::string_view contents,
                           const std::vector<FileId>& inputs) {
  INFER_ASSIGN(auto file, AtomicFile::Create(path, inputs, static_cast<int64_t>(contents.size())));
  INFER_TRY(file->Write(contents));
  return file->Commit();
}

void RemoveUnfinishedFiles() {
  for (Unfinished& u : unfinished)
    if (u.used.load(std::memory_order_acquire)) ::unlink(u.path.data());
}

}  // namespace infer
