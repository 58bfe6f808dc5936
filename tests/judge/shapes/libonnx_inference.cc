/// libonnx_inference DIR... [--filter GLOB] [--reviewed FILE] [--verbose] [--min-models N]
/// Our inferred types, shapes and elements beside those of libonnx (onnx::shape_inference), over
/// every model.onnx below the folders and its variants (variants.h). Ours may say more, never less
/// and nothing else. What ours says of extents is also checked against what running the model on
/// its stored inputs gives.
/// Exit 0, 1 when an unreviewed difference or a wrong extent was found, 77 when there is no model.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <set>

#include "lib/ir/eval.h"
#include "lib/onnx/import.h"
#include "lib/ops/registry.h"
#include "lib/support/file.h"
#include "lib/support/strings.h"
#include "tests/judge/shapes/facts.h"
#include "tests/judge/shapes/libonnx.h"
#include "tests/judge/shapes/variants.h"

namespace infer::judge {
namespace {

namespace fs = std::filesystem;

/// "model | variant | value | reason", the first three as globs.
struct Reviewed {
  std::string model, variant, value, reason;
  int64_t met = 0;
};

struct Totals {
  int64_t models = 0, variants = 0, values = 0;
  int64_t by_verdict[4] = {};  // of types
  int64_t elements[4] = {};
  int64_t newer = 0, declared = 0, refuted = 0, reviewed = 0, absent = 0, strict = 0, lenient = 0,
          theirs_crashed = 0, unsupported = 0, refused = 0;
  int64_t evaluated = 0, extents_right = 0, extents_wrong = 0;
};

/// One value of which libonnx says something that ours does not.
struct Difference {
  std::string value;
  onnx::TypeProto theirs;  // empty: about its elements
  std::string what;
};

/// What running a model on its stored inputs made.
struct Run {
  std::map<std::string, int64_t> symbols;
  std::map<std::string, std::vector<Dims>> made;  // of a sequence: one per tensor in it
};

class Judge {
 public:
  Judge(std::vector<Reviewed> reviewed, bool verbose)
      : ops_(AllOps()), reviewed_(std::move(reviewed)), verbose_(verbose) {}

  void Model(const std::string& name, const std::string& path) {
    const auto bytes = ReadFile(path);
    onnx::ModelProto proto;
    if (!bytes.ok() || !proto.ParseFromString(*bytes)) {
      std::printf("unreadable: %s\n", path.c_str());
      return;
    }
    if (IsNewer(proto)) {
      ++totals_.newer;
      return;
    }
    ++totals_.models;
    declared_ = TypesOf(proto.graph());
    const std::string folder = fs::path(path).parent_path();
    const std::string data_set = folder + "/test_data_set_0";
    const std::vector<std::string> names = InputNames(proto.graph());
    std::vector<onnx::TensorProto> data(names.size());
    files_.clear();
    for (size_t i = 0; i < names.size(); ++i) {
      files_[names[i]] = Cat(data_set, "/input_", i, ".pb");
      const auto file = ReadFile(files_[names[i]]);
      if (!file.ok() || !data[i].ParseFromString(*file)) data[i].Clear();
    }
    for (Variant& v : VariantsOf(proto, data)) {
      const auto ours = ImportModelBytes(v.model.SerializeAsString(), ops_, {}, folder);
      if (ours.status().code() == Code::kUnsupported) {
        ++totals_.unsupported;
        if (v.name == "as is") std::printf("unsupported: %s\n", name.c_str());
        break;
      }
      ++totals_.variants;
      const Theirs theirs = InferTheirs(v.model);
      ++(theirs.crashed  ? totals_.theirs_crashed
         : theirs.strict ? totals_.strict
                         : totals_.lenient);
      if (!ours.ok()) {
        ++totals_.refused;
        Report(name, v.name, "*", Cat("ours refuses: ", ours.status().message()), theirs.strict);
        continue;
      }
      const auto differences = CompareAll(v.name, theirs, ours->graph);
      const auto run = RunStored(name, v.name, ours->graph);
      for (const Difference& d : differences)
        if (run && IsRefuted(d, *run))
          ++totals_.refuted;
        else
          Report(name, v.name, d.value, d.what);
    }
  }

  /// Debian's libonnx knows the operators up to opset 17.
  static bool IsNewer(const onnx::ModelProto& m) {
    return std::any_of(m.opset_import().begin(), m.opset_import().end(), [](const auto& o) {
      return (o.domain().empty() || o.domain() == "ai.onnx") && o.version() > 17;
    });
  }

