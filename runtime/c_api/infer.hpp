#ifndef INFER_C_API_INFER_HPP_
#define INFER_C_API_INFER_HPP_
/// C++20 over the C API (infer.h), in this header alone: handles that free themselves, spans for
/// arrays, Result<T> for what can fail. A program needs libinfer.so and nothing else of infer-opt.
///
/// Errors. Functions return Status or Result<T>, which the compiler wants looked at: ok(), code(),
/// message(). Those who prefer exceptions ask for value() or Check(), which throw Error. What a
/// caller's own function throws, comes out of the function that called it.
/// Threads, lifetimes, units and defaults are those of infer.h.
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <initializer_list>
#include <memory>
#include <ranges>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "infer.h"

namespace infer::api {

/// Thrown by value() and Check() alone.
class Error : public std::runtime_error {
 public:
  Error(infer_code code, const std::string& message) : std::runtime_error(message), code_(code) {}
  infer_code code() const { return code_; }

 private:
  infer_code code_;
};

class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(infer_code code, std::string message) : code_(code), message_(std::move(message)) {}
  /// Of a function of the C API that has just returned on this thread.
  static Status Of(infer_code code) {
    return code == INFER_OK ? Status() : Status(code, infer_last_error());
  }
  bool ok() const { return code_ == INFER_OK; }
  infer_code code() const { return code_; }
  const std::string& message() const { return message_; }
  /// Throws Error where this is not ok.
  void Check() const {
    if (!ok()) throw Error(code_, message_);
  }

 private:
  infer_code code_ = INFER_OK;
  std::string message_;
};

/// A T, or the Status that says why there is none.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : v_(std::in_place_index<0>, std::move(value)) {}           // NOLINT: implicit
  Result(Status failure) : v_(std::in_place_index<1>, std::move(failure)) {}  // NOLINT: implicit
  bool ok() const { return v_.index() == 0; }
  Status status() const { return ok() ? Status() : std::get<1>(v_); }
  /// Pre: ok().
  T& operator*() & { return std::get<0>(v_); }
  const T& operator*() const& { return std::get<0>(v_); }
  T operator*() && { return std::get<0>(std::move(v_)); }
  T* operator->() { return &std::get<0>(v_); }
  const T* operator->() const { return &std::get<0>(v_); }
  /// Throws Error where this is not ok. Of a temporary the T itself, so that a loop may go over it.
  T& value() & { return status().Check(), std::get<0>(v_); }
  const T& value() const& { return status().Check(), std::get<0>(v_); }
  T value() && { return status().Check(), std::get<0>(std::move(v_)); }

 private:
  std::variant<T, Status> v_;
};

/// The element type of T; INFER_UNDEFINED where the API has none.
template <typename T>
constexpr infer_dtype DTypeOf() {
  if (std::is_same_v<T, float>) return INFER_F32;
  if (std::is_same_v<T, double>) return INFER_F64;
  if (std::is_same_v<T, bool>) return INFER_BOOL;
  if (std::is_same_v<T, int8_t>) return INFER_I8;
  if (std::is_same_v<T, uint8_t>) return INFER_U8;
  if (std::is_same_v<T, int16_t>) return INFER_I16;
  if (std::is_same_v<T, uint16_t>) return INFER_U16;
  if (std::is_same_v<T, int32_t>) return INFER_I32;
  if (std::is_same_v<T, uint32_t>) return INFER_U32;
  if (std::is_same_v<T, int64_t>) return INFER_I64;
  if (std::is_same_v<T, uint64_t>) return INFER_U64;
  return INFER_UNDEFINED;
}

/// A view of numbers, with the extents that they have: the numbers are somebody else's.
class Tensor {
 public:
  Tensor() = default;
  explicit Tensor(const infer_tensor& t)
      : dtype_(t.dtype), dims_(t.dims, t.dims + t.rank), data_(t.data), bytes_(t.bytes) {}
  /// Of a span, an array or a vector that outlives the view. Other types (f16, bf16): by an
  /// infer_tensor.
  template <std::ranges::contiguous_range R>
    requires(std::is_lvalue_reference_v<R> || std::ranges::borrowed_range<R>)
  Tensor(R&& numbers, std::vector<int64_t> dims)
      : dtype_(DTypeOf<std::ranges::range_value_t<R>>()),
        dims_(std::move(dims)),
        data_(std::ranges::data(numbers)),
        bytes_(std::ranges::size(numbers) * sizeof(std::ranges::range_value_t<R>)) {
    static_assert(DTypeOf<std::ranges::range_value_t<R>>() != INFER_UNDEFINED);
  }

