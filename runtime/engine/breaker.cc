#include "runtime/engine/breaker.h"

namespace infer::engine {

Status Check(const BreakerRules& rules) {
  if (rules.failures < 1) return InvalidArgument("a breaker opens after at least one failure");
  if (rules.open_ns < 1) return InvalidArgument("a breaker is open for more than no time");
  return {};
}

std::string_view Name(Breaker::State state) {
  switch (state) {
    case Breaker::State::kClosed: return "closed";
    case Breaker::State::kOpen: return "open";
    case Breaker::State::kProbing: return "probing";
  }
  return "";
}

bool Breaker::Lets(const BreakerRules& rules, int64_t now_ns) const {
  if (state_ == State::kClosed) return true;
  return state_ == State::kOpen && now_ns >= After(open_since_ns_, rules.open_ns);
}

bool Breaker::Sent() {
  if (state_ == State::kClosed) return false;
  state_ = State::kProbing;
  return true;
}

void Breaker::Ended(const BreakerRules& rules, Blame blame, bool probe, int64_t now_ns) {
  if (probe) {
    if (blame == Blame::kBad) return Open(now_ns);
    // A probe that tells nothing leaves the next request to be one.
    state_ = blame == Blame::kGood ? State::kClosed : State::kOpen;
    return;
  }
  if (state_ != State::kClosed || blame == Blame::kNeither) return;  // sent before it opened
  in_a_row_ = blame == Blame::kBad ? in_a_row_ + 1 : 0;
  if (in_a_row_ >= rules.failures) Open(now_ns);
}

void Breaker::Open(int64_t now_ns) {
  state_ = State::kOpen;
  open_since_ns_ = now_ns;
  in_a_row_ = 0;
  ++opened_;
}

}  // namespace infer::engine
