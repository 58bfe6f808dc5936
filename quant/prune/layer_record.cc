#include "quant/prune/layer_record.h"

#include <cstring>

#include "quant/calibrate/state.h"

namespace infer {

std::string ToRecord(const LayerResult& r) {
  std::string out;
  PutText(out, r.method);
  PutText(out, r.note);
  for (const double d : {r.error, r.magnitude_error, r.dense_error}) PutDouble(out, d);
  PutNumber(out, r.matrix.shift.size());
  for (const double d : r.matrix.shift) PutDouble(out, d);
  const auto& w = r.matrix.weights;
  PutNumber(out, w.size());
  out.append(reinterpret_cast<const char*>(w.data()), w.size() * sizeof(float));
  return out;
}

std::optional<LayerResult> LayerResultOf(std::string_view in, int64_t weights) {
  LayerResult r;
  uint64_t n = 0;
  if (!TakeText(in, r.method) || !TakeText(in, r.note)) return std::nullopt;
  for (double* d : {&r.error, &r.magnitude_error, &r.dense_error})
    if (!TakeDouble(in, *d)) return std::nullopt;
  if (!TakeNumber(in, n) || n > in.size() / 8) return std::nullopt;
  r.matrix.shift.resize(n);
  for (double& d : r.matrix.shift)
    if (!TakeDouble(in, d)) return std::nullopt;
  if (!TakeNumber(in, n) || in.size() / sizeof(float) != n || in.size() % sizeof(float) != 0)
    return std::nullopt;
  if (n != static_cast<uint64_t>(weights) && !(n == 0 && r.method == "dense")) return std::nullopt;
  r.matrix.weights.resize(n);
  std::memcpy(r.matrix.weights.data(), in.data(), in.size());
  return r;
}

std::string ToRecord(const KeptCost& c) {
  std::string out;
  PutDouble(out, c.at_share);
  PutNumber(out, c.points.size());
  for (const auto& [units, cost] : c.points) {
    PutNumber(out, static_cast<uint64_t>(units));
    PutDouble(out, cost);
  }
  return out;
}

std::optional<KeptCost> KeptCostOf(std::string_view in) {
  KeptCost c;
  uint64_t n = 0;
  if (!TakeDouble(in, c.at_share) || !TakeNumber(in, n) || n > in.size()) return std::nullopt;
  for (; n > 0; --n) {
    uint64_t units = 0;
    double cost = 0;
    if (!TakeNumber(in, units) || !TakeDouble(in, cost)) return std::nullopt;
    c.points.emplace_back(static_cast<int64_t>(units), cost);
  }
  return in.empty() ? std::optional(std::move(c)) : std::nullopt;
}

std::string ToRecord(const GroupOrder& g) {
  std::string out;
  PutNumber(out, g.order.size());
  for (size_t i = 0; i < g.order.size(); ++i) {
    PutNumber(out, static_cast<uint64_t>(g.order[i]));
    PutDouble(out, g.errors[i]);
    PutDouble(out, g.costs[i]);
  }
  return out;
}

std::optional<GroupOrder> GroupOrderOf(std::string_view in) {
  GroupOrder g;
  uint64_t n = 0;
  if (!TakeNumber(in, n) || n > in.size()) return std::nullopt;
  for (; n > 0; --n) {
    uint64_t unit = 0;
    double error = 0, cost = 0;
    if (!TakeNumber(in, unit) || !TakeDouble(in, error) || !TakeDouble(in, cost))
      return std::nullopt;
    g.order.push_back(static_cast<int64_t>(unit));
    g.errors.push_back(error);
    g.costs.push_back(cost);
  }
  return in.empty() ? std::optional(std::move(g)) : std::nullopt;
}

}  // namespace infer
