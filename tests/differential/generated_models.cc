/// usage: generated_models [--mutants] COUNT [FIRST_SEED [SECONDS]]
/// Judges COUNT random models (generator.h, judge.h), or as many as SECONDS allow, in a process of
/// its own that is started again behind a model that ends it. --mutants: files that are made of
/// them and broken (model_mutator.h). One line per finding, with the seed that makes it again:
/// COUNT = 1 prints the model, and writes a mutant to mutant-SEED.onnx. Exit 1 with findings.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "lib/ir/text.h"
#include "lib/ops/registry.h"
#include "lib/support/file.h"
#include "lib/support/measure.h"
#include "lib/support/parallel.h"
#include "lib/support/strings.h"
#include "tests/differential/generator.h"
#include "tests/differential/judge.h"
#include "tests/differential/model_case.h"
#include "tests/differential/model_mutator.h"

namespace infer {
namespace {

/// One model that takes longer is a finding.
constexpr unsigned kMostSeconds = 60;
constexpr size_t kMostTargets = 4096;

/// Shared with the process that runs the models.
struct Progress {
  uint64_t seed;
  long long judged[Verdict::kDiffer + 1], not_made;
  bool reached[kMostTargets];
};

void Show(const GeneratedModel& model) {
  std::printf("%s", Print(model.graph).c_str());
  for (const Datum& d : model.inputs)
    std::printf("%s\n", d.is_tensor() ? ToString(d.tensor(), 64).c_str() : "no tensor");
  std::fflush(stdout);
}

/// A file of `model`, changed in up to three ways. With `keep` it is written, too.
Verdict JudgeMutant(const GeneratedModel& model, uint64_t seed, const OpRegistry& ops, bool keep) {
  auto file = CaseOf(model.graph, model.inputs);
  if (!file.ok()) return {Verdict::kRefused, file.status().message()};
  Random random(seed, 9);
  ModelMutator mutator(*file, random, ops);
  for (uint32_t n = 1 + random.Below(3); n > 0;) n -= mutator.Change();
  const std::string name = Cat("mutant-", seed, ".onnx");
  if (keep && !WriteFileAtomically(name, file->SerializeAsString()).ok())
    std::printf("cannot write %s\n", name.c_str());
  return JudgeCase(*std::move(file), ops);
}

void RunModels(Progress& p, uint64_t end, bool mutants, bool print) {
  const OpRegistry ops = AllOps();
  const ModelGenerator generator(ops);
  SetLaneBudget(2);
  for (; p.seed < end; ++p.seed) {
    alarm(kMostSeconds);
    const auto model = generator.Make(p.seed);
    if (!model) {
      ++p.not_made;
      continue;
    }
    if (print) Show(*model);
    const Verdict v =
        mutants ? JudgeMutant(*model, p.seed, ops, print) : Judge(model->graph, model->inputs);
    ++p.judged[v.kind];
    if (model->reached && v.kind != Verdict::kRefused)
      p.reached[p.seed % generator.num_targets()] = true;
    if (v.kind == Verdict::kDiffer || print)
      std::printf("seed %llu, %s: %s\n", static_cast<unsigned long long>(p.seed),
                  model->target.c_str(), v.what.c_str());
    std::fflush(stdout);
  }
}

int Main(bool mutants, uint64_t count, uint64_t first, double seconds) {
  auto* p = static_cast<Progress*>(
      mmap(nullptr, sizeof(Progress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  INFER_CHECK(p != MAP_FAILED);
  p->seed = first;
  long long crashes = 0;
  const auto start = std::chrono::steady_clock::now();
  while (p->seed < first + count && MsSince(start) < 1e3 * seconds) {
    const pid_t child = fork();
    INFER_CHECK(child >= 0);
    if (child == 0) {
      RunModels(*p, std::min(first + count, p->seed + 500), mutants, count == 1);
      std::_Exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    if (status == 0) continue;
    std::printf("seed %llu: ended by %s %d\n", static_cast<unsigned long long>(p->seed),
                WIFSIGNALED(status) ? "signal" : "exit code",
                WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    std::fflush(stdout);
    ++crashes;
    ++p->seed;
  }
  const OpRegistry ops = AllOps();
  const ModelGenerator generator(ops);
  size_t reached = 0;
  for (size_t i = 0; i < generator.num_targets(); ++i) {
    reached += p->reached[i];
    if (!p->reached[i] && p->seed - first > 20 * generator.num_targets())
      std::printf("never valid: %s\n", generator.TargetName(i).c_str());
  }
  const long long* n = p->judged;
  std::printf(
      "%llu seeds from %llu: %lld agree, %lld refused alike, %lld rounding, %lld out of resources, "
      "%lld not made, %lld differ, %lld crashed; %zu of %zu targets reached\n",
      static_cast<unsigned long long>(p->seed - first), static_cast<unsigned long long>(first),
      n[Verdict::kAgree], n[Verdict::kRefused], n[Verdict::kRounding], n[Verdict::kExhausted],
      p->not_made, n[Verdict::kDiffer], crashes, reached, generator.num_targets());
  return n[Verdict::kDiffer] + crashes > 0 ? 1 : 0;
}

}  // namespace
}  // namespace infer

int main(int argc, char** argv) {
  const bool mutants = argc > 1 && std::string_view(argv[1]) == "--mutants";
  argc -= mutants;
  argv += mutants;
  if (argc < 2) return 2;
  return infer::Main(mutants, std::strtoull(argv[1], nullptr, 10),
                     argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1,
                     argc > 3 ? std::strtod(argv[3], nullptr) : 1e9);
}
