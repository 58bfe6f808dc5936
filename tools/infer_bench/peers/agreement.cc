#include "tools/infer_bench/peers/agreement.h"

#include <algorithm>
#include <cmath>

#include "lib/support/readable.h"
#include "lib/support/strings.h"
#include "tools/common/roundoff.h"

namespace infer::peers {
namespace {

bool QuantizesAtRunTime(const Node& n) {
  const std::string_view op = n.op();
  if (op.starts_with("QLinear") || op.ends_with("Integer") || op == "DynamicQuantizeLinear")
    return true;
  if (op == "MatMulNBits") return n.Attr<int64_t>("accuracy_level") == 4;
  return op == "QuantizeLinear" && n.input(0) && !n.input(0)->is_constant();
}

}  // namespace

AgreementRule RuleFor(const Graph& g, AgreementRule rule) {
  rule.quantized = QuantizesActivations(g);
  rule.max_ratio = std::max(rule.max_ratio, 10 * CoarsestRoundoff(g));
  return rule;
}

std::string AgreementRule::ToString() const {
  if (!quantized)
    return Cat("max|d| <= ", max_ratio, " * max|peer| of every output, or <= ", kUnitsOfOne,
               "; what is no float is equal");
  return Cat("quantized activations: rms(d) <= ", rms_ratio,
             " * rms(peer) of every output; at most ", step_share,
             " of integers differ by more than one");
}

bool QuantizesActivations(const Graph& g) {
  for (const auto& n : g.nodes()) {
    if (QuantizesAtRunTime(*n)) return true;
    for (const auto& [name, sub] : n->subgraphs())
      if (QuantizesActivations(*sub)) return true;
  }
  return false;
}

OutputDifference CompareOutput(const std::string& name, const Tensor& peer, const Tensor& ours,
                               const AgreementRule& rule) {
  OutputDifference d{.name = name};
  if (peer.dtype() != ours.dtype() || peer.dims() != ours.dims()) {
    d.why = Cat("the peer has ", ToString(peer.type()), ", we ", ToString(ours.type()));
    return d;
  }
  const bool floats = IsFloat(peer.dtype());
  const int64_t n = peer.num_elements();
  double most = 0, most_peer = 0, sum = 0, sum_peer = 0;
  int64_t differing = 0, beyond_one = 0;
  for (int64_t i = 0; i < n; ++i) {
    const double want = peer.At(i), got = ours.At(i);
    if (!std::isfinite(want) || !std::isfinite(got)) {
      differing += !(want == got || (std::isnan(want) && std::isnan(got)));
      continue;
    }
    const double off = std::abs(want - got);
    most = std::max(most, off);
    most_peer = std::max(most_peer, std::abs(want));
    sum += off * off;
    sum_peer += want * want;
    if (floats) continue;
    differing += peer.IntAt(i) != ours.IntAt(i);
    beyond_one += off > 1;
  }
  const auto share = [n](int64_t k) {
    return n > 0 ? static_cast<double>(k) / static_cast<double>(n) : 0.0;
  };
  // Against all zeros the difference counts as it is.
  d.max_ratio = most / (most_peer > 0 ? most_peer : 1);
  d.rms_ratio = std::sqrt(sum_peer > 0 ? sum / sum_peer : sum / std::max<double>(1, n));
  d.differing_share = share(differing);
  d.beyond_one_share = share(beyond_one);
  if (floats && differing > 0)
    d.why = Cat("NaN or infinity at ", differing, " places of one engine alone");
  else if (floats && !rule.quantized && d.max_ratio > rule.max_ratio && most > kUnitsOfOne)
    d.why = Cat("max|d| / max|peer| is ", Rounded(d.max_ratio, 3));
  else if (floats && rule.quantized && d.rms_ratio > rule.rms_ratio)
    d.why = Cat("rms(d) / rms(peer) is ", Rounded(d.rms_ratio, 3));
  else if (!floats && !rule.quantized && differing > 0)
    d.why = Cat(Rounded(100 * d.differing_share, 3), " % of the elements differ");
  else if (!floats && rule.quantized && d.beyond_one_share > rule.step_share)
    d.why = Cat(Rounded(100 * d.beyond_one_share, 3), " % of the elements differ by more than one");
  d.agrees = d.why.empty();
  return d;
}

}  // namespace infer::peers