  int Finish() {
    const Totals& t = totals_;
    auto n = [](int64_t v) { return static_cast<long>(v); };
    std::printf("%ld models, %ld variants; %ld values:", n(t.models), n(t.variants), n(t.values));
    for (int v = 0; v < 4; ++v)
      std::printf(" %ld %s", n(t.by_verdict[v]), Name(static_cast<Verdict>(v)));
    std::printf("\nelements:");
    for (int v = 0; v < 4; ++v)
      std::printf(" %ld %s", n(t.elements[v]), Name(static_cast<Verdict>(v)));
    std::printf(
        "\ndifferences: %ld where libonnx is refuted by the run, %ld reviewed, %ld unreviewed; "
        "%ld from declarations in files\n"
        "not in our graph (dead or lifted away): %ld values; refused by ours: %ld variants; "
        "unsupported: %ld models; of an opset over 17: %ld models\n"
        "libonnx: %ld variants strictly, %ld with an error on the way, %ld crashed\n"
        "run: %ld variants, %ld stated extents right, %ld wrong\n",
        n(t.refuted), n(t.reviewed), n(bad_), n(t.declared), n(t.absent), n(t.refused),
        n(t.unsupported), n(t.newer), n(t.strict), n(t.lenient), n(t.theirs_crashed),
        n(t.evaluated), n(t.extents_right), n(t.extents_wrong));
    for (const Reviewed& r : reviewed_)
      if (r.met == 0) {
        std::printf("reviewed, but not met: %s | %s | %s\n", r.model.c_str(), r.variant.c_str(),
                    r.value.c_str());
      }
    if (t.models == 0) return 77;
    return bad_ == 0 && t.extents_wrong == 0 && t.by_verdict[0] > 0 ? 0 : 1;
  }

 private:
  void Report(const std::string& model, const std::string& variant, const std::string& value,
              const std::string& what, bool counts = true) {
    for (Reviewed& r : reviewed_)
      if (GlobMatch(r.model, model) && GlobMatch(r.variant, variant) && GlobMatch(r.value, value)) {
        ++r.met;
        ++totals_.reviewed;
        return;
      }
    bad_ += counts;
    if (counts || verbose_)
      std::printf("%s | %s | %s | %s\n", model.c_str(), variant.c_str(), value.c_str(),
                  what.c_str());
  }

  std::vector<Difference> CompareAll(const std::string& variant, const Theirs& theirs,
                                     const Graph& g) {
    std::vector<Difference> differences;
    const auto ours = ValuesOf(g);
    std::set<std::string> symbols;  // what a file calls other open extents is no inference
    for (const Value* v : g.inputs())
      if (v->type().is_tensor() && v->shape().has_rank())
        for (const Dim& d : v->shape().dims()) symbols.insert(d.ToString());
    for (const auto& [value, type] : theirs.types) {
      const auto it = ours.find(value);
      if (it == ours.end()) {
        ++totals_.absent;
        continue;
      }
      ++totals_.values;
      const Verdict verdict = Compare(it->second->type(), type, symbols);
      // What a file declares of its values is no inference; import weighs it (graph_builder.cc).
      if (verdict >= Verdict::kLess && variant == "as is" && declared_.contains(value)) {
        ++totals_.declared;
        continue;
      }
      ++totals_.by_verdict[static_cast<int>(verdict)];
      if (verdict >= Verdict::kLess)
        differences.push_back(
            {value, type,
             Cat(Name(verdict), ": ", infer::ToString(it->second->type()), ", libonnx ",
                 ToString(type), " (", it->second->producer()->op(), ")")});
    }
    for (const auto& [value, elements] : theirs.elements) {
      const auto it = ours.find(value);
      // Theirs lists what tensors of any type and rank hold as if they were shapes.
      if (it == ours.end() || !IsShapeLike(*it->second)) continue;
      const Verdict verdict = Compare(it->second->elements(), elements, symbols);
      ++totals_.elements[static_cast<int>(verdict)];
      if (verdict >= Verdict::kLess)
        differences.push_back(
            {value,
             {},
             Cat("elements ", Name(verdict), ": ",
                 it->second->elements() ? Shape(*it->second->elements()).ToString() : "none",
                 ", libonnx ", ToString(elements), " (", it->second->producer()->op(), ")")});
    }
    return differences;
  }

  /// Running the model made another extent than libonnx says.
  static bool IsRefuted(const Difference& d, const Run& run) {
    const auto made = run.made.find(d.value);
    if (made == run.made.end()) return false;
    return std::any_of(made->second.begin(), made->second.end(),
                       [&](const Dims& dims) { return Contradicts(d.theirs, dims, run.symbols); });
  }

  static bool IsShapeLike(const Value& v) {
    return !v.is_constant() && v.type().is_tensor() && IsInteger(v.dtype()) &&
           v.shape().has_rank() && v.shape().rank() <= 1;
  }

