#include "quant/algorithm/column_groups.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "lib/ir/editor.h"
#include "lib/support/strings.h"
#include "quant/algorithm/layers.h"

namespace infer {
namespace {

/// A product that reads the value, and the Add that gives it its bias ("" for none), by result 0.
struct Reader {
  std::string output, biased;
};
struct Site {
  std::string value;
  std::vector<Reader> readers;
};

std::vector<Site> FindSites(const QuantPlan& plan) {
  std::map<const Node*, const PlannedNode*> products;
  for (const PlannedNode& p : plan.nodes)
    if (p.integer && HasInputChannels(*p.node) && !WeightLayoutOf(*p.node)->is_window)
      products[p.node] = &p;
  std::vector<Site> sites;
  for (size_t i = 0; i < plan.values.size(); ++i) {
    if (plan.integer_result[i]) continue;
    Site site{plan.values[i]->name(), {}};
    for (const Use& use : plan.values[i]->uses()) {
      const auto it = products.find(use.user);
      if (use.operand != 0 || it == products.end()) continue;
      const Node* bias = it->second->bias;
      site.readers.push_back({use.user->output(0)->name(), bias ? bias->output(0)->name() : ""});
    }
    if (!site.readers.empty()) sites.push_back(std::move(site));
  }
  return sites;
}

Node& NodeOf(const Graph& g, const Reader& r) { return *g.FindValue(r.output)->producer(); }

/// By column: the sum of the squares that it is multiplied with. Empty where readers disagree.
std::vector<double> EnergyOf(const Graph& g, const Site& site, size_t width) {
  std::vector<double> energy(width, 0);
  for (const Reader& r : site.readers) {
    const Node& node = NodeOf(g, r);
    if (InputChannels(node) != static_cast<int64_t>(width)) return {};
    const auto w = node.input(1)->constant()->data<float>();
    ForEachWeight(node, [&](size_t i, int64_t in, int64_t) {
      energy[static_cast<size_t>(in)] += static_cast<double>(w[i]) * static_cast<double>(w[i]);
    });
  }
  return energy;
}

/// The weights of `columns` alone.
Tensor WeightsOf(const Node& node, const std::vector<int64_t>& columns) {
  const Tensor& w = *node.input(1)->constant();
  const bool last = WeightLayoutOf(node)->rows_are_outputs();
  const auto count = static_cast<int64_t>(columns.size());
  const int64_t outputs = w.dim(last ? 0 : 1), width = w.dim(last ? 1 : 0);
  Tensor part(DType::kF32, last ? Dims{outputs, count} : Dims{count, outputs});
  const auto from = w.data<float>();
  const auto to = part.mutable_data<float>();
  for (int64_t k = 0; k < count; ++k)
    for (int64_t n = 0; n < outputs; ++n)
      to[static_cast<size_t>(last ? n * count + k : k * outputs + n)] =
          from[static_cast<size_t>(last ? n * width + columns[static_cast<size_t>(k)]
                                        : columns[static_cast<size_t>(k)] * outputs + n)];
  return part;
}

class Splitter {
 public:
  Splitter(StaticModel& model, const std::vector<std::vector<int64_t>>& groups)
      : model_(model), groups_(groups), editor_(model.graph) {}

  Status Take(const std::string& value) {
    Value* const x = model_.graph.FindValue(value);
    if (x->producer())
      editor_.InsertAfter(*x->producer());
    else
      editor_.InsertBefore(*model_.graph.nodes().front());
    for (size_t k = 0; k < groups_.size(); ++k) {
      const std::string name = editor_.FreshName(Cat(value, "_columns", k));
      Value* const columns = editor_.AddConstant(Tensor::Int64s(groups_[k]), name + "_index");
      INFER_ASSIGN(Value * part, editor_.Add("Gather", {x, columns}, {{"axis", int64_t{-1}}}, "",
                                             {.name = name, .output_names = {name}}));
      model_.scheme.keep.emplace(part->name(), "each group of columns has a scale of its own");
      parts_.push_back(part);
    }
    return {};
  }

  Status Multiply(const Reader& reader) {
    Node& node = NodeOf(model_.graph, reader);
    Node* const bias =
        reader.biased.empty() ? nullptr : model_.graph.FindValue(reader.biased)->producer();
    Value* const old = (bias ? bias : &node)->output(0);
    const std::string name = old->name();
    editor_.InsertBefore(node);
    INFER_ASSIGN(Value * sum, Product(node, 0));
    if (bias) {
      Value* const addend = bias->input(bias->input(0) == node.output(0) ? 1 : 0);
      INFER_ASSIGN(sum, editor_.Add("Add", {sum, addend}, {}, "", {.name = bias->name()}));
    }
    for (size_t k = 1; k < parts_.size(); ++k) {
      INFER_ASSIGN(Value * product, Product(node, k));
      INFER_ASSIGN(sum, editor_.Add("Add", {sum, product}));
    }
    INFER_TRY(editor_.ReplaceAllUses(old, sum));
    if (bias) editor_.Erase(*bias);
    editor_.Erase(node);
    if (sum->name() != name && !model_.graph.FindValue(name)) editor_.Rename(sum, name);
    return {};
  }

