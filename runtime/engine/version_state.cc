/// The state of a model's sequences among its inputs and outputs.
#include <algorithm>
#include <set>

#include "lib/support/strings.h"
#include "runtime/engine/version.h"

namespace infer::engine {

Status Version::CheckState() const {
  const StateRules& rules = options_.state;
  std::set<size_t> inputs, outputs;
  const auto refuse = [&](const std::string& why) {
    return InvalidArgument(Cat("state of model '", model_, "': ", why));
  };
  for (const StatePair& p : rules.pairs) {
    if (p.input >= program().inputs().size() || !inputs.insert(p.input).second)
      return refuse(Cat("input ", p.input, " is none, or is there twice"));
    if (p.output >= program().outputs().size() || !outputs.insert(p.output).second)
      return refuse(Cat("output ", p.output, " is none, or is there twice"));
    const Value &in = *program().inputs()[p.input], &out = *program().outputs()[p.output];
    if (!in.type().is_tensor() || !out.type().is_tensor() || in.dtype() != out.dtype() ||
        (in.shape().has_rank() && out.shape().has_rank() &&
         in.shape().rank() != out.shape().rank()))
      return refuse(Cat("output '", out.name(), "' is ", ToString(out.type()), ", input '",
                        in.name(), "' ", ToString(in.type())));
    if (p.initial.defined() && p.initial.dtype() != in.dtype())
      return refuse(Cat("input '", in.name(), "' begins as ", ToString(p.initial.type())));
  }
  if (!rules.pairs.empty() && options_.drift)
    return refuse("drift is watched of models without state only");
  return {};
}

Status Version::AddState(std::vector<Datum>& inputs, const std::vector<Datum>& state) const {
  const auto& pairs = options_.state.pairs;
  const size_t all = program().inputs().size();
  if (inputs.size() + pairs.size() != all)
    return InvalidArgument(
        Cat("got ", inputs.size(), " inputs, a step of the model has ", all - pairs.size()));
  std::vector<Datum> with(all);
  std::vector<bool> is_state(all, false);
  for (size_t k = 0; k < pairs.size(); ++k) {
    with[pairs[k].input] = state[k];
    is_state[pairs[k].input] = true;
  }
  size_t next = 0;
  for (size_t i = 0; i < all; ++i)
    if (!is_state[i]) with[i] = std::move(inputs[next++]);
  inputs = std::move(with);
  return {};
}

Result<std::vector<Datum>> Version::InitialState(const std::vector<Datum>& inputs) const {
  const auto& pairs = options_.state.pairs;
  std::vector<Datum> with = inputs;
  INFER_TRY(AddState(with, std::vector<Datum>(pairs.size())));
  std::map<std::string, int64_t> extents;
  for (size_t i = 0; i < with.size(); ++i) {
    if (!with[i].is_tensor() || !with[i].tensor().defined()) continue;
    const Shape& shape = program().inputs()[i]->shape();
    const Tensor& t = with[i].tensor();
    for (int a = 0; shape.has_rank() && a < std::min(shape.rank(), t.rank()); ++a)
      if (!shape[a].is_static() && !shape[a].symbol().empty())
        extents.emplace(shape[a].symbol(), t.dim(a));
  }
  std::vector<Datum> state;
  for (const StatePair& p : pairs) {
    if (p.initial.defined()) {
      state.emplace_back(p.initial);
      continue;
    }
    const Value& in = *program().inputs()[p.input];
    if (!in.shape().has_rank())
      return InvalidArgument(Cat("input '", in.name(), "' begins with nothing that is known"));
    Dims dims;
    for (const Dim& d : in.shape().dims()) {
      const auto found = d.is_static() ? extents.end() : extents.find(d.symbol());
      dims.push_back(d.is_static() ? d.value() : found == extents.end() ? 0 : found->second);
    }
    state.emplace_back(Tensor::Zeros(in.dtype(), std::move(dims)));
  }
  return state;
}

std::vector<Datum> Version::TakeState(std::vector<Datum>& outputs) const {
  std::vector<Datum> state, rest;
  std::vector<bool> is_state(outputs.size(), false);
  for (const StatePair& p : options_.state.pairs) {
    state.push_back(std::move(outputs[p.output]));
    is_state[p.output] = true;
  }
  for (size_t o = 0; o < outputs.size(); ++o)
    if (!is_state[o]) rest.push_back(std::move(outputs[o]));
  outputs = std::move(rest);
  return state;
}

}  // namespace infer::engine
