#include "tools/engines/outputs_of.h"

#include "lib/support/strings.h"
#include "tools/common/scratch_folder.h"
#include "tools/engines/python_files.h"
#include "tools/engines/wire.h"
#include "tools/engines/worker.h"

namespace infer::peers {
namespace {

class Engine {
 public:
  Engine(EngineRequest request, const Graph& g) : request_(std::move(request)), g_(g) {}

  Result<Json> Start() {
    INFER_ASSIGN(scratch_, ScratchFolder::Make());
    INFER_TRY(WritePythonFiles(scratch_->path()));
    WorkerSpec spec;
    spec.argv = {request_.python, Cat(scratch_->path(), "/", request_.engine, "_worker.py")};
    spec.environment = PythonEnvironment(scratch_->path());
    spec.log = scratch_->path() + "/worker.log";
    INFER_ASSIGN(worker_, Worker::Start(spec));
    INFER_ASSIGN(const Json hello, Ask({{"op", "hello"}}));
    return hello.value("versions", Json::object());
  }

  std::shared_ptr<const EngineOutputs::Told> told() const { return told_; }

  Result<std::vector<Datum>> Run(const std::vector<Datum>& inputs) {
    INFER_ASSIGN(Json written, WriteInputs(inputs));
    if (!loaded_) {
      Json names = Json::array();
      for (const Value* v : g_.outputs()) names.push_back(v->name());
      INFER_ASSIGN(const Json loaded, Ask({{"op", "load"},
                                           {"compare", true},
                                           {"model", request_.model},
                                           {"threads", request_.threads},
                                           {"inputs", written},
                                           {"outputs", names},
                                           {"symbols", Json::object()}}));
      told_->settings = loaded.value("settings", Json::object());
      loaded_ = true;
      return Read(Ask({{"op", "outputs"}, {"folder", scratch_->path()}}));
    }
    return Read(
        Ask({{"op", "infer"}, {"inputs", std::move(written)}, {"folder", scratch_->path()}}));
  }

 private:
  Result<Json> Ask(const Json& question) {
    auto answer = worker_->Ask(question, request_.timeout_s, request_.stop);
    if (answer.ok() || answer.status().code() == Code::kCancelled) return answer;
    const WorkerFailure& f = worker_->failure();
    return Unsupported(Cat(request_.engine, f.missing ? " is not installed: " : ": ", f.text, " (",
                           request_.python, ")"));
  }

  Result<Json> WriteInputs(const std::vector<Datum>& inputs) const {
    Json written = Json::array();
    for (size_t i = 0; i < inputs.size(); ++i) {
      const std::string& name = g_.inputs()[i]->name();
      if (!inputs[i].is_tensor())
        return Unsupported(Cat("input '", name, "' is no tensor: ", request_.engine,
                               " is asked for tensors alone"));
      INFER_ASSIGN(Json one, WriteNumbersOrText(inputs[i].tensor(), name,
                                                Cat(scratch_->path(), "/input_", i, ".raw")));
      written.push_back(std::move(one));
    }
    return written;
  }

  Result<std::vector<Datum>> Read(const Result<Json>& answer) {
    if (!answer.ok()) return answer.status();
    std::vector<Datum> outputs;
    for (const Json& described : answer->value("outputs", Json::array())) {
      INFER_ASSIGN(Datum d, ReadValue(described));
      if (described.contains("left_out"))
        told_->left_out[described.value("name", "")] = described.value("left_out", "");
      outputs.push_back(std::move(d));
    }
    return outputs;
  }

  EngineRequest request_;
  const Graph& g_;
  std::unique_ptr<ScratchFolder> scratch_;
  std::unique_ptr<Worker> worker_;  // ends before its folder goes
  std::shared_ptr<EngineOutputs::Told> told_ = std::make_shared<EngineOutputs::Told>();
  bool loaded_ = false;
};

}  // namespace

Result<EngineOutputs> OutputsOf(const EngineRequest& request, const Graph& g) {
  const auto engine = std::make_shared<Engine>(request, g);
  EngineOutputs made;
  INFER_ASSIGN(made.versions, engine->Start());
  made.told = engine->told();
  made.outputs = [engine](int64_t, const std::vector<Datum>& inputs) {
    return engine->Run(inputs);
  };
  return made;
}

}  // namespace infer::peers
