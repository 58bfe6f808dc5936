/// infer-opt run: one run of a model on given or random inputs; prints and stores the outputs.
#include <algorithm>
#include <cctype>
#include <filesystem>

#include "datasets/readers/npy.h"
#include "lib/onnx/import.h"
#include "lib/support/file.h"
#include "lib/support/parallel.h"
#include "lib/support/strings.h"
#include "tools/common/input_values.h"
#include "tools/common/model_options.h"
#include "tools/common/report.h"
#include "tools/infer_opt/commands.h"

namespace infer {
namespace {

/// A value name as a file name: anything but letters, digits, '.', '-' becomes '_'.
std::string FileNameOf(std::string name) {
  for (char& c : name)
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '.' && c != '-') c = '_';
  if (name.empty() || name[0] == '.') name = "_" + name;
  return name;
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

class RunCommand : public Command {
 public:
  std::string_view name() const override { return "run"; }
  std::string_view help() const override { return "Run a model once and show its outputs"; }
  std::string_view examples() const override {
    return "Examples:\n"
           "  infer-opt run model.onnx --input x=photo.npy\n"
           "  infer-opt run model.onnx --set batch=1 --output-dir out --format pb\n";
  }
  void Declare(Options& o) override {
    o.Positional("model", &path_, "The ONNX model");
    model_.Declare(o);
    device_.Declare(o);
    inputs_.Declare(o);
    o.Value("-o,--output-dir", &output_dir_, "Write every output to this folder");
    o.Choice("--format", &format_, {"npy", "pb"}, "File format of --output-dir");
  }

  Result<ExitCode> Run(Context& context) override {
    context.Step("import");
    INFER_ASSIGN(Model model, LoadModel(context, path_, model_));
    context.Step("compile");
    INFER_ASSIGN(auto program, CompileFor(model.graph, device_));
    const RunOptions options = {.stop = context.stop()};
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
    report["model"] = ToJson(model, path_);
    report["device"] = device_.device;
    report["threads"] = LaneBudget();
    report["random_inputs"] = inputs.random;
    report["extents"] = inputs.extents;
    report["outputs"] = Json::array();
    for (size_t i = 0; i < outputs.size(); ++i) {
      const std::string& output = model.graph.outputs()[i]->name();
      INFER_ASSIGN(Json entry, Show(context, output, outputs[i]));
      report["outputs"].push_back(std::move(entry));
    }
    INFER_TRY(WriteReport(context, std::move(report)));
    return kExitOk;
  }

 private:
  Result<Json> Show(Context& context, const std::string& output, const Datum& d) {
    Json entry = {{"name", output}};
    if (!d.is_tensor() || !d.tensor().defined()) {
      context.PrintLine(Cat(output, ": not a tensor"));
      return entry;
    }
    const Tensor& t = d.tensor();
    entry["type"] = ToString(t.type());
    std::string line = Cat(output, ": ", ToString(t.type()));
    if (IsReal(t) && t.num_elements() > 0) {
      const Extremes e = ExtremesOf(t);
      entry["min"] = JsonNumber(e.min);
      entry["max"] = JsonNumber(e.max);
      entry["mean"] = JsonNumber(e.mean);
      line += Cat("  min ", static_cast<float>(e.min), "  max ", static_cast<float>(e.max),
                  "  mean ", static_cast<float>(e.mean));
    }
    if (t.num_elements() <= 16) line += "\n  " + ToString(t);
    context.PrintLine(line);
    if (!output_dir_.empty()) {
      INFER_ASSIGN(std::string file, Write(output, t));
      entry["file"] = file;
    }
    return entry;
  }

  Result<std::string> Write(const std::string& output, const Tensor& t) {
    std::error_code error;
    std::filesystem::create_directories(output_dir_, error);
    if (error) return IoError(Cat(output_dir_, ": ", error.message()));
    const std::string file = Cat(output_dir_, "/", FileNameOf(output), ".", format_);
    if (format_ == "pb") {
      INFER_TRY(WriteTensorPb(t, file, output));
    } else {
      INFER_ASSIGN(std::string bytes, NpyBytes(t));
      INFER_TRY(WriteFileAtomically(file, bytes));
    }
    return file;
  }

  std::string path_, output_dir_, format_ = "npy";
  ModelOptions model_;
  DeviceOptions device_;
  InputOptions inputs_;
};

}  // namespace

std::unique_ptr<Command> MakeRunCommand() { return std::make_unique<RunCommand>(); }

}  // namespace infer
