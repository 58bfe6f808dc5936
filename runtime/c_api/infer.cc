/// Models, sessions and results.
#include "runtime/c_api/infer.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "lib/onnx/export.h"
#include "lib/onnx/import.h"
#include "lib/ops/registry.h"
#include "passes/pass/pipeline.h"
#include "runtime/c_api/handles.h"
#include "runtime/devices/devices.h"

namespace infer::c_api {
namespace {

constexpr const char* kModelName = "model";  // the only one of a session's engine

const OpRegistry& Ops() {
  static const OpRegistry ops = AllOps();
  return ops;
}

Status Fill(const std::vector<Description>& values, size_t i, infer_value* value) {
  if (!value) return InvalidArgument("value is NULL");
  if (i >= values.size())
    return InvalidArgument(Cat("number ", i, " of ", values.size(), " values"));
  const Description& d = values[i];
  *value = {d.name.c_str(), static_cast<int32_t>(d.dtype),
            d.ranked ? static_cast<int32_t>(d.dims.size()) : -1, d.dims.data(),
            d.symbol_texts.data()};
  return {};
}

Result<engine::Request> RequestOf(const infer_tensor* inputs, size_t count) {
  if (count > 0 && !inputs) return InvalidArgument("inputs is NULL");
  engine::Request request{.model = kModelName};
  for (size_t i = 0; i < count; ++i) {
    INFER_ASSIGN(Tensor t, TensorOf(inputs[i], i));
    request.inputs.emplace_back(std::move(t));
  }
  return request;
}

void Tell(infer_callback callback, void* user, engine::Outcome outcome) {
  if (!outcome.status.ok())
    return callback(user, CodeOf(outcome.status.code()), outcome.status.message().c_str(), nullptr);
  auto* result = new (std::nothrow) infer_result{std::move(outcome.outputs)};
  callback(user, result ? INFER_OK : INFER_RESOURCE, result ? "" : "out of memory", result);
}

}  // namespace

Result<std::unique_ptr<infer_session>> MakeSession(Graph graph, const infer_session_options& o) {
  if (o.threads < 0 || o.instances < 0 || o.max_batch < 0 || o.max_delay_us < 0)
    return InvalidArgument("options of a session are not negative");
  const int instances = std::max(o.instances, 1);
  INFER_ASSIGN(const auto backend, MakeBackend(o.device ? o.device : "cpu"));
  INFER_ASSIGN(engine::ModelSource source,
               engine::CompileSource(*backend, std::move(graph), {.threads = o.threads}));
  if (o.max_batch > 1 && !source.axes.proved)
    return Unsupported(Cat("max_batch ", o.max_batch, ": ", source.axes.reason));
  auto session = std::make_unique<infer_session>();
  INFER_ASSIGN(session->engine, engine::Engine::Make({.threads = instances}));
  engine::ModelOptions options;
  options.instances = instances;
  options.batch.max_rows = std::max(o.max_batch, 1);
  options.batch.max_delay_ns = int64_t{o.max_delay_us} * 1000;
  INFER_TRY(session->engine->Load(kModelName, std::move(source), std::move(options)));
  return session;
}

}  // namespace infer::c_api

using namespace infer;         // NOLINT: the functions of the header stand outside of namespaces
using namespace infer::c_api;  // NOLINT

