#include "tests/conformance/run_case.h"

#include <onnx/onnx_pb.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <unordered_set>

#include "lib/onnx/export.h"
#include "lib/onnx/import.h"
#include "lib/support/file.h"
#include "lib/support/strings.h"
#include "passes/pass/pipeline.h"
#include "runtime/cpu/backend.h"
#include "runtime/reference/backend.h"
#include "runtime/vulkan/backend.h"
#include "tests/conformance/compare.h"

namespace infer::conformance {
namespace {

std::unique_ptr<Backend> BackendNamed(std::string_view name) {
  if (name == "cpu") return MakeCpuBackend();
  if (name == "vulkan") return MakeVulkanBackend({.behind = CpuHost(), .keep_all = true});
  return MakeReferenceBackend();
}

namespace fs = std::filesystem;
constexpr unsigned kCaseLimit_s = 120;

/// What the child says, one line each, so that what was known before a crash is not lost.
class Teller {
 public:
  explicit Teller(int fd) : fd_(fd) {}
  void Say(std::string_view kind, std::string text) const {
    std::replace(text.begin(), text.end(), '\n', ' ');
    const std::string line = Cat(kind, " ", text.substr(0, 3000), "\n");
    if (write(fd_, line.data(), line.size()) < 0) _exit(1);
  }

