#include "lib/support/file.h"

#include <fcntl.h>
#include <openssl/evp.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <random>

#include "lib/support/path_parts.h"
#include "lib/support/strings.h"

namespace infer {
namespace {

Status Failed(std::string_view what, std::string_view path) {
  return IoError(Cat(what, " '", path, "': ", std::generic_category().message(errno)));
}

FileId IdOf(const struct stat& s) {
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

/// ".NAME.tmp.PID.RANDOM": the process id lets a later run tell a stale file from a live one.
std::string TemporaryPrefix(const std::string& name) { return Cat(".", name, ".tmp."); }

/// Removes temporary files of `name` whose process is gone.
void SweepStale(const std::string& folder, const std::string& name) {
  const std::string prefix = TemporaryPrefix(name);
  std::error_code ec;
  for (const auto& entry : std::filesystem::directory_iterator(folder, ec)) {
    const std::string file = entry.path().filename().string();
    if (file.compare(0, prefix.size(), prefix) != 0) continue;
    const auto pid = ParseInt(Split(file.substr(prefix.size()), '.')[0]);
    if (pid && *pid > 0 && *pid <= INT32_MAX && kill(static_cast<pid_t>(*pid), 0) != 0 &&
        errno == ESRCH)
      ::unlink(entry.path().c_str());
  }
}

}  // namespace

Status MemorySource::Read(uint64_t offset, void* out, size_t n) const {
  if (offset > bytes_.size() || n > bytes_.size() - offset)
    return IoError("read past the end of the data");
  if (n > 0) std::memcpy(out, bytes_.data() + offset, n);
  return {};
}

Result<std::unique_ptr<InputFile>> InputFile::Open(const std::string& path) {
  // O_NONBLOCK: opening a pipe without a writer must not wait.
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return Failed("cannot open", path);
  return FromFd(fd, path);
}

Result<std::unique_ptr<InputFile>> InputFile::FromFd(int fd, std::string path) {
  std::unique_ptr<InputFile> file(new InputFile(fd, std::move(path)));
  struct stat s;
  if (fstat(fd, &s) != 0) return Failed("cannot read", file->path_);
  if (!S_ISREG(s.st_mode)) return IoError(Cat("'", file->path_, "' is not a regular file"));
  file->size_ = static_cast<uint64_t>(s.st_size);
  file->hard_links_ = s.st_nlink;
  file->id_ = IdOf(s);
  return file;
}

InputFile::~InputFile() { ::close(fd_); }

Status InputFile::Read(uint64_t offset, void* out, size_t n) const {
  auto* p = static_cast<char*>(out);
  while (n > 0) {
    const ssize_t got = ::pread(fd_, p, n, static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return Failed("cannot read", path_);
    if (got == 0) return IoError(Cat("'", path_, "' ends at byte ", offset, "; more was expected"));
    p += got;
    offset += static_cast<uint64_t>(got);
    n -= static_cast<size_t>(got);
  }
  return {};
}

Result<std::string> ReadFile(const std::string& path, uint64_t max_bytes) {
  INFER_ASSIGN(auto file, InputFile::Open(path));
  if (file->size() > max_bytes)
    return ResourceExhausted(
        Cat("'", path, "' has ", file->size(), " bytes; at most ", max_bytes, " are read here"));
  std::string out(file->size(), '\0');
  INFER_TRY(file->Read(0, out.data(), out.size()));
  return out;
}

Sha256::Sha256() : context_(EVP_MD_CTX_new()) {
  INFER_CHECK(context_ &&
              EVP_DigestInit_ex(static_cast<EVP_MD_CTX*>(context_), EVP_sha256(), nullptr) == 1);
}
Sha256::~Sha256() { EVP_MD_CTX_free(static_cast<EVP_MD_CTX*>(context_)); }
void Sha256::Add(const void* data, size_t size) {
  INFER_CHECK(EVP_DigestUpdate(static_cast<EVP_MD_CTX*>(context_), data, size) == 1);
}
std::string Sha256::Hex() {
  std::array<unsigned char, 32> digest;
  INFER_CHECK(EVP_DigestFinal_ex(static_cast<EVP_MD_CTX*>(context_), digest.data(), nullptr) == 1);
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string out;
  for (unsigned char byte : digest) {
    out += kDigits[byte >> 4];
    out += kDigits[byte & 15];
  }
  return out;
}

Result<std::string> Sha256Of(const ByteSource& source) {
  Sha256 hash;
  std::vector<char> chunk(size_t{1} << 18);
  for (uint64_t at = 0; at < source.size();) {
    const auto n = static_cast<size_t>(std::min<uint64_t>(chunk.size(), source.size() - at));
    INFER_TRY(source.Read(at, chunk.data(), n));
    hash.Add(chunk.data(), n);
    at += n;
  }
  return hash.Hex();
}

Result<std::unique_ptr<AtomicFile>> AtomicFile::Create(const std::string& path,
                                                       const std::vector<FileId>& inputs,
                                                       int64_t expected_bytes) {
  std::unique_ptr<AtomicFile> file(new AtomicFile);
  file->folder_ = FolderOf(path);
  file->name_ = BaseName(path);
  file->inputs_ = inputs;
  if (file->name_.empty()) return InvalidArgument(Cat("'", path, "' names no file"));
  struct stat s;
  if (::stat(path.c_str(), &s) == 0) {
    if (!S_ISREG(s.st_mode)) return IoError(Cat("'", path, "' is not a regular file"));
    if (std::find(inputs.begin(), inputs.end(), IdOf(s)) != inputs.end())
      return InvalidArgument(
          Cat("'", path, "' is an input; write to another file and replace it yourself"));
  }
  file->folder_fd_ = ::open(file->folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (file->folder_fd_ < 0) return Failed("cannot open folder", file->folder_);
  SweepStale(file->folder_, file->name_);
  std::random_device random;
  for (int attempt = 0; attempt < 100 && file->fd_ < 0; ++attempt) {
    file->temporary_ = Cat(TemporaryPrefix(file->name_), static_cast<int64_t>(getpid()), ".",
                           static_cast<int64_t>(random()));
    file->slot_ = Claim(Cat(file->folder_, "/", file->temporary_));
    file->fd_ = ::openat(file->folder_fd_, file->temporary_.c_str(),
                         O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (file->fd_ >= 0) break;
    Release(std::exchange(file->slot_, -1));
    if (errno != EEXIST) return Failed("cannot write in folder", file->folder_);
  }
  if (file->fd_ < 0) return Failed("cannot write", path);
  // EOPNOTSUPP and EINVAL: a file system without reservation; writing will tell.
  const int error =
      expected_bytes > 0 ? ::posix_fallocate(file->fd_, 0, static_cast<off_t>(expected_bytes)) : 0;
  if (error == ENOSPC || error == EFBIG || error == EDQUOT) {
    errno = error;
    return Failed("cannot write", path);
  }
  file->reserved_ = error == 0 ? expected_bytes : 0;
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
    const ssize_t put = ::write(fd_, p, std::min(size, size_t{1} << 30));
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return Failed("cannot write", Cat(folder_, "/", name_));
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
      std::find(inputs_.begin(), inputs_.end(), IdOf(s)) != inputs_.end())
    return InvalidArgument(Cat("'", path, "' is an input"));
  if (size_ < reserved_ && ::ftruncate(fd_, static_cast<off_t>(size_)) != 0)
    return Failed("cannot write", path);
  const mode_t mask = ::umask(0);
  ::umask(mask);
  if (::fchmod(fd_, 0666 & ~mask) != 0 || ::fsync(fd_) != 0) return Failed("cannot write", path);
  const int fd = std::exchange(fd_, -1);
  if (::close(fd) != 0 ||
      ::renameat(folder_fd_, temporary_.c_str(), folder_fd_, name_.c_str()) != 0) {
    Status failed = Failed("cannot write", path);
    ::unlinkat(folder_fd_, temporary_.c_str(), 0);
    return failed;
  }
  Release(std::exchange(slot_, -1));
  if (::fsync(folder_fd_) != 0 && errno != EINVAL) return Failed("cannot sync folder", folder_);
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
