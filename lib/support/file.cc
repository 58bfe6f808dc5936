#include "lib/support/file.h"

#include <fcntl.h>
#include <openssl/evp.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <new>

#include "lib/support/path_parts.h"
#include "lib/support/retry.h"
#include "lib/support/strings.h"

namespace infer {
namespace {

Status Failed(std::string_view what, std::string_view path) {
  return ErrnoError(Cat(what, " '", path, "'"));
}

FileId IdOf(const struct stat& s) {
  return {static_cast<uint64_t>(s.st_dev), static_cast<uint64_t>(s.st_ino)};
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
  const int fd = Retry([&] { return ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK); });
  if (fd < 0) return Failed("cannot open", path);
  return FromFd(fd, path);
}

Result<std::unique_ptr<InputFile>> InputFile::FromFd(int fd, std::string path) {
  std::unique_ptr<InputFile> file;
  try {
    file.reset(new InputFile(fd, std::move(path)));
  } catch (...) {
    ::close(fd);
    throw;
  }
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
    const ssize_t got = Retry([&] { return ::pread(fd_, p, n, static_cast<off_t>(offset)); });
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

// Where OpenSSL has no memory for its own state, that is all that can fail here.
Sha256::Sha256() : context_(EVP_MD_CTX_new()) {
  if (context_ && EVP_DigestInit_ex(static_cast<EVP_MD_CTX*>(context_), EVP_sha256(), nullptr) == 1)
    return;
  EVP_MD_CTX_free(static_cast<EVP_MD_CTX*>(context_));
  throw std::bad_alloc();
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

}  // namespace infer
