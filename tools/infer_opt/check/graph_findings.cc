/// Findings that need the lifted graph.
#include <algorithm>
#include <cmath>
#include <functional>

#include "lib/ir/verify.h"
#include "lib/support/strings.h"
#include "passes/pass/pipeline.h"
#include "passes/rewrite/near_miss.h"
#include "tools/common/model_options.h"
#include "tools/infer_opt/check/findings.h"

namespace infer::lint {
namespace {

struct Odd {
  int64_t nan = 0, infinite = 0, denormal = 0;
};

template <typename T>
Odd CountOdd(std::span<const T> data) {
  Odd odd;
  for (const T x : data) {
    switch (std::fpclassify(x)) {
      case FP_NAN: ++odd.nan; break;
      case FP_INFINITE: ++odd.infinite; break;
      case FP_SUBNORMAL: ++odd.denormal; break;
      default: break;
    }
  }
  return odd;
}

void AddWeights(const Value& v, Findings& out) {
  const Tensor& t = *v.constant();
  Odd odd;
  if (t.dtype() == DType::kF32)
    odd = CountOdd(t.data<float>());
  else if (t.dtype() == DType::kF64)
    odd = CountOdd(t.data<double>());
  // Infinity alone is how masks and bounds are written.
  if (odd.nan > 0)
    out.push_back({"not-finite", Level::kWarning, "", v.name(),
                   Cat(odd.nan, " of ", t.num_elements(), " numbers are NaN"),
                   "another export; quantize refuses such weights"});
  if (odd.infinite > 0 && t.num_elements() > 1)
    out.push_back({"not-finite", Level::kNote, "", v.name(),
                   Cat(odd.infinite, " of ", t.num_elements(), " numbers are infinite"),
                   "another export, unless it is a mask or a bound"});
  if (odd.denormal > 0)
    out.push_back({"denormal", Level::kNote, "", v.name(),
                   Cat(odd.denormal, " of ", t.num_elements(), " numbers are denormal"),
                   "an export with zeros in their place"});
  if (t.dtype() == DType::kF64 && t.num_elements() > 1)
    out.push_back({"double-precision", Level::kNote, "", v.name(),
                   Cat("f64 weights of ", HumanBytes(t.byte_size())), "an export in f32"});
}

/// Nodes with a result of unknown rank whose operands are all known: where knowledge is lost.
void AddUnknownRanks(const Graph& g, Findings& out) {
  const auto is_unknown = [](const Value* v) {
    return v && v->type().is_tensor() && !v->shape().has_rank();
  };
  for (const auto& n : g.nodes()) {
    const auto result = std::find_if(n->outputs().begin(), n->outputs().end(), is_unknown);
    if (result == n->outputs().end() ||
        std::any_of(n->inputs().begin(), n->inputs().end(), is_unknown))
      continue;
    out.push_back({"unknown-rank", Level::kNote, Describe(*n), (*result)->name(),
                   "inference does not know how many axes the result has",
                   "--set and --shape, where it depends on an input's extents"});
  }
}

std::vector<const Rule*> RulesOf(const std::vector<ListedRule>& listed) {
  std::vector<const Rule*> rules;
  for (const ListedRule& r : listed)
    if (!r.ort_only) rules.push_back(&r.rule);
  return rules;
}

}  // namespace

void AddGraphFacts(const Graph& g, Findings& out) {
  for (const auto& v : g.values())
    if (v->is_constant()) AddWeights(*v, out);
  for (const Value* v : g.inputs())
    if (v->dtype() == DType::kF64)
      out.push_back(
          {"double-precision", Level::kNote, "", v->name(), "an input in f64", "an export in f32"});
  if (const Status s = Verify(g, {.live = false}); !s.ok())
    out.push_back({"broken-rule", Level::kError, "", "", s.message(),
                   "infer-opt fuse --rewrites none, or another export"});
  AddUnknownRanks(g, out);
  if (!HasOpenDims(g)) return;
  OpenExtents extents;
  (void)WithFoundExtents(g, &extents);
  if (extents.empty())
    out.push_back({"open-extents", Level::kWarning, "", "",
                   "no extents of the open dimensions were found with which the model fits",
                   "--set or --shape, or infer-opt edit --set-shape"});
}

Status AddFusions(const Graph& g, Findings& out) {
  Graph copy = g.Clone();
  OptimizeOptions options;
  options.verify_each = false;
  INFER_ASSIGN(const OptimizeReport done, Optimize(copy, options));
  if (done.before.nodes > done.after.nodes)
    out.push_back({"fusable", Level::kNote, "", "",
                   Cat("nodes ", done.before.nodes, " -> ", done.after.nodes, " by ", done.rewrites,
                       done.rewrites == 1 ? " rewrite" : " rewrites"),
                   "infer-opt fuse"});
  constexpr size_t kMost = 20;
  const std::vector<ListedRule> listed = AllRules();
  for (const NearMiss& m : FindNearMisses(copy, RulesOf(listed), done.records, kMost))
    out.push_back({"near-miss", Level::kNote, Join(m.nodes, ", "), m.at,
                   Cat(m.rule, ": ", m.matched, " of ", m.of, " operators fit; ", m.reason),
                   Cat("infer-opt fuse --explain '", m.rule, "@", m.at, "'")});
  return {};
}

}  // namespace infer::lint
