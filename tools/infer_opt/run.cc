/// infer-opt run: one run of a model on given or random inputs; prints and stores the outputs.
#include <algorithm>
#include <cctype>
#include <filesystem>
#include <map>
#include <ranges>
#include <set>

#include "datasets/readers/npy.h"
#include "lib/onnx/import.h"
#include "lib/support/file.h"
#include "lib/support/function_ref.h"
#include "lib/support/parallel.h"
#include "lib/support/readable.h"
#include "lib/support/strings.h"
#include "tools/common/input_values.h"
#include "tools/common/model_options.h"
#include "tools/common/profile.h"
#include "tools/common/report.h"
#include "tools/infer_opt/commands.h"
#include "tools/infer_opt/run/top_classes.h"

namespace infer {
namespace {

/// A value name as a file name: anything but letters, digits, '.', '-' becomes '_'.
std::string FileNameOf(std::string name) {
  constexpr size_t kMaxLength = 200;  // file systems take 255, with what is put behind it
  for (char& c : name)
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '.' && c != '-') c = '_';
  if (name.empty() || name[0] == '.') name = "_" + name;
  return name.substr(0, kMaxLength);
}

/// A file name for each value, without its ending. Names that would meet, also where upper and
/// lower case are one, get a number: a/b, a_b, A_B are a_b, a_b-2, A_B-3.
std::vector<std::string> FileNamesOf(const std::vector<Value*>& values) {
  std::vector<std::string> names;
  std::set<std::string> taken;
  std::map<std::string, int> last;  // number given to names that meet
  for (const Value* v : values) {
    const std::string base = FileNameOf(v->name());
    std::string name = base;
    const auto key = [](std::string text) {
      for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
      return text;
    };
    int& number = last.try_emplace(key(base), 1).first->second;
    while (!taken.insert(key(name)).second) name = Cat(base, "-", ++number);
    names.push_back(std::move(name));
  }
  return names;
}

struct Extremes {
  double min = 0, max = 0, mean = 0;
};
Extremes ExtremesOf(const Tensor& t) {
  Extremes e;
  const int64_t n = t.num_elements();
  if (n == 0) return e;
  e.min = e.max = t.At(0);
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) {
    const double v = t.At(i);
    e.min = std::min(e.min, v);
    e.max = std::max(e.max, v);
    sum += v;
  }
  e.mean = sum / static_cast<double>(n);
  return e;
}

bool IsReal(const Tensor& t) {
  return t.dtype() != DType::kString && t.dtype() != DType::kC64 && t.dtype() != DType::kC128;
}

constexpr int64_t kShownElements = 16;  // of a tensor
constexpr size_t kShownValues = 16;     // of a sequence, in text
constexpr size_t kToldValues = 1000;    // of a sequence, in the report

std::string ElementText(const Tensor& t, int64_t i) {
  if (t.dtype() == DType::kString) return Cat("'", t.strings()[static_cast<size_t>(i)], "'");
  if (IsFloat(t.dtype())) return Cat(static_cast<float>(t.At(i)));
  return IsReal(t) ? Cat(t.IntAt(i)) : std::string("?");
}
Json ElementJson(const Tensor& t, int64_t i) {
  if (t.dtype() == DType::kString) return t.strings()[static_cast<size_t>(i)];
  if (IsFloat(t.dtype())) return JsonNumber(t.At(i));
  return IsReal(t) ? Json(t.IntAt(i)) : Json();
}

/// Keys and values of a map whose values are single numbers or strings, as classifiers give them:
/// use(keys, i, tensor of the value, its place in it). False for any other map.
bool ForEachScore(const MapDatum& m,
                  FunctionRef<void(const Tensor&, int64_t, const Tensor&, int64_t)> use) {
  const int64_t n = m.keys.num_elements();
  if (m.values->is_tensor()) {
    if (m.values->tensor().num_elements() != n) return false;
    for (int64_t i = 0; i < n; ++i) use(m.keys, i, m.values->tensor(), i);
    return true;
  }
  if (!m.values->is_sequence()) return false;
  const std::vector<Datum>& values = m.values->sequence();
  const bool single = std::all_of(values.begin(), values.end(), [](const Datum& d) {
    return d.is_tensor() && d.tensor().defined() && d.tensor().num_elements() == 1;
  });
  if (!single || std::ssize(values) != n) return false;
  for (int64_t i = 0; i < n; ++i) use(m.keys, i, values[static_cast<size_t>(i)].tensor(), 0);
  return true;
}

/// "{0: 0.97, 1: 0.03}" for a map of scores, a small tensor as it is, else the kind.
std::string ValueText(const Datum& d) {
  if (d.is_map()) {
    std::vector<std::string> parts;
    const auto add = [&](const Tensor& keys, int64_t i, const Tensor& values, int64_t at) {
      if (i < kShownElements)
        parts.push_back(Cat(ElementText(keys, i), ": ", ElementText(values, at)));
    };
    if (!ForEachScore(d.map(), add)) return "a map";
    if (d.map().keys.num_elements() > kShownElements) parts.push_back("...");
    return Cat("{", Join(parts, ", "), "}");
  }
  if (d.is_tensor() && d.tensor().defined())
    return d.tensor().num_elements() <= kShownElements ? ToString(d.tensor())
                                                       : ToString(d.tensor().type());
  return d.is_sequence() ? Cat("a sequence of ", d.sequence().size(), " values")
         : d.is_optional()
             ? std::string(d.optional().value ? "an optional value" : "an optional without value")
             : "nothing";
}