  infer_dtype dtype() const { return static_cast<infer_dtype>(dtype_); }
  std::span<const int64_t> dims() const { return dims_; }
  std::span<const std::byte> bytes() const {
    return {static_cast<const std::byte*>(data_), bytes_};
  }
  /// The numbers, row by row. INFER_INVALID_ARGUMENT: they have another type.
  template <typename T>
  Result<std::span<const T>> as() const {
    if (DTypeOf<T>() == INFER_UNDEFINED || DTypeOf<T>() != dtype_)
      return Status(INFER_INVALID_ARGUMENT, "the tensor has element type " +
                                                std::to_string(dtype_) + ", not " +
                                                std::to_string(DTypeOf<T>()));
    return std::span<const T>(static_cast<const T*>(data_), bytes_ / sizeof(T));
  }
  /// As long as *this, unchanged.
  infer_tensor c_tensor() const {
    return {dtype_, static_cast<int32_t>(dims_.size()), dims_.data(), data_, bytes_};
  }

 private:
  int32_t dtype_ = INFER_UNDEFINED;
  std::vector<int64_t> dims_;
  const void* data_ = nullptr;
  size_t bytes_ = 0;
};

/// The C API's views of `tensors`, as long as these.
inline std::vector<infer_tensor> CTensors(std::span<const Tensor> tensors) {
  std::vector<infer_tensor> c;
  c.reserve(tensors.size());
  for (const Tensor& t : tensors) c.push_back(t.c_tensor());
  return c;
}

/// Inputs to calibrate with or to compare on, asked for by number and more than once.
class Samples {
 public:
  /// The inputs of sample `i`, in the model's order; the numbers are read until the next call.
  using Reader = std::function<Result<std::vector<Tensor>>(size_t i)>;
  Samples(size_t count, Reader read) : state_(std::make_unique<State>()) {
    state_->read = std::move(read);
    state_->c.size = sizeof(infer_samples);
    state_->c.count = count;
    state_->c.read = &Samples::Read;
    state_->c.user = state_.get();
  }
  /// samples[i]: the inputs of sample `i`.
  explicit Samples(std::vector<std::vector<Tensor>> samples)
      : Samples(samples.size(), [held = samples](size_t i) { return Result(held[i]); }) {}
  /// Classes, one per row of scores of the first output, sample after sample.
  Samples& SetLabels(std::vector<int64_t> labels) {
    state_->labels = std::move(labels);
    state_->c.labels = state_->labels.data();
    state_->c.labels_per_sample = state_->c.count > 0 ? state_->labels.size() / state_->c.count : 0;
    return *this;
  }

 private:
  template <typename F>
  friend Status WithSamples(const Samples& samples, size_t inputs, F call);
  struct State {
    Reader read;
    std::vector<int64_t> labels;
    infer_samples c = {};
    size_t inputs = 0;          // of the model
    std::vector<Tensor> given;  // of the last call, whose extents are read until the next
    Status failure;
    std::exception_ptr thrown;
  };

  static int Read(void* user, size_t i, infer_tensor* inputs) noexcept {
    State& s = *static_cast<State*>(user);
    try {
      Result<std::vector<Tensor>> made = s.read(i);
      if (made.ok() && made->size() != s.inputs)
        made = Status(INFER_INVALID_ARGUMENT, "sample " + std::to_string(i) + " has " +
                                                  std::to_string(made->size()) +
                                                  " inputs, the model " + std::to_string(s.inputs));
      if (!made.ok()) {
        s.failure = made.status();
        return s.failure.code();
      }
      s.given = *std::move(made);
      for (size_t k = 0; k < s.given.size(); ++k) inputs[k] = s.given[k].c_tensor();
      return INFER_OK;
    } catch (...) {
      s.thrown = std::current_exception();
      return INFER_INTERNAL;
    }
  }

  std::unique_ptr<State> state_;
};

/// Calls call(const infer_samples*), whose code it returns; what the reader said goes first.
template <typename F>
Status WithSamples(const Samples& samples, size_t inputs, F call) {
  Samples::State& s = *samples.state_;
  if (s.c.labels && s.labels.size() != s.c.count * s.c.labels_per_sample)
    return {INFER_INVALID_ARGUMENT, std::to_string(s.labels.size()) + " labels of " +
                                        std::to_string(s.c.count) + " samples"};
  s.inputs = inputs;
  s.failure = Status();
  s.thrown = nullptr;
  const Status status = Status::Of(call(&s.c));
  if (s.thrown) std::rethrow_exception(std::exchange(s.thrown, nullptr));
  return s.failure.ok() ? status : s.failure;
}

