#include "quant/accuracy/datum_error.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "lib/support/strings.h"

namespace infer {
namespace {

using Pairs = std::map<std::string, const Datum*>;

/// The values by their keys, numbers as text.
Pairs PairsOf(const MapDatum& map) {
  Pairs pairs;
  const bool is_text = map.keys.dtype() == DType::kString;
  const std::vector<Datum>& values = map.values->sequence();
  for (size_t i = 0; i < values.size(); ++i)
    pairs[is_text ? map.keys.strings()[i] : Cat(map.keys.IntAt(static_cast<int64_t>(i)))] =
        &values[i];
  return pairs;
}

/// The values of keys that both sides have, map by map.
struct SharedPairs {
  std::vector<const Datum*> golden, candidate;
  int64_t unshared = 0;  ///< keys of one side
  int64_t width = -1;    ///< of all maps; 0 where they differ
};

void AddPairs(const Pairs& golden, const Pairs& candidate, SharedPairs& out) {
  int64_t shared = 0;
  for (const auto& [key, value] : golden) {
    const auto it = candidate.find(key);
    if (it == candidate.end()) continue;
    out.golden.push_back(value);
    out.candidate.push_back(it->second);
    ++shared;
  }
  out.unshared += static_cast<int64_t>(golden.size() + candidate.size()) - 2 * shared;
  out.width = out.width < 0 || out.width == shared ? shared : 0;
}

/// Whether these are single elements of one type.
bool AreElements(const std::vector<const Datum*>& values) {
  return std::all_of(values.begin(), values.end(), [&](const Datum* d) {
    return d->is_tensor() && d->tensor().defined() && d->tensor().num_elements() == 1 &&
           d->tensor().dtype() == values.front()->tensor().dtype() &&
           (BitWidth(d->tensor().dtype()) % 8) == 0;
  });
}

Tensor Joined(const std::vector<const Datum*>& values, const Dims& dims) {
  const DType dtype = values.front()->tensor().dtype();
  if (dtype == DType::kString) {
    std::vector<std::string> texts;
    for (const Datum* d : values) texts.push_back(d->tensor().strings()[0]);
    return Tensor::OfStrings(dims, std::move(texts));
  }
  Tensor t(dtype, dims);
  std::byte* to = t.mutable_raw();
  for (const Datum* d : values) {
    const auto bytes = d->tensor().bytes();
    std::memcpy(to, bytes.data(), bytes.size());
    to += bytes.size();
  }
  return t;
}

Status AddMaps(std::span<const Datum> golden, std::span<const Datum> candidate,
               TensorComparer& comparer) {
  SharedPairs pairs;
  for (size_t i = 0; i < golden.size(); ++i)
    AddPairs(PairsOf(golden[i].map()), PairsOf(candidate[i].map()), pairs);
  comparer.AddUnequal(pairs.unshared);
  if (pairs.golden.empty()) return {};
  if (!AreElements(pairs.golden) || !AreElements(pairs.candidate)) {
    for (size_t i = 0; i < pairs.golden.size(); ++i)
      INFER_TRY(AddDatum(*pairs.golden[i], *pairs.candidate[i], comparer));
    return {};
  }
  const auto count = static_cast<int64_t>(pairs.golden.size());
  const Dims dims = pairs.width > 0 ? Dims{count / pairs.width, pairs.width} : Dims{count, 1};
  return comparer.Add(Joined(pairs.golden, dims), Joined(pairs.candidate, dims));
}

bool AreMaps(const std::vector<Datum>& values) {
  return !values.empty() &&
         std::all_of(values.begin(), values.end(), [](const Datum& d) { return d.is_map(); });
}

}  // namespace

Status AddDatum(const Datum& golden, const Datum& candidate, TensorComparer& comparer) {
  if (golden.is_tensor() && candidate.is_tensor())
    return comparer.Add(golden.tensor(), candidate.tensor());
  if (golden.is_optional() && candidate.is_optional()) {
    const auto& g = golden.optional().value;
    const auto& c = candidate.optional().value;
    if (!g && !c) return {};
    if (!g || !c) return InvalidModel("one side is an empty optional");
    return AddDatum(*g, *c, comparer);
  }
  if (golden.is_map() && candidate.is_map())
    return AddMaps(std::span(&golden, 1), std::span(&candidate, 1), comparer);
  if (!golden.is_sequence() || !candidate.is_sequence())
    return InvalidModel("golden and candidate are of different kinds");
  const auto& g = golden.sequence();
  const auto& c = candidate.sequence();
  if (g.size() != c.size())
    return InvalidModel(Cat("golden is a sequence of ", g.size(), ", candidate of ", c.size()));
  if (AreMaps(g) && AreMaps(c)) return AddMaps(g, c, comparer);
  for (size_t i = 0; i < g.size(); ++i) INFER_TRY(AddDatum(g[i], c[i], comparer));
  return {};
}

}  // namespace infer
