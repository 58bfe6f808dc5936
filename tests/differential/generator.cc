#include "tests/differential/generator.h"

#include "lib/ir/text.h"
#include "lib/ir/verify.h"
#include "lib/support/strings.h"
#include "tests/differential/random_values.h"
#include "tests/differential/variation.h"

namespace infer {
namespace {

constexpr int kTriesForTarget = 24;
constexpr int kMostVariations = 6;
/// Of one model: a run takes milliseconds.
constexpr int64_t kMostFlops = 50'000'000, kMostBytes = 16 << 20;

bool IsSmall(const Graph& g) {
  int64_t flops = 0, bytes = 0;
  for (const auto& n : g.nodes()) {
    for (const Value* v : n->outputs())
      if (v && v->type().is_tensor() && !v->shape().CanExist()) return false;
    const Cost c = CostOf(CallOf(*n));
    flops += c.flops;
    bytes += c.bytes_written;
  }
  return flops <= kMostFlops && bytes <= kMostBytes;
}

}  // namespace

ModelGenerator::ModelGenerator(const OpRegistry& ops) : ops_(ops) {
  for (const OpDef* def : ops.all()) {
    if (def->example.empty() || !def->deterministic || def->retired()) continue;
    examples_.push_back(def);
    targets_.push_back({def});
    for (const AttrDef& a : def->attrs)
      if (a.kind != AttrKind::kGraph) targets_.push_back({def, &a});
    for (const TypeConstraint& c : def->constraints) targets_.push_back({def, nullptr, c.var});
  }
}

std::string ModelGenerator::TargetName(size_t i) const {
  const Target& t = targets_[i];
  return Cat(t.def->domain, t.def->domain.empty() ? "" : "::", t.def->name, t.attr ? "." : "",
             t.attr ? t.attr->name : "", t.type_variable.empty() ? "" : ":", t.type_variable);
}

std::optional<GeneratedModel> ModelGenerator::Make(uint64_t seed) const {
  Random random(seed, 5);
  const Target& target = targets_[seed % targets_.size()];
  const auto example = [&](const OpDef& def) { return ParseGraph(def.example, ops_); };
  auto parsed = example(*target.def);
  if (!parsed.ok()) return std::nullopt;
  VariedModel m{Sketch::Of(*parsed), {}};
  std::map<std::string, int64_t> symbols;
  for (Sketch::Input& i : m.sketch.inputs) i.value = RunType(i.type, symbols, random);
  // What does not build is taken back.
  const auto attempt = [&](const auto& vary) {
    VariedModel next = m;
    Variation variation(next, random, ops_);
    if (!vary(variation, next)) return false;
    const auto g = next.sketch.Build(ops_);
    if (!g.ok() || !Verify(*g, {.live = false}).ok() || !IsSmall(*g)) return false;
    m = std::move(next);
    return true;
  };
  GeneratedModel out{TargetName(seed % targets_.size()), false, Graph(ops_), {}};
  out.reached = !target.attr && target.type_variable.empty();
  const auto reach = [&](Variation& v, VariedModel& next) {
    for (Sketch::Op& op : next.sketch.nodes)
      if (op.def == target.def)
        return target.attr ? v.Attribute(op, *target.attr)
                           : v.ElementType(op, target.type_variable);
    return false;
  };
  for (uint32_t i = random.Below(kMostVariations + 1); i > 0; --i) {
    if (random.Below(5) != 0) {
      attempt([](Variation& v, VariedModel&) { return v.Any(); });
      continue;
    }
    const auto other = example(*examples_[random.Below(static_cast<uint32_t>(examples_.size()))]);
    if (!other.ok()) continue;
    Sketch behind = Sketch::Of(*other);
    for (Sketch::Input& in : behind.inputs) in.value = RunType(in.type, symbols, random);
    attempt([&](Variation& v, VariedModel&) { return v.Append(behind); });
  }
  for (int i = 0; i < kTriesForTarget && !out.reached; ++i) out.reached = attempt(reach);

  auto built = m.sketch.Build(ops_);
  if (!built.ok() || !Verify(*built, {.live = false}).ok()) return std::nullopt;
  out.graph = *std::move(built);
  for (const Sketch::Input& i : m.sketch.inputs) {
    const auto given = m.given.find(i.name);
    const auto value = given != m.given.end()
                           ? Datum(given->second)
                           : RandomDatum(RunType(i.value, symbols, random), random);
    if (!value) return std::nullopt;
    out.inputs.push_back(*value);
  }
  return out;
}

}  // namespace infer