/// infer.h's options; only what is not to be the default is set.
struct SessionOptions : infer_session_options {
  SessionOptions() : infer_session_options{} { size = sizeof(infer_session_options); }
};
struct QuantizeOptions : infer_quantize_options {
  QuantizeOptions() : infer_quantize_options{} { size = sizeof(infer_quantize_options); }
};
struct PruneOptions : infer_prune_options {
  PruneOptions() : infer_prune_options{} { size = sizeof(infer_prune_options); }
};
struct CompareOptions : infer_compare_options {
  CompareOptions() : infer_compare_options{} { size = sizeof(infer_compare_options); }
};

/// An input or output as the model declares it.
struct Value {
  std::string name;
  infer_dtype dtype = INFER_UNDEFINED;
  bool has_rank = false;
  std::vector<int64_t> dims;         ///< -1: open, or named by `symbols`
  std::vector<std::string> symbols;  ///< "" where an extent has no name
};

class Model {
 public:
  static Result<Model> Load(const std::string& path) {
    infer_model* m = nullptr;
    const infer_code code = infer_model_load(path.c_str(), &m);
    return Made(code, m);
  }
  /// Of an .onnx file without external data.
  static Result<Model> FromBytes(std::span<const std::byte> bytes) {
    infer_model* m = nullptr;
    const infer_code code = infer_model_load_bytes(bytes.data(), bytes.size(), &m);
    return Made(code, m);
  }

  Status Fuse(int level = 3) { return Status::Of(infer_model_fuse(get(), level)); }
  /// Modes that need no data.
  Result<infer_quantize_report> Quantize(const QuantizeOptions& options) {
    infer_quantize_report report{};
    report.size = sizeof(report);
    const Status s = Status::Of(infer_model_quantize(get(), &options, &report));
    if (!s.ok()) return s;
    return report;
  }
  Result<infer_quantize_report> Quantize(const Samples& samples, QuantizeOptions options = {}) {
    infer_quantize_report report{};
    report.size = sizeof(report);
    const Status s = WithSamples(samples, inputs().size(), [&](const infer_samples* c) {
      options.calibration = c;
      return infer_model_quantize(get(), &options, &report);
    });
    if (!s.ok()) return s;
    return report;
  }
  /// By magnitude alone.
  Result<infer_prune_report> Prune(const PruneOptions& options) {
    infer_prune_report report{};
    report.size = sizeof(report);
    const Status s = Status::Of(infer_model_prune(get(), &options, &report));
    if (!s.ok()) return s;
    return report;
  }
  Result<infer_prune_report> Prune(const Samples& samples, PruneOptions options) {
    infer_prune_report report{};
    report.size = sizeof(report);
    const Status s = WithSamples(samples, inputs().size(), [&](const infer_samples* c) {
      options.calibration = c;
      return infer_model_prune(get(), &options, &report);
    });
    if (!s.ok()) return s;
    return report;
  }
  Status Save(const std::string& path) const {
    return Status::Of(infer_model_save(get(), path.c_str()));
  }

  std::vector<Value> inputs() const {
    return Values(infer_model_inputs(get()), &infer_model_input);
  }
  std::vector<Value> outputs() const {
    return Values(infer_model_outputs(get()), &infer_model_output);
  }
  size_t nodes() const { return infer_model_nodes(get()); }
  std::string warnings() const { return infer_model_warnings(get()); }
  infer_model* get() const { return handle_.get(); }

 private:
  struct Free {
    void operator()(infer_model* m) const { infer_model_free(m); }
  };
  explicit Model(infer_model* m) : handle_(m) {}
  static Result<Model> Made(infer_code code, infer_model* m) {
    if (code != INFER_OK) return Status::Of(code);
    return Model(m);
  }
  std::vector<Value> Values(size_t count,
                            infer_code (*read)(const infer_model*, size_t, infer_value*)) const {
    std::vector<Value> values;
    for (size_t i = 0; i < count; ++i) {
      infer_value c{};
      Status::Of(read(get(), i, &c)).Check();  // cannot fail, but for want of memory
      Value v{c.name, static_cast<infer_dtype>(c.dtype), c.rank >= 0, {}, {}};
      for (int32_t d = 0; d < c.rank; ++d) {
        v.dims.push_back(c.dims[d]);
        v.symbols.emplace_back(c.symbols[d]);
      }
      values.push_back(std::move(v));
    }
    return values;
  }
  std::unique_ptr<infer_model, Free> handle_;
};

