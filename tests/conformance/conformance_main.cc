/// conformance DIR... [--backend reference|cpu|vulkan] [--level N] [--json FILE] [--filter GLOB]
///             [--every N] [--skips FILE] [--min-passed N[,N...]] [--allow-missing]
///             [--roundtrip] [--rewrites none|simplify|fuse|blocks] [--opset N] [--write DIR]
/// Runs ONNX backend test cases and prints a table per operator. A case that fails, crashes, hangs
/// or names an operator that we lack counts as failed; only what the skip list names is left out.
/// With --roundtrip a case must also pass after import, the rewrites of `infer-opt fuse` (without
/// its numerical check, so that a wrong one is seen), export and import of the bytes; --write keeps
/// the exported models, DIR/CASE/model.onnx beside links to their data; --opset writes them at that
/// opset, and what it cannot express is counted, but is no failure; with --export-only nothing is
/// run, for judges of the files, and a case passes when its export is imported again.
/// Exit 0 when at least --min-passed cases of each folder passed (without it: when none failed),
/// else 1; 2 for a usage error; 77 (ctest's skip) with --allow-missing when no case was found.
#include <algorithm>
#include <array>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>

#include "lib/ops/registry.h"
#include "lib/support/file.h"
#include "lib/support/strings.h"
#include "passes/pass/pipeline.h"
#include "tests/conformance/cases.h"
#include "tests/conformance/run_case.h"

namespace infer::conformance {
namespace {

struct Arguments {
  std::vector<std::string> dirs;
  std::string json, filter = "*", skips = INFER_CONFORMANCE_SKIPS;
  RunSettings run;
  std::vector<int64_t> min_passed;  // of each folder; empty: none may fail
  bool allow_missing = false;
  int64_t every = 1;  // only each n-th case of a folder
};

Result<int64_t> Number(const std::string& option, const std::string& text) {
  const auto n = ParseInt(text);
  if (!n) return InvalidArgument(Cat(option, ": '", text, "' is no number"));
  return *n;
}

Status Set(Arguments& a, const std::string& option, const std::string& value) {
  if (option == "--backend") {
    a.run.backend = value;
    if (value != "reference" && value != "cpu" && value != "vulkan")
      return InvalidArgument(Cat("no backend '", value, "'"));
  } else if (option == "--json") {
    a.json = value;
  } else if (option == "--filter") {
    a.filter = value;
  } else if (option == "--every") {
    INFER_ASSIGN(a.every, Number(option, value));
    if (a.every < 1) return InvalidArgument("--every: a number from 1");
  } else if (option == "--skips") {
    a.skips = value;
  } else if (option == "--write") {
    a.run.write_dir = value;
    a.run.roundtrip = true;
  } else if (option == "--rewrites") {
    const auto it = std::find(kLevelNames.begin(), kLevelNames.end(), value);
    if (it == kLevelNames.end()) return InvalidArgument(Cat("no rewrites '", value, "'"));
    a.run.rewrites = static_cast<int>(it - kLevelNames.begin());
    a.run.roundtrip = true;
  } else if (option == "--opset") {
    INFER_ASSIGN(const int64_t opset, Number(option, value));
    a.run.opset = static_cast<int>(opset);
    a.run.roundtrip = true;
  } else if (option == "--level") {
    INFER_ASSIGN(const int64_t level, Number(option, value));
    a.run.level = static_cast<int>(level);
  } else if (option == "--min-passed") {
    for (const std::string& n : Split(value, ',')) {
      INFER_ASSIGN(const int64_t wanted, Number(option, n));
      a.min_passed.push_back(wanted);
    }
  } else {
    return InvalidArgument(Cat("unknown option ", option));
  }
  return {};
}

Result<Arguments> Parse(int argc, char** argv) {
  Arguments a;
  for (int i = 1; i < argc; ++i) {
    const std::string arg = argv[i];
    if (arg == "--allow-missing") {
      a.allow_missing = true;
    } else if (arg == "--roundtrip") {
      a.run.roundtrip = true;
    } else if (arg == "--export-only") {
      a.run.roundtrip = a.run.export_only = true;
    } else if (!arg.starts_with("--")) {
      a.dirs.push_back(arg);
    } else if (i + 1 >= argc) {
      return InvalidArgument(Cat(arg, " wants a value"));
    } else {
      INFER_TRY(Set(a, arg, argv[i + 1]));
      ++i;
    }
  }
  if (a.dirs.empty()) return InvalidArgument("no folder given");
  if (!a.min_passed.empty() && a.min_passed.size() != a.dirs.size())
    return InvalidArgument("--min-passed wants a number for each folder");
  return a;
}

struct Counts {
  int64_t passed = 0, failed = 0, skipped = 0;
  int64_t lost = 0;  // of the failed: those that only the round trip loses
};

nlohmann::json ToJson(const Counts& n) {
  return {{"passed", n.passed},
          {"failed", n.failed},
          {"failed_in_roundtrip", n.lost},
          {"skipped", n.skipped}};
}

/// What all folders gave.
class Report {
 public:
  /// `wanted_opset`: RunSettings::opset.
  explicit Report(int wanted_opset) : wanted_opset_(wanted_opset) {}

