/// conformance DIR... [--backend reference|cpu] [--level N] [--json FILE] [--filter GLOB]
///             [--skips FILE] [--min-passed N] [--allow-missing]
/// Runs ONNX backend test cases and prints a table per operator. A case that fails, crashes, hangs
/// or names an operator that we lack counts as failed; only what the skip list names is left out.
/// Exit 0 when at least --min-passed cases passed (without it: when none failed), else 1; 2 for a
/// usage error; 77 (ctest's skip) with --allow-missing when no case was found.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "lib/onnx/import.h"
#include "lib/ops/registry.h"
#include "lib/support/file.h"
#include "lib/support/strings.h"
#include "runtime/cpu/backend.h"
#include "runtime/reference/backend.h"
#include "tests/conformance/cases.h"
#include "tests/conformance/compare.h"

namespace infer::conformance {
namespace {

namespace fs = std::filesystem;
constexpr unsigned kCaseLimit_s = 120;

struct Arguments {
  std::vector<std::string> dirs;
  std::string backend = "reference", json, filter = "*", skips = INFER_CONFORMANCE_SKIPS;
  int level = 1;
  int64_t min_passed = -1;
  bool allow_missing = false;
};

Result<Arguments> Parse(int argc, char** argv) {
  Arguments a;
  for (int i = 1; i < argc; ++i) {
    const std::string arg = argv[i];
    if (arg == "--allow-missing") {
      a.allow_missing = true;
      continue;
    }
    if (!arg.starts_with("--")) {
      a.dirs.push_back(arg);
      continue;
    }
    if (i + 1 >= argc) return InvalidArgument(Cat(arg, " wants a value"));
    const std::string value = argv[++i];
    if (arg == "--backend")
      a.backend = value;
    else if (arg == "--json")
      a.json = value;
    else if (arg == "--filter")
      a.filter = value;
    else if (arg == "--skips")
      a.skips = value;
    else if (arg == "--level")
      a.level = static_cast<int>(ParseInt(value).value_or(1));
    else if (arg == "--min-passed")
      a.min_passed = ParseInt(value).value_or(-1);
    else
      return InvalidArgument(Cat("unknown option ", arg));
  }
  if (a.dirs.empty()) return InvalidArgument("no folder given");
  if (a.backend != "reference" && a.backend != "cpu")
    return InvalidArgument(Cat("no backend '", a.backend, "'"));
  return a;
}

/// Before ONNX 1.14 the files stored bfloat16 as the uint16 of its bits.
Datum AsDeclared(Datum d, DType declared) {
  if (declared != DType::kBF16 || !d.is_tensor() || d.tensor().dtype() != DType::kU16) return d;
  return Tensor(DType::kBF16, d.tensor().dims(), d.tensor().buffer());
}

/// n values k / n, as ONNX's runner feeds its full-size graphs.
Tensor Ramp(const TensorType& type) {
  Tensor t = Tensor::Zeros(DType::kF32, type.shape.static_dims());
  const auto n = static_cast<float>(t.num_elements());
  int64_t k = 0;
  for (float& x : t.mutable_data<float>()) x = static_cast<float>(k++) / n;
  return t;
}

Status CheckOutputs(const std::vector<Datum>& got, const std::vector<Value*>& outputs,
                    const std::function<std::string(size_t)>& file_of) {
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!fs::exists(file_of(i))) continue;
    INFER_ASSIGN(Datum want, ReadDatumPb(file_of(i), outputs[i]->type()));
    if (outputs[i]->type().is_tensor()) want = AsDeclared(std::move(want), outputs[i]->dtype());
    if (std::string d = Difference(got[i], want); !d.empty())
      return InvalidModel(Cat("output '", outputs[i]->name(), "' ", d));
  }
  return {};
}

Status RunCase(const Case& c, const OpRegistry& ops, const Arguments& args) {
  INFER_ASSIGN(const Model model, ImportModel(c.model, ops));
  const auto backend = args.backend == "cpu" ? MakeCpuBackend() : MakeReferenceBackend();
  INFER_ASSIGN(const auto program, backend->Compile(model.graph, {.level = args.level}));
  const auto &inputs = program->inputs(), &outputs = program->outputs();
  if (!c.light_output.empty()) {
    INFER_ASSIGN(const auto got,
                 RunOnce(*program, std::vector<Datum>{Ramp(inputs[0]->tensor_type())}));
    return CheckOutputs(got, outputs, [&](size_t) { return c.light_output; });
  }
  for (int k = 0;; ++k) {
    const fs::path set = fs::path(c.model).parent_path() / Cat("test_data_set_", k);
    if (!fs::exists(set)) return {};
    std::vector<Datum> values;
    for (size_t i = 0; i < inputs.size(); ++i) {
      INFER_ASSIGN(Datum d, ReadDatumPb(set / Cat("input_", i, ".pb"), inputs[i]->type()));
      if (inputs[i]->type().is_tensor()) d = AsDeclared(std::move(d), inputs[i]->dtype());
      values.push_back(std::move(d));
    }
    INFER_ASSIGN(const auto got, RunOnce(*program, values));
    INFER_TRY(CheckOutputs(got, outputs,
                           [&](size_t i) { return (set / Cat("output_", i, ".pb")).string(); }));
  }
}

