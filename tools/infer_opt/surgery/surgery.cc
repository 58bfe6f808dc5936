#include "tools/infer_opt/surgery/surgery.h"

#include <algorithm>
#include <cstdio>

#include "lib/support/readable.h"
#include "lib/support/strings.h"
#include "quant/target/readers.h"
#include "tools/common/model_options.h"
#include "tools/common/streams.h"
#include "tools/common/target_text.h"

namespace infer {
namespace {

constexpr std::string_view kStandardStream = "-";

Result<std::string> AllOfStdin(const Context& context) {
  std::string bytes;
  char buffer[size_t{1} << 16];
  while (const size_t n = std::fread(buffer, 1, sizeof(buffer), stdin)) {
    if (context.stop().stop_requested()) return Cancelled("stopped");
    bytes.append(buffer, n);
  }
  if (std::ferror(stdin) != 0) return IoError("cannot read standard input");
  return bytes;
}

/// Where inference does not know how many axes a value has, those that it has with extents that
/// fit.
void AddRanks(const Graph& g, std::map<std::string, ValueType>& types) {
  const Graph sized = WithFoundExtents(g);
  for (const auto& v : sized.values()) {
    const auto it = types.find(v->name());
    if (it == types.end() || !v->type().is_tensor() || !v->shape().has_rank() ||
        !it->second.is_tensor() || it->second.shape().has_rank())
      continue;
    const auto rank = static_cast<size_t>(v->shape().rank());
    it->second = ValueType(TensorType{v->dtype(), Shape(std::vector<Dim>(rank))});
  }
}

Json InterfaceJson(const std::vector<Value*>& values) {
  Json j = Json::array();
  for (const Value* v : values) j.push_back({{"name", v->name()}, {"type", ToString(v->type())}});
  return j;
}

/// Each text, or its parts between commas where each of these is an assignment.
std::vector<std::string> SinglesIn(const std::vector<std::string>& texts) {
  std::vector<std::string> out;
  for (const std::string& text : texts) {
    const std::vector<std::string> parts = Split(text, ',');
    const bool is_list = std::all_of(parts.begin(), parts.end(), [](const std::string& part) {
      return part.find('=') != std::string::npos;
    });
    if (is_list)
      out.insert(out.end(), parts.begin(), parts.end());
    else
      out.push_back(text);
  }
  return out;
}

Json NamesJson(const std::vector<std::string>& names) {
  Json j = Json::array();
  for (const std::string& name : names) j.push_back({{"name", name}, {"type", ""}});
  return j;
}

}  // namespace

void Surgery::Declare(Options& options) {
  options.Positional("model", &path, "The ONNX model", true, PathUse::kRead);
  options.Section("Output");
  options.FileOrStdout("-o,--output", &output, "The ONNX file to write, or - for stdout");
  options.Flag("--external-data", &external_data_,
               "Put weights into a file beside the model; without it they stand in the model "
               "itself, unless that were over 2 GiB");
  options.Rarely();
  options.Value("--external-root DIR", &external_root_,
                "Further folder in which the model's external data may lie", PathUse::kRead);
  options.Flag("--lenient", &lenient,
               "Take a model with attributes that an operator does not have; what --opset writes "
               "anew leaves them out, with a warning");
}

Status Surgery::Check(Context& context) const {
  if (output.empty()) return InvalidArgument("-o FILE is missing");
  context.model_to_stdout = output == kStandardStream;
  if (output != kStandardStream) return {};
  if (context.json_path == kStandardStream)
    return InvalidArgument("-o - and --json - both write to stdout: give one of them a file");
  if (external_data_) return InvalidArgument("--external-data lie beside a file: -o FILE");
  return {};
}

Result<ModelFile> Surgery::Load(Context& context) {
  ImportOptions import;
  import.external_root = external_root_;
  if (path != kStandardStream) return ModelFile::Read(path, import);
  INFER_ASSIGN(bytes_, AllOfStdin(context));
  auto file = ModelFile::ReadBytes(bytes_, import);
  if (!file.ok()) return file.status().In("standard input");
  return file;
}

Result<Model> Surgery::Import(Context& context) const {
  ImportOptions import;
  import.external_root = external_root_;
  import.lenient = lenient;
  if (path != kStandardStream) return ImportModel(path, context.ops(), import);
  return ImportModelBytes(bytes_, context.ops(), import);
}

std::map<std::string, ValueType> Surgery::Types(Context& context, Status* why) const {
  auto model = Import(context);
  *why = model.status();
  if (!model.ok()) return {};
  auto types = TypesOf(model->graph);
  AddRanks(model->graph, types);
  return types;
}

Result<std::optional<Model>> Surgery::ReadBack(Context& context, const ModelFile& file) const {
  const auto bytes = file.Bytes();
  if (bytes.status().code() == Code::kUnsupported && !bytes.ok()) return std::optional<Model>();
  INFER_TRY(bytes.status());
  ImportOptions import;
  import.lenient = lenient;
  auto model = ImportModelBytes(*bytes, context.ops(), import);
  if (model.ok()) return std::optional<Model>(*std::move(model));
  const Status& s = model.status();
  if (s.code() == Code::kUnsupported) {
    context.Note(Cat("not checked by inference: ", s.message()));
    return std::optional<Model>();
  }
  if (s.code() != Code::kInvalidModel) return s;
  // A model that was broken before is for its owner to mend, perhaps with this command.
  if (!Import(context).ok()) {
    context.Warn(Cat("the model was invalid before, and is: ", s.message()));
    return std::optional<Model>();
  }
  return InvalidArgument(Cat("the result would be no valid model: ", s.message()));
}

Status Surgery::Write(Context& context, const ModelFile& file,
                      const std::optional<Model>& read_back, Json& report) const {
  ExportOptions options;
  options.force_external = external_data_;
  ExportReport written;
  if (output == kStandardStream) {
    INFER_ASSIGN(const std::string bytes, file.Bytes());
    INFER_TRY(WriteStream(stdout, bytes));
    written.file_bytes = static_cast<int64_t>(bytes.size());
  } else {
    INFER_ASSIGN(written, file.Write(output, options));
  }
  std::vector<std::string> versions;
  Json opsets = Json::object();
  for (const auto& [domain, version] : file.opsets()) {
    const std::string name = domain.empty() ? "ai.onnx" : domain;
    versions.push_back(Cat(Printable(name), " ", version));
    opsets[name] = version;
  }
  if (read_back) {
    for (const Value* v : read_back->graph.inputs())
      context.PrintLine(Cat("input   ", Printable(v->name()), ": ", ToString(v->type())));
    for (const Value* v : read_back->graph.outputs())
      context.PrintLine(Cat("output  ", Printable(v->name()), ": ", ToString(v->type())));
  }
  context.PrintLine(Cat("wrote ", output == kStandardStream ? "the model to stdout" : output, ": ",
                        HumanBytes(written.file_bytes),
                        written.external_bytes > 0
                            ? Cat(" and ", HumanBytes(written.external_bytes), " of external data")
                            : std::string(),
                        ", ", Join(versions, ", "), ", IR ", file.ir_version()));
  Json& out = report["output"] = {{"path", output},
                                  {"opsets", opsets},
                                  {"ir_version", file.ir_version()},
                                  {"bytes", written.file_bytes},
                                  {"external_bytes", written.external_bytes},
                                  {"functions", written.functions},
                                  {"nodes", file.num_nodes()},
                                  {"checked", read_back.has_value()}};
  out["inputs"] =
      read_back ? InterfaceJson(read_back->graph.inputs()) : NamesJson(file.InputNames());
  out["outputs"] =
      read_back ? InterfaceJson(read_back->graph.outputs()) : NamesJson(file.OutputNames());
  out["readers"] = nullptr;
  if (read_back) {
    const Readers readers = ReadersOf(read_back->graph, VersionsOf(*read_back));
    context.PrintLine(Cat("read by ", ToText(readers)));
    out["readers"] = ToJson(readers);
  }
  for (const std::string& data : written.stale_data)
    context.PrintLine(
        Cat("left ", data, ": data of an earlier ", output, ", which no longer reads it"));
  return {};
}

std::map<std::string, ValueType> TypesOf(const Graph& g) {
  std::map<std::string, ValueType> types;
  for (const auto& v : g.values())
    if (!v->type().is_tensor() || v->dtype() != DType::kUndefined) types[v->name()] = v->type();
  return types;
}

std::vector<std::string> NamesIn(const std::vector<std::string>& texts,
                                 const std::vector<std::string>& known) {
  std::vector<std::string> names;
  for (const std::string& text : texts) {
    if (std::find(known.begin(), known.end(), text) != known.end()) {
      names.push_back(text);
      continue;
    }
    for (const std::string& name : Split(text, ','))
      if (const std::string_view trimmed = Trim(name); !trimmed.empty())
        names.emplace_back(trimmed);
  }
  return names;
}

Result<std::map<std::string, std::string>> RenamesIn(const std::vector<std::string>& texts,
                                                     const std::vector<std::string>& known,
                                                     std::string_view option) {
  std::map<std::string, std::string> names;
  for (const std::string& text : SinglesIn(texts)) {
    size_t at = text.rfind('=');
    for (size_t i = text.find('='); i != std::string::npos; i = text.find('=', i + 1))
      if (std::find(known.begin(), known.end(), text.substr(0, i)) != known.end()) {
        at = i;
        break;
      }
    if (at == std::string::npos || at == 0 || at + 1 == text.size())
      return InvalidArgument(Cat(option, " ", text, ": write OLD=NEW"));
    if (!names.emplace(text.substr(0, at), text.substr(at + 1)).second)
      return InvalidArgument(
          Cat(option, " ", text, ": '", text.substr(0, at), "' has two new names"));
  }
  return names;
}

}  // namespace infer
