#include "tools/common/model_options.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>

#include "lib/ir/editor.h"
#include "lib/ir/inference.h"
#include "lib/support/folder.h"
#include "lib/support/parallel.h"
#include "lib/support/path_parts.h"
#include "lib/support/similar.h"
#include "lib/support/strings.h"

namespace infer {
namespace {

Result<std::pair<std::string, std::string>> SplitAtEquals(const std::string& text,
                                                          std::string_view option) {
  const size_t at = text.rfind('=');
  if (at == std::string::npos || at == 0)
    return InvalidArgument(Cat(option, " ", text, ": write NAME=VALUE"));
  return std::pair(text.substr(0, at), text.substr(at + 1));
}

/// $XDG_CACHE_HOME/infer-opt/tune.txt; "" where there is no home.
std::string DefaultTuneCache() {
  const char *cache = std::getenv("XDG_CACHE_HOME"), *home = std::getenv("HOME");
  if (cache && *cache == '/') return Cat(cache, "/infer-opt/tune.txt");
  return home && *home ? Cat(home, "/.cache/infer-opt/tune.txt") : "";
}

Result<Model> ReadStdin(Context& context, const ImportOptions& options) {
  std::string bytes;
  char buffer[size_t{1} << 16];
  while (const size_t n = std::fread(buffer, 1, sizeof(buffer), stdin)) {
    if (context.stop().stop_requested()) return Cancelled("stopped");
    bytes.append(buffer, n);
  }
  if (std::ferror(stdin) != 0) return IoError("cannot read standard input");
  auto model = ImportModelBytes(bytes, context.ops(), options);
  if (!model.ok()) return model.status().In("standard input");
  Sha256 hash;
  hash.Add(bytes.data(), bytes.size());
  model->info.sha256 = hash.Hex();
  model->info.file_bytes = static_cast<int64_t>(bytes.size());
  return model;
}

/// Of a file that is not there, similar names in its folder are told.
Result<Model> ImportNamed(const std::string& path, const OpRegistry& ops,
                          const ImportOptions& options) {
  auto model = ImportModel(path, ops, options);
  std::error_code error;
  if (model.ok() || model.status().code() != Code::kIo || std::filesystem::exists(path, error))
    return model;
  const auto entries = EntriesOf(FolderOf(path));
  if (!entries.ok()) return model;
  return IoError(Cat(model.status().message(), DidYouMean(BaseName(path), *entries)));
}

/// Sets the lane budget, too.
Result<CompileOptions> CompileOptionsOf(const DeviceOptions& options) {
  if (options.threads < 0 || options.threads > 4096)
    return InvalidArgument(Cat("--threads ", options.threads, ": out of range"));
  if (options.level < 0 || options.level > 2)
    return InvalidArgument(Cat("--level ", options.level, ": 0, 1 or 2"));
  SetLaneBudget(options.threads > 0 ? options.threads : AvailableCores());
  CompileOptions compile = {.level = options.level, .threads = options.threads};
  const auto compute = ComputeOf(options.compute);
  if (!compute) return InvalidArgument(Cat("--compute ", options.compute, ": f32, bf16 or f16"));
  compile.compute = *compute;
  if (options.memory != "fast" && options.memory != "low")
    return InvalidArgument(Cat("--memory ", options.memory, ": fast or low"));
  compile.low_memory = options.memory == "low";
  compile.tune = options.tune;
  compile.tune_cache = options.tune_cache;
  if (options.tune && options.tune_cache.empty()) compile.tune_cache = DefaultTuneCache();
  return compile;
}

/// `g` with large weights that have no elements.
Graph WithoutWeights(const Graph& g) {
  constexpr int64_t kLarge = 64 << 10;
  Graph types = g.Clone();
  GraphEditor editor(types);
  for (const auto& v : types.values()) {
    const Tensor* const c = v->constant();
    // Integers of more bits may say extents.
    if (!c || c->byte_size() < kLarge || (!IsFloat(c->dtype()) && BitWidth(c->dtype()) > 8))
      continue;
    editor.SetConstant(v.get(),
                       Tensor(c->dtype(), c->dims(),
                              Buffer::Borrow(nullptr, static_cast<size_t>(c->byte_size()), {})));
  }
  return types;
}

}  // namespace

void ModelOptions::Declare(Options& options) {
  options.Section("Shapes");
  options.Values("--set NAME=N", &set, "Give a symbolic dimension a number: N=1");
  options.Values("--shape NAME=AxB", &shape,
                 "Give an input a shape: input=1x3x224x224, or input=scalar");
  options.Rarely();
  options.Value("--external-root DIR", &external_root,
                "Further folder in which the model's external data may lie", PathUse::kRead);
  options.Flag("--lenient", &lenient,
               "Leave out attributes that an operator does not have, with a warning");
}

void ModelOptions::DeclareForWriter(Options& options) {
  Declare(options);
  freeze = false;
  options.Flag("--freeze", &freeze, "Write the shapes of --set and --shape into the file, too");
}

Result<Graph> WithShapes(const Graph& g, const ModelOptions& options) {
  Graph copy = g.Clone();
  if (!options.freeze) INFER_TRY(ApplyShapes(copy, options));
  return copy;
}

Status ApplyShapes(Graph& g, const ModelOptions& options) {
  std::map<std::string, int64_t> symbols;
  for (const std::string& s : options.set) {
    INFER_ASSIGN(auto pair, SplitAtEquals(s, "--set"));
    const auto v = ParseInt(pair.second);
    if (!v || *v < 0) return InvalidArgument(Cat("--set ", s, ": not an extent"));
    const auto at = symbols.emplace(pair.first, *v).first;
    if (at->second != *v)
      return InvalidArgument(Cat("--set ", s, ": contradicts --set ", at->first, "=", at->second));
  }
  std::map<std::string, Dims> shapes;
  for (const std::string& s : options.shape) {
    INFER_ASSIGN(auto pair, SplitAtEquals(s, "--shape"));
    Dims dims;
    if (pair.second.empty())
      return InvalidArgument(Cat("--shape ", s, ": the extents are missing: ", pair.first,
                                 "=1x3x224x224, or ", pair.first, "=scalar"));
    if (pair.second != "scalar")
      for (const std::string& d : Split(pair.second, 'x')) {
        const auto v = ParseInt(d);
        if (!v || *v < 0) return InvalidArgument(Cat("--shape ", s, ": '", d, "' is no extent"));
        dims.push_back(*v);
      }
    const auto at = shapes.emplace(pair.first, dims).first;
    if (at->second != dims)
      return InvalidArgument(
          Cat("--shape ", s, ": contradicts --shape ", at->first, " of ", ToString(at->second)));
  }
  if (!symbols.empty()) INFER_TRY(BindSymbols(g, symbols));
  if (!shapes.empty()) INFER_TRY(SpecializeInputs(g, shapes));
  for (const Value* v : g.inputs()) {
    Dims known;
    if (v->type().is_tensor() && v->shape().has_rank())
      for (const Dim& d : v->shape().dims())
        if (d.is_static()) known.push_back(std::max<int64_t>(d.value(), 1));
    if (!CheckedNumElements(known))
      return InvalidArgument(
          Cat("input '", v->name(), "': ", ToString(v->type()), " has more than 2^63 elements"));
  }
  return {};
}

Graph WithFoundExtents(const Graph& g, OpenExtents* extents) {
  OpenExtents none;
  OpenExtents& found = extents ? *extents : none;
  found.clear();
  if (!HasOpenDims(g)) return g.Clone();
  auto fitting = FindExtents(g, {});
  if (!fitting.ok()) return g.Clone();
  auto known = WithExtents(g, *fitting);
  if (!known.ok()) return g.Clone();
  found = *std::move(fitting);
  return *std::move(known);
}

Result<Model> LoadModel(Context& context, const std::string& path, const ModelOptions& options) {
  ImportOptions import;
  import.external_root = options.external_root;
  import.lenient = options.lenient;
  INFER_ASSIGN(Model model,
               path == "-" ? ReadStdin(context, import) : ImportNamed(path, context.ops(), import));
  INFER_TRY(CheckInputs(context.paths(), model.info.source_files));
  constexpr size_t kShown = 5;
  const std::vector<std::string>& warnings = model.info.warnings;
  for (size_t i = 0; i < std::min(kShown, warnings.size()); ++i)
    context.Warn(Cat(path, ": ", warnings[i]));
  if (warnings.size() > kShown)
    context.Warn(Cat(path, ": ", warnings.size() - kShown, " more warnings of the import"));
  if (options.freeze) INFER_TRY(ApplyShapes(model.graph, options));
  return model;
}

void DeviceOptions::Declare(Options& options) {
  options.Section("Running");
  options.Value("--threads", &threads, "Threads of a run; 0: the usable physical cores");
  DeclareWithoutThreads(options);
}

void DeviceOptions::DeclareWithoutThreads(Options& options) {
  DeclareDevice(options, &device, "Where to run");
  options.Rarely();
  options.Flag("--pin", &pin, "Keep each thread on a physical core of its own");
  options.Value("--level", &level,
                "0: every node by itself (golden); 1: epilogues and integer kernels; 2: also what "
                "changes rounding");
  options.Flag("--tune", &tune,
               "Time the kernels of each step on its shapes while compiling, and keep the choice");
  options.Value("--tune-cache FILE", &tune_cache,
                "Where choices are kept; taken from there without --tune, too. With --tune the "
                "default is infer-opt/tune.txt in $XDG_CACHE_HOME");
}

void DeviceOptions::DeclareCompute(Options& options) {
  options.Section("Running");
  options.Choice("--compute", &compute, {std::begin(kComputeNames), std::end(kComputeNames)},
                 "In what large products are multiplied; sums are f32 (bf16: of cpu, from level 1 "
                 "on; f16: of vulkan)");
}

void DeviceOptions::DeclareMemory(Options& options) {
  options.Section("Running");
  options.Choice("--memory", &memory, {"fast", "low"},
                 "low: weights in no form that is larger than they are, also where it is faster");
}

DeviceOptions DeviceOptions::InF32() const {
  DeviceOptions o = *this;
  o.compute = Name(Compute::kF32);
  return o;
}

Status TellCompute(Context& context, const DeviceOptions& options) {
  if (options.computes() == Compute::kF32) return {};
  if (options.computes() == Compute::kBF16 && options.level < 1)
    return InvalidArgument(Cat("--compute ", options.compute, " begins at --level 1"));
  INFER_ASSIGN(const auto backend, MakeBackend(options.device));
  INFER_ASSIGN(const std::string how, backend->HowComputes(options.computes()));
  if (!how.empty()) context.Warn(Cat("--compute ", options.compute, ": ", how));
  return {};
}

void DeclareDevice(Options& options, std::string* device, const std::string& help) {
  options.Checked("--device", device, "NAME", RefuseDevice,
                  Cat(help, " (one of ", Join(DeviceNames(), ", "), ", vulkan:N)"));
  options.Offer(DeviceNames());
}

Result<std::shared_ptr<const Program>> CompileFor(const Graph& g, const DeviceOptions& options,
                                                  PlanObserver observe) {
  INFER_ASSIGN(CompileOptions compile, CompileOptionsOf(options));
  compile.observe = std::move(observe);
  INFER_ASSIGN(auto backend, MakeBackend(options.device));
  return backend->Compile(g, compile);
}

Result<std::shared_ptr<const Program>> CompileOwnedFor(Graph g, const DeviceOptions& options) {
  INFER_ASSIGN(const CompileOptions compile, CompileOptionsOf(options));
  INFER_ASSIGN(auto backend, MakeBackend(options.device));
  return backend->CompileOwned(std::move(g), compile);
}

Result<std::shared_ptr<const Program>> CompileTakingWeights(Graph& g,
                                                            const DeviceOptions& options) {
  Graph types = WithoutWeights(g);
  auto program = CompileOwnedFor(std::move(g), options);
  g = std::move(types);
  return program;
}

}  // namespace infer