Json ValueJson(const Datum& d) {
  if (d.is_map()) {
    Json object = Json::object();
    const auto add = [&](const Tensor& keys, int64_t i, const Tensor& values, int64_t at) {
      object[keys.dtype() == DType::kString ? keys.strings()[static_cast<size_t>(i)]
                                            : Cat(keys.IntAt(i))] = ElementJson(values, at);
    };
    return ForEachScore(d.map(), add) ? object : Json(ValueText(d));
  }
  Json list = Json::array();
  if (d.is_sequence())
    for (const Datum& element : d.sequence() | std::views::take(kToldValues))
      list.push_back(ValueJson(element));
  else if (d.is_tensor() && d.tensor().defined() && d.tensor().num_elements() <= kShownElements)
    for (int64_t i = 0; i < d.tensor().num_elements(); ++i)
      list.push_back(ElementJson(d.tensor(), i));
  else
    return ValueText(d);
  return list;
}

class RunCommand : public Command {
 public:
  std::string_view name() const override { return "run"; }
  std::string_view help() const override { return "Run a model once and show its outputs"; }
  std::string_view examples() const override {
    return "Examples:\n"
           "  infer-opt run model.onnx --input x=photo.npy\n"
           "  infer-opt run model.onnx -i photo.jpg --classes classes.txt --preprocess "
           "resize=256,crop=224,scale=1/255,layout=nchw\n"
           "  infer-opt run model.onnx -i test_data_set_0\n"
           "  infer-opt run model.onnx --set batch=1 --output-dir out --format pb\n"
           "  infer-opt run model.onnx --layers --trace trace.json\n";
  }
  void Declare(Options& o) override {
    o.Positional("model", &path_, "The ONNX model", true, PathUse::kRead);
    model_.Declare(o);
    device_.Declare(o);
    device_.DeclareCompute(o);
    device_.DeclareMemory(o);
    inputs_.Declare(o);
    classes_.Declare(o);
    o.Section("Output");
    o.Value("-o,--output-dir", &output_dir_, "Write every output to this folder",
            PathUse::kWriteFolder);
    o.Choice("--format", &format_, {"npy", "pb"}, "File format of --output-dir");
    profile_.Declare(o);
  }

  Result<ExitCode> Run(Context& context) override {
    context.Step("import");
    INFER_ASSIGN(Model model, LoadModel(context, path_, model_));
    INFER_TRY(PlanFiles(context, model.graph));
    context.Step("compile");
    INFER_TRY(TellCompute(context, device_));
    const Json model_json = ToJson(model, path_);
    INFER_ASSIGN(auto program, CompileTakingWeights(model.graph, device_));
    const RunOptions options = {.stop = context.stop()};
    const std::vector<std::string> photos =
        classes_.wanted() ? PhotosOf(inputs_.input) : std::vector<std::string>();
    if (!photos.empty()) return Photos(context, model, model_json, *program, photos);
    if (!classes_.preprocess.empty())
      return InvalidArgument("--preprocess is of photos: --input PHOTO.jpg or a folder of photos");
    INFER_ASSIGN(const std::vector<std::string> names, ReadClasses(classes_));
    context.Step("inputs");
    INFER_ASSIGN(const ModelInputs inputs,
                 MakeInputs(model.graph, inputs_, [&](const std::vector<Datum>& values) {
                   return RunOnce(*program, values, options);
                 }));
    if (!inputs.random.empty()) context.Note(inputs.ToString(inputs_.seed));
    context.Step("run");
    INFER_ASSIGN(auto outputs, RunOnce(*program, inputs.values, options));
    context.Step("write");

    Json report = NewReport(context, "infer-opt/run@1");
    report["model"] = model_json;
    report["device"] = device_.device;
    report["compute"] = device_.compute;
    report["threads"] = LaneBudget();
    report["random_inputs"] = inputs.random;
    report["extents"] = inputs.extents;
    report["outputs"] = Json::array();
    for (size_t i = 0; i < outputs.size(); ++i) {
      const std::string& output = model.graph.outputs()[i]->name();
      INFER_ASSIGN(Json entry, Show(context, output, outputs[i], files_.empty() ? "" : files_[i]));
      report["outputs"].push_back(std::move(entry));
    }
    if (classes_.wanted() && !outputs.empty() && outputs[0].is_tensor()) {
      INFER_ASSIGN(report["top"], ShowTop(context, outputs[0].tensor(), names, classes_));
    }
    if (profile_.wanted()) INFER_TRY(Profile(context, *program, inputs.values, report));
    INFER_TRY(WriteReport(context, std::move(report)));
    return kExitOk;
  }