  /// Runs the model on its stored inputs. Every extent that inference stated must come out.
  /// nullopt when there are none, or the run fails.
  std::optional<Run> RunStored(const std::string& name, const std::string& variant,
                               const Graph& g) {
    if (variant == "as is") return std::nullopt;
    Run run;
    std::vector<Datum> inputs;
    for (const Value* v : g.inputs()) {
      auto d = ReadDatumPb(files_[v->name()], v->type());
      if (!d.ok()) return std::nullopt;
      if (d->is_tensor() && v->type().is_tensor() && v->shape().has_rank())
        for (int i = 0; i < v->shape().rank() && i < d->tensor().rank(); ++i)
          if (!v->shape()[i].symbol().empty())
            run.symbols[v->shape()[i].symbol()] = d->tensor().dim(i);
      inputs.push_back(*std::move(d));
    }
    EvalOptions options;
    options.tap = [&](const Value& v, const Datum& d) {
      if (d.is_sequence()) {
        for (const Datum& e : d.sequence())
          if (e.is_tensor() && e.tensor().defined())
            run.made[v.name()].push_back(e.tensor().dims());
      } else if (d.is_tensor() && d.tensor().defined()) {
        run.made[v.name()] = {d.tensor().dims()};
      }
    };
    if (!Evaluate(g, inputs, options).ok()) return std::nullopt;
    ++totals_.evaluated;
    for (const auto& n : g.nodes())
      for (const Value* v : n->outputs())
        if (v && v->type().is_tensor() && v->shape().has_rank() && run.made.contains(v->name()))
          CheckExtents(name, variant, *v, run);
    return run;
  }

  void CheckExtents(const std::string& name, const std::string& variant, const Value& v,
                    const Run& run) {
    const Dims& made = run.made.at(v.name()).front();
    if (static_cast<int>(made.size()) != v.shape().rank()) return;  // Evaluate refuses that
    for (size_t i = 0; i < made.size(); ++i) {
      const auto said = EvaluateDim(v.shape()[static_cast<int>(i)], run.symbols);
      if (!said) continue;
      ++(*said == made[i] ? totals_.extents_right : totals_.extents_wrong);
      if (*said != made[i])
        std::printf("WRONG %s | %s | %s | said %s, is %s\n", name.c_str(), variant.c_str(),
                    v.name().c_str(), v.shape().ToString().c_str(), infer::ToString(made).c_str());
    }
  }

  OpRegistry ops_;
  std::vector<Reviewed> reviewed_;
  bool verbose_;
  Totals totals_;
  int64_t bad_ = 0;
  std::map<std::string, onnx::TypeProto> declared_;  // by the model that is looked at
  std::map<std::string, std::string> files_;         // of its inputs
};

Result<std::vector<Reviewed>> ReadReviewed(const std::string& path) {
  std::vector<Reviewed> all;
  if (path.empty()) return all;
  INFER_ASSIGN(const std::string text, ReadFile(path));
  for (const std::string& line : Split(text, '\n')) {
    if (Trim(line).empty() || line[0] == '#') continue;
    std::vector<std::string> parts = Split(line, '|');
    for (std::string& p : parts) p = std::string(Trim(p));
    if (parts.size() != 4 || parts[3].empty())
      return InvalidArgument(Cat(path, ": wants 'model | variant | value | reason': ", line));
    all.push_back({parts[0], parts[1], parts[2], parts[3]});
  }
  return all;
}

std::vector<std::string> ModelsBelow(const std::string& dir) {
  std::vector<std::string> models;
  std::error_code error;
  for (fs::recursive_directory_iterator it(dir, error), end; !error && it != end;
       it.increment(error))
    if (it->path().extension() == ".onnx") models.push_back(it->path());
  std::sort(models.begin(), models.end());
  return models;
}

int Main(int argc, char** argv) {
  std::vector<std::string> dirs;
  std::string filter = "*", reviewed_path;
  bool verbose = false;
  for (int i = 1; i < argc; ++i) {
    const std::string arg = argv[i];
    if (arg == "--verbose")
      verbose = true;
    else if (arg == "--filter" && i + 1 < argc)
      filter = argv[++i];
    else if (arg == "--reviewed" && i + 1 < argc)
      reviewed_path = argv[++i];
    else
      dirs.push_back(arg);
  }
  auto reviewed = ReadReviewed(reviewed_path);
  if (!reviewed.ok()) {
    std::fprintf(stderr, "%s\n", reviewed.status().message().c_str());
    return 2;
  }
  Judge judge(*std::move(reviewed), verbose);
  for (const std::string& dir : dirs)
    for (const std::string& path : ModelsBelow(dir)) {
      const fs::path relative = fs::relative(path, dir);
      const std::string name =
          relative.filename() == "model.onnx" ? relative.parent_path().string() : relative.string();
      if (GlobMatch(filter, name)) judge.Model(name, path);
    }
  return judge.Finish();
}

}  // namespace
}  // namespace infer::judge

int main(int argc, char** argv) { return infer::judge::Main(argc, argv); }
