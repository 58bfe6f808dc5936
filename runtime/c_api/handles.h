#pragma once
/// Inside libinfer.so: the structures behind infer.h's handles, and where errors and exceptions
/// end.
#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lib/onnx/model.h"
#include "lib/support/exceptions.h"
#include "lib/support/strings.h"
#include "lib/tensor/datum.h"
#include "runtime/c_api/infer.h"
#include "runtime/engine/engine.h"

namespace infer::c_api {

infer_code CodeOf(Code code);
/// The code that a callback returned; a number that is no infer_code is an invalid argument.
Code CodeOfCallback(int code);

/// Keeps the text for infer_last_error().
infer_code Failed(const Status& status) noexcept;
const char* LastError();

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

constexpr size_t kMostBytes = 4096;  // of a structure whose size a caller says

/// The members that a caller of an older or newer header filled; none where `given` is NULL. The
/// structure has the first `least` bytes at least. InvalidArgument: one that only a newer header
/// has.
template <typename T>
Result<T> OptionsOf(const T* given, size_t least, std::string_view name) {
  T o{};
  if (!given) return o;
  if (given->size < least || given->size > kMostBytes)
    return InvalidArgument(Cat(name, ".size is not set"));
  std::memcpy(&o, given, std::min(given->size, sizeof(o)));
  const char* const bytes = reinterpret_cast<const char*>(given);
  if (given->size > sizeof(o) &&
      std::any_of(bytes + sizeof(o), bytes + given->size, [](char b) { return b != 0; }))
    return InvalidArgument(Cat(name, ": this library is older than an option that is set"));
  return o;
}

/// InvalidArgument: `report`, which may be NULL, does not say its size.
template <typename T>
Status CheckReport(const T* report, std::string_view name) {
  if (report && (report->size < 2 * sizeof(size_t) || report->size > kMostBytes))
    return InvalidArgument(Cat(name, ".size is not set"));
  return {};
}

/// As much of `made` as the caller's header knows. Pre: CheckReport.
template <typename T>
void WriteReport(const T& made, T* report) {
  if (!report) return;
  const size_t size = report->size;
  std::memcpy(report, &made, std::min(size, sizeof(made)));
  report->size = size;
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
std::vector<Description> Describe(const std::vector<Value*>& values);

enum class Borrow : uint8_t {
  kWhereAligned,  ///< shares the caller's memory where it is aligned as kernels want it
  kNever,
};
/// InvalidArgument names input `index`.
Result<Tensor> TensorOf(const infer_tensor& t, size_t index, Borrow borrow = Borrow::kWhereAligned);

}  // namespace infer::c_api

struct infer_model {
  explicit infer_model(infer::Model m) : model(std::move(m)) {
    warnings = infer::Join(model.info.warnings, "\n");
    Describe();
  }
  void Describe() {
    inputs = infer::c_api::Describe(model.graph.inputs());
    outputs = infer::c_api::Describe(model.graph.outputs());
  }
  /// Puts a rewritten graph in place of the model's.
  void Take(infer::Graph graph, const std::vector<std::string>& told) {
    std::string text = infer::Join(told, "\n");
    std::vector<infer::c_api::Description> in = infer::c_api::Describe(graph.inputs()),
                                           out = infer::c_api::Describe(graph.outputs());
    model.graph = std::move(graph);
    warnings = std::move(text);
    inputs = std::move(in);
    outputs = std::move(out);
  }
  infer::Model model;
  std::string warnings;  ///< of the last function that made or rewrote it
  std::vector<infer::c_api::Description> inputs, outputs;
};

struct infer_session {
  std::unique_ptr<infer::engine::Engine> engine;
};

struct infer_result {
  std::vector<infer::Datum> outputs;
};

namespace infer::c_api {
/// `graph` compiled; a session of one model.
Result<std::unique_ptr<infer_session>> MakeSession(Graph graph, const infer_session_options& o);
/// Output `i`, which the result holds.
Result<const Tensor*> OutputOf(const infer_result& result, size_t i);
}  // namespace infer::c_api
