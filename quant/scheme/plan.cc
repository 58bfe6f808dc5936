#include "quant/scheme/plan.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "lib/ir/roles.h"
#include "lib/support/strings.h"

namespace infer {
namespace {

constexpr int64_t kLargeTable = int64_t{1} << 16;  // bytes

/// Why a node that would only round stays f32. What a table takes is most of the file of many
/// models of text, so it is told who stores it smaller.
std::string NotInteger(const Node& n, std::string_view why) {
  const Value* const table = LargeTableOf(n);
  if (!table) return std::string(why);
  return Cat("its table of ", HumanBytes(table->constant()->byte_size()),
             " is looked up in f32; the recipes balanced and best store it in 8 bits where the "
             "outputs allow it, --mode weight-only in fewer");
}

}  // namespace

const Value* LargeTableOf(const Node& n) {
  const Value* const table = n.Is(Trait::kSliceLookup) ? n.input(0) : nullptr;
  return table && table->is_constant() && table->constant()->byte_size() >= kLargeTable ? table
                                                                                        : nullptr;
}

int QuantPlan::FindValue(const Value* v) const {
  const auto it = index_.find(v);
  return it == index_.end() ? -1 : it->second;
}

std::unordered_map<const Node*, size_t> QuantPlan::ReportRows() const {
  std::unordered_map<const Node*, size_t> rows;
  for (const PlannedNode& p : nodes)
    if (IsLayer(*p.node)) rows.emplace(p.node, rows.size());
  return rows;
}

/// Fills a plan step by step; each step reads what the ones before it found.
class QuantPlanner {
 public:
  QuantPlanner(const Graph& g, const QuantScheme& scheme) : g_(g), scheme_(scheme) {}

  Status Filter(const Graph& original);
  void FormUnits();
  void KeepEnds();
  void FindMustRound();
  void FindWanted();
  void ChooseInteger();
  void CollectValues();
  void ShareParameters();
  QuantPlan Take() { return std::move(plan_); }

 private:
  std::string WhyNot(const Node& node, const QuantOp* op) const;
  void Absorb(PlannedNode& p);
  bool Eligible(const PlannedNode& p) const { return p.op && p.reason.empty(); }
  /// Calls f(value) for every computed operand that would be quantized.
  template <typename F>
  void ForOperands(const PlannedNode& p, F f) const {
    for (size_t i = 0; i < p.node->inputs().size(); ++i)
      if (IsQuantizedOperand(*p.op, *p.node, i)) f(p.node->input(i));
  }
  bool AnyOperand(const PlannedNode& p, const std::set<const Value*>& in) const {
    bool any = false;
    ForOperands(p, [&](const Value* v) { any = any || in.count(v) > 0; });
    return any;
  }
  template <typename F>
  void ForResults(const PlannedNode& p, F f) const {
    if (p.op->role == QuantRole::kMovement) {
      for (Value* v : p.node->outputs())
        if (v) f(v);
    } else {
      f(p.result);
    }
  }
  bool AnyResultWanted(const PlannedNode& p) const {
    bool any = false;
    ForResults(p, [&](const Value* v) { any = any || wanted_.count(v) > 0; });
    return any;
  }
  void AddValue(Value* v, bool integer_result);
  int Find(int i) { return parent_[i] == i ? i : parent_[i] = Find(parent_[i]); }
  void Unite(const Value* a, const Value* b);