 private:
  Result<Value*> Product(const Node& node, size_t k) {
    std::vector<Value*> inputs{parts_[k],
                               editor_.AddConstant(WeightsOf(node, groups_[k]),
                                                   Cat(node.input(1)->name(), "_columns", k))};
    if (k == 0 && node.inputs().size() > 2) inputs.push_back(node.input(2));
    const std::string output = editor_.FreshName(Cat(node.output(0)->name(), "_columns", k));
    NodeOptions options;
    options.name = Cat(node.name().empty() ? node.output(0)->name() : node.name(), "_columns", k);
    options.output_names = {output};
    options.fused_from = node.fused_from();
    return editor_.Add(node.op(), std::move(inputs), node.attrs(), "", std::move(options));
  }

  StaticModel& model_;
  const std::vector<std::vector<int64_t>>& groups_;
  GraphEditor editor_;
  std::vector<Value*> parts_;
};

}  // namespace

std::vector<int> GroupColumns(std::span<const double> lo, std::span<const double> hi,
                              std::span<const double> energy, const ColumnGroupOptions& options) {
  const size_t n = lo.size();
  std::vector<size_t> order(n);
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return hi[a] - lo[a] < hi[b] - lo[b]; });
  // least[j]: error of the first j columns in as many groups as the round says; cut[round][j]:
  // where the last of them begins.
  const auto groups = std::min(static_cast<size_t>(std::max(options.groups, 1)), n);
  std::vector<double> least(n + 1, std::numeric_limits<double>::infinity());
  least[0] = 0;
  std::vector<std::vector<size_t>> cut;
  double before = std::numeric_limits<double>::infinity();
  while (cut.size() < groups) {
    std::vector<double> next(n + 1, std::numeric_limits<double>::infinity());
    std::vector<size_t> from(n + 1, 0);
    for (size_t j = 1; j <= n; ++j) {
      Interval range;
      double sum = 0;
      for (size_t i = j; i-- > 0;) {
        range = range.Union({lo[order[i]], hi[order[i]]});
        sum += energy[order[i]];
        const double last = sum * (range.hi - range.lo) * (range.hi - range.lo);
        if (last >= next[j]) break;  // and it only grows
        if (least[i] + last >= next[j]) continue;
        next[j] = least[i] + last;
        from[j] = i;
      }
    }
    if (!cut.empty() && !(next[n] <= options.most_error * before)) break;
    before = next[n];
    least = std::move(next);
    cut.push_back(std::move(from));
  }
  std::vector<int> group(n, 0);
  for (size_t end = n, k = cut.size(); k-- > 0;) {
    const size_t begin = cut[k][end];
    for (size_t i = begin; i < end; ++i) group[order[i]] = static_cast<int>(k);
    end = begin;
  }
  return group;
}

Result<ColumnGroupResult> SplitColumnGroups(StaticModel& model, const Graph& original,
                                            const Samples& samples, const ChannelRun& run,
                                            const ColumnGroupOptions& options) {
  std::vector<Site> sites;
  {
    INFER_ASSIGN(const QuantPlan plan, PlanQuantization(model.graph, original, model.scheme));
    sites = FindSites(plan);
  }
  std::vector<ChannelRequest> requests;
  for (const Site& s : sites) requests.push_back({s.value, -1});
  INFER_ASSIGN(const auto stats, ObserveChannels(model.graph, requests, samples, run));
  ColumnGroupResult result;
  for (const Site& site : sites) {
    const auto it = stats.find(site.value);
    if (it == stats.end()) continue;
    std::vector<double> lo = it->second.lo, hi = it->second.hi;
    for (double& x : lo) x = std::min(x, 0.0);
    for (double& x : hi) x = std::max(x, 0.0);
    const std::vector<double> energy = EnergyOf(model.graph, site, lo.size());
    if (energy.empty()) continue;
    const std::vector<int> group = GroupColumns(lo, hi, energy, options);
    const int count = 1 + *std::max_element(group.begin(), group.end());
    if (count < 2) continue;
    std::vector<std::vector<int64_t>> columns(static_cast<size_t>(count));
    for (size_t c = 0; c < group.size(); ++c)
      columns[static_cast<size_t>(group[c])].push_back(static_cast<int64_t>(c));
    Splitter splitter(model, columns);
    INFER_TRY(splitter.Take(site.value));
    for (const Reader& r : site.readers) INFER_TRY(splitter.Multiply(r));
    ++result.values;
    result.products += static_cast<int>(site.readers.size());
    result.parts += count * static_cast<int>(site.readers.size());
  }
  GraphEditor(model.graph).Sweep();
  return result;
}

}  // namespace infer
