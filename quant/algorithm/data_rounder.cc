#include "quant/algorithm/data_rounder.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <set>
#include <utility>

#include "lib/support/strings.h"
#include "quant/algorithm/fold_scales.h"
#include "quant/algorithm/gptq.h"
#include "quant/weight_only/round.h"

namespace infer {
namespace {

constexpr int kSweeps = 8;
/// Of nearest's squared error, for layers: moments of recurrent ones stand for what they read, and
/// less gain than that has cost accuracy at the outputs.
constexpr double kMostLayerError = 0.9;

RoundedWeights Plain(const BlockWeights& w, const BlockGrid& grid) {
  RoundedWeights r;
  r.q = QuantizeNearest(w, grid);
  r.method = "nearest";
  return r;
}

struct RoundedCandidate {
  BlockQuantized q;
  std::string_view method;
};

/// One group: rows that share the moments.
RoundedWeights RoundGroup(const BlockWeights& w, const BlockGrid& grid, const HessianPair& h,
                          const DataMethod& method) {
  const Hessian& judge = h.held_out.rows > 0 ? h.held_out : h.fit;
  RoundedWeights done = Plain(w, grid);
  done.of_outputs = true;
  std::vector<RoundedCandidate> candidates;
  if (!h.fit.finite() || !judge.finite()) {
    done.note = "its calibration data hold NaN or infinity";
  } else {
    const BlockQuantized clipped = SearchClip(w, grid, h.fit.sum);
    if (method.nearest) candidates.push_back({clipped, "clip"});
    if (method.rounder) {
      RoundedCandidate rounded{clipped, method.rounder->name};
      const Status s = method.rounder->round_blocks(w, h.fit.sum, h.fit.rows, rounded.q);
      if (s.ok())
        candidates.push_back(std::move(rounded));
      else
        done.note = s.message();
    }
    done.nearest_error = done.error = OutputError(w, done.q, judge.sum);
  }
  for (RoundedCandidate& c : candidates) {
    const double error = OutputError(w, c.q, judge.sum);
    if (!(error < done.error)) continue;
    done.error = error;
    done.q = std::move(c.q);
    done.method = std::string(c.method);
  }
  return done;
}

BlockQuantized NearestCodes(const BlockWeights& w, std::span<const float> scales) {
  BlockQuantized q = EmptyBlocks(w.rows, w.depth, {8, 0, /*symmetric=*/true, /*positive=*/true});
  q.scales.assign(scales.begin(), scales.end());
  for (int64_t r = 0; r < w.rows; ++r)
    for (int64_t k = 0; k < w.depth; ++k)
      q.codes[static_cast<size_t>(r * w.depth + k)] =
          EncodeWeight(w.row(r)[static_cast<size_t>(k)],
                       {scales[static_cast<size_t>(r)], q.grid.middle()}, q.grid);
  return q;
}

/// One group: codes of weights whose scales stay.
RoundedWeights RoundCodesOfGroup(const BlockWeights& w, std::span<const float> scales,
                                 const HessianPair& h) {
  const Hessian& judge = h.held_out.rows > 0 ? h.held_out : h.fit;
  RoundedWeights done;
  done.q = NearestCodes(w, scales);
  done.method = "nearest";
  done.of_outputs = true;
  if (!h.fit.finite() || !judge.finite()) {
    done.note = "its calibration data hold NaN or infinity";
    return done;
  }
  done.nearest_error = done.error = OutputError(w, done.q, judge.sum);
  BlockQuantized q = done.q;
  if (const Status s = GptqRound(w, h.fit.sum, h.fit.rows, {}, q); !s.ok()) {
    done.note = s.message();
    return done;
  }
  RefineCodes(w, h.fit.sum, {.sweeps = kSweeps, .keep_scales = true}, q);
  const double error = OutputError(w, q, judge.sum);
  if (!(error < kMostLayerError * done.error)) return done;
  done.error = error;
  done.q = std::move(q);
  done.method = "gptq";
  return done;
}

/// Adds the error of the rows themselves: a multiple of the identity, such that it weighs relative
/// to the rows what the error of the outputs weighs relative to those.
void AddLookup(const BlockWeights& w, Hessian& h) {
  double squares = 0;
  for (const float x : w.values) squares += static_cast<double>(x) * static_cast<double>(x);
  if (!(squares > 0)) return;
  const auto share = static_cast<float>(OutputEnergy(w, h.sum) / squares);
  for (int64_t k = 0; k < h.depth; ++k) h.sum[static_cast<size_t>(k * h.depth + k)] += share;
}

Hessian GroupOf(const Hessian& h, int64_t g) {
  const auto sum = h.group(g);
  return {h.depth, 1, h.rows, {sum.begin(), sum.end()}};
}

/// Puts rows of one group behind those that are there.
void Append(const RoundedWeights& from, RoundedWeights& to) {
  to.q.rows += from.q.rows;
  to.q.codes.insert(to.q.codes.end(), from.q.codes.begin(), from.q.codes.end());
  to.q.scales.insert(to.q.scales.end(), from.q.scales.begin(), from.q.scales.end());
  to.q.zero_points.insert(to.q.zero_points.end(), from.q.zero_points.begin(),
                          from.q.zero_points.end());
  if (to.method == "nearest") to.method = from.method;
  to.error += from.error;
  to.nearest_error += from.nearest_error;
  if (to.note.empty()) to.note = from.note;
}

class DataRounder {
 public:
  DataRounder(const Graph& graph, const Samples& samples, const Backend& backend, DataMethod method,
              HessianOptions options)
      : graph_(graph.Clone()),
        samples_(samples),
        backend_(backend),
        method_(method),
        options_(std::move(options)) {
    for (const auto& n : graph_.nodes()) {
      Add(SourceOf(*n));
      for (const size_t operand : {size_t{1}, size_t{2}}) Add(LayerSourceOf(*n, operand));
    }
  }

