#include "tools/infer_bench/compare/history.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstring>
#include <ctime>
#include <fstream>
#include <map>

#include "lib/support/retry.h"
#include "lib/support/statistics.h"
#include "lib/support/strings.h"
#include "tools/common/json_names.h"
#include "tools/common/parse_json.h"
#include "tools/common/report.h"

namespace infer {
namespace {

constexpr std::string_view kSchema = "infer-bench/history@1";
constexpr size_t kLeastDifferences = 8, kMostDifferences = 40;
constexpr double kSigmas = 3 * 1.4826;  // of a median absolute deviation

Status Failed(const std::string& path) { return IoError(Cat(path, ": ", std::strerror(errno))); }

/// A file held open and locked; both end with it.
class LockedFile {
 public:
  LockedFile(const std::string& path, int flags, int lock)
      : fd_(Retry([&] { return open(path.c_str(), flags | O_CLOEXEC | O_NONBLOCK, 0644); })) {
    if (fd_ >= 0) (void)Retry([&] { return flock(fd_, lock); });
  }
  ~LockedFile() {
    if (fd_ >= 0) close(fd_);
  }
  LockedFile(const LockedFile&) = delete;
  LockedFile& operator=(const LockedFile&) = delete;
  int fd() const { return fd_; }
  Status IsRegular(const std::string& path) const {
    struct stat s;
    if (fstat(fd_, &s) != 0) return Failed(path);
    return S_ISREG(s.st_mode) ? Status() : IoError(Cat(path, ": not a regular file"));
  }

 private:
  int fd_;
};

/// Why a line is no entry; "": it is one.
std::string Parse(const std::string& line, HistoryEntry& e) {
  const auto parsed = ParseJson(line);
  if (!parsed.ok() || !parsed->is_object()) return "no JSON object";
  const Json& j = *parsed;
  if (j.value("schema", Json()) != kSchema) return Cat("its schema is not ", kSchema);
  const auto number = [&](const char* key, double& to) {
    if (!j.contains(key) || !j[key].is_number()) return false;
    to = j[key].get<double>();
    return std::isfinite(to);
  };
  double starts = 0;
  if (!number("effect", e.effect) || e.effect <= -1) return "effect: no number above -1";
  if (!number("b_ms", e.b_ms) || e.b_ms <= 0) return "b_ms: no number above 0";
  if (!number("starts", starts) || starts < 1 || starts > 1e9) return "starts: no count";
  e.starts = static_cast<int>(starts);
  for (const auto& [key, to] :
       {std::pair("kind", &e.kind), {"verdict", &e.verdict}, {"time", &e.time}}) {
    if (!j.contains(key) || !j[key].is_string()) return Cat(key, ": no text");
    *to = j[key];
  }
  if (!j.contains("series") || !j["series"].is_object()) return "series: no object";
  e.series = j["series"];
  return "";
}

}  // namespace

Result<History> ReadHistory(const std::string& path) {
  History history;
  const LockedFile file(path, O_RDONLY, LOCK_SH);
  if (file.fd() < 0) {
    if (errno == ENOENT) return history;
    return Failed(path);
  }
  INFER_TRY(file.IsRegular(path));
  std::ifstream in(path);
  if (!in) return Failed(path);
  std::string line;
  for (int number = 1; std::getline(in, line); ++number) {
    if (Trim(line).empty()) continue;
    HistoryEntry e;
    const std::string why = Parse(line, e);
    if (why.empty())
      history.entries.push_back(std::move(e));
    else
      history.damaged.push_back(Cat("line ", number, ": ", why));
  }
  if (in.bad()) return IoError(Cat(path, ": cannot be read"));
  return history;
}

Status AppendHistory(const std::string& path, const HistoryEntry& e) {
  const Json j = {{"schema", kSchema},  {"time", e.time},       {"kind", e.kind},
                  {"effect", e.effect}, {"verdict", e.verdict}, {"b_ms", e.b_ms},
                  {"starts", e.starts}, {"series", e.series}};
  const LockedFile file(path, O_RDWR | O_CREAT | O_APPEND, LOCK_EX);
  if (file.fd() < 0) return Failed(path);
  std::string line = JsonText(j, -1);
  struct stat s;
  if (fstat(file.fd(), &s) != 0) return Failed(path);
  char last = '\n';
  if (s.st_size > 0 && Retry([&] { return pread(file.fd(), &last, 1, s.st_size - 1); }) != 1)
    return Failed(path);
  if (last != '\n') line.insert(line.begin(), '\n');
  if (Retry([&] { return write(file.fd(), line.data(), line.size()); }) !=
      static_cast<ssize_t>(line.size()))
    return Failed(path);
  return {};
}

std::optional<NoiseFloor> LearnFloor(std::span<const HistoryEntry> entries, const Json& series,
                                     const std::string& kind) {
  std::vector<double> differences;
  const HistoryEntry* before = nullptr;
  for (const HistoryEntry& e : entries) {
    if (e.kind != kind || e.series != series) continue;
    if (kind == "live")
      differences.push_back(std::abs(std::log1p(e.effect)));
    else if (before)
      differences.push_back(std::abs(std::log(e.b_ms / before->b_ms)));
    before = &e;
  }
  if (differences.size() < kLeastDifferences) return std::nullopt;
  if (differences.size() > kMostDifferences)
    differences.erase(differences.begin(), differences.end() - kMostDifferences);
  return NoiseFloor{std::expm1(kSigmas * Quantile(differences, 0.5)),
                    static_cast<int>(differences.size())};
}

Json HistorySeries(const History& history) {
  std::vector<std::vector<HistoryEntry>> all;
  std::map<std::string, size_t> index;  // by kind and series
  for (const HistoryEntry& e : history.entries) {
    const auto [at, is_new] = index.emplace(Cat(e.kind, " ", CompactJson(e.series)), all.size());
    if (is_new) all.emplace_back();
    all[at->second].push_back(e);
  }
  Json series = Json::array();
  for (const auto& entries : all) {
    Json told = Json::array();
    for (size_t i = 0; i < entries.size(); ++i) {
      const HistoryEntry& e = entries[i];
      // Differences of files are between neighbours: one entry more.
      const size_t first = i - std::min(i, kMostDifferences + 1);
      const auto floor = LearnFloor({&entries[first], i - first}, e.series, e.kind);
      told.push_back({{"time", e.time},
                      {"effect", e.effect},
                      {"b_ms", e.b_ms},
                      {"starts", e.starts},
                      {"verdict", e.verdict},
                      {"floor", floor ? Json(floor->share) : Json()}});
    }
    series.push_back(
        {{"kind", entries[0].kind}, {"series", entries[0].series}, {"entries", std::move(told)}});
  }
  return {{"series", std::move(series)}, {"damaged", history.damaged}};
}

std::string UtcNow() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text;
}

}  // namespace infer
