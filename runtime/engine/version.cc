#include "runtime/engine/version.h"

#include <numeric>

#include "lib/support/exceptions.h"
#include "lib/support/strings.h"
#include "runtime/engine/stack.h"

namespace infer::engine {
namespace {

int64_t BytesOf(const Datum& d) {
  if (d.is_sequence()) {
    int64_t bytes = 0;
    for (const Datum& e : d.sequence()) bytes += BytesOf(e);
    return bytes;
  }
  if (d.is_map()) return d.map().keys.byte_size() + BytesOf(*d.map().values);
  if (d.is_optional()) return d.optional().value ? BytesOf(*d.optional().value) : 0;
  if (d.tensor().dtype() != DType::kString) return d.tensor().byte_size();
  int64_t bytes = 0;
  for (const std::string& s : d.tensor().strings()) bytes += static_cast<int64_t>(s.size());
  return bytes;
}

Status CheckTensor(const Tensor& t, const Value& v) {
  const auto refuse = [&] {
    return InvalidArgument(
        Cat("input '", v.name(), "' is ", ToString(v.type()), ", got ", ToString(t.type())));
  };
  if (!v.type().is_tensor()) return {};  // the context looks at these
  if (t.dtype() != v.dtype()) return refuse();
  if (!v.shape().has_rank()) return {};
  if (t.rank() != v.shape().rank()) return refuse();
  for (int i = 0; i < t.rank(); ++i)
    if (v.shape()[i].is_static() && v.shape()[i].value() != t.dim(i)) return refuse();
  return {};
}

/// The same tensor without a share in its owner: what a context keeps bound behind its run must
/// keep nothing of the caller's alive.
Datum Borrowed(const Datum& d) {
  if (!d.is_tensor() || d.tensor().dtype() == DType::kString || d.tensor().byte_size() == 0)
    return d;
  const Tensor& t = d.tensor();
  return Tensor(t.dtype(), t.dims(),
                Buffer::Borrow(t.raw(), static_cast<size_t>(t.byte_size()), nullptr));
}

/// An output that is the caller's to change: shared where the context alone holds it, since the
/// next run writes into no buffer that somebody else holds; copied where it is an input, a constant
/// or another output as well.
Datum Own(const Datum& d) {
  if (!d.is_tensor() || !d.tensor().defined()) return d;
  const auto& buffer = d.tensor().buffer();
  const bool alone = buffer && !buffer->borrowed() && buffer.use_count() == 1;
  return alone ? d : Datum(d.tensor().Clone());
}

}  // namespace

Result<ModelSource> CompileSource(const Backend& backend, Graph graph,
                                  const CompileOptions& options) {
  ModelSource source;
  source.axes = ProveBatchAxes(graph);
  INFER_ASSIGN(source.program, backend.CompileOwned(std::move(graph), options));
  return source;
}

Result<std::shared_ptr<Version>> Version::Make(std::string model, int64_t number,
                                               ModelSource source, ModelOptions options) {
  if (!source.program) return InvalidArgument(Cat("model '", model, "' has no program"));
  if (options.instances < 1)
    return InvalidArgument(Cat("model '", model, "': ", options.instances, " instances"));
  if (options.batch.max_rows > 1 && !source.axes.proved)
    return InvalidArgument(Cat("model '", model, "' cannot be batched: ", source.axes.reason));
  try {
    std::shared_ptr<Version> v(
        new Version(std::move(model), number, std::move(source), std::move(options)));
    for (int i = 0; i < v->options_.instances; ++i) {
      INFER_ASSIGN(auto context, v->program().NewContext());
      INFER_TRY(v->Warm(*context));
      v->idle.push_back(std::move(context));
    }
    v->ran = !v->options_.warm_inputs.empty();
    return v;
  } catch (...) {
    return StatusOfException("while a model was loaded");
  }
}

Status Version::Warm(RunContext& context) const {
  const std::vector<Datum>& inputs = options_.warm_inputs;
  if (inputs.empty()) return {};
  const Fit fit = FitOf(inputs);
  if (!fit.status.ok()) return Status(fit.status).In(Cat("warm-up of model '", model_, "'"));
  const auto most = static_cast<size_t>(
      batches() && fit.rows > 0 ? std::max<int64_t>(1, options_.batch.max_rows / fit.rows) : 1);
  for (size_t requests : {most, size_t{1}}) {
    const std::vector<const std::vector<Datum>*> all(requests, &inputs);
    INFER_TRY(BindStacked(*this, context, all));
    if (Status s = context.Run(); !s.ok())
      return std::move(s).In(Cat("warm-up of model '", model_, "'"));
    if (most == 1) break;
  }
  return {};
}

Fit Version::FitOf(const std::vector<Datum>& inputs) const {
  Fit fit;
  const auto& declared = program().inputs();
  if (inputs.size() != declared.size()) {
    fit.status =
        InvalidArgument(Cat("got ", inputs.size(), " inputs, the model has ", declared.size()));
    return fit;
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    fit.bytes += BytesOf(inputs[i]);
    if (!inputs[i].is_tensor()) continue;
    const Tensor& t = inputs[i].tensor();
    fit.status = CheckTensor(t, *declared[i]);
    if (!fit.status.ok()) return fit;
    if (!batches()) continue;
    const int axis = axes().inputs[i];
    if (i == 0) fit.rows = t.dim(axis);
    for (int a = 0; a < t.rank(); ++a)
      if (a != axis) fit.shape.push_back(t.dim(a));
    if (t.dim(axis) != fit.rows)
      fit.status =
          InvalidArgument(Cat("input '", declared[i]->name(), "' has ", t.dim(axis), " ",
                              axes().symbol, ", input '", declared[0]->name(), "' has ", fit.rows));
  }
  return fit;
}

Status BindStacked(const Version& version, RunContext& context,
                   std::span<const std::vector<Datum>* const> requests) {
  for (size_t i = 0; i < requests[0]->size(); ++i) {
    if (requests.size() == 1) {
      INFER_TRY(context.BindInput(i, Borrowed((*requests[0])[i])));
      continue;
    }
    std::vector<const Tensor*> parts;
    for (const auto* r : requests) parts.push_back(&(*r)[i].tensor());
    INFER_TRY(context.BindInput(i, Stack(parts, version.axes().inputs[i])));
  }
  return {};
}

Result<std::vector<std::vector<Datum>>> SplitOutputs(const Version& version,
                                                     const RunContext& context,
                                                     std::span<const int64_t> rows) {
  std::vector<std::vector<Datum>> out(rows.size());
  const int64_t total = std::accumulate(rows.begin(), rows.end(), int64_t{0});
  for (size_t o = 0; o < version.program().outputs().size(); ++o) {
    const Datum& whole = context.output(o);
    const int axis = rows.size() > 1 ? version.axes().outputs[o] : -1;
    if (axis >= 0 &&
        (!whole.is_tensor() || whole.tensor().rank() <= axis || whole.tensor().dim(axis) != total))
      return Internal(Cat("output '", version.program().outputs()[o]->name(), "' of a batch of ",
                          total, " has not so many rows on axis ", axis));
    int64_t begin = 0;
    for (size_t r = 0; r < rows.size(); ++r) {
      out[r].push_back(axis < 0 ? Own(whole) : Part(whole.tensor(), axis, begin, rows[r]));
      begin += rows[r];
    }
  }
  return out;
}

}  // namespace infer::engine
