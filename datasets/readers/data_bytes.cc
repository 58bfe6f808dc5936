#include "datasets/readers/data_bytes.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "lib/support/strings.h"

namespace infer {

Result<DataBytesPtr> DataBytes::Open(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return IoError(Cat(path, ": ", std::strerror(errno)));
  std::shared_ptr<DataBytes> source(new DataBytes);
  source->fd_ = fd;
  source->name_ = path;
  struct stat st;
  if (fstat(fd, &st) != 0) return IoError(Cat(path, ": ", std::strerror(errno)));
  if (!S_ISREG(st.st_mode)) return IoError(Cat(path, ": not a regular file"));
  source->size_ = st.st_size;
  return DataBytesPtr(source);
}

DataBytesPtr DataBytes::OfMemory(std::string bytes, std::string name) {
  std::shared_ptr<DataBytes> source(new DataBytes);
  source->size_ = static_cast<int64_t>(bytes.size());
  source->memory_ = std::move(bytes);
  source->name_ = std::move(name);
  return source;
}

DataBytes::~DataBytes() {
  if (fd_ >= 0) close(fd_);
}

Status DataBytes::Read(int64_t offset, int64_t n, void* out) const {
  if (offset < 0 || n < 0 || offset > size_ || n > size_ - offset)
    return InvalidModel(
        Cat(name_, ": truncated: ", n, " bytes wanted at ", offset, ", the file has ", size_));
  if (n == 0) return {};
  if (fd_ < 0) {
    std::memcpy(out, memory_.data() + offset, static_cast<size_t>(n));
    return {};
  }
  for (int64_t done = 0; done < n;) {
    const ssize_t got =
        pread(fd_, static_cast<char*>(out) + done, static_cast<size_t>(n - done), offset + done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return IoError(Cat(name_, ": ", std::strerror(errno)));
    if (got == 0) return IoError(Cat(name_, ": shrank while it was read"));
    done += got;
  }
  return {};
}

Result<std::string> DataBytes::ReadString(int64_t offset, int64_t n) const {
  if (offset < 0 || n < 0 || offset > size_ || n > size_ - offset) return Read(offset, n, nullptr);
  std::string bytes(static_cast<size_t>(n), '\0');
  INFER_TRY(Read(offset, n, bytes.data()));
  return bytes;
}

}  // namespace infer