 private:
  Result<ExitCode> Photos(Context& context, const Model& model, const Json& model_json,
                          const Program& program, const std::vector<std::string>& photos) {
    if (!output_dir_.empty())
      return InvalidArgument("--output-dir: outputs of photos are not kept");
    context.Step("photos");
    Json report = NewReport(context, "infer-opt/run@1");
    report["model"] = model_json;
    report["device"] = device_.device;
    report["compute"] = device_.compute;
    report["threads"] = LaneBudget();
    report["random_inputs"] = Json::array();
    report["extents"] = OpenExtents();
    report["outputs"] = Json::array();
    INFER_ASSIGN(report["photos"], RunOnPhotos(context, model.graph, program, photos, classes_));
    INFER_TRY(WriteReport(context, std::move(report)));
    return kExitOk;
  }

  Status Profile(Context& context, const Program& program, std::span<const Datum> inputs,
                 Json& report) {
    context.Step("profile");
    INFER_ASSIGN(const auto run, program.NewContext());
    for (size_t i = 0; i < inputs.size(); ++i) INFER_TRY(run->BindInput(i, inputs[i]));
    INFER_TRY(run->Run({.stop = context.stop()}));
    INFER_ASSIGN(ModelProfile profile, ProfileRuns(path_, program, *run, context.stop()));
    std::vector<ModelProfile> profiles = {std::move(profile)};
    return ShowProfiles(context, profile_, profiles, {&report});
  }

  /// Chooses files_ and refuses what can be known to fail before the run.
  Status PlanFiles(const Context& context, const Graph& g) {
    if (output_dir_.empty()) return {};
    std::vector<NamedPath> others = context.paths();
    std::erase_if(others, [](const NamedPath& p) { return p.use == PathUse::kWriteFolder; });
    for (const std::string& name : FileNamesOf(g.outputs())) {
      const Value& v = *g.outputs()[files_.size()];
      files_.push_back(Cat(output_dir_, "/", name, ".", format_));
      INFER_TRY(CheckWrite({"--output-dir", files_.back(), PathUse::kWrite}, others));
      if (format_ != "npy" || !v.type().is_tensor() || v.dtype() == DType::kUndefined) continue;
      if (Status s = NpyBytes(Tensor(v.dtype(), {0})).status(); !s.ok())
        return Unsupported(
            Cat("output '", v.name(), "': ", s.message(), ", or write it with --format pb"));
    }
    return {};
  }

  /// `file`: where to write it; "": nowhere.
  Result<Json> Show(Context& context, const std::string& output, const Datum& d,
                    const std::string& file) {
    Json entry = {{"name", output}};
    if (!d.is_tensor() || !d.tensor().defined()) {
      const std::string what = ValueText(d);
      context.PrintLine(Cat(Printable(output), ": ", what));
      if (d.is_sequence()) {
        for (const Datum& element : d.sequence() | std::views::take(kShownValues))
          context.PrintLine(Cat("  ", ValueText(element)));
        if (d.sequence().size() > kShownValues) context.PrintLine("  ...");
      }
      if (d.is_sequence() || d.is_map()) entry["value"] = ValueJson(d);
      if (!file.empty())
        context.Warn(
            Cat("output '", output, "' is not written: it is ", what, ", and files hold tensors"));
      return entry;
    }
    const Tensor& t = d.tensor();
    entry["type"] = ToString(t.type());
    std::string line = Cat(Printable(output), ": ", ToString(t.type()));
    if (IsReal(t) && t.num_elements() > 0) {
      const Extremes e = ExtremesOf(t);
      entry["min"] = JsonNumber(e.min);
      entry["max"] = JsonNumber(e.max);
      entry["mean"] = JsonNumber(e.mean);
      line += Cat("  min ", static_cast<float>(e.min), "  max ", static_cast<float>(e.max),
                  "  mean ", static_cast<float>(e.mean));
    }
    if (t.num_elements() <= kShownElements) line += "\n  " + ToString(t);
    context.PrintLine(line);
    if (!file.empty()) {
      INFER_TRY(Write(output, t, file));
      context.PrintLine("  -> " + file);
      entry["file"] = file;
    }
    return entry;
  }

  Status Write(const std::string& output, const Tensor& t, const std::string& file) {
    std::error_code error;
    std::filesystem::create_directories(output_dir_, error);
    if (error) return IoError(Cat(output_dir_, ": ", error.message()));
    if (format_ == "pb") return WriteTensorPb(t, file, output);
    INFER_ASSIGN(std::string bytes, NpyBytes(t));
    return WriteFileAtomically(file, bytes);
  }

  std::string path_, output_dir_, format_ = "npy";
  ModelOptions model_;
  DeviceOptions device_;
  InputOptions inputs_;
  ClassFlags classes_;
  ProfileOptions profile_;
  std::vector<std::string> files_;  // one per output; none without --output-dir
};

}  // namespace

std::unique_ptr<Command> MakeRunCommand() { return std::make_unique<RunCommand>(); }

}  // namespace infer
