#include "tools/infer_bench/load/arrivals.h"

#include <algorithm>
#include <optional>

#include "lib/support/file.h"
#include "lib/support/readable.h"
#include "lib/support/strings.h"

namespace infer::bench {
namespace {

constexpr uint64_t kMostArrivalBytes = uint64_t{256} << 20;
constexpr double kLatestSeconds = 1e9;
constexpr size_t kLongestKey = 1024;

/// Which column has what; -1: none has.
struct Columns {
  int at_s = -1, priority = -1, key = -1, count = 0;
};

Result<Columns> ColumnsOf(std::string_view head) {
  Columns c;
  for (const std::string& name : Split(head, ',')) {
    int* const column = name == "at_s"       ? &c.at_s
                        : name == "priority" ? &c.priority
                        : name == "key"      ? &c.key
                                             : nullptr;
    if (!column || *column >= 0)
      return InvalidModel(Cat("line 1: '", name.substr(0, 40),
                              "' is no column, or is there twice; a head line like at_s or "
                              "at_s,priority,key comes first"));
    *column = c.count++;
  }
  if (c.at_s < 0) return InvalidModel("line 1: there is no column at_s");
  return c;
}

std::optional<engine::Priority> PriorityOf(std::string_view text) {
  for (size_t i = 0; i < engine::kPriorities; ++i)
    if (Name(static_cast<engine::Priority>(i)) == text) return static_cast<engine::Priority>(i);
  return std::nullopt;
}

/// One line, behind an arrival of `before_s`.
Result<Arrival> ArrivalOf(std::string_view line, const Columns& c, double before_s) {
  const std::vector<std::string> cells = Split(line, ',');
  if (static_cast<int>(cells.size()) != c.count)
    return InvalidModel(Cat(cells.size(), " values, the head line has ", c.count));
  const auto cell = [&](int column) -> const std::string& {
    return cells[static_cast<size_t>(column)];
  };
  Arrival a;
  const auto at_s = ParseDouble(cell(c.at_s));
  if (!at_s || !(*at_s >= 0 && *at_s <= kLatestSeconds))
    return InvalidModel(Cat("'", cell(c.at_s).substr(0, 40), "' is no time from 0 to 1e9 seconds"));
  if (*at_s < before_s) return InvalidModel("it is before the one above: arrivals are in order");
  a.at_s = *at_s;
  if (c.priority >= 0) {
    const auto priority = PriorityOf(cell(c.priority));
    if (!priority)
      return InvalidModel(
          Cat("'", cell(c.priority).substr(0, 40), "' is no priority: high, normal or low"));
    a.priority = *priority;
  }
  if (c.key >= 0) a.key = cell(c.key);
  if (a.key.size() > kLongestKey || a.key.find('"') != std::string::npos)
    return InvalidModel(Cat("a key has no quotes and at most ", kLongestKey, " bytes"));
  return a;
}

}  // namespace

Result<ArrivalTrace> ParseArrivals(std::string_view text) {
  ArrivalTrace trace;
  std::optional<Columns> columns;
  for (size_t number = 1; !text.empty(); ++number) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (!columns) {
      INFER_ASSIGN(columns, ColumnsOf(line));
      continue;
    }
    auto arrival =
        ArrivalOf(line, *columns, trace.arrivals.empty() ? 0 : trace.arrivals.back().at_s);
    if (!arrival.ok()) return InvalidModel(Cat("line ", number, ": ", arrival.status().message()));
    if (trace.arrivals.size() == kMostArrivals)
      return InvalidModel(Cat("more than ", kMostArrivals, " arrivals"));
    trace.arrivals.push_back(*std::move(arrival));
  }
  if (trace.arrivals.empty()) return InvalidModel("no arrivals");
  trace.has_priority = columns->priority >= 0;
  trace.has_key = columns->key >= 0;
  return trace;
}

Result<ArrivalTrace> ReadArrivals(const std::string& path) {
  INFER_ASSIGN(const std::string text, ReadFile(path, kMostArrivalBytes));
  auto trace = ParseArrivals(text);
  if (!trace.ok()) return InvalidModel(Cat(path, ": ", trace.status().message()));
  return trace;
}

std::string ArrivalsText(const ArrivalTrace& trace) {
  std::string text =
      Cat("at_s", trace.has_priority ? ",priority" : "", trace.has_key ? ",key" : "", "\n");
  for (const Arrival& a : trace.arrivals) {
    text += Fixed(a.at_s, 6);
    if (trace.has_priority) text += Cat(",", Name(a.priority));
    if (trace.has_key) text += Cat(",", a.key);
    text += "\n";
  }
  return text;
}

void Replay(const ArrivalTrace& trace, double speed, bool repeat, LoadOptions& load) {
  auto moments = std::make_shared<std::vector<double>>();
  for (const Arrival& a : trace.arrivals) moments->push_back(1e3 * a.at_s / speed);
  load.arrivals = Arrivals::kReplayed;
  load.moments_ms = std::move(moments);
  if (repeat) return;
  load.min_queries = load.max_queries = static_cast<int64_t>(trace.arrivals.size());
}

void ReplayOptions::Declare(Options& o) {
  o.Value("--replay", &path,
          "Open loop with the arrivals of a CSV: at_s, and with --engine also priority and key, as "
          "--save-arrivals writes them",
          PathUse::kRead);
  o.Value("--replay-speed", &speed, "Of --replay: so many times as fast");
}

Result<std::shared_ptr<const ArrivalTrace>> ReplayOptions::Read(
    const std::vector<std::string>& given) const {
  if (!wanted()) {
    if (speed != 1) return InvalidArgument("--replay-speed goes with --replay");
    return std::shared_ptr<const ArrivalTrace>();
  }
  if (!given.empty()) return InvalidArgument(Cat("--replay says when queries come: no ", given[0]));
  if (!(speed >= 1e-6 && speed <= 1e6)) return InvalidArgument("--replay-speed: from 1e-6 to 1e6");
  INFER_ASSIGN(ArrivalTrace trace, ReadArrivals(path));
  return std::make_shared<const ArrivalTrace>(std::move(trace));
}

Status CheckRate(double rate) {
  return rate <= kMostRate ? Status() : InvalidArgument("--rate: at most 1000000 queries a second");
}

}  // namespace infer::bench