  Result<RoundedWeights> Round(const RoundRequest& r) {
    std::vector<const RowSource*> wanted;
    const bool layer = !r.scales.empty();
    if (const std::string why = layer ? FindLayers(r, wanted) : FindSources(r, wanted);
        !why.empty()) {
      if (layer) {
        RoundedWeights nearest;
        nearest.q = NearestCodes(r.w, r.scales);
        nearest.method = "nearest";
        nearest.note = why;
        return nearest;
      }
      INFER_ASSIGN(RoundedWeights plain, MseRounder()(r));
      plain.note = why;
      return plain;
    }
    INFER_TRY(Load(wanted));
    HessianPair sum;
    for (const RowSource* s : wanted) {
      const HessianPair& h = loaded_.at(s->Key());
      sum.fit.Add(h.fit);
      sum.held_out.Add(h.held_out);
    }
    if (layer) return RoundCodesByData(r.w, r.scales, sum);
    return RoundByData(r.w, r.grid, sum, method_, r.looked_up);
  }

 private:
  void Add(Result<RowSource> source) {
    if (!source.ok() || !Readable(*source)) return;
    // A convolution is told twice: here without, there with the name of its weights.
    if (!sources_.empty() && sources_.back().conv && sources_.back().conv == source->conv)
      sources_.back() = *std::move(source);
    else
      sources_.push_back(*std::move(source));
  }

  bool Readable(const RowSource& s) const {
    const Value* v = graph_.FindValue(s.value);
    return !v->is_constant() && v->type().is_tensor() && v->dtype() == DType::kF32;
  }

  /// The operands of the request, each way of reading once; why not, if not.
  std::string FindSources(const RoundRequest& r, std::vector<const RowSource*>& wanted) const {
    if (r.operands.empty()) return "it is only looked up, so data tell nothing of it";
    for (const std::string& name : r.operands) {
      const auto it = std::find_if(sources_.begin(), sources_.end(), [&](const RowSource& s) {
        return s.value == name && s.depth == r.w.depth && r.w.rows % s.groups == 0 &&
               !s.positions && (!s.conv || s.conv->input(1)->name() == r.weights);
      });
      if (it == sources_.end())
        return Cat("its operand '", name, "' is not read in rows of ", r.w.depth);
      if (std::none_of(wanted.begin(), wanted.end(),
                       [&](const RowSource* s) { return s->Key() == it->Key(); }))
        wanted.push_back(&*it);
    }
    if (wanted.size() > 1 && wanted.front()->groups > 1) return "grouped convolutions share it";
    return "";
  }

