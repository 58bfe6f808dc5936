#include "runtime/c_api/handles.h"

#include <cstdint>
#include <utility>

namespace infer::c_api {
namespace {

constexpr int32_t kMostDims = 64;  // no model has so many

thread_local std::string t_error;  // infer_last_error()

Description DescriptionOf(const Value& v) {
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

}  // namespace

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

Code CodeOfCallback(int code) {
  for (const Code c : {Code::kOk, Code::kInvalidModel, Code::kUnsupported, Code::kIo,
                       Code::kResource, Code::kCancelled, Code::kInternal})
    if (CodeOf(c) == code) return c;
  return Code::kInvalidArgument;
}

infer_code Failed(const Status& status) noexcept {
  try {
    t_error = status.message();
  } catch (...) {
    t_error.clear();  // no memory for the text
  }
  return CodeOf(status.code());
}

const char* LastError() { return t_error.c_str(); }

std::vector<Description> Describe(const std::vector<Value*>& values) {
  std::vector<Description> described;
  described.reserve(values.size());
  for (const Value* v : values) described.push_back(DescriptionOf(*v));
  for (Description& d : described)  // nothing moves any more
    for (const std::string& s : d.symbols) d.symbol_texts.push_back(s.c_str());
  return described;
}

Result<Tensor> TensorOf(const infer_tensor& t, size_t index, Borrow borrow) {
  const auto wrong = [&](const auto&... text) {
    return InvalidArgument(Cat("input ", index, ": ", text...));
  };
  if (t.dtype <= 0 || t.dtype >= kNumDTypes) return wrong("no element type has number ", t.dtype);
  const auto dtype = static_cast<DType>(t.dtype);
  if (dtype == DType::kString) return wrong("strings cannot be passed");
  if (t.rank < 0 || t.rank > kMostDims) return wrong("rank ", t.rank);
  if (t.rank > 0 && !t.dims) return wrong("dims are missing");
  Dims dims(t.dims, t.dims + t.rank);
  const auto count = CheckedNumElements(dims);
  if (!count) return wrong("extents ", ToString(dims));
  const auto bytes = static_cast<size_t>(PackedBytes(dtype, *count));
  if (bytes != t.bytes)
    return wrong(Name(dtype), ToString(dims), " has ", bytes, " bytes, not ", t.bytes);
  if (bytes > 0 && !t.data) return wrong("data is NULL");
  constexpr uintptr_t kAlignment = 16;  // the widest element
  const bool is_aligned = reinterpret_cast<uintptr_t>(t.data) % kAlignment == 0;
  if (bytes > 0 && is_aligned && borrow == Borrow::kWhereAligned)
    return Tensor(dtype, std::move(dims), Buffer::Borrow(t.data, bytes, nullptr));
  Tensor copy(dtype, std::move(dims));
  if (bytes > 0) std::memcpy(copy.mutable_raw(), t.data, bytes);
  return copy;
}

Result<const Tensor*> OutputOf(const infer_result& result, size_t i) {
  if (i >= result.outputs.size())
    return InvalidArgument(Cat("number ", i, " of ", result.outputs.size(), " outputs"));
  if (!result.outputs[i].is_tensor()) return Unsupported(Cat("output ", i, " is no tensor"));
  return &result.outputs[i].tensor();
}

}  // namespace infer::c_api
