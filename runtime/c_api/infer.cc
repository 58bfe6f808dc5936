#include "runtime/c_api/infer.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "lib/onnx/export.h"
#include "lib/onnx/import.h"
#include "lib/ops/registry.h"
#include "lib/support/exceptions.h"
#include "lib/support/strings.h"
#include "passes/pass/pipeline.h"
#include "runtime/devices/devices.h"
#include "runtime/engine/engine.h"

namespace infer::c_api {
namespace {

constexpr const char* kModelName = "model";  // the only one of a session's engine

thread_local std::string t_error;  // infer_last_error()

infer_code CodeOf(Code code) {
  switch (code) {
    case Code::kOk: return INFER_OK;
    case Code::kInvalidArgument: return INFER_INVALID_ARGUMENT;
    case Code::kInvalidModel: return INFER_INVALID_MODEL;
    case Code::kUnsupported: return INFER_UNSUPPORTED;
    case Code::kIo: return INFER_IO;
    case Code::kResource: return INFER_RESOURCE;
    case Code::kCancelled: return INFER_CANCELLED;
    case Code::kInternal: return INFER_INTERNAL;
  }
  return INFER_INTERNAL;
}

infer_code Failed(const Status& status) noexcept {
  try {
    t_error = status.message();
  } catch (...) {
    t_error.clear();  // no memory for the text
  }
  return CodeOf(status.code());
}

/// The code of `body`'s status; exceptions end here.
template <typename F>
infer_code Guarded(F body) noexcept {
  try {
    const Status status = body();
    return status.ok() ? INFER_OK : Failed(status);
  } catch (...) {
    return Failed(StatusOfException(""));
  }
}

const OpRegistry& Ops() {
  static const OpRegistry ops = AllOps();
  return ops;
}

/// An input or output in the form that C reads; pointers go to the other members.
struct Description {
  std::string name;
  DType dtype = DType::kUndefined;
  bool ranked = false;
  std::vector<int64_t> dims;
  std::vector<std::string> symbols;
  std::vector<const char*> symbol_texts;
};

Description Describe(const Value& v) {
  Description d;
  d.name = v.name();
  if (!v.type().is_tensor()) return d;
  d.dtype = v.type().dtype();
  d.ranked = v.type().shape().has_rank();
  if (!d.ranked) return d;
  for (const Dim& dim : v.type().shape().dims()) {
    d.dims.push_back(dim.is_static() ? dim.value() : -1);
    d.symbols.push_back(dim.is_symbolic() ? dim.ToString() : "");
  }
  return d;
}

std::vector<Description> Describe(const std::vector<Value*>& values) {
  std::vector<Description> described;
  described.reserve(values.size());
  for (const Value* v : values) described.push_back(Describe(*v));
  for (Description& d : described)  // nothing moves any more
    for (const std::string& s : d.symbols) d.symbol_texts.push_back(s.c_str());
  return described;
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

/// Shares the caller's memory where it is aligned as kernels want it, else copies.
Result<Tensor> TensorOf(const infer_tensor& t, size_t index) {
  const auto wrong = [&](const auto&... text) {
    return InvalidArgument(Cat("input ", index, ": ", text...));
  };
  if (t.dtype <= 0 || t.dtype >= kNumDTypes) return wrong("no element type has number ", t.dtype);
  const auto dtype = static_cast<DType>(t.dtype);
  if (dtype == DType::kString) return wrong("strings cannot be passed");
  if (t.rank < 0 || (t.rank > 0 && !t.dims)) return wrong("dims are missing");
  Dims dims(t.dims, t.dims + t.rank);
  const auto count = CheckedNumElements(dims);
  if (!count) return wrong("extents ", ToString(dims));
  const auto bytes = static_cast<size_t>(PackedBytes(dtype, *count));
  if (bytes != t.bytes)
    return wrong(Name(dtype), ToString(dims), " has ", bytes, " bytes, not ", t.bytes);
  if (bytes > 0 && !t.data) return wrong("data is NULL");
  constexpr uintptr_t kAlignment = 16;  // the widest element
  if (bytes > 0 && reinterpret_cast<uintptr_t>(t.data) % kAlignment == 0)
    return Tensor(dtype, std::move(dims), Buffer::Borrow(t.data, bytes, nullptr));
  Tensor copy(dtype, std::move(dims));
  if (bytes > 0) std::memcpy(copy.mutable_raw(), t.data, bytes);
  return copy;
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

}  // namespace
}  // namespace infer::c_api

// The structures that the header declares.
struct infer_model {
  explicit infer_model(infer::Model m) : model(std::move(m)) { Describe(); }
  void Describe() {
    inputs = infer::c_api::Describe(model.graph.inputs());
    outputs = infer::c_api::Describe(model.graph.outputs());
  }
  infer::Model model;
  std::vector<infer::c_api::Description> inputs, outputs;
};

struct infer_session {
  std::unique_ptr<infer::engine::Engine> engine;
};

struct infer_result {
  std::vector<infer::Datum> outputs;
};

namespace infer::c_api {
namespace {

Result<std::unique_ptr<infer_session>> MakeSession(const infer_model& model,
                                                   const infer_session_options& o) {
  if (o.threads < 0 || o.instances < 0 || o.max_batch < 0 || o.max_delay_us < 0)
    return InvalidArgument("options of a session are not negative");
  const int instances = std::max(o.instances, 1);
  INFER_ASSIGN(const auto backend, MakeBackend(o.device ? o.device : "cpu"));
  INFER_ASSIGN(engine::ModelSource source,
               engine::CompileSource(*backend, model.model.graph.Clone(), {.threads = o.threads}));
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

/// The members that a caller of an older or newer header filled.
Result<infer_session_options> OptionsOf(const infer_session_options* given) {
  infer_session_options o{};
  if (!given) return o;
  if (given->size < offsetof(infer_session_options, device) + sizeof(o.device) ||
      given->size > 4096)
    return InvalidArgument("infer_session_options.size is not set");
  std::memcpy(&o, given, std::min(given->size, sizeof(o)));
  return o;
}

void Tell(infer_callback callback, void* user, engine::Outcome outcome) {
  if (!outcome.status.ok())
    return callback(user, CodeOf(outcome.status.code()), outcome.status.message().c_str(), nullptr);
  auto* result = new (std::nothrow) infer_result{std::move(outcome.outputs)};
  callback(user, result ? INFER_OK : INFER_RESOURCE, result ? "" : "out of memory", result);
}

}  // namespace
}  // namespace infer::c_api

using namespace infer;         // NOLINT: the functions of the header stand outside of namespaces
using namespace infer::c_api;  // NOLINT

extern "C" {

const char* infer_version(void) { return INFER_VERSION; }
int infer_api_version(void) { return INFER_API_VERSION; }
const char* infer_last_error(void) { return t_error.c_str(); }

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

infer_code infer_model_fuse(infer_model* model, int level) {
  return Guarded([&]() -> Status {
    if (!model) return InvalidArgument("model is NULL");
    if (level < 0 || level > kMaxLevel)
      return InvalidArgument(Cat("level ", level, ": 0 to ", kMaxLevel));
    Graph rewritten = model->model.graph.Clone();
    INFER_TRY(Optimize(rewritten, {.level = level}).status());
    model->model.graph = std::move(rewritten);
    model->Describe();
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
    INFER_ASSIGN(const infer_session_options filled, OptionsOf(options));
    INFER_ASSIGN(auto made, MakeSession(*model, filled));
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
    if (i >= result->outputs.size())
      return InvalidArgument(Cat("number ", i, " of ", result->outputs.size(), " outputs"));
    if (!result->outputs[i].is_tensor()) return Unsupported(Cat("output ", i, " is no tensor"));
    const Tensor& t = result->outputs[i].tensor();
    if (t.dtype() == DType::kString) return Unsupported(Cat("output ", i, " holds strings"));
    *tensor = {static_cast<int32_t>(t.dtype()), t.rank(), t.dims().data(), t.raw(),
               static_cast<size_t>(t.byte_size())};
    return {};
  });
}

void infer_result_free(infer_result* result) { delete result; }

}  // extern "C"