extern "C" {

const char* infer_version(void) { return INFER_VERSION; }
int infer_api_version(void) { return INFER_API_VERSION; }
const char* infer_last_error(void) { return LastError(); }

infer_code infer_model_load(const char* path, infer_model** model) {
  return Guarded([&]() -> Status {
    if (!path || !model) return InvalidArgument("path or model is NULL");
    INFER_ASSIGN(Model m, ImportModel(path, Ops()));
    *model = new infer_model(std::move(m));
    return {};
  });
}

infer_code infer_model_load_bytes(const void* bytes, size_t size, infer_model** model) {
  return Guarded([&]() -> Status {
    if (!bytes || !model) return InvalidArgument("bytes or model is NULL");
    INFER_ASSIGN(Model m, ImportModelBytes({static_cast<const char*>(bytes), size}, Ops()));
    *model = new infer_model(std::move(m));
    return {};
  });
}

void infer_model_free(infer_model* model) { delete model; }

size_t infer_model_inputs(const infer_model* model) { return model ? model->inputs.size() : 0; }
size_t infer_model_outputs(const infer_model* model) { return model ? model->outputs.size() : 0; }

infer_code infer_model_input(const infer_model* model, size_t i, infer_value* value) {
  return Guarded(
      [&] { return model ? Fill(model->inputs, i, value) : InvalidArgument("model is NULL"); });
}

infer_code infer_model_output(const infer_model* model, size_t i, infer_value* value) {
  return Guarded(
      [&] { return model ? Fill(model->outputs, i, value) : InvalidArgument("model is NULL"); });
}

size_t infer_model_nodes(const infer_model* model) {
  size_t nodes = 0;
  const infer_code code = Guarded([&]() -> Status {
    if (!model) return InvalidArgument("model is NULL");
    nodes = static_cast<size_t>(StatisticsOf(model->model.graph).nodes);
    return {};
  });
  return code == INFER_OK ? nodes : 0;
}

const char* infer_model_warnings(const infer_model* model) {
  return model ? model->warnings.c_str() : "";
}

infer_code infer_model_fuse(infer_model* model, int level) {
  return Guarded([&]() -> Status {
    if (!model) return InvalidArgument("model is NULL");
    if (level < 0 || level > kMaxLevel)
      return InvalidArgument(Cat("level ", level, ": 0 to ", kMaxLevel));
    Graph rewritten = model->model.graph.Clone();
    INFER_TRY(Optimize(rewritten, {.level = level}).status());
    model->Take(std::move(rewritten), {});
    return {};
  });
}

infer_code infer_model_save(const infer_model* model, const char* path) {
  return Guarded([&]() -> Status {
    if (!model || !path) return InvalidArgument("model or path is NULL");
    return ExportModel(model->model, path).status();
  });
}

infer_code infer_session_create(const infer_model* model, const infer_session_options* options,
                                infer_session** session) {
  return Guarded([&]() -> Status {
    if (!model || !session) return InvalidArgument("model or session is NULL");
    constexpr size_t kLeast = offsetof(infer_session_options, device) + sizeof(options->device);
    INFER_ASSIGN(const auto filled, OptionsOf(options, kLeast, "infer_session_options"));
    INFER_ASSIGN(auto made, MakeSession(model->model.graph.Clone(), filled));
    *session = made.release();
    return {};
  });
}

void infer_session_free(infer_session* session) { delete session; }

infer_code infer_session_run(infer_session* session, const infer_tensor* inputs, size_t count,
                             infer_result** result) {
  return Guarded([&]() -> Status {
    if (!session || !result) return InvalidArgument("session or result is NULL");
    INFER_ASSIGN(engine::Request request, RequestOf(inputs, count));
    engine::Outcome outcome = session->engine->Infer(std::move(request));
    INFER_TRY(std::move(outcome.status));
    *result = new infer_result{std::move(outcome.outputs)};
    return {};
  });
}

infer_code infer_session_submit(infer_session* session, const infer_tensor* inputs, size_t count,
                                int64_t timeout_us, infer_callback callback, void* user) {
  return Guarded([&]() -> Status {
    if (!session || !callback) return InvalidArgument("session or callback is NULL");
    INFER_ASSIGN(engine::Request request, RequestOf(inputs, count));
    if (timeout_us >= 0)
      request.timeout_ns = timeout_us > engine::kNever / 1000 ? engine::kNever : timeout_us * 1000;
    session->engine->Submit(std::move(request), [callback, user](engine::Outcome outcome) {
      Tell(callback, user, std::move(outcome));
    });
    return {};
  });
}

size_t infer_result_outputs(const infer_result* result) {
  return result ? result->outputs.size() : 0;
}

infer_code infer_result_output(const infer_result* result, size_t i, infer_tensor* tensor) {
  return Guarded([&]() -> Status {
    if (!result || !tensor) return InvalidArgument("result or tensor is NULL");
    INFER_ASSIGN(const Tensor* output, OutputOf(*result, i));
    const Tensor& t = *output;
    if (t.dtype() == DType::kString) return Unsupported(Cat("output ", i, " holds strings"));
    *tensor = {static_cast<int32_t>(t.dtype()), t.rank(), t.dims().data(), t.raw(),
               static_cast<size_t>(t.byte_size())};
    return {};
  });
}

void infer_result_free(infer_result* result) { delete result; }

}  // extern "C"
