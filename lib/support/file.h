#pragma once
/// Files: positioned reads that fail with a Status (a mapping would turn a file that shrinks, or a
/// bad disk, into SIGBUS), outputs that are the old file or the complete new one, and SHA-256.
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lib/support/status.h"

namespace infer {

/// Identity of a file whatever its name: device and inode.
struct FileId {
  uint64_t device = 0, inode = 0;
  bool operator==(const FileId&) const = default;
};

/// Bytes with positions. Reading is thread-safe.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  virtual uint64_t size() const = 0;
  /// Io when [offset, offset + n) cannot be read whole.
  virtual Status Read(uint64_t offset, void* out, size_t n) const = 0;
};

class MemorySource : public ByteSource {
 public:
  explicit MemorySource(std::string_view bytes) : bytes_(bytes) {}  ///< not copied
  uint64_t size() const override { return bytes_.size(); }
  Status Read(uint64_t offset, void* out, size_t n) const override;

 private:
  std::string_view bytes_;
};

/// A regular file open for reading. Io for anything else (a directory, a pipe).
class InputFile : public ByteSource {
 public:
  static Result<std::unique_ptr<InputFile>> Open(const std::string& path);
  /// Takes `fd`, closed on failure too. `path` is for messages.
  static Result<std::unique_ptr<InputFile>> FromFd(int fd, std::string path);
  ~InputFile() override;
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;
  uint64_t size() const override { return size_; }
  Status Read(uint64_t offset, void* out, size_t n) const override;
  FileId id() const { return id_; }
  uint64_t hard_links() const { return hard_links_; }
  const std::string& path() const { return path_; }

 private:
  InputFile(int fd, std::string path) : fd_(fd), path_(std::move(path)) {}
  int fd_;
  std::string path_;
  uint64_t size_ = 0, hard_links_ = 0;
  FileId id_;
};

/// The whole file. Resource when it is larger than `max_bytes`.
Result<std::string> ReadFile(const std::string& path, uint64_t max_bytes = uint64_t{1} << 31);

class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;
  void Add(const void* data, size_t size);
  std::string Hex();  ///< 64 lower-case digits; no Add after it

 private:
  void* context_;
};
Result<std::string> Sha256Of(const ByteSource& source);

/// An output that appears under its name complete or not at all: written to a new file in the same
/// folder, synced, renamed, and the folder synced. Not committed: removed by the destructor, or by
/// RemoveUnfinishedFiles. A symbolic link is followed (OutputPath). The new file is locked (flock)
/// while its writer lives; one that nobody holds was left by a process that was killed, and the
/// next write of that name removes it. Of several processes that write one name, the last to commit
/// wins, with a whole file.
class AtomicFile {
 public:
  /// InvalidArgument when `path` is one of `inputs` (by identity) or exists and is no regular file.
  /// Reserves `expected_bytes` on the disk early, so that a full one fails before the work.
  static Result<std::unique_ptr<AtomicFile>> Create(const std::string& path,
                                                    const std::vector<FileId>& inputs = {},
                                                    int64_t expected_bytes = 0);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  Status Write(const void* data, size_t size);
  Status Write(std::string_view data) { return Write(data.data(), data.size()); }
  int64_t size() const { return size_; }
  /// Another final name in the same folder, for names that depend on the contents.
  void SetName(std::string name) { name_ = std::move(name); }
  Status Commit();

 private:
  AtomicFile() = default;
  std::string folder_, name_, temporary_;
  std::vector<FileId> inputs_;
  int folder_fd_ = -1, fd_ = -1, slot_ = -1;
  int64_t size_ = 0;
  int64_t reserved_ = 0;
};

/// Create, Write, Commit.
Status WriteFileAtomically(const std::string& path, std::string_view contents,
                           const std::vector<FileId>& inputs = {});

/// Unlinks the temporary files of every AtomicFile that is not committed. Async-signal-safe: for
/// the handler of a signal that ends the process.
void RemoveUnfinishedFiles();

}  // namespace infer