 private:
  int fd_;
};

void Listen(std::string_view said, Outcome& out) {
  std::string stage;
  for (const std::string& line : Split(said, '\n')) {
    const size_t space = std::min(line.find(' '), line.size());
    const std::string kind = line.substr(0, space);
    const std::string text = line.substr(std::min(space + 1, line.size()));
    if (kind == "stage" && out.passed()) out.stage = text;
    if (kind == "refused") out.refused = text;
    if (kind == "note") out.notes.push_back(text);
    if (kind == "from") out.opset = ParseInt(text).value_or(0);
    if (kind == "to") out.written_opset = ParseInt(text).value_or(0);
    if (kind == "fail" && out.passed()) out.reason = text.empty() ? "failed" : text;
  }
}

fs::path DataSet(const Case& c, int k) {
  return fs::path(c.model).parent_path() / Cat("test_data_set_", k);
}

/// Gives the graph's inputs the shapes of the stored ones where the file declares others: ONNX's
/// runner never looks at the declared shapes. Returns what was changed.
std::vector<std::string> TakeStoredShapes(const Case& c, onnx::ModelProto& model) {
  std::vector<std::string> changes;
  std::unordered_set<std::string> initialized;
  for (const auto& x : model.graph().initializer()) initialized.insert(x.name());
  int k = 0;
  for (auto& input : *model.mutable_graph()->mutable_input()) {
    if (initialized.contains(input.name())) continue;
    const auto bytes = ReadFile(DataSet(c, 0) / Cat("input_", k++, ".pb"));
    onnx::TensorProto stored;
    if (!bytes.ok() || !input.type().has_tensor_type()) continue;
    auto& type = *input.mutable_type()->mutable_tensor_type();
    if (!type.has_shape() || !stored.ParseFromString(*bytes)) continue;
    bool fits = type.shape().dim_size() == stored.dims_size();
    for (int d = 0; fits && d < stored.dims_size(); ++d)
      fits =
          !type.shape().dim(d).has_dim_value() || type.shape().dim(d).dim_value() == stored.dims(d);
    if (fits) continue;
    type.mutable_shape()->clear_dim();
    for (const int64_t extent : stored.dims())
      type.mutable_shape()->add_dim()->set_dim_value(extent);
    changes.push_back(Cat("input '", input.name(), "' is stored with extents [",
                          Join(stored.dims(), ","), "], unlike its declaration"));
  }
  return changes;
}

Result<Model> ImportCase(const Case& c, const OpRegistry& ops, const Teller& tell) {
  if (c.light_output.empty()) {
    INFER_ASSIGN(const std::string bytes, ReadFile(c.model));
    onnx::ModelProto proto;
    if (proto.ParseFromString(bytes))
      if (const auto changes = TakeStoredShapes(c, proto); !changes.empty()) {
        for (const std::string& change : changes) tell.Say("note", change);
        return ImportModelBytes(proto.SerializeAsString(), ops, {},
                                fs::path(c.model).parent_path());
      }
  }
  return ImportModel(c.model, ops);
}

/// Before ONNX 1.14 the files stored bfloat16 as the uint16 of its bits.
Datum AsDeclared(Datum d, const ValueType& declared) {
  if (!declared.is_tensor() || declared.tensor().dtype != DType::kBF16 || !d.is_tensor() ||
      d.tensor().dtype() != DType::kU16)
    return d;
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
    const ValueType& type = outputs[i]->type();
    INFER_ASSIGN(Datum want, ReadDatumPb(file_of(i), type));
    want = AsDeclared(std::move(want), type);
    if (std::string d = Difference(got[i], want); !d.empty())
      return InvalidModel(Cat("output '", outputs[i]->name(), "' ", d));
  }
  return {};
}

/// Runs all stored data sets.
Status CheckGraph(const Case& c, const Graph& graph, const RunSettings& settings) {
  const auto backend = BackendNamed(settings.backend);
  INFER_ASSIGN(const auto program, backend->Compile(graph, {.level = settings.level}));
  const auto &inputs = program->inputs(), &outputs = program->outputs();
  if (!c.light_output.empty()) {
    INFER_ASSIGN(const auto got,
                 RunOnce(*program, std::vector<Datum>{Ramp(inputs[0]->tensor_type())}));
    return CheckOutputs(got, outputs, [&](size_t) { return c.light_output; });
  }
  for (int k = 0;; ++k) {
    const fs::path set = DataSet(c, k);
    if (!fs::exists(set)) return {};
    std::vector<Datum> values;
    for (size_t i = 0; i < inputs.size(); ++i) {
      INFER_ASSIGN(Datum d, ReadDatumPb(set / Cat("input_", i, ".pb"), inputs[i]->type()));
      values.push_back(AsDeclared(std::move(d), inputs[i]->type()));
    }
    INFER_ASSIGN(const auto got, RunOnce(*program, values));
    INFER_TRY(CheckOutputs(got, outputs,
                           [&](size_t i) { return (set / Cat("output_", i, ".pb")).string(); }));
  }
}

/// The interface in words, of which an export may change nothing but the outputs' shapes.
std::string InterfaceOf(const Graph& g) {
  std::vector<std::string> words;
  for (const Value* v : g.inputs()) words.push_back(Cat(v->name(), ": ", ToString(v->type())));
  words.emplace_back("->");
  for (const Value* v : g.outputs()) {
    ValueType type = v->type();
    if (type.is_tensor()) type = TensorType{type.tensor().dtype, Shape()};
    words.push_back(Cat(v->name(), ": ", ToString(type)));
  }
  return Join(words, ", ");
}

/// DIR/CASE/model.onnx beside links to the original and its data.
Status WriteCase(const Case& c, const std::string& bytes, const std::string& dir) {
  std::error_code error;
  const fs::path folder = fs::path(dir) / c.name;
  fs::remove_all(folder, error);
  fs::create_directories(folder, error);
  const auto link = [&](const fs::path& to, const std::string& name) {
    if (!error) fs::create_symlink(fs::absolute(to), folder / name, error);
  };
  link(c.model, "original.onnx");
  if (!c.light_output.empty()) link(c.light_output, "light_output_0.pb");
  for (int k = 0; c.light_output.empty() && fs::exists(DataSet(c, k)); ++k)
    link(DataSet(c, k), Cat("test_data_set_", k));
  if (error) return IoError(Cat(folder.string(), ": ", error.message()));
  std::ofstream out(folder / "model.onnx", std::ios::binary);
  out << bytes;
  return out.flush() ? Status() : IoError(Cat(folder.string(), ": cannot write model.onnx"));
}

int64_t OpsetOf(const Model& model) {
  const auto it = model.info.opsets.find("");
  return it == model.info.opsets.end() ? 0 : it->second;
}

/// Rewrites `model`, writes it as ONNX and runs what is read back.
Status RoundTrip(const Case& c, Model& model, const OpRegistry& ops, const RunSettings& settings,
                 const Teller& tell) {
  const std::string interface = InterfaceOf(model.graph);
  tell.Say("stage", "rewrite");
  OptimizeOptions options;
  options.level = settings.rewrites;
  INFER_TRY(Optimize(model.graph, std::move(options)).status());
  tell.Say("stage", "export");
  auto bytes = ExportModelBytes(model, {.opset = settings.opset});
  if (settings.opset > 0 && bytes.status().code() == Code::kUnsupported) {
    tell.Say("refused", bytes.status().message());
    return {};
  }
  if (!bytes.ok()) return bytes.status();
  if (!settings.write_dir.empty()) INFER_TRY(WriteCase(c, *bytes, settings.write_dir));
  tell.Say("stage", "reimport");
  INFER_ASSIGN(const Model again, ImportModelBytes(*bytes, ops));
  tell.Say("from", Cat(OpsetOf(model)));
  tell.Say("to", Cat(OpsetOf(again)));
  if (const std::string now = InterfaceOf(again.graph); now != interface)
    return InvalidModel(Cat("the interface was ", interface, " and is ", now));
  if (settings.export_only) return {};
  tell.Say("stage", "rerun");
  return CheckGraph(c, again.graph, settings);
}

Status RunCase(const Case& c, const OpRegistry& ops, const RunSettings& settings,
               const Teller& tell) {
  tell.Say("stage", "import");
  INFER_ASSIGN(Model model, ImportCase(c, ops, tell));
  tell.Say("stage", "run");
  const Status as_it_came = settings.export_only ? Status() : CheckGraph(c, model.graph, settings);
  if (!as_it_came.ok()) tell.Say("fail", as_it_came.message());
  // Where the plain run fails, another runtime may still judge the exported file.
  if (settings.roundtrip && (as_it_came.ok() || !settings.write_dir.empty()))
    INFER_TRY(RoundTrip(c, model, ops, settings, tell));
  return as_it_came;
}

}  // namespace

