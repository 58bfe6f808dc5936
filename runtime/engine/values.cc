#include "runtime/engine/values.h"

namespace infer::engine {
namespace {

int64_t BytesOf(const Datum& d) {
  if (d.is_sequence()) {
    int64_t bytes = 0;
    for (const Datum& e : d.sequence()) bytes += BytesOf(e);
    return bytes;
  }
  if (d.is_map()) {
    const MapDatum& map = d.map();
    return BytesOf(Datum(map.keys)) + (map.values ? BytesOf(*map.values) : 0);
  }
  if (d.is_optional()) return d.optional().value ? BytesOf(*d.optional().value) : 0;
  if (d.tensor().dtype() != DType::kString) return d.tensor().byte_size();
  int64_t bytes = 0;
  for (const std::string& s : d.tensor().strings()) bytes += static_cast<int64_t>(s.size());
  return bytes;
}

}  // namespace

Datum WithTensors(const Datum& d, const std::function<Tensor(const Tensor&)>& f) {
  const auto within = [&](const std::shared_ptr<const Datum>& value) {
    return value ? std::make_shared<const Datum>(WithTensors(*value, f)) : nullptr;
  };
  if (d.is_sequence()) {
    SequenceDatum out;
    for (const Datum& e : d.sequence()) out.elements.push_back(WithTensors(e, f));
    return out;
  }
  if (d.is_optional()) return OptionalDatum{within(d.optional().value)};
  if (d.is_map()) return MapDatum{f(d.map().keys), within(d.map().values)};
  return f(d.tensor());
}

Datum Copied(const Datum& d) {
  return WithTensors(d, [](const Tensor& t) { return t.defined() ? t.Clone() : t; });
}

int64_t BytesOf(const std::vector<Datum>& inputs) {
  int64_t bytes = 0;
  for (const Datum& d : inputs) bytes += BytesOf(d);
  return bytes;
}

}  // namespace infer::engine