  void Add(const Case& c, const char* verdict, const Outcome& o) {
    const bool skipped = verdict == kSkipped;
    for (Counts* n : {&total_, &by_op_[c.op]}) {
      ++(skipped ? n->skipped : o.passed() ? n->passed : n->failed);
      if (!skipped && o.lost_in_roundtrip()) ++n->lost;
    }
    if (!o.passed())
      std::printf(
          "%s %s (%s)%s: %s\n", verdict, c.name.c_str(), c.op.c_str(),
          !skipped && o.lost_in_roundtrip() ? Cat(" in the round trip, ", o.stage).c_str() : "",
          o.reason.c_str());
    for (const std::string& note : o.notes)
      std::printf("note %s: %s\n", c.name.c_str(), note.c_str());
    nlohmann::json entry = {{"name", c.name},
                            {"model", c.model},
                            {"operator", c.op},
                            {"verdict", verdict},
                            {"reason", o.reason}};
    if (!o.passed() && !skipped) entry["stage"] = o.stage;
    if (!o.notes.empty()) entry["notes"] = o.notes;
    if (!o.refused.empty()) {
      ++refused_;
      entry["refused"] = o.refused;
      std::printf("refused %s: %s\n", c.name.c_str(), o.refused.c_str());
    }
    if (o.written_opset != 0) {
      entry["opset"] = o.opset;
      entry["written_opset"] = o.written_opset;
      if (o.opset != 0 && o.opset != o.written_opset) {
        ++moved_;
        if (wanted_opset_ == 0)
          std::printf("note %s: opset %ld is written as %ld\n", c.name.c_str(),
                      static_cast<long>(o.opset), static_cast<long>(o.written_opset));
      }
    }
    cases_.push_back(std::move(entry));
  }

  void Print(bool roundtrip) const {
    std::printf("\n%-40s %7s %7s %7s%s\n", "operator", "passed", "failed", "skipped",
                roundtrip ? "  failed in the round trip only" : "");
    const auto row = [&](const std::string& name, const Counts& n) {
      std::printf("%-40s %7ld %7ld %7ld", name.c_str(), static_cast<long>(n.passed),
                  static_cast<long>(n.failed), static_cast<long>(n.skipped));
      if (roundtrip) std::printf(" %7ld", static_cast<long>(n.lost));
      std::printf("\n");
    };
    for (const auto& [op, n] : by_op_) row(op, n);
    row("total", total_);
    if (roundtrip)
      std::printf("written at another opset than the case's: %ld\n", static_cast<long>(moved_));
    if (wanted_opset_ > 0)
      std::printf("opset %d cannot express: %ld\n", wanted_opset_, static_cast<long>(refused_));
  }