/// "" or the reason of the failure. In a process of its own, so that a crash is one failed case.
std::string RunIsolated(const Case& c, const OpRegistry& ops, const Arguments& args) {
  int pipe_fds[2];
  if (pipe(pipe_fds) != 0) return "no pipe";
  const pid_t child = fork();
  if (child < 0) return "no process";
  if (child == 0) {
    alarm(kCaseLimit_s);
    const Status s = RunCase(c, ops, args);
    std::string text = s.ok() ? "" : s.message().empty() ? "failed" : s.message();
    std::replace(text.begin(), text.end(), '\n', ' ');
    const ssize_t written = write(pipe_fds[1], text.data(), std::min<size_t>(text.size(), 4000));
    _exit(s.ok() && written == 0 ? 0 : 1);
  }
  close(pipe_fds[1]);
  std::string text;
  char chunk[512];
  for (ssize_t n; (n = read(pipe_fds[0], chunk, sizeof chunk)) > 0;)
    text.append(chunk, static_cast<size_t>(n));
  close(pipe_fds[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFSIGNALED(status))
    return WTERMSIG(status) == SIGALRM ? Cat("hangs: more than ", kCaseLimit_s, " s")
                                       : Cat("CRASH: signal ", WTERMSIG(status));
  if (WEXITSTATUS(status) == 0) return "";
  return text.empty() ? Cat("exit ", WEXITSTATUS(status)) : text;
}

struct Counts {
  int64_t passed = 0, failed = 0, skipped = 0;
};

int Main(const Arguments& args) {
  const OpRegistry ops = AllOps();
  auto skips = ReadSkips(args.skips);
  if (!skips.ok()) {
    std::fprintf(stderr, "%s\n", skips.status().message().c_str());
    return 2;
  }
  Counts total;
  std::map<std::string, Counts> by_op;
  nlohmann::json list = nlohmann::json::array();
  for (const std::string& dir : args.dirs) {
    auto cases = FindCases(dir);
    if (!cases.ok()) {
      std::fprintf(stderr, "%s\n", cases.status().message().c_str());
      if (!args.allow_missing) return 2;
      continue;
    }
    for (const Case& c : *cases) {
      if (!GlobMatch(args.filter, c.name)) continue;
      const auto skip = std::find_if(skips->begin(), skips->end(), [&](const Skip& s) {
        return GlobMatch(s.glob, c.name) && (s.backend == "*" || s.backend == args.backend);
      });
      const bool skipped = skip != skips->end();
      const std::string why = skipped ? skip->reason : RunIsolated(c, ops, args);
      const char* verdict = skipped ? "skipped" : why.empty() ? "passed" : "failed";
      for (Counts* n : {&total, &by_op[c.op]})
        ++(skipped ? n->skipped : why.empty() ? n->passed : n->failed);
      if (!why.empty())
        std::printf("%s %s (%s): %s\n", verdict, c.name.c_str(), c.op.c_str(), why.c_str());
      list.push_back({{"name", c.name}, {"operator", c.op}, {"verdict", verdict}, {"reason", why}});
    }
  }
  std::printf("\n%-40s %7s %7s %7s\n", "operator", "passed", "failed", "skipped");
  const auto row = [](const std::string& name, const Counts& n) {
    std::printf("%-40s %7ld %7ld %7ld\n", name.c_str(), static_cast<long>(n.passed),
                static_cast<long>(n.failed), static_cast<long>(n.skipped));
  };
  nlohmann::json operators = nlohmann::json::object();
  const auto json = [](const Counts& n) -> nlohmann::json {
    return {{"passed", n.passed}, {"failed", n.failed}, {"skipped", n.skipped}};
  };
  for (const auto& [op, n] : by_op) {
    row(op, n);
    operators[op] = json(n);
  }
  row("total", total);
  if (!args.json.empty()) {
    const nlohmann::json report = {{"schema", "conformance@1"}, {"backend", args.backend},
                                   {"level", args.level},       {"summary", json(total)},
                                   {"operators", operators},    {"cases", list}};
    if (Status s = WriteFileAtomically(args.json, report.dump(1) + "\n"); !s.ok()) {
      std::fprintf(stderr, "%s\n", s.message().c_str());
      return 2;
    }
  }
  if (list.empty() && args.allow_missing) {
    std::printf("SKIPPED: no case found in the given folders\n");
    return 77;
  }
  if (args.min_passed >= 0) return total.passed >= args.min_passed ? 0 : 1;
  return total.failed == 0 && total.passed > 0 ? 0 : 1;
}

}  // namespace
}  // namespace infer::conformance

int main(int argc, char** argv) {
  auto args = infer::conformance::Parse(argc, argv);
  if (args.ok()) return infer::conformance::Main(*args);
  std::fprintf(stderr,
               "%s\nusage: conformance DIR... [--backend reference|cpu] [--level N] [--json FILE]\n"
               "  [--filter GLOB] [--skips FILE] [--min-passed N] [--allow-missing]\n",
               args.status().message().c_str());
  return 2;
}
