#include "runtime/cpu/kernels/move/indexed.h"

#include "lib/ops/common.h"
#include "lib/support/strings.h"

namespace infer {

int64_t MovedBytes(DType t) {
  const int bits = t == DType::kString || t == DType::kUndefined ? 0 : BitWidth(t);
  return bits == 8 || bits == 16 || bits == 32 || bits == 64 ? bits / 8 : 0;
}

std::string RefuseIndexed(const StepCall& call, size_t data, size_t indices) {
  return call.step.nodes.size() > 1 ? "it has no epilogue"
                                    : RefuseIndices(call.main(), data, indices);
}

std::string RefuseIndices(const Node& n, size_t data, size_t indices) {
  const DType t = ElementTypeOf(n.input(indices));
  if (t != DType::kI64 && t != DType::kI32) return "the indices are neither i64 nor i32";
  return MovedBytes(ElementTypeOf(n.input(data)))
             ? ""
             : Cat("elements of ", Name(ElementTypeOf(n.input(data))));
}

Status BadIndex(int64_t index, int64_t extent) {
  return InvalidModel(Cat("index ", index, " is out of range for an extent of ", extent));
}

Indices Indices::Of(const StepCall& call, const Value* v) {
  return {call.operand(v), ElementTypeOf(v) == DType::kI64};
}

Status Tuples::Check(std::byte* const* args) const {
  Status bad;
  for (int64_t i = 0; i < count; ++i)
    if (Start(args, i, bad) < 0) return bad;
  return {};
}

Result<Tuples> TuplesOf(Indices indices, const Dims& data, const Dims& index, int64_t batch) {
  if (index.empty()) return Unsupported("the indices are a scalar");
  Tuples t;
  t.indices = indices;
  t.depth = index.back();
  if (t.depth < 1 || batch + t.depth > static_cast<int64_t>(data.size()))
    return Unsupported("the indices do not fit");
  t.count = NumElements(index) / t.depth;
  t.per_batch = NumElements(Dims(index.begin() + batch, index.end() - 1));
  t.batch_stride = batch == 0 ? 0 : NumElements(Dims(data.begin() + batch, data.end()));
  const Dims strides = Strides(data);
  t.extents.assign(data.begin() + batch, data.begin() + batch + t.depth);
  t.strides.assign(strides.begin() + batch, strides.begin() + batch + t.depth);
  return t;
}

Result<Places> PlacesOf(Indices indices, const Dims& data, const Dims& index, int64_t axis) {
  constexpr int64_t kShortestRun = 4;
  if (data.size() != index.size() || data.empty()) return Unsupported("ranks");
  INFER_ASSIGN(const int a, NormalizeAxis(axis, static_cast<int>(data.size())));
  Places p;
  p.indices = indices;
  p.count = NumElements(index);
  p.extent = data[static_cast<size_t>(a)];
  const Dims strides = Strides(data);
  p.axis_stride = strides[static_cast<size_t>(a)];
  for (size_t d = 0; d < data.size(); ++d) {
    const bool along = static_cast<int>(d) == a;
    if (!along && index[d] > data[d]) return Unsupported("the indices are larger than the data");
    // Axes that follow each other in the data, too, are one; the axis is none of them.
    if (!along && d > 0 && static_cast<int>(d) != a + 1 && index[d] == data[d]) {
      p.dims.back() *= index[d];
      p.strides.back() = strides[d];
      continue;
    }
    p.dims.push_back(index[d]);
    p.strides.push_back(along ? 0 : strides[d]);
  }
  if (p.dims.size() > Places::kMostAxes) return Unsupported("too many axes");
  if (std::equal(data.begin() + a + 1, data.end(), index.begin() + a + 1, index.end()) &&
      p.axis_stride >= kShortestRun)
    p.run = p.axis_stride;
  return p;
}

}  // namespace infer