  /// The same for a layer: every way in which its constant is multiplied.
  std::string FindLayers(const RoundRequest& r, std::vector<const RowSource*>& wanted) const {
    if (r.w.depth > kMaxLayerDepth)
      return Cat("it sums over ", r.w.depth, " inputs, more than ", kMaxLayerDepth);
    for (const RowSource& s : sources_)
      if (s.weights == r.weights && s.depth == r.w.depth && r.w.rows % s.groups == 0 &&
          std::none_of(wanted.begin(), wanted.end(),
                       [&](const RowSource* o) { return o->Key() == s.Key(); }))
        wanted.push_back(&s);
    if (wanted.empty()) return "what its weights are multiplied with is not known";
    if (wanted.size() > 1 && wanted.front()->groups > 1) return "grouped convolutions share it";
    return "";
  }

  /// Sums what is missing: `wanted`, and what follows them as far as the budget goes.
  Status Load(const std::vector<const RowSource*>& wanted) {
    if (std::all_of(wanted.begin(), wanted.end(),
                    [&](const RowSource* s) { return loaded_.contains(s->Key()); }))
      return {};
    loaded_.clear();
    std::vector<RowSource> now;
    int64_t bytes = 0;
    const auto add = [&](const RowSource& s) {
      if (std::any_of(now.begin(), now.end(),
                      [&](const RowSource& o) { return o.Key() == s.Key(); }))
        return;
      now.push_back(s);
      bytes += HessianBytes(s);
    };
    for (const RowSource* s : wanted) add(*s);
    for (auto at = static_cast<size_t>(wanted.front() - sources_.data()); at < sources_.size();
         ++at)
      if (sources_[at].depth <= options_.max_depth &&
          bytes + HessianBytes(sources_[at]) <= options_.max_bytes)
        add(sources_[at]);
    INFER_ASSIGN(loaded_, SumHessians(graph_, now, samples_, backend_, options_));
    return {};
  }