  nlohmann::json Json(const Arguments& args) const {
    nlohmann::json operators = nlohmann::json::object();
    for (const auto& [op, n] : by_op_) operators[op] = ToJson(n);
    nlohmann::json out = {{"schema", "conformance@1"},      {"backend", args.run.backend},
                          {"level", args.run.level},        {"summary", ToJson(total_)},
                          {"operators", operators},         {"cases", cases_},
                          {"roundtrip", args.run.roundtrip}};
    if (args.run.roundtrip) {
      out["rewrites"] = kLevelNames[static_cast<size_t>(args.run.rewrites)];
      out["other_opsets"] = moved_;
      out["refused"] = refused_;
    }
    return out;
  }

  const Counts& total() const { return total_; }
  static constexpr const char* kSkipped = "skipped";

 private:
  Counts total_;
  std::map<std::string, Counts> by_op_;
  int wanted_opset_;
  int64_t moved_ = 0, refused_ = 0;
  nlohmann::json cases_ = nlohmann::json::array();
};

/// How many cases of one folder passed.
int64_t RunFolder(const std::vector<Case>& cases, const std::vector<Skip>& skips,
                  const OpRegistry& ops, const Arguments& args, Report& report) {
  const int64_t before = report.total().passed;
  int64_t number = 0;
  for (const Case& c : cases) {
    if (number++ % args.every != 0) continue;
    if (!GlobMatch(args.filter, c.name)) continue;
    const auto skip = std::find_if(skips.begin(), skips.end(),
                                   [&](const Skip& s) { return Applies(s, c, args.run.backend); });
    if (skip != skips.end()) {
      report.Add(c, Report::kSkipped, {.reason = skip->reason});
      continue;
    }
    const Outcome o = RunIsolated(c, ops, args.run);
    report.Add(c, o.passed() ? "passed" : "failed", o);
  }
  return report.total().passed - before;
}

int Fail(const Status& s) {
  std::fprintf(stderr, "%s\n", s.message().c_str());
  return 2;
}

int Main(const Arguments& args) {
  const OpRegistry ops = AllOps();
  auto skips = ReadSkips(args.skips);
  if (!skips.ok()) return Fail(skips.status());
  Report report(args.run.opset);
  bool enough = true, found = false;
  for (size_t i = 0; i < args.dirs.size(); ++i) {
    auto cases = FindCases(args.dirs[i]);
    if (!cases.ok() && !args.allow_missing) return Fail(cases.status());
    if (!cases.ok()) {
      std::printf("no case: %s\n", cases.status().message().c_str());
      continue;
    }
    found = found || !cases->empty();
    const int64_t passed = RunFolder(*cases, *skips, ops, args, report);
    if (!args.min_passed.empty() && passed < args.min_passed[i]) {
      std::printf("%s: %ld cases passed, %ld are wanted\n", args.dirs[i].c_str(),
                  static_cast<long>(passed), static_cast<long>(args.min_passed[i]));
      enough = false;
    }
  }
  report.Print(args.run.roundtrip);
  if (!args.json.empty())
    if (Status s = WriteFileAtomically(args.json, report.Json(args).dump(1) + "\n"); !s.ok())
      return Fail(s);
  if (!found && args.allow_missing) {
    std::printf("SKIPPED: no case found in the given folders\n");
    return 77;
  }
  if (!args.min_passed.empty()) return enough ? 0 : 1;
  return report.total().failed == 0 && report.total().passed > 0 ? 0 : 1;
}

}  // namespace
}  // namespace infer::conformance

int main(int argc, char** argv) {
  auto args = infer::conformance::Parse(argc, argv);
  if (args.ok()) return infer::conformance::Main(*args);
  std::fprintf(
      stderr,
      "%s\nusage: conformance DIR... [--backend reference|cpu|vulkan] [--level N] [--json FILE]\n"
      "  [--filter GLOB] [--every N] [--skips FILE] [--min-passed N[,N...]] [--allow-missing]\n"
      "  [--roundtrip] [--rewrites none|simplify|fuse|blocks] [--opset N] [--write DIR]\n"
      "  [--export-only]\n",
      args.status().message().c_str());
  return 2;
}
