#include "runtime/engine/telemetry.h"

#include <cmath>

namespace infer::engine {
namespace {

constexpr int64_t kSecond = 1'000'000'000;

}  // namespace

std::string_view Name(Phase p) {
  switch (p) {
    case Phase::kQueue: return "queue";
    case Phase::kBatch: return "batch";
    case Phase::kCompute: return "compute";
    case Phase::kTotal: return "total";
  }
  return "";
}

void Times::Record(State end, const Phases& p) {
  auto& phases = by[EndIndex(end)];
  const std::array<int64_t, kPhases> ns = {p.queue_ns, p.batch_ns, p.compute_ns, p.total_ns};
  for (size_t i = 0; i < kPhases; ++i)
    if (ns[i] > 0 || i == static_cast<size_t>(Phase::kTotal)) phases[i].Record(ns[i]);
}

void Times::Merge(const Times& other) {
  for (size_t e = 0; e < kEnds; ++e)
    for (size_t p = 0; p < kPhases; ++p) by[e][p].Merge(other.by[e][p]);
}

void Times::Clear() {
  for (auto& phases : by)
    for (Histogram& h : phases) h.Clear();
}

int64_t Times::ended() const {
  int64_t n = 0;
  for (size_t e = 0; e < kEnds; ++e)
    n += ended(static_cast<State>(static_cast<size_t>(State::kSucceeded) + e));
  return n;
}

double Times::success_rate() const {
  const int64_t all = ended();
  return all > 0 ? static_cast<double>(ended(State::kSucceeded)) / static_cast<double>(all) : 1;
}

int64_t Times::bytes() const {
  int64_t n = 0;
  for (const auto& phases : by)
    for (const Histogram& h : phases) n += h.bytes();
  return n;
}

template <size_t kSlots>
Times& Telemetry::Ring<kSlots>::At(int64_t number, std::mutex& turning) {
  Slot& slot = slots[static_cast<size_t>(number) % kSlots];
  if (slot.number.load(std::memory_order_acquire) < number) {
    const std::lock_guard lock(turning);
    if (slot.number.load(std::memory_order_relaxed) < number) {
      slot.times.Clear();
      slot.number.store(number, std::memory_order_release);
    }
  }
  return slot.times;
}

template <size_t kSlots>
void Telemetry::Ring<kSlots>::MergeSince(int64_t first, int64_t last, Times& into) const {
  for (const Slot& slot : slots) {
    const int64_t number = slot.number.load(std::memory_order_acquire);
    if (number >= first && number <= last) into.Merge(slot.times);
  }
}

void RunTimes::Add(double ns) {
  if (!warm) {
    warm = true;
    return;
  }
  const double before = ns - mean;
  mean += before / static_cast<double>(++runs);
  squares += before * (ns - mean);
}

double RunTimes::standard_error() const {
  const auto n = static_cast<double>(runs);
  return runs < 2 ? 0 : std::sqrt(squares / (n - 1) / n);
}

void Telemetry::Record(State end, const Phases& phases, int64_t now_ns) {
  total_.Record(end, phases);
  seconds_.At(now_ns / kSecond, turning_).Record(end, phases);
  tens_.At(now_ns / (10 * kSecond), turning_).Record(end, phases);
}

TelemetryView Telemetry::View(int64_t now_ns) const {
  TelemetryView v;
  v.total.Merge(total_);
  const int64_t second = now_ns / kSecond, ten = second / 10;
  seconds_.MergeSince(second, second, v.last_1s);
  seconds_.MergeSince(second - 9, second, v.last_10s);
  tens_.MergeSince(ten - 5, ten, v.last_60s);
  constexpr int64_t kSeconds = kTelemetrySlotNs / kSecond;
  v.slot = second / kSeconds - 1;
  seconds_.MergeSince(kSeconds * v.slot, kSeconds * v.slot + kSeconds - 1, v.last_slot);
  return v;
}

int64_t Telemetry::bytes() const {
  int64_t n = total_.bytes();
  for (const Slot& s : seconds_.slots) n += s.times.bytes();
  for (const Slot& s : tens_.slots) n += s.times.bytes();
  return n;
}

}  // namespace infer::engine
