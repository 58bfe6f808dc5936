#pragma once
/// Random graphs around every built-in rule, for the short and the nightly test.
#include <cstdio>

#include "lib/ops/registry.h"
#include "passes/pass/pipeline.h"
#include "passes/rewrite/rule_fuzz.h"

namespace infer {

/// Checks `graphs` random graphs, rule by rule in turn, until `max_seconds` are over. Prints what
/// it saw; failures come back.
inline FuzzResult FuzzAllRules(uint64_t seed, int64_t graphs, double max_seconds) {
  const OpRegistry ops = AllOps();
  const auto rules = AllRules();
  const auto n = static_cast<int64_t>(rules.size());
  FuzzResult all;
  std::string silent;
  for (int64_t i = 0; i < n; ++i) {
    const Rule& rule = rules[static_cast<size_t>(i)].rule;
    FuzzOptions options;
    options.seed = seed + static_cast<uint64_t>(i) * 1'000'000;
    options.graphs = graphs / n + (i < graphs % n);
    options.max_seconds = max_seconds / static_cast<double>(n);
    const RewriteFor reader =
        rules[static_cast<size_t>(i)].ort_only ? RewriteFor::kOnnxRuntime : RewriteFor::kAll;
    options.pipeline = [=](Graph& g) { return Optimize(g, {.reader = reader}).status(); };
    FuzzResult one = FuzzRule(rule, rule.fires_on, ops, options);
    std::printf("%-34s %5lld graphs, fired on %5lld, %4lld skipped, %zu failures\n",
                rule.name.c_str(), static_cast<long long>(one.graphs),
                static_cast<long long>(one.fired), static_cast<long long>(one.skipped),
                one.failures.size());
    std::fflush(stdout);  // what crashes is told by the last line
    all.graphs += one.graphs;
    all.fired += one.fired;
    all.rewrites += one.rewrites;
    all.skipped += one.skipped;
    all.rounding += one.rounding;
    for (FuzzFailure& f : one.failures) all.failures.push_back(std::move(f));
  }
  std::printf(
      "seed %llu: %lld graphs around %lld rules, fired on %lld, %lld skipped, %lld told by "
      "rounding alone\n",
      static_cast<unsigned long long>(seed), static_cast<long long>(all.graphs),
      static_cast<long long>(n), static_cast<long long>(all.fired),
      static_cast<long long>(all.skipped), static_cast<long long>(all.rounding));
  return all;
}

}  // namespace infer
