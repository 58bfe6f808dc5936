#include "quant/calibrate/cache.h"

#include <filesystem>

#include "lib/support/file.h"
#include "lib/support/hash.h"
#include "lib/support/strings.h"
#include "quant/calibrate/state.h"

namespace infer {
namespace {

constexpr std::string_view kMagic = "infer-opt calibration 2\n";

void PutHash(std::string& out, uint64_t v) { PutDouble(out, std::bit_cast<double>(v)); }
bool TakeHash(std::string_view& in, uint64_t& v) {
  double bits = 0;
  if (!TakeDouble(in, bits)) return false;
  v = std::bit_cast<uint64_t>(bits);
  return true;
}

std::string Hex(uint64_t v) {
  std::string out;
  for (int shift = 60; shift >= 0; shift -= 4) out += "0123456789abcdef"[(v >> shift) & 15];
  return out;
}

bool Parse(std::string_view in, SavedCalibration& s) {
  uint64_t done = 0, values = 0;
  if (!TakeHash(in, s.key.model) || !TakeHash(in, s.key.data) || !TakeText(in, s.key.state) ||
      !TakeText(in, s.key.build) || !TakeNumber(in, done) || !TakeNumber(in, values))
    return false;
  s.done = static_cast<int64_t>(done);
  for (uint64_t i = 0; i < values; ++i) {
    std::string name, state;
    if (!TakeText(in, name) || !TakeText(in, state)) return false;
    s.states[std::move(name)] = std::move(state);
  }
  return in.empty();
}

uint64_t HashOfDatum(const Datum& d) {
  Hasher h;
  if (d.is_tensor()) {
    h.Add(HashOf(d.tensor()));
  } else if (d.is_sequence()) {
    h.Add(d.sequence().size());
    for (const Datum& e : d.sequence()) h.Add(HashOfDatum(e));
  } else if (d.is_optional()) {
    h.Add(d.optional().value ? HashOfDatum(*d.optional().value) : 0);
  } else {
    h.Add(HashOf(d.map().keys)).Add(HashOfDatum(*d.map().values));
  }
  return h.value();
}

}  // namespace

uint64_t ModelKey(const Graph& g) {
  Hasher h;
  h.Add(Fingerprint(g));
  for (const auto& n : g.nodes())
    for (const Value* v : n->outputs()) h.Add(v ? std::string_view(v->name()) : std::string_view());
  return h.value();
}

Result<uint64_t> DataKey(const Samples& samples, const std::stop_token& stop) {
  Hasher h;
  h.Add(static_cast<uint64_t>(samples.count));
  for (int64_t i = 0; i < samples.count; ++i) {
    if (stop.stop_requested()) return Cancelled("calibration was stopped");
    auto inputs = samples.get(i);
    if (!inputs.ok()) return std::move(inputs.status()).In(Cat("calibration sample ", i));
    for (const Datum& d : *inputs) h.Add(HashOfDatum(d));
  }
  return h.value();
}

Result<uint64_t> LabelledDataKey(const Samples& samples, const std::stop_token& stop) {
  INFER_ASSIGN(const uint64_t inputs, DataKey(samples, stop));
  Hasher h;
  h.Add(inputs);
  for (int64_t i = 0; samples.labels && i < samples.count; ++i) {
    INFER_ASSIGN(const std::vector<int64_t> labels, samples.labels(i));
    for (const int64_t label : labels) h.Add(static_cast<uint64_t>(label));
  }
  return h.value();
}

std::string WhatDiffers(const CalibrationKey& a, const CalibrationKey& b) {
  if (a.model != b.model) return "model";
  if (a.data != b.data) return "data";
  return a.state != b.state ? "observer" : "build";
}

std::string CachePath(const std::string& cache, const CalibrationKey& key) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(cache, ignored)) return cache;
  Hasher h;
  h.Add(key.model).Add(key.data).Add(std::string_view(key.state)).Add(key.build);
  return Cat(cache, "/", Hex(h.value()), ".calib");
}

Result<std::optional<SavedCalibration>> ReadCalibration(const std::string& path) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return std::optional<SavedCalibration>();
  INFER_ASSIGN(const std::string bytes, ReadFile(path));
  std::string_view in(bytes);
  const auto no_cache = [&](std::string_view why) {
    return InvalidArgument(Cat(path, ": ", why, "; delete it, or name another file"));
  };
  if (in.substr(0, kMagic.size()) != kMagic)
    return no_cache("this is no calibration cache of this version");
  uint64_t sum = 0;
  if (in.size() < kMagic.size() + 8) return no_cache("the calibration cache is damaged");
  std::string_view tail = in.substr(in.size() - 8);
  TakeHash(tail, sum);
  in.remove_suffix(8);
  SavedCalibration s;
  if (HashBytes(in.data(), in.size()) != sum || !Parse(in.substr(kMagic.size()), s))
    return no_cache("the calibration cache is damaged");
  return std::optional(std::move(s));
}

Status WriteCalibration(const std::string& path, const SavedCalibration& saved) {
  std::string out(kMagic);
  PutHash(out, saved.key.model);
  PutHash(out, saved.key.data);
  PutText(out, saved.key.state);
  PutText(out, saved.key.build);
  PutNumber(out, static_cast<uint64_t>(saved.done));
  PutNumber(out, saved.states.size());
  for (const auto& [name, state] : saved.states) {
    PutText(out, name);
    PutText(out, state);
  }
  PutHash(out, HashBytes(out.data(), out.size()));
  return WriteFileAtomically(path, out);
}

}  // namespace infer
