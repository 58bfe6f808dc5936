#include "lib/onnx/external_data.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdlib>
#include <system_error>

#include "lib/support/path_parts.h"
#include "lib/support/retry.h"
#include "lib/support/strings.h"

namespace infer::onnx_io {
namespace {

std::string RealPath(const std::string& path) {
  char* real = ::realpath(path.c_str(), nullptr);
  std::string out = real ? real : "";
  ::free(real);
  return out;
}

constexpr int kReadFlags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW;

/// openat component by component, for kernels and sandboxes without openat2. The location has no
/// "..", and no component is followed when it is a link: the same containment.
int OpenByComponents(int folder, const std::string& location) {
  int at = ::dup(folder);
  const std::vector<std::string> parts = Split(location, '/');
  for (size_t i = 0; i < parts.size() && at >= 0; ++i) {
    if (parts[i].empty() || parts[i] == ".") continue;
    const bool last = i + 1 == parts.size();
    const int next = Retry([&] {
      return ::openat(at, parts[i].c_str(), last ? kReadFlags : kReadFlags | O_DIRECTORY);
    });
    int error = errno;
    // A link that should be a folder: it says so whatever it leads to.
    struct stat entry {};
    if (next < 0 && error == ENOTDIR &&
        ::fstatat(at, parts[i].c_str(), &entry, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(entry.st_mode))
      error = ELOOP;
    ::close(at);
    errno = error;
    at = next;
  }
  return at;
}

/// A descriptor of `location` beneath `folder`, no link followed; -1 and errno else.
int OpenBeneath(const std::string& folder, const std::string& location) {
  const int dir = Retry([&] { return ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); });
  if (dir < 0) return -1;
  open_how how{};
  how.flags = static_cast<uint64_t>(O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
  int fd = static_cast<int>(
      Retry([&] { return ::syscall(SYS_openat2, dir, location.c_str(), &how, sizeof how); }));
  if (fd < 0 && (errno == ENOSYS || errno == EPERM)) fd = OpenByComponents(dir, location);
  const int error = errno;
  ::close(dir);
  errno = error;
  return fd;
}

Status Refused(const std::string& location, std::string_view why) {
  return InvalidModel(Cat("external data '", location, "': ", why));
}

Status CheckLocation(const std::string& location) {
  if (location.empty()) return Refused(location, "an empty location");
  if (location.find('\0') != std::string::npos) return Refused(location, "a zero byte in the name");
  if (location[0] == '/' || location[0] == '\\' || (location.size() > 1 && location[1] == ':'))
    return Refused(location, "an absolute path is refused");
  for (char separator : {'/', '\\'})
    for (const std::string& part : Split(location, separator))
      if (part == "..") return Refused(location, "a path with '..' is refused");
  return {};
}

}  // namespace

Result<ExternalLocation> ParseExternal(
    const std::vector<std::pair<std::string, std::string>>& entries) {
  ExternalLocation out;
  std::map<std::string, int> seen;
  for (const auto& [key, value] : entries) {
    if (++seen[key] > 1) return InvalidModel(Cat("external data: '", key, "' stands twice"));
    if (key == "location") {
      out.location = value;
    } else if (key == "offset" || key == "length") {
      const auto number = ParseInt(value);
      if (!number || *number < 0)
        return InvalidModel(Cat("external data: ", key, " '", value, "' is no valid number"));
      if (key == "offset") out.offset = static_cast<uint64_t>(*number);
      if (key == "length") out.length = static_cast<uint64_t>(*number);
      if (key == "length") out.has_length = true;
    }
  }
  if (!seen.contains("location")) return InvalidModel("external data without a location");
  return out;
}

ExternalData ExternalData::ForModel(const std::string& model_path,
                                    const std::string& external_root) {
  ExternalData out = ForFolder(FolderOf(model_path), external_root);
  const std::string real = RealPath(model_path);
  const std::string real_folder = FolderOf(real);
  if (!real.empty() && !out.folders_.empty() && real_folder != out.folders_[0]) {
    // A link. In a Hugging Face cache: snapshots/REVISION/model.onnx -> ../../blobs/HASH, and only
    // what the snapshot links to by the same rule may be read there.
    if (BaseName(real_folder) == "blobs")
      out.blobs_ = real_folder;
    else
      out.folders_.push_back(real_folder);
  }
  return out;
}

ExternalData ExternalData::ForFolder(const std::string& folder, const std::string& external_root) {
  ExternalData out;
  if (std::string real = RealPath(folder); !real.empty()) out.folders_.push_back(std::move(real));
  if (!external_root.empty()) out.external_root_ = RealPath(external_root);
  return out;
}

Result<const InputFile*> ExternalData::Open(const std::string& location) {
  constexpr size_t kMostOpen = 64;  // descriptors are few, files may be thousands
  const auto it = known_.find(location);
  if (it != known_.end() && it->second.file) return it->second.file.get();
  while (open_.size() >= kMostOpen) {
    open_.front()->file.reset();
    open_.pop_front();
  }
  INFER_ASSIGN(auto file, OpenAllowed(location));
  const bool fresh = it == known_.end();
  if (!fresh && (file->id() != it->second.id || file->size() != it->second.size))
    return IoError(Cat("external data '", location, "' was replaced while it was read"));
  Known& known = known_[location];
  if (fresh) {
    known = {file->id(), file->size(), nullptr};
    // One file may have many names ("./data").
    if (files_.emplace(known.id.device, known.id.inode).second) bytes_ += known.size;
  }
  known.file = std::move(file);
  open_.push_back(&known);
  return known.file.get();
}

Result<std::unique_ptr<InputFile>> ExternalData::OpenAllowed(const std::string& location) const {
  INFER_TRY(CheckLocation(location));
  if (folders_.empty() && external_root_.empty())
    return Refused(location, "a model in memory has no folder");
  int fd = -1;
  int error = ENOENT;
  bool trusted = false;
  for (const std::string& folder : folders_) {
    fd = OpenBeneath(folder, location);
    if (fd < 0 && errno == ELOOP && !blobs_.empty()) {
      const std::string target = RealPath(Cat(folder, "/", location));
      if (!target.empty() && FolderOf(target) == blobs_)
        fd = OpenBeneath(blobs_, BaseName(target));
      else
        errno = ELOOP;
    }
    if (fd >= 0) break;
    if (error == ENOENT) error = errno;
  }
  if (fd < 0 && !external_root_.empty()) {
    fd = OpenBeneath(external_root_, location);
    trusted = fd >= 0;
    if (fd < 0 && error == ENOENT) error = errno;
  }
  if (fd < 0 && (error == ELOOP || error == EXDEV))
    return Refused(location,
                   "it leads out of the model's folder or through a link; put the file itself "
                   "beside the model, or allow its folder (external_root)");
  if (fd < 0) {
    return IoError(Cat("cannot open external data '", location,
                       "' in the model's folder: ", std::generic_category().message(error)));
  }
  INFER_ASSIGN(auto file, InputFile::FromFd(fd, location));
  if (file->id() == model_) return Refused(location, "it is the model file itself");
  if (file->hard_links() > 1 && !trusted)
    return Refused(location,
                   "the file has several hard links, so it may be one of another folder; copy it, "
                   "or allow its folder (external_root)");
  return file;
}

std::vector<FileId> ExternalData::ids() const {
  std::vector<FileId> out;
  for (const auto& [location, known] : known_) out.push_back(known.id);
  return out;
}

std::shared_ptr<Buffer> ExternalRegions::Find(const Region& region) const {
  const auto it = read_.find(region);
  return it == read_.end() ? nullptr : it->second;
}

Status ExternalRegions::Reserve(const Region& region, uint64_t file_bytes) {
  constexpr uint64_t kTimes = 4, kFree = uint64_t{1} << 20;
  // Each region lies in its file: neither sum overflows before it is over the limit.
  const uint64_t most =
      file_bytes > (UINT64_MAX - kFree) / kTimes ? UINT64_MAX : kTimes * file_bytes + kFree;
  if (region.bytes > most || reserved_ > most - region.bytes)
    return InvalidModel(Cat("external data: tensors overlap so much that they come to more than ",
                            kTimes, " times the ", file_bytes, " bytes of their files"));
  reserved_ += region.bytes;
  return {};
}

void ExternalRegions::Add(const Region& region, std::shared_ptr<Buffer> buffer) {
  read_[region] = std::move(buffer);
}

}  // namespace infer::onnx_io
