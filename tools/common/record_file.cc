#include "tools/common/record_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/support/hash.h"
#include "lib/support/retry.h"
#include "lib/support/strings.h"

namespace infer {
namespace {

/// A record: sizes of key and bytes, and their check; key, bytes, and the check of both. Numbers
/// take eight bytes, least first.
constexpr uint64_t kSizes = 24, kCheck = 8;

std::string Eight(uint64_t v) {
  std::string out;
  for (int k = 0; k < 8; ++k) out += static_cast<char>(v >> (8 * k));
  return out;
}
uint64_t OfEight(std::string_view in) {
  uint64_t v = 0;
  for (size_t k = 0; k < 8; ++k) v |= static_cast<uint64_t>(static_cast<uint8_t>(in[k])) << (8 * k);
  return v;
}
std::string SizesOf(uint64_t key, uint64_t bytes) {
  return Eight(key) + Eight(bytes) + Eight(Hasher().Add(key).Add(bytes).value());
}
uint64_t CheckOf(std::string_view key, std::string_view bytes) {
  return Hasher().Add(key).Add(bytes).value();
}

}  // namespace

Result<std::unique_ptr<RecordFile>> RecordFile::Open(const std::string& path,
                                                     const LogIdentity& identity) {
  const int fd = Retry([&] { return ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644); });
  if (fd < 0) return ErrnoError(path);
  std::unique_ptr<RecordFile> file(new RecordFile(fd, path));
  struct stat facts {};
  if (::fstat(fd, &facts) != 0) return ErrnoError(path);
  if (!S_ISREG(facts.st_mode)) return InvalidArgument(Cat(path, ": a checkpoint is a plain file"));
  if (Retry([&] { return ::flock(fd, LOCK_EX | LOCK_NB); }) != 0)
    return InvalidArgument(Cat(path, ": another process writes this file"));
  INFER_TRY(file->Load(identity));
  return file;
}

RecordFile::~RecordFile() { ::close(fd_); }

Result<bool> RecordFile::ReadAt(uint64_t offset, std::string& out) const {
  for (size_t done = 0; done < out.size();) {
    const ssize_t n = Retry([&] {
      return ::pread(fd_, out.data() + done, out.size() - done, static_cast<off_t>(offset + done));
    });
    if (n < 0) return ErrnoError(path_);
    if (n == 0) return false;
    done += static_cast<size_t>(n);
  }
  return true;
}

Status RecordFile::Append(std::string_view bytes) {
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t n = Retry([&] {
      return ::pwrite(fd_, bytes.data() + done, bytes.size() - done,
                      static_cast<off_t>(bytes_ + done));
    });
    if (n <= 0) break;
    done += static_cast<size_t>(n);
  }
  if (done < bytes.size() || Retry([&] { return ::fdatasync(fd_); }) != 0) {
    Status failed = ErrnoError(path_);
    // Half a record; what cannot be cut is dropped when the file is read.
    (void)Retry([&] { return ::ftruncate(fd_, static_cast<off_t>(bytes_)); });
    return failed;
  }
  bytes_ += bytes.size();
  return {};
}

Status RecordFile::Load(const LogIdentity& identity) {
  struct stat facts {};
  if (::fstat(fd_, &facts) != 0) return ErrnoError(path_);
  const auto size = static_cast<uint64_t>(facts.st_size);
  const std::string magic = identity.schema + "\n", header = magic + identity.of + "\n";
  std::string begin(std::min<uint64_t>(size, header.size()), '\0');
  INFER_TRY(ReadAt(0, begin).status());
  if (begin.size() < header.size() && header.rfind(begin, 0) == 0) {  // new, or cut off at once
    if (Retry([&] { return ::ftruncate(fd_, 0); }) != 0) return ErrnoError(path_);
    return Append(header);
  }
  if (begin.rfind(magic, 0) != 0)
    return InvalidModel(Cat(path_, ": no file of this kind (", identity.schema, ")"));
  if (begin != header)
    return InvalidArgument(
        Cat(path_, ": is of another model, data, setting or machine; ", identity.advice));
  const auto damaged = [&] {
    return InvalidModel(Cat(path_, ": damaged at byte ", bytes_, "; ", identity.advice));
  };
  for (bytes_ = header.size(); bytes_ < size;) {
    std::string sizes(kSizes, '\0');
    INFER_ASSIGN(const bool whole, ReadAt(bytes_, sizes));
    if (!whole) break;  // cut off
    const uint64_t behind = size - bytes_ - kSizes, left = behind - std::min(behind, kCheck);
    const uint64_t key = OfEight(sizes), bytes = OfEight(std::string_view(sizes).substr(8));
    if (sizes != SizesOf(key, bytes)) {
      if (behind > 0) return damaged();
      break;
    }
    if (key > left || bytes > left - key) break;  // cut off
    std::string record(key + bytes + kCheck, '\0');
    INFER_ASSIGN(const bool all, ReadAt(bytes_ + kSizes, record));
    if (!all) break;
    const std::string_view name = std::string_view(record).substr(0, key);
    const uint64_t end = bytes_ + kSizes + record.size();
    if (CheckOf(name, std::string_view(record).substr(key, bytes)) !=
        OfEight(std::string_view(record).substr(key + bytes))) {
      if (end < size) return damaged();
      break;
    }
    places_[std::string(name)] = {bytes_ + kSizes + key, bytes};
    bytes_ = end;
  }
  if (Retry([&] { return ::ftruncate(fd_, static_cast<off_t>(bytes_)); }) != 0)
    return ErrnoError(path_);
  return {};
}

Result<std::optional<std::string>> RecordFile::Find(const std::string& key) const {
  const auto it = places_.find(key);
  if (it == places_.end()) return std::optional<std::string>();
  std::string bytes(it->second.second, '\0');
  INFER_ASSIGN(const bool whole, ReadAt(it->second.first, bytes));
  if (!whole) return IoError(Cat(path_, ": became shorter"));
  return std::optional(std::move(bytes));
}

Status RecordFile::Add(const std::string& key, std::string_view bytes) {
  std::string record = SizesOf(key.size(), bytes.size()) + key;
  record += bytes;
  record += Eight(CheckOf(key, bytes));
  const uint64_t at = bytes_ + kSizes + key.size();
  INFER_TRY(Append(record));
  places_[key] = {at, bytes.size()};
  return {};
}

}  // namespace infer
