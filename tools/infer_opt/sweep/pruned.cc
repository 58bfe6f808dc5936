#include "tools/infer_opt/sweep/pruned.h"

#include <algorithm>

#include "lib/support/strings.h"
#include "quant/prune/describe.h"
#include "quant/prune/structured.h"
#include "tools/common/share.h"

namespace infer {
namespace {

/// "50%" -> "50", "2:4" -> "2of4": part of a file's name.
std::string NamePart(const std::string& text) {
  std::string name;
  for (const char c : text) {
    if (c == ':')
      name += "of";
    else if (std::isalnum(static_cast<unsigned char>(c)) || c == '.')
      name += c;
  }
  return name;
}

Status CheckFlopsShare(const std::string& text) {
  const auto share = ParseShare(text);
  if (share && share->value > 0 && share->value < 1) return {};
  return InvalidArgument(
      Cat("--structured ", text, ": the share of the FLOPs that stays is above 0 and below 100 %"));
}

}  // namespace

void PrunedFlags::Declare(Options& o) {
  DeclareSparsity(o, sparsity);
  o.Share("--flops", &flops, "");
}

Status PrunedFlags::Check(bool pruned_alone) const {
  if (sparsity.wanted()) INFER_TRY(sparsity.Pattern().status());
  if (flops >= 0 && !(flops > 0 && flops < 1))
    return InvalidArgument("--flops: the share of the FLOPs that stays is above 0 and below 100 %");
  if (pruned_alone && !sparsity.wanted() && flops < 0)
    return InvalidArgument("mode prune: --sparsity 50%, --sparsity 2:4 or --flops 70%");
  return {};
}

Result<std::vector<VariantSpec>> PrunedVariants(const std::vector<std::string>& sparsities,
                                                const std::vector<std::string>& flops) {
  std::vector<VariantSpec> all;
  const auto add = [&](const std::string& id, std::vector<std::string> arguments) {
    all.push_back({id, kPruneMode, arguments, "fp32"});
    all.push_back({id + "-int8", "static", std::move(arguments), "int8"});
  };
  for (const std::string& text : sparsities) {
    INFER_TRY(SparsityFlags{text}.Pattern().status());
    add("sparse-" + NamePart(text), {"--sparsity", text});
  }
  for (const std::string& text : flops) {
    INFER_TRY(CheckFlopsShare(text));
    add("narrow-" + NamePart(text), {"--flops", text});
  }
  for (size_t i = 0; i < all.size(); ++i)
    for (size_t k = 0; k < i; ++k)
      if (all[i].id == all[k].id)
        return InvalidArgument(
            Cat("--sparsity or --structured has ", all[i].arguments[1], " twice"));
  return all;
}

Status PruneFirst(const PrunedFlags& flags, bool pruned_alone, const QuantizeJob& job, Graph& g) {
  if (flags.flops > 0) {
    ChannelOptions options;
    options.goal = {ChannelGoal::Kind::kFlops, flags.flops};
    options.threads = job.threads;
    options.stop = job.context.stop();
    for (const Value* v : g.inputs())
      if (v->type().is_tensor() && v->tensor_type().is_static())
        options.extents[v->name()] = v->shape().static_dims();
    INFER_TRY(PruneChannels(g, job.calibration, job.backend, options).status());
  }
  if (!pruned_alone || !flags.sparsity.wanted()) return {};
  PruneOptions options;
  INFER_ASSIGN(options.pattern, flags.sparsity.Pattern());
  options.threads = job.threads;
  options.stop = job.context.stop();
  return PruneModel(g, job.calibration, job.backend, options).status();
}

std::optional<double> ZerosOf(const Graph& g) {
  int64_t weights = 0, zeros = 0;
  for (const LayerSparsity& l : DescribeSparsity(g)) {
    weights += l.count;
    zeros += l.zeros;
  }
  if (weights == 0) return std::nullopt;
  return static_cast<double>(zeros) / static_cast<double>(weights);
}

std::string PruningOf(const VariantSpec& spec) {
  std::vector<std::string> parts;
  for (size_t i = 0; i + 1 < spec.arguments.size(); ++i) {
    if (spec.arguments[i] == "--flops") parts.push_back(spec.arguments[i + 1] + " of the FLOPs");
    if (spec.arguments[i] == "--sparsity") parts.push_back(spec.arguments[i + 1]);
  }
  return parts.empty() ? "none" : Join(parts, ", ");
}

}  // namespace infer
