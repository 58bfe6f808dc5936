#include "quant/scheme/qdq.h"

#include <algorithm>
#include <cmath>

#include "lib/ir/roles.h"
#include "lib/support/strings.h"
#include "quant/scheme/names.h"
#include "quant/scheme/qdq_writer.h"

namespace infer {
namespace {

/// How much of its squared error a value may gain for zero point 0: 0.2 dB.
constexpr double kMostForZero = 1.05;

}  // namespace

Status QdqWriter::ChooseGroups(const CalibrationTable& table) {
  std::vector<std::optional<Interval>> range(static_cast<size_t>(plan_.num_groups));
  const auto widen = [&](int group, const Interval& r) {
    auto& slot = range[static_cast<size_t>(group)];
    slot = slot ? slot->Union(r) : r;
  };
  for (const size_t i : plan_.observed) {
    const auto it = table.find(plan_.values[i]->name());
    if (it == table.end())
      return InvalidArgument(
          Cat("the calibration table lacks value '", plan_.values[i]->name(), "'"));
    widen(plan_.group[i], it->second.range);
  }
  for (const auto& [v, group] : plan_.constants) {
    const Interval r = FiniteRange(v->constant()->data<float>());
    if (group >= 0)
      widen(group, r);
    else
      constant_params_[v] = ChooseParams(r, scheme_.activations);
  }
  std::vector<double> zero_point_cost(range.size(), 0);
  for (size_t group = 0; group < range.size(); ++group) {
    INFER_CHECK(range[group]);
    zero_point_cost[group] = PreferZero(static_cast<int>(group), table, *range[group]);
    params_.push_back(ChooseParams(*range[group], scheme_.activations));
  }
  group_scaled_.resize(params_.size());
  for (size_t i = 0; i < plan_.values.size(); ++i) {
    const QuantParams& p = params_[static_cast<size_t>(plan_.group[i])];
    QuantizedValue q{plan_.values[i]->name(),
                     {},
                     *range[static_cast<size_t>(plan_.group[i])],
                     p.dtype,
                     p.scale[0],
                     p.zero_point[0],
                     0};
    q.seen = q.range;
    if (const auto it = table.find(q.name); it != table.end()) {
      q.seen = it->second.seen;
      q.non_finite = it->second.non_finite;
      // A group's range, or one that was changed since, is none of the observer's.
      const CalibratedValue& c = it->second;
      q.candidates = c.candidates;
      if (q.range == c.range) {
        q.observer = c.observer;
        q.error = c.error;
      } else if (c.from_zero && q.range == c.from_zero->range) {
        q.observer = c.observer;
        q.error = c.from_zero->error;
      }
    }
    q.padded = IsPadded(plan_.values[i]);
    q.zero_point_cost_db = zero_point_cost[static_cast<size_t>(plan_.group[i])];
    report_.values.push_back(std::move(q));
  }
  return {};
}

/// Whether an integer convolution reads `v` and pads it. Padding holds the zero point, and where
/// that is 0 the kernels need not correct for what they multiply it with.
bool QdqWriter::IsPadded(const Value* v) const {
  return std::any_of(v->uses().begin(), v->uses().end(), [&](const Use& use) {
    if (use.operand != 0 || !IsConvolution(*use.user) || !integer_.count(use.user)) return false;
    if (use.user->Attr<std::string>("auto_pad").starts_with("SAME")) return true;
    const auto it = use.user->attrs().find("pads");
    if (it == use.user->attrs().end()) return false;
    const auto* pads = std::get_if<std::vector<int64_t>>(&it->second);
    return pads && std::any_of(pads->begin(), pads->end(), [](int64_t pad) { return pad != 0; });
  });
}

/// Cuts the range of a group that a padded convolution reads at 0 where that costs at most
/// kMostForZero of the error of its numbers. Returns the cost in dB.
double QdqWriter::PreferZero(int group, const CalibrationTable& table, Interval& range) const {
  const QuantGrid& grid = scheme_.activations;
  if (range.lo >= 0 || range.hi <= 0 || grid.symmetric || grid.qmin() != 0) return 0;
  if (ChooseParams(range, grid).zero_point[0] == 0) return 0;
  const CalibratedValue* only = nullptr;
  bool padded = false;
  for (size_t i = 0; i < plan_.values.size(); ++i) {
    if (plan_.group[i] != group) continue;
    padded = padded || IsPadded(plan_.values[i]);
    const auto it = table.find(plan_.values[i]->name());
    if (it == table.end()) continue;
    if (only) return 0;  // the error of several together is not known
    only = &it->second;
  }
  if (!padded || !only || only->range != range || !only->error || !only->from_zero) return 0;
  const double ratio = only->from_zero->error / std::max(*only->error, 1e-300);
  if (ratio > kMostForZero) return 0;
  range = only->from_zero->range;
  return 10 * std::log10(std::max(ratio, 1e-30));
}

float QdqWriter::ScaleOf(const Value* v) const {
  const int i = plan_.FindValue(v);
  if (i >= 0) return params_[static_cast<size_t>(plan_.group[static_cast<size_t>(i)])].scale[0];
  return constant_params_.at(v).scale[0];
}

/// One for all that are equal: most zero points are.
Value* QdqWriter::Constant(Tensor t, const std::string& name) {
  const uint64_t hash = HashOf(t);
  for (auto [it, end] = constants_.equal_range(hash); it != end; ++it)
    if (BitEqual(*it->second->constant(), t)) return it->second;
  return constants_.emplace(hash, editor_.AddConstant(std::move(t), name))->second;
}

Scaled QdqWriter::ParamsOf(const std::string& name, const QuantParams& p) {
  const auto n = static_cast<int64_t>(p.scale.size());
  const Dims dims = p.axis < 0 ? Dims{} : Dims{n};
  Tensor zero_point(p.dtype, dims);
  for (int64_t i = 0; i < n; ++i) zero_point.SetInt(i, p.zero_point[static_cast<size_t>(i)]);
  return {Constant(Tensor::Of<float>(dims, p.scale), NameBeside(name, "scale")),
          Constant(std::move(zero_point), NameBeside(name, "zero_point"))};
}

Scaled QdqWriter::GroupParams(int group, const std::string& name) {
  Scaled& s = group_scaled_[static_cast<size_t>(group)];
  if (!s.scale) s = ParamsOf(name, params_[static_cast<size_t>(group)]);
  return s;
}

Result<Value*> QdqWriter::AddDequantize(Value* q, const Scaled& s, int axis,
                                        const std::string& name) {
  std::vector<Value*> inputs{q, s.scale};
  if (s.zero_point) inputs.push_back(s.zero_point);
  AttrMap attrs;
  if (axis >= 0) attrs["axis"] = static_cast<int64_t>(axis);
  NodeOptions options;
  options.output_names = {name};
  return editor_.Add("DequantizeLinear", std::move(inputs), std::move(attrs), "",
                     std::move(options));
}

bool QdqWriter::ReadsRounded(size_t i, const Use& use) const {
  if (plan_.integer_result[i]) return true;
  const auto it = integer_.find(use.user);
  return it != integer_.end() && IsQuantizedOperand(*it->second->op, *use.user, use.operand);
}

/// What QuantizeLinear may read instead of value i: the operand of the Relu or Clip that makes it,
/// where saturation gives the same integers.
Value* QdqWriter::SkipActivation(size_t i, bool all_read_rounded) {
  Value* const v = plan_.values[i];
  Node* const n = v->producer();
  const auto owner = std::find_if(plan_.nodes.begin(), plan_.nodes.end(), [&](const auto& p) {
    return p.integer && !p.followers.empty() && p.followers.back() == n;
  });
  const auto bounds = owner == plan_.nodes.end() ? std::nullopt : ClampOf(*n);
  if (!all_read_rounded || !bounds) return v;
  const QuantParams& p = params_[static_cast<size_t>(plan_.group[i])];
  const auto code = [&](double bound) {
    return QuantizeValue(bound, p.scale[0], p.zero_point[0], p.dtype);
  };
  if (std::isfinite(bounds->low) && code(bounds->low) != IntegerMin(p.dtype)) return v;
  if (std::isfinite(bounds->high) && code(bounds->high) != IntegerMax(p.dtype)) return v;
  std::vector<std::string> from = owner->node->fused_from();
  from.insert(from.end(), n->fused_from().begin(), n->fused_from().end());
  editor_.SetFusedFrom(*owner->node, std::move(from));
  return n->input(0);
}

Status QdqWriter::WriteValue(size_t i) {
  Value* const v = plan_.values[i];
  const std::string name = v->name();
  const std::vector<Use> uses = v->uses();
  const bool all_rounded = !v->is_output() && std::all_of(uses.begin(), uses.end(), [&](auto& u) {
    return ReadsRounded(i, u);
  });
  Value* const source = SkipActivation(i, all_rounded);
  if (source->producer())
    editor_.InsertAfter(*source->producer());
  else
    editor_.InsertBefore(*g_.nodes().front());
  const Scaled s = GroupParams(plan_.group[i], name);
  NodeOptions options;
  options.output_names = {NameBeside(name, "quantized")};
  INFER_ASSIGN(Value * q, editor_.Add("QuantizeLinear", {source, s.scale, s.zero_point}, {}, "",
                                      std::move(options)));
  INFER_ASSIGN(Value * dq, AddDequantize(q, s, -1, name + "_dequantized"));
  for (const Use& use : uses)
    if (ReadsRounded(i, use)) editor_.SetOperand(*use.user, use.operand, dq);
  const bool takes_name = all_rounded && !v->is_input();
  if (source != v)
    editor_.Erase(*v->producer());  // and v with it
  else if (takes_name)
    editor_.Rename(v, editor_.FreshName(NameBeside(name, "float")));
  if (takes_name) editor_.Rename(dq, name);
  return {};
}

Status QdqWriter::WriteValues() {
  for (size_t i = 0; i < plan_.values.size(); ++i) INFER_TRY(WriteValue(i));
  return {};
}

Status InsertQdq(Graph& g, const QuantPlan& plan, const CalibrationTable& table,
                 const QuantScheme& scheme, QuantizeReport& report) {
  QdqWriter writer(g, plan, scheme, report);
  INFER_TRY(writer.ChooseGroups(table));
  INFER_TRY(writer.WriteWeights());
  INFER_TRY(writer.WriteConstants());
  INFER_TRY(writer.WriteValues());
  CountLayers(report);
  GraphEditor(g).Sweep();
  return {};
}

}  // namespace infer
