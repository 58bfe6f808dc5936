#include "tools/common/append_log.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>

#include "lib/support/hash.h"
#include "lib/support/retry.h"
#include "lib/support/strings.h"
#include "tools/common/json_names.h"
#include "tools/common/parse_json.h"

namespace infer {
namespace {

std::string CheckOf(const std::string& key, const Json& value) {
  return std::to_string(Hasher().Add(key).Add(CompactJson(value)).value());
}

/// nullopt: not a whole, true line.
std::optional<std::pair<std::string, Json>> ParseLine(const std::string& line) {
  auto parsed = ParseJson(line);
  if (!parsed.ok()) return std::nullopt;
  Json j = *std::move(parsed);
  if (!j.is_object() || !j.contains("key") || !j["key"].is_string() || !j.contains("value") ||
      !j.contains("check") || !j["check"].is_string())
    return std::nullopt;
  auto key = j["key"].get<std::string>();
  if (CheckOf(key, j["value"]) != j["check"].get<std::string>()) return std::nullopt;
  return std::pair(std::move(key), std::move(j["value"]));
}

}  // namespace

Status AppendLog::Failed() const { return IoError(Cat(path_, ": ", std::strerror(errno))); }

Result<std::unique_ptr<AppendLog>> AppendLog::Open(const std::string& path,
                                                   const LogIdentity& identity) {
  const int fd =
      Retry([&] { return ::open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0644); });
  if (fd < 0) return IoError(Cat(path, ": ", std::strerror(errno)));
  std::unique_ptr<AppendLog> log(new AppendLog(fd, path));
  struct stat facts {};
  if (::fstat(fd, &facts) != 0) return log->Failed();
  if (!S_ISREG(facts.st_mode)) return InvalidArgument(Cat(path, ": a log is a plain file"));
  if (Retry([&] { return ::flock(fd, LOCK_EX | LOCK_NB); }) != 0)
    return InvalidArgument(Cat(path, ": another process writes this log"));
  if (Status s = log->Load(identity); !s.ok()) return s;
  return log;
}

AppendLog::~AppendLog() { ::close(fd_); }

Status AppendLog::CutAt(size_t bytes) {
  if (Retry([&] { return ::ftruncate(fd_, static_cast<off_t>(bytes)); }) != 0) return Failed();
  bytes_ = bytes;
  return {};
}

Status AppendLog::Append(const std::string& line) {
  size_t done = 0;
  while (done < line.size()) {
    const ssize_t n = ::write(fd_, line.data() + done, line.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) break;
    done += static_cast<size_t>(n);
  }
  if (done < line.size() || Retry([&] { return ::fdatasync(fd_); }) != 0) {
    Status failed = Failed();
    (void)CutAt(bytes_);  // half a line; what cannot be cut is dropped when the log is read
    return failed;
  }
  bytes_ += line.size();
  return {};
}

Status AppendLog::Load(const LogIdentity& identity) {
  std::string text;
  char buffer[1 << 16];
  for (;;) {
    const ssize_t n = ::read(fd_, buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return Failed();
    if (n == 0) break;
    text.append(buffer, static_cast<size_t>(n));
  }
  const std::string of = JsonName(identity.of);
  const std::string header = JsonText({{"schema", identity.schema}, {"of", of}}, -1);
  // A header that is cut off is an empty log, too.
  if (text.find('\n') == std::string::npos && header.rfind(text, 0) == 0) {
    INFER_TRY(CutAt(0));
    return Append(header);
  }
  size_t at = text.find('\n');
  const Json head = Json::parse(text.substr(0, at), nullptr, false);
  const auto says = [&head](const char* key, const std::string& text) {
    return head.contains(key) && head[key] == text;
  };
  if (at == std::string::npos || !head.is_object() || !says("schema", identity.schema))
    return InvalidModel(Cat(path_, ": no log of this kind (", identity.schema, ")"));
  if (!says("of", of))
    return InvalidArgument(
        Cat(path_, ": is of another model, data, setting or machine; ", identity.advice));
  size_t line = 2;
  for (++at; at < text.size(); ++line) {
    const size_t end = text.find('\n', at);
    auto entry = end == std::string::npos ? std::nullopt : ParseLine(text.substr(at, end - at));
    if (!entry) {
      if (end != std::string::npos && end + 1 < text.size())
        return InvalidModel(Cat(path_, ":", line, ": a broken line"));
      return CutAt(at);
    }
    all_.insert_or_assign(std::move(entry->first), std::move(entry->second));
    at = end + 1;
  }
  bytes_ = text.size();
  return {};
}

const Json* AppendLog::Find(const std::string& key) const {
  const auto it = all_.find(JsonName(key));
  return it == all_.end() ? nullptr : &it->second;
}

Status AppendLog::Add(const std::string& key, const Json& value) {
  // Checked, and kept, as it reads back.
  const std::string name = JsonName(key);
  Json read = Json::parse(CompactJson(value));
  const std::string check = CheckOf(name, read);
  INFER_TRY(Append(JsonText({{"key", name}, {"value", read}, {"check", check}}, -1)));
  all_.insert_or_assign(name, std::move(read));
  return {};
}

}  // namespace infer
