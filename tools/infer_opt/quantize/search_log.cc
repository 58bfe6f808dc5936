#include "tools/infer_opt/quantize/search_log.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstring>

#include "lib/support/hash.h"
#include "lib/support/strings.h"
#include "tools/common/report.h"

namespace infer {
namespace {

constexpr const char* kSchema = "infer-opt/search-log@1";

std::string CheckOf(const std::string& key, const Json& numbers) {
  return std::to_string(Hasher().Add(key).Add(numbers.dump()).value());
}

/// nullopt: not a whole, true line.
std::optional<std::pair<std::string, Numbers>> ParseLine(const std::string& line) {
  const Json j = Json::parse(line, nullptr, false);
  if (!j.is_object() || !j.contains("key") || !j["key"].is_string() || !j.contains("numbers") ||
      !j["numbers"].is_object() || !j.contains("check") || !j["check"].is_string())
    return std::nullopt;
  const auto key = j["key"].get<std::string>();
  if (CheckOf(key, j["numbers"]) != j["check"].get<std::string>()) return std::nullopt;
  Numbers numbers;
  for (const auto& [name, v] : j["numbers"].items()) {
    const auto text = v.is_string() ? ParseDouble(v.get<std::string>()) : std::nullopt;
    if (!v.is_number() && !text) return std::nullopt;
    numbers[name] = v.is_number() ? v.get<double>() : *text;
  }
  return std::pair(key, std::move(numbers));
}

}  // namespace

Result<std::unique_ptr<SearchLog>> SearchLog::Open(const std::string& path, const std::string& of) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (fd < 0) return IoError(Cat(path, ": ", std::strerror(errno)));
  std::unique_ptr<SearchLog> log(new SearchLog(fd, path));
  if (::flock(fd, LOCK_EX | LOCK_NB) != 0)
    return InvalidArgument(Cat(path, ": another search writes this log"));
  if (Status s = log->Load(of); !s.ok()) return s;
  return log;
}

SearchLog::~SearchLog() { ::close(fd_); }

Status SearchLog::Append(const std::string& line) {
  size_t done = 0;
  while (done < line.size()) {
    const ssize_t n = ::write(fd_, line.data() + done, line.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return IoError(Cat(path_, ": ", std::strerror(errno)));
    done += static_cast<size_t>(n);
  }
  if (::fdatasync(fd_) != 0) return IoError(Cat(path_, ": ", std::strerror(errno)));
  return {};
}

Status SearchLog::Load(const std::string& of) {
  std::string text;
  char buffer[1 << 16];
  for (;;) {
    const ssize_t n = ::read(fd_, buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return IoError(Cat(path_, ": ", std::strerror(errno)));
    if (n == 0) break;
    text.append(buffer, static_cast<size_t>(n));
  }
  const std::string header = Json({{"schema", kSchema}, {"of", of}}).dump() + "\n";
  // A header that is cut off is an empty log, too.
  if (text.find('\n') == std::string::npos && header.rfind(text, 0) == 0) {
    if (::ftruncate(fd_, 0) != 0) return IoError(Cat(path_, ": ", std::strerror(errno)));
    return Append(header);
  }
  size_t at = text.find('\n');
  const Json head = Json::parse(text.substr(0, at), nullptr, false);
  if (!head.is_object() || head.value("schema", "") != kSchema)
    return InvalidModel(Cat(path_, ": no log of a search"));
  if (head.value("of", "") != of)
    return InvalidArgument(Cat(path_,
                               ": is of another model, data, setting or machine; name another "
                               "--search-log, or delete it"));
  size_t line = 2;
  for (++at; at < text.size(); ++line) {
    const size_t end = text.find('\n', at);
    const auto entry =
        end == std::string::npos ? std::nullopt : ParseLine(text.substr(at, end - at));
    if (!entry) {
      if (end != std::string::npos && end + 1 < text.size())
        return InvalidModel(Cat(path_, ":", line, ": a broken line"));
      if (::ftruncate(fd_, static_cast<off_t>(at)) != 0)
        return IoError(Cat(path_, ": ", std::strerror(errno)));
      return {};
    }
    if (!all_.Find(entry->first)) INFER_TRY(all_.Add(entry->first, entry->second));
    at = end + 1;
  }
  return {};
}

Status SearchLog::Add(const std::string& key, Numbers numbers) {
  Json j = Json::object();
  for (const auto& [name, v] : numbers) j[name] = JsonNumber(v);
  // Numbers are checked as they read back.
  j = Json::parse(j.dump());
  const std::string check = CheckOf(key, j);
  INFER_TRY(
      Append(Json({{"key", key}, {"numbers", std::move(j)}, {"check", check}}).dump() + "\n"));
  return all_.Add(key, std::move(numbers));
}

}  // namespace infer
