#include "tools/infer_bench/llm/decoder.h"

#include <algorithm>
#include <limits>

#include "lib/support/strings.h"

namespace infer::bench {
namespace {

constexpr int64_t kFewTokens = 100;  // where the model does not say how many it knows

bool Contains(const std::string& name, std::string_view part) {
  return name.find(part) != std::string::npos;
}

/// The same number in every element.
Tensor Filled(DType dtype, Dims dims, int64_t number) {
  Tensor t = Tensor::Zeros(dtype, std::move(dims));
  for (int64_t i = 0; number != 0 && i < t.num_elements(); ++i) {
    if (IsFloat(dtype))
      t.Set(i, static_cast<double>(number));
    else
      t.SetInt(i, number);
  }
  return t;
}

}  // namespace

Result<Decoder> Decoder::Make(std::shared_ptr<const Program> program, int64_t batch,
                              int64_t vocabulary, uint64_t seed) {
  Decoder d(std::move(program), batch, seed);
  INFER_TRY(d.ReadInputs());
  INFER_ASSIGN(d.context_, d.program_->NewContext());
  const Value& logits = *d.program_->outputs()[0];
  const Shape& shape = logits.shape();
  const bool known = shape.has_rank() && shape.rank() > 0 && shape[shape.rank() - 1].is_static();
  d.vocabulary_ = vocabulary > 0 ? vocabulary
                  : known        ? shape[shape.rank() - 1].value()
                                 : kFewTokens;
  constexpr int64_t kMost = std::numeric_limits<uint32_t>::max();
  if (d.vocabulary_ < 1 || d.vocabulary_ > kMost)
    return InvalidArgument(Cat("a vocabulary of ", d.vocabulary_, " tokens"));
  return d;
}

Status Decoder::ReadInputs() {
  std::vector<size_t> caches;
  bool has_ids = false;
  for (size_t i = 0; i < program_->inputs().size(); ++i) {
    const Value& v = *program_->inputs()[i];
    const std::string& name = v.name();
    const bool tensor = v.type().is_tensor() && v.shape().has_rank();
    std::optional<Role>& role = roles_.emplace_back();
    if (tensor && Contains(name, "past") && v.shape().rank() >= 4)
      role = Role::kCache;
    else if (tensor && Contains(name, "mask"))
      role = Role::kMask;
    else if (tensor && Contains(name, "position"))
      role = Role::kPositions;
    else if (tensor && Contains(name, "seqlens"))
      role = Role::kLast;
    else if (tensor && Contains(name, "total_seq"))
      role = Role::kTotal;
    else if (tensor && (Contains(name, "ids") || Contains(name, "token")))
      role = Role::kIds;
    if (!role)
      return Unsupported(Cat("input '", name, "' (", ToString(v.type()),
                             ") is none that decoders are known to have: input_ids, "
                             "attention_mask, position_ids, seqlens_k, total_sequence_length, "
                             "past..."));
    if (*role == Role::kCache) caches.push_back(i);
    if (*role != Role::kIds) continue;
    has_ids = true;
    if (v.shape().rank() != 2)
      return Unsupported(Cat("input '", name, "' is ", ToString(v.type()), ": no [batch, tokens]"));
    const Dim &samples = v.shape()[0], &tokens = v.shape()[1];
    if (samples.is_static() && samples.value() != batch_)
      return InvalidArgument(Cat("the model has a fixed batch of ", samples.value()));
    step_ = tokens.is_static() ? tokens.value() : 0;
  }
  if (!has_ids) return Unsupported("the model has no input_ids");
  return ReadCaches(caches);
}

Status Decoder::ReadCaches(const std::vector<size_t>& inputs) {
  std::vector<size_t> outputs;
  for (size_t o = 1; o < program_->outputs().size(); ++o) {
    const Value& v = *program_->outputs()[o];
    if (v.type().is_tensor() && v.shape().has_rank() && v.shape().rank() >= 4) outputs.push_back(o);
  }
  if (outputs.size() != inputs.size())
    return Unsupported(Cat("the model has ", inputs.size(), " caches as inputs and ",
                           outputs.size(), " as outputs"));
  for (size_t c = 0; c < inputs.size(); ++c) {
    const Value &in = *program_->inputs()[inputs[c]], &out = *program_->outputs()[outputs[c]];
    const int length = in.shape().rank() - 2;
    if (out.shape().rank() != in.shape().rank() || out.dtype() != in.dtype())
      return Unsupported(
          Cat("cache '", in.name(), "' comes out as '", out.name(), "', ", ToString(out.type())));
    Cache cache{inputs[c], outputs[c], in.dtype(), {}};
    for (int a = 0; a < in.shape().rank(); ++a) {
      const Dim& d = in.shape()[a];
      const bool open_batch = !d.is_static() && a != length;
      cache.dims.push_back(d.is_static() ? d.value() : open_batch ? batch_ : 0);
    }
    const int64_t fixed = cache.dims[static_cast<size_t>(length)];
    const Dim& after = out.shape()[length];
    if (fixed > 0 && (!after.is_static() || after.value() != fixed))
      return Unsupported(Cat("cache '", in.name(), "' has room for ", fixed,
                             " tokens and comes out "
                             "with another length: it can be read once"));
    capacity_ = fixed;
    caches_.push_back(std::move(cache));
  }
  return {};
}

int64_t Decoder::cache_bytes(int64_t tokens) const {
  int64_t bytes = 0;
  for (const Cache& c : caches_) {
    int64_t elements = 1;
    for (size_t a = 0; a < c.dims.size(); ++a)
      elements *= a + 2 == c.dims.size() && c.dims[a] == 0 ? tokens : c.dims[a];
    bytes += PackedBytes(c.dtype, elements);
  }
  return bytes;
}

Status Decoder::Begin(int64_t depth) {
  past_ = depth;
  for (const Cache& c : caches_) {
    Dims dims = c.dims;
    if (capacity_ == 0) dims[dims.size() - 2] = depth;
    Tensor zeros = Tensor::Zeros(c.dtype, std::move(dims));
    // In one buffer a run writes what is new, and nothing is copied.
    if (capacity_ > 0) INFER_TRY(context_->BindOutput(c.output, zeros));
    INFER_TRY(context_->BindInput(c.input, std::move(zeros)));
  }
  return {};
}

Result<Tensor> Decoder::ValueFor(Role role, const Value& input, int64_t tokens) {
  const auto of_rank = [&](Dims dims) -> Result<Tensor> {
    if (input.shape().rank() != static_cast<int>(dims.size()))
      return Unsupported(Cat("input '", input.name(), "' is ", ToString(input.type())));
    return Filled(input.dtype(), std::move(dims), 0);
  };
  const int64_t all = past_ + tokens;
  switch (role) {
    case Role::kIds: {
      INFER_ASSIGN(Tensor ids, of_rank({batch_, tokens}));
      for (int64_t i = 0; i < ids.num_elements(); ++i)
        ids.SetInt(i, random_.Below(static_cast<uint32_t>(vocabulary_)));
      return ids;
    }
    case Role::kPositions: {
      INFER_ASSIGN(Tensor positions, of_rank({batch_, tokens}));
      for (int64_t i = 0; i < positions.num_elements(); ++i)
        positions.SetInt(i, past_ + i % tokens);
      return positions;
    }
    case Role::kMask: {
      INFER_TRY(of_rank({batch_, all}).status());
      return Filled(input.dtype(), {batch_, all}, 1);
    }
    case Role::kLast: return Filled(input.dtype(), {batch_}, all - 1);
    case Role::kTotal:
      return Filled(input.dtype(), input.shape().rank() == 0 ? Dims{} : Dims{1}, all);
    case Role::kCache: break;
  }
  return Internal("caches are bound apart");
}

Status Decoder::Feed(int64_t tokens, const std::stop_token& stop) {
  for (size_t i = 0; i < roles_.size(); ++i) {
    if (*roles_[i] == Role::kCache) continue;
    INFER_ASSIGN(Tensor value, ValueFor(*roles_[i], *program_->inputs()[i], tokens));
    INFER_TRY(context_->BindInput(i, std::move(value)));
  }
  // Caches stay where the device has them.
  INFER_TRY(context_->Run({.stop = stop, .leave_resident = true}));
  past_ += tokens;
  for (const Cache& c : caches_) INFER_TRY(context_->Carry(c.output, c.input));
  return {};
}

}  // namespace infer::bench