  const Graph& g_;
  const QuantScheme& scheme_;
  NodeFilter include_, exclude_;
  QuantPlan plan_;
  std::set<const Value*> must_round_;  // integer kernels give integers here, whoever reads them
  std::set<const Value*> wanted_;      // somebody multiplies it (or moves it to where that is done)
  std::set<const Value*> rounded_;     // results that are rounded
  std::vector<int> parent_;            // union-find over plan_.values
};

namespace {

bool IsComputedF32(const Value* v) {
  return v && !v->is_constant() && v->type().is_tensor() && v->dtype() == DType::kF32;
}

/// The only reader of `v` when v disappears with it; nullptr else.
Node* OnlyReader(const Value* v) { return v->has_one_use() ? v->uses()[0].user : nullptr; }

/// A vector along the last axis, or a scalar.
bool IsRowConstant(const Value* v) {
  if (!v || !v->is_constant()) return false;
  const Tensor& t = *v->constant();
  return t.num_elements() == 1 || (t.rank() >= 1 && t.num_elements() == t.dim(-1));
}

/// As a mask of -inf has. Quantized, it would become the least number of a range.
bool HasNonFinite(const Value* v) {
  if (!v || !v->is_constant() || v->dtype() != DType::kF32) return false;
  const auto values = v->constant()->data<float>();
  return std::any_of(values.begin(), values.end(), [](float x) { return !std::isfinite(x); });
}

}  // namespace

Status QuantPlanner::Filter(const Graph& original) {
  INFER_ASSIGN(include_, NodeFilter::Compile(scheme_.include, &original));
  INFER_ASSIGN(exclude_, NodeFilter::Compile(scheme_.exclude, &original));
  const Graph* graphs[] = {&g_, &original};
  INFER_TRY(include_.CheckEachMatches(graphs, "include"));
  return exclude_.CheckEachMatches(graphs, "exclude");
}

std::string QuantPlanner::WhyNot(const Node& node, const QuantOp* op) const {
  if (!op) return "INT8 does not cover the operator";
  for (size_t i = 0; i < node.inputs().size() && i < 2; ++i)
    if (op->role == QuantRole::kWeighted || i == 0)
      if (node.input(i) &&
          (!node.input(i)->type().is_tensor() || node.input(i)->dtype() != DType::kF32))
        return Cat("it works on ", ToString(node.input(i)->type()), ", not on f32");
  if (!IsComputedF32(node.output(0))) return "its result is not f32";
  if (const NodePattern* p = exclude_.Match(node)) return Cat("excluded by ", ToString(*p));
  if (!include_.empty() && !include_.Match(node)) return "no include entry matches it";
  if (const auto it = scheme_.keep.find(node.output(0)->name()); it != scheme_.keep.end())
    return it->second;
  for (size_t i = 0; i < node.inputs().size(); ++i)
    if (IsQuantizedOperand(*op, node, i) && HasNonFinite(node.input(i)))
      return Cat("its constant '", node.input(i)->name(), "' holds NaN or infinity");
  return op->refuse ? op->refuse(node) : "";
}

void QuantPlanner::Absorb(PlannedNode& p) {
  p.result = p.node->output(0);
  if (!Eligible(p)) return;
  // Movement and Concat keep the parameters of their operands; an activation would change them.
  if (p.op->role == QuantRole::kMovement || p.op->role == QuantRole::kConcat) return;
  Node* next = OnlyReader(p.result);
  const auto take = [&] {
    p.followers.push_back(next);
    p.result = next->output(0);
    next = OnlyReader(p.result);
  };
  if (IsMatrixProduct(*p.node) && !TakesBias(*p.node) && next &&
      IsRowConstant(AddedTo(p.result, *next)) && !exclude_.Match(*next)) {
    p.bias = next;
    take();
  }
  if (next && ClampOf(*next) && next->input(0) == p.result) take();
}

void QuantPlanner::FormUnits() {
  std::set<const Node*> absorbed;
  for (const auto& node : g_.nodes()) {
    if (absorbed.count(node.get())) continue;
    PlannedNode p;
    p.node = node.get();
    for (auto v = node->outputs().rbegin(); v != node->outputs().rend(); ++v)
      if (*v) p.first_result = (*v)->name();
    p.op = FindQuantOp(*node);
    p.reason = WhyNot(*node, p.op);
    p.unwanted = exclude_.Match(*node) || (!include_.empty() && !include_.Match(*node));
    Absorb(p);
    absorbed.insert(p.followers.begin(), p.followers.end());
    plan_.nodes.push_back(std::move(p));
  }
}

void QuantPlanner::KeepEnds() {
  std::vector<PlannedNode*> weighted;
  for (PlannedNode& p : plan_.nodes)
    if (Eligible(p) && p.op->role == QuantRole::kWeighted) weighted.push_back(&p);
  const auto keep = [&](int count, std::string_view which, bool from_end) {
    for (size_t i = 0; i < weighted.size() && i < static_cast<size_t>(std::max(count, 0)); ++i) {
      PlannedNode& p = *weighted[from_end ? weighted.size() - 1 - i : i];
      p.reason = Cat("one of the ", which, " layers to keep");
      p.unwanted = true;
    }
  };
  keep(scheme_.keep_first, "first", false);
  keep(scheme_.keep_last, "last", true);
}

void QuantPlanner::FindMustRound() {
  for (const PlannedNode& p : plan_.nodes) {
    if (!Eligible(p)) continue;
    const bool source = p.op->role == QuantRole::kWeighted && !p.op->float_result;
    if (!source && (p.op->role == QuantRole::kWeighted || !AnyOperand(p, must_round_))) continue;
    ForResults(p, [&](const Value* v) {
      if (!v->is_output()) must_round_.insert(v);
    });
  }
}

void QuantPlanner::FindWanted() {
  for (auto it = plan_.nodes.rbegin(); it != plan_.nodes.rend(); ++it) {
    const PlannedNode& p = *it;
    if (!Eligible(p)) continue;
    const bool weighted = p.op->role == QuantRole::kWeighted;
    const bool between = p.op->role != QuantRole::kElementwise || AnyOperand(p, must_round_);
    if (!weighted && !(between && AnyResultWanted(p))) continue;
    ForOperands(p, [&](const Value* v) { wanted_.insert(v); });
  }
}

void QuantPlanner::ChooseInteger() {
  for (PlannedNode& p : plan_.nodes) {
    if (!Eligible(p)) continue;
    const bool weighted = p.op->role == QuantRole::kWeighted;
    if (!weighted && !AnyResultWanted(p)) {
      p.reason = NotInteger(*p.node, "no consumer of its result is an integer kernel");
    } else if (!weighted &&
               !AnyOperand(p, p.op->role == QuantRole::kElementwise ? must_round_ : rounded_)) {
      p.reason = NotInteger(*p.node, "no operand is integer");
    } else {
      p.integer = true;
    }
    if (!p.integer) continue;
    ForResults(p, [&](const Value* v) {
      const bool rounds = p.op->float_result ? wanted_.count(v) > 0 : true;
      if (rounds && !v->is_output()) rounded_.insert(v);
    });
  }
}

void QuantPlanner::AddValue(Value* v, bool integer_result) {
  if (plan_.index_.count(v)) return;
  plan_.index_[v] = static_cast<int>(plan_.values.size());
  plan_.values.push_back(v);
  plan_.integer_result.push_back(integer_result);
}

void QuantPlanner::CollectValues() {
  std::set<const Value*> read;
  for (const PlannedNode& p : plan_.nodes) {
    if (!p.integer) continue;
    ForOperands(p, [&](Value* v) {
      if (v->is_constant())
        plan_.constants.emplace(v, -1);
      else
        read.insert(v);
    });
  }
  for (Value* v : g_.inputs())
    if (read.count(v)) AddValue(v, false);
  for (const PlannedNode& p : plan_.nodes) {
    const auto add = [&](Value* v) {
      if (!v || (!read.count(v) && !rounded_.count(v))) return;
      AddValue(v, rounded_.count(v) > 0 && !p.op->float_result);
    };
    for (Value* v : p.node->outputs()) add(v);
    for (const Node* f : p.followers) add(f->output(0));
  }
}

void QuantPlanner::Unite(const Value* a, const Value* b) {
  const int i = plan_.FindValue(a), j = plan_.FindValue(b);
  if (i >= 0 && j >= 0) parent_[Find(i)] = Find(j);
}

void QuantPlanner::ShareParameters() {
  parent_.resize(plan_.values.size());
  std::iota(parent_.begin(), parent_.end(), 0);
  std::set<const Value*> follows;  // its numbers are numbers of another value of its group
  for (const PlannedNode& p : plan_.nodes) {
    if (!p.integer) continue;
    if (p.op->role != QuantRole::kMovement && p.op->role != QuantRole::kConcat) continue;
    ForOperands(p, [&](const Value* in) {
      ForResults(p, [&](const Value* out) {
        Unite(in, out);
        if (plan_.FindValue(in) >= 0 || in->is_constant()) follows.insert(out);
      });
    });
  }
  std::map<int, int> number;
  for (size_t i = 0; i < plan_.values.size(); ++i) {
    const int root = Find(static_cast<int>(i));
    plan_.group.push_back(number.emplace(root, static_cast<int>(number.size())).first->second);
    if (!follows.count(plan_.values[i])) plan_.observed.push_back(i);
  }
  plan_.num_groups = static_cast<int>(number.size());
  for (const PlannedNode& p : plan_.nodes) {
    if (!p.integer || p.op->role != QuantRole::kConcat) continue;
    const int at = plan_.FindValue(p.node->output(0));
    ForOperands(p, [&](const Value* v) {
      if (v->is_constant() && at >= 0) plan_.constants[v] = plan_.group[static_cast<size_t>(at)];
    });
  }
}

Result<QuantPlan> PlanQuantization(const Graph& g, const Graph& original,
                                   const QuantScheme& scheme) {
  QuantPlanner planner(g, scheme);
  INFER_TRY(planner.Filter(original));
  planner.FormUnits();
  planner.KeepEnds();
  planner.FindMustRound();
  planner.FindWanted();
  planner.ChooseInteger();
  planner.CollectValues();
  planner.ShareParameters();
  return planner.Take();
}

WeightGrids GridsOf(const QuantPlan& plan, const QuantScheme& scheme) {
  WeightGrids grids;
  for (const PlannedNode& p : plan.nodes) {
    const auto operand = p.integer && p.op ? WeightOperand(*p.op, *p.node) : std::nullopt;
    if (!operand || !p.node->input(*operand)->is_constant()) continue;
    const Value& weights = *p.node->input(*operand);
    const int axis = scheme.per_channel ? WeightAxis(*p.node, *operand) : -1;
    const WeightLayout layout = *WeightLayoutOf(*p.node);
    const bool rows_are_channels =
        layout.is_window ? !layout.outputs_in_groups : weights.constant()->rank() == 2;
    if (axis >= 0 && !rows_are_channels) continue;
    grids.emplace(weights.name(), IntegerGrid(scheme.weights.reduce_range, axis < 0));
  }
  return grids;
}

}  // namespace infer
