/// Requests into the inputs of a run, and its outputs apart.
#include <algorithm>
#include <cmath>

#include "lib/support/strings.h"
#include "runtime/engine/stack.h"
#include "runtime/engine/values.h"
#include "runtime/engine/version.h"

namespace infer::engine {
namespace {

/// The same value without a share in its owner: what a context keeps bound behind its run must
/// keep nothing of the caller's alive.
Tensor BorrowedTensor(const Tensor& t) {
  if (t.dtype() == DType::kString || t.byte_size() == 0) return t;
  return Tensor(t.dtype(), t.dims(),
                Buffer::Borrow(t.raw(), static_cast<size_t>(t.byte_size()), nullptr));
}
Datum Borrowed(const Datum& d) {
  return d.is_tensor() ? Datum(BorrowedTensor(d.tensor())) : WithTensors(d, BorrowedTensor);
}

/// An output that is the caller's to change: shared where the context alone holds it, since the
/// next run writes into no buffer that somebody else holds; copied where it is an input, a constant
/// or another output as well, or is made of several tensors.
Datum Own(const Datum& d) {
  if (!d.is_tensor()) return Copied(d);
  if (!d.tensor().defined()) return d;
  const auto& buffer = d.tensor().buffer();
  const bool alone = buffer && !buffer->borrowed() && buffer.use_count() == 1;
  return alone ? d : Datum(d.tensor().Clone());
}

/// The tensor as the run takes it.
Tensor Padded(const Version& version, const RunPart& part, size_t input) {
  const Tensor& t = (*part.inputs)[input].tensor();
  return part.padded_to > 0
             ? PaddedWithZeros(t, version.padded_axes().inputs[input], part.padded_to)
             : t;
}

bool IsPadded(const Version& version, const RunPart& part, size_t input) {
  return part.padded_to > 0 && !version.padded_axes().inputs[input].empty();
}

bool IsFinite(const Tensor& t) {
  if (!IsFloat(t.dtype())) return true;
  if (t.dtype() == DType::kF32) {
    const auto all = t.data<float>();
    return std::all_of(all.begin(), all.end(), [](float v) { return std::isfinite(v); });
  }
  for (int64_t i = 0; i < t.num_elements(); ++i)
    if (!std::isfinite(t.At(i))) return false;
  return true;
}

/// A request's part of an output, cut back to the length that it had.
Result<Datum> Unpadded(const Version& version, const RunPart& part, size_t output, Datum d) {
  const PaddedAxes& axes = version.padded_axes();
  for (int axis : axes.outputs[output]) {
    if (!d.is_tensor() || d.tensor().rank() <= axis || d.tensor().dim(axis) != part.padded_to)
      return Internal(Cat("output '", version.program().outputs()[output]->name(),
                          "' of a run padded to ", part.padded_to, " is not so long on axis ",
                          axis));
    d = Part(d.tensor(), axis, 0, part.length);
  }
  if (axes.takes_finite && d.is_tensor() && !IsFinite(d.tensor()))
    return Internal(Cat("output '", version.program().outputs()[output]->name(),
                        "' of a padded run is not finite"));
  return d;
}

}  // namespace

Status BindStacked(const Version& version, RunContext& context, std::span<const RunPart> requests) {
  for (size_t i = 0; i < requests[0].inputs->size(); ++i) {
    if (requests.size() == 1) {
      const RunPart& alone = requests[0];
      INFER_TRY(context.BindInput(i, IsPadded(version, alone, i) ? Datum(Padded(version, alone, i))
                                                                 : Borrowed((*alone.inputs)[i])));
      continue;
    }
    std::vector<Tensor> padded;
    std::vector<const Tensor*> parts;
    padded.reserve(requests.size());
    for (const RunPart& r : requests) {
      const Tensor& t = (*r.inputs)[i].tensor();
      parts.push_back(IsPadded(version, r, i) ? &padded.emplace_back(Padded(version, r, i)) : &t);
    }
    INFER_TRY(context.BindInput(i, Stack(parts, version.axes().inputs[i])));
  }
  return {};
}

Result<std::vector<std::vector<Datum>>> SplitOutputs(const Version& version,
                                                     const RunContext& context,
                                                     std::span<const RunPart> requests) {
  std::vector<std::vector<Datum>> out(requests.size());
  int64_t total = 0;
  for (const RunPart& r : requests) total += r.rows;
  for (size_t o = 0; o < version.program().outputs().size(); ++o) {
    const Datum& whole = context.output(o);
    const int axis = requests.size() > 1 ? version.axes().outputs[o] : -1;
    if (axis >= 0 &&
        (!whole.is_tensor() || whole.tensor().rank() <= axis || whole.tensor().dim(axis) != total))
      return Internal(Cat("output '", version.program().outputs()[o]->name(), "' of a batch of ",
                          total, " has not so many rows on axis ", axis));
    int64_t begin = 0;
    for (size_t r = 0; r < requests.size(); ++r) {
      const int64_t rows = requests[r].rows;
      Datum part = axis < 0 ? Own(whole) : Datum(Part(whole.tensor(), axis, begin, rows));
      if (requests[r].padded_to > 0) {
        INFER_ASSIGN(part, Unpadded(version, requests[r], o, std::move(part)));
      }
      out[r].push_back(std::move(part));
      begin += rows;
    }
  }
  return out;
}

}  // namespace infer::engine