/// One output of a candidate beside the golden model's.
struct OutputAccuracy {
  std::string name;
  infer_accuracy numbers = {};  ///< its own name is NULL
};

inline Result<std::vector<OutputAccuracy>> Compare(const Model& golden, const Model& candidate,
                                                   const Samples& samples,
                                                   const CompareOptions& options = {}) {
  infer_comparison* c = nullptr;
  Status s = WithSamples(samples, golden.inputs().size(), [&](const infer_samples* given) {
    return infer_model_compare(golden.get(), candidate.get(), given, &options, &c);
  });
  const std::unique_ptr<infer_comparison, void (*)(infer_comparison*)> comparison(
      c, &infer_comparison_free);
  if (!s.ok()) return s;
  std::vector<OutputAccuracy> outputs(infer_comparison_outputs(c));
  for (size_t i = 0; i < outputs.size(); ++i) {
    infer_accuracy& numbers = outputs[i].numbers;
    numbers.size = sizeof(numbers);
    s = Status::Of(infer_comparison_output(c, i, &numbers));
    if (!s.ok()) return s;
    outputs[i].name = std::exchange(numbers.name, nullptr);
  }
  return outputs;
}

/// The outputs of one run; tensors that it gives view its memory.
class Outputs {
 public:
  explicit Outputs(infer_result* result) : handle_(result) {}  ///< takes it
  size_t size() const { return infer_result_outputs(handle_.get()); }
  Result<Tensor> at(size_t i) const {
    infer_tensor t{};
    const Status s = Status::Of(infer_result_output(handle_.get(), i, &t));
    if (!s.ok()) return s;
    return Tensor(t);
  }
  infer_result* get() const { return handle_.get(); }

 private:
  struct Free {
    void operator()(infer_result* r) const { infer_result_free(r); }
  };
  std::unique_ptr<infer_result, Free> handle_;
};

class Session {
 public:
  static Result<Session> Make(const Model& model, const SessionOptions& options = {}) {
    infer_session* s = nullptr;
    const Status status = Status::Of(infer_session_create(model.get(), &options, &s));
    if (!status.ok()) return status;
    return Session(s);
  }
  /// Of a handle that is the caller's to free, as infer_evaluate has it.
  static Session Take(infer_session* s) { return Session(s); }

  Result<Outputs> Run(std::span<const Tensor> inputs) {
    const std::vector<infer_tensor> c = CTensors(inputs);
    infer_result* result = nullptr;
    const Status s = Status::Of(infer_session_run(get(), c.data(), c.size(), &result));
    if (!s.ok()) return s;
    return Outputs(result);
  }
  Result<Outputs> Run(std::initializer_list<Tensor> inputs) {
    return Run(std::span(inputs.begin(), inputs.size()));
  }

  /// Called once where Submit is ok, on a thread of the session or before Submit returns. Must not
  /// throw, nor free the session.
  using Done = std::function<void(Result<Outputs>)>;
  /// The numbers of `inputs` are read until `done` is called. timeout_us < 0: none.
  Status Submit(std::span<const Tensor> inputs, Done done, int64_t timeout_us = -1) {
    auto request = std::make_unique<Request>();
    request->inputs.assign(inputs.begin(), inputs.end());
    request->done = std::move(done);
    const std::vector<infer_tensor> c = CTensors(request->inputs);
    Request* user = request.release();  // the callback's, which may come before the next line
    const infer_code code =
        infer_session_submit(get(), c.data(), c.size(), timeout_us, &Session::Tell, user);
    if (code != INFER_OK) request.reset(user);
    return Status::Of(code);
  }
  infer_session* get() const { return handle_.get(); }

 private:
  struct Free {
    void operator()(infer_session* s) const { infer_session_free(s); }
  };
  struct Request {
    std::vector<Tensor> inputs;  // their extents
    Done done;
  };
  explicit Session(infer_session* s) : handle_(s) {}
  static void Tell(void* user, infer_code code, const char* error, infer_result* result) noexcept {
    const std::unique_ptr<Request> request(static_cast<Request*>(user));
    if (code == INFER_OK)
      request->done(Outputs(result));
    else
      request->done(Status(code, error));
  }
  std::unique_ptr<infer_session, Free> handle_;
};

}  // namespace infer::api

#endif  // INFER_C_API_INFER_HPP_