  Graph graph_;
  Samples samples_;
  const Backend& backend_;
  DataMethod method_;
  HessianOptions options_;
  std::vector<RowSource> sources_;  // in the graph's order
  std::map<std::string, HessianPair> loaded_;
};

}  // namespace

Result<BlockRounder> RounderFromData(Graph& g, const WeightPlan& plan, const Samples& samples,
                                     const Backend& backend, DataMethod method,
                                     const HessianOptions& options) {
  std::map<std::string, FoldedScale> folded;
  if (method.scales_inputs) {
    std::vector<ScaledProduct> products;
    std::set<const Value*> frozen;  // numbers that several readers share
    for (const WeightReader& r : plan.readers) {
      if (r.group < 0) continue;
      const WeightGroup& group = plan.groups[static_cast<size_t>(r.group)];
      if (group.readers.size() > 1) {
        frozen.insert(r.node->input(r.operand));
      } else if (r.use == WeightUse::kProduct && r.reason.empty() &&
                 r.node->input(r.operand) == group.source) {
        products.push_back({r.node, group.grid});
      }
    }
    const ScaleRounder round = [method](const BlockWeights& w, const BlockGrid& grid,
                                        std::span<const float> h, int64_t rows) {
      BlockQuantized q = SearchClip(w, grid, h);
      // Where the rounder fails, the nearest codes stay.
      if (method.rounder) (void)method.rounder->round_blocks(w, h, rows, q);
      return q;
    };
    INFER_ASSIGN(folded, FoldInputScales(g, products, frozen, samples, backend, round, options));
  }
  BlockRounder inner = MakeDataRounder(g, samples, backend, method, options);
  return BlockRounder([inner, folded](const RoundRequest& request) -> Result<RoundedWeights> {
    INFER_ASSIGN(RoundedWeights r, inner(request));
    const auto it = folded.find(std::string(request.weights));
    if (it == folded.end()) return r;
    char text[64];
    std::snprintf(text, sizeof(text), "inputs scaled by magnitude^%.1f", it->second.exponent);
    r.note = r.note.empty() ? text : Cat(r.note, "; ", text);
    r.method = CodeRounderNamed(r.method) ? Cat("awq+", r.method) : "awq";
    r.nearest_error = it->second.nearest_error;
    return r;
  });
}

std::optional<DataMethod> DataMethodNamed(std::string_view name) {
  if (name == "awq") return DataMethod{nullptr, true, true};
  if (name == "auto") return DataMethod{&CodeRounders().front(), true, true};
  if (const CodeRounder* rounder = CodeRounderNamed(name)) return DataMethod{rounder};
  return std::nullopt;
}

std::vector<std::string> DataMethodNames() {
  std::vector<std::string> names = {"auto", "awq"};
  for (const CodeRounder& r : CodeRounders()) names.emplace_back(r.name);
  return names;
}

Status UseMethod(const std::string& method, const Samples& samples, const Backend& backend,
                 const HessianOptions& data, WeightOnlyOptions& options) {
  const auto by_data = DataMethodNamed(method);
  options.round_layers = by_data.has_value();
  if (!by_data) {
    INFER_ASSIGN(BlockRounder rounder, RounderNamed(method));
    options.rounder = [rounder](Graph&, const WeightPlan&) { return rounder; };
    options.body_rounder = rounder;
    return {};
  }
  if (samples.count <= 0)
    return InvalidArgument(Cat("method ", method, " rounds by calibration data; ",
                               Join(RounderNames(), ", "), " need none"));
  options.body_rounder = MseRounder();
  options.rounder = [method = *by_data, samples, data, on = &backend](Graph& g,
                                                                      const WeightPlan& plan) {
    return RounderFromData(g, plan, samples, *on, method, data);
  };
  return {};
}

namespace {

/// Each group of rows by itself; `round` gets its weights, first row and moments. Errors become
/// relative.
RoundedWeights ByGroups(
    const BlockWeights& w, const HessianPair& h,
    const std::function<RoundedWeights(const BlockWeights&, int64_t, const HessianPair&)>& round) {
  RoundedWeights all;
  double energy = 0;
  const int64_t groups = h.fit.groups, rows = w.rows / groups;
  for (int64_t g = 0; g < groups; ++g) {
    const BlockWeights part{w.values.subspan(static_cast<size_t>(g * rows * w.depth),
                                             static_cast<size_t>(rows * w.depth)),
                            rows, w.depth};
    const HessianPair pair{GroupOf(h.fit, g), GroupOf(h.held_out, g)};
    RoundedWeights done = round(part, g * rows, pair);
    energy += OutputEnergy(part, pair.held_out.rows > 0 ? pair.held_out.sum : pair.fit.sum);
    if (g == 0) {
      all = std::move(done);
    } else {
      Append(done, all);
    }
  }
  const auto relative = [&](double e) { return energy > 0 ? std::sqrt(e / energy) : 0; };
  all.error = relative(all.error);
  all.nearest_error = relative(all.nearest_error);
  return all;
}

}  // namespace

RoundedWeights RoundByData(const BlockWeights& w, const BlockGrid& grid, const HessianPair& h,
                           DataMethod method, bool looked_up) {
  if (looked_up) {
    HessianPair both = h;
    for (Hessian* part : {&both.fit, &both.held_out}) AddLookup(w, *part);
    return RoundByData(w, grid, both, method);
  }
  return ByGroups(w, h, [&](const BlockWeights& part, int64_t, const HessianPair& pair) {
    return RoundGroup(part, grid, pair, method);
  });
}

RoundedWeights RoundCodesByData(const BlockWeights& w, std::span<const float> scales,
                                const HessianPair& h) {
  return ByGroups(w, h, [&](const BlockWeights& part, int64_t first, const HessianPair& pair) {
    return RoundCodesOfGroup(
        part, scales.subspan(static_cast<size_t>(first), static_cast<size_t>(part.rows)), pair);
  });
}

BlockRounder MakeDataRounder(const Graph& graph, const Samples& samples, const Backend& backend,
                             DataMethod method, const HessianOptions& options) {
  auto rounder = std::make_shared<DataRounder>(graph, samples, backend, method, options);
  return [rounder](const RoundRequest& r) { return rounder->Round(r); };
}

}  // namespace infer