Outcome RunIsolated(const Case& c, const OpRegistry& ops, const RunSettings& settings) {
  Outcome out;
  int pipe_fds[2];
  if (pipe(pipe_fds) != 0) return {.reason = "no pipe"};
  const pid_t child = fork();
  if (child < 0) return {.reason = "no process"};
  if (child == 0) {
    alarm(kCaseLimit_s);
    const Teller tell(pipe_fds[1]);
    const Status s = RunCase(c, ops, settings, tell);
    if (!s.ok()) tell.Say("fail", s.message());
    _exit(s.ok() ? 0 : 1);
  }
  close(pipe_fds[1]);
  std::string said;
  char chunk[512];
  for (ssize_t n; (n = read(pipe_fds[0], chunk, sizeof chunk)) > 0;)
    said.append(chunk, static_cast<size_t>(n));
  close(pipe_fds[0]);
  int status = 0;
  waitpid(child, &status, 0);
  Listen(said, out);
  if (!out.passed()) return out;
  if (WIFSIGNALED(status))
    out.reason = WTERMSIG(status) == SIGALRM ? Cat("hangs: more than ", kCaseLimit_s, " s")
                                             : Cat("CRASH: signal ", WTERMSIG(status));
  else if (WEXITSTATUS(status) != 0)
    out.reason = Cat("exit ", WEXITSTATUS(status));
  return out;
}

}  // namespace infer::conformance
