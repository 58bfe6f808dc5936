#include "quant/weight_only/plan.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "lib/ir/reached.h"
#include "lib/ir/roles.h"
#include "lib/support/parallel.h"
#include "lib/support/strings.h"

namespace infer {
namespace {

constexpr int64_t kLeastDepth = 16;      ///< a block of the smallest size
constexpr int64_t kLeastElements = 512;  ///< below this, a scale and a node cost what is saved

/// A node through which weights are the same numbers: Transpose of a matrix, Identity.
bool IsView(const Node& n) { return IsIdentity(n) || TurnsMatrix(n); }

/// The constant behind Transposes; `flipped` is turned round by each. nullptr: there is none.
Value* ConstantBehind(Value* v, bool& flipped) {
  while (v && !v->is_constant() && v->producer() && IsView(*v->producer())) {
    flipped ^= v->producer()->Is(Trait::kPermutation);
    v = v->producer()->input(0);
  }
  return v && v->is_constant() ? v : nullptr;
}

bool AllFinite(const Tensor& t) {
  const auto x = t.data<float>();
  return std::all_of(x.begin(), x.end(), [](float v) { return std::isfinite(v); });
}

/// The axis of the weights' outputs, where operand `i` holds weights of a layer that computes in
/// f32 whatever they are stored in: convolutions and recurrent layers.
std::optional<int> LayerAxis(const Node& n, size_t i) {
  if (const auto layout = WeightLayoutOf(n); layout && layout->is_window)
    return i == 1 ? std::optional(layout->out_axis) : std::nullopt;
  return IsRecurrentLayer(n) && (i == 1 || i == 2) ? std::optional(1) : std::nullopt;
}

/// Elements of `a` and `b` as [rows, depth] are the same.
bool SameNumbers(const WeightGroup& a, const WeightGroup& b) {
  if (a.rows != b.rows || a.depth != b.depth) return false;
  const auto x = a.source->constant()->data<float>(), y = b.source->constant()->data<float>();
  if (a.rows_first == b.rows_first) return std::equal(x.begin(), x.end(), y.begin());
  const auto& first = a.rows_first ? x : y;
  const auto& last = a.rows_first ? y : x;
  for (int64_t r = 0; r < a.rows; ++r)
    for (int64_t k = 0; k < a.depth; ++k)
      if (first[static_cast<size_t>(r * a.depth + k)] != last[static_cast<size_t>(k * a.rows + r)])
        return false;
  return true;
}

class Planner {
 public:
  Planner(const Graph& g, const WeightScheme& scheme) : g_(g), scheme_(scheme) {}

  Result<WeightPlan> Run(const Graph& original) {
    INFER_TRY(CheckScheme(scheme_));
    INFER_ASSIGN(include_, NodeFilter::Compile(scheme_.include, &original));
    INFER_ASSIGN(exclude_, NodeFilter::Compile(scheme_.exclude, &original));
    const Graph* const graphs[] = {&g_, &original};
    INFER_TRY(include_.CheckEachMatches(graphs, "--include"));
    INFER_TRY(exclude_.CheckEachMatches(graphs, "--exclude"));
    for (const auto& n : g_.nodes()) Visit(*n);
    LeaveWhatOthersRead();
    for (size_t i = 0; i < plan_.readers.size(); ++i)
      if (plan_.readers[i].reason.empty()) Group(i);
    MergeTied();
    return std::move(plan_);
  }

 private:
  /// A candidate as it is stored.
  struct Stored {
    Value* source = nullptr;
    bool rows_first = false;
  };

  void Visit(Node& n) {
    if (!n.def().domain.empty()) return;
    if (IsMatrixProduct(n)) return Add(n, 1, WeightUse::kProduct, RefuseProduct(n));
    if (n.Is(Trait::kSliceLookup)) {
      // Tables of numbers; the Gathers that compute shapes are none of ours.
      if (!IsF32(n.input(0)) || !n.input(0)->is_constant()) return;
      return Add(n, 0, WeightUse::kLookup, RefuseLookup(n));
    }
    for (const size_t i : {size_t{1}, size_t{2}})
      if (LayerAxis(n, i) && n.input(i)) Add(n, i, WeightUse::kLayer, RefuseLayer(n, i));
  }

  void Add(Node& n, size_t operand, WeightUse use, std::string reason) {
    if (const NodePattern* p = exclude_.Match(n))
      reason = Cat("excluded by ", ToString(*p));
    else if (!include_.empty() && !include_.Match(n))
      reason = "not included";
    plan_.readers.push_back({&n, operand, use, std::move(reason), -1});
  }

  Stored StoredOf(const WeightReader& r) const {
    // Rows are outputs: MatMul stores them last, Gather and Gemm with transB first.
    Stored s;
    s.rows_first = r.use == WeightUse::kLookup ||
                   (r.use == WeightUse::kProduct && WeightLayoutOf(*r.node)->rows_are_outputs());
    Value* const v = r.node->input(r.operand);
    s.source = r.use == WeightUse::kProduct ? ConstantBehind(v, s.rows_first)
                                            : (v->is_constant() ? v : nullptr);
    return s;
  }

  static std::string RefuseNumbers(const Value& v) {
    if (v.constant()->num_elements() < kLeastElements)
      return Cat("too small: ", v.constant()->num_elements(), " numbers");
    return AllFinite(*v.constant()) ? "" : "weights are NaN or infinite";
  }

  std::string RefuseProduct(const Node& n) const {
    if (!IsF32(n.input(0)) || !IsF32(n.input(1))) return "its operands are not f32";
    const WeightLayout layout = *WeightLayoutOf(n);
    bool flipped = layout.rows_are_outputs();
    const Value* const w = ConstantBehind(n.input(1), flipped);
    if (!w)
      return n.input(0)->is_constant() ? "its weights are the first operand"
                                       : "both operands are computed";
    if (w->shape().rank() != 2)
      return Cat("its weights are ", w->shape().ToString(), ", not a matrix");
    if (const int64_t depth = w->constant()->dim(flipped ? 1 : 0); depth < kLeastDepth)
      return Cat("too small: it sums over ", depth);
    if (scheme_.format == WeightFormat::kNBits) {
      if (!n.input(0)->shape().has_rank() || n.input(0)->shape().rank() < 2)
        return "its first operand is no matrix";
      if (layout.alpha != 1 || layout.data_transposed || (n.input(2) && layout.beta != 1))
        return "alpha, beta or transA is set";
    }
    return RefuseNumbers(*w);
  }

  std::string RefuseLookup(const Node& n) const {
    if (!scheme_.lookups) return "tables are left out";
    const Tensor& t = *n.input(0)->constant();
    const auto axis = n.Attr<int64_t>("axis");
    if (t.rank() != 2 || (axis != 0 && axis != -2))
      return Cat("it looks up along axis ", axis, " of ", ToString(t.dims()));
    if (t.dim(1) < kLeastDepth) return Cat("too small: rows of ", t.dim(1));
    if (t.dim(1) * LookupGrid().bits % 8 != 0) return Cat("rows of ", t.dim(1), " fill no bytes");
    return RefuseNumbers(*n.input(0));
  }

  std::string RefuseLayer(const Node& n, size_t operand) const {
    if (!scheme_.layers) return "only products and tables are quantized";
    const Value* v = n.input(operand);
    if (!IsF32(v) || !v->is_constant()) return "its weights are no f32 constant";
    return RefuseNumbers(*v);
  }

  BlockGrid LookupGrid() const {
    BlockGrid grid = scheme_.grid;
    if (scheme_.lookup_bits != 0) grid.bits = scheme_.lookup_bits;
    return grid;
  }

  bool IsPlanned(const Use& use) const {
    const auto it = planned_.find(use.user);
    return it != planned_.end() && it->second.contains(use.operand);
  }

  /// A reader of `v` that keeps it in f32; nullptr for none.
  const Node* OtherReader(const Value& v) const {
    const Node* other = nullptr;
    ReachedFrom(v, [&](const Use& use, auto add) {
      if (other || IsPlanned(use)) return;
      if (!IsView(*use.user) || use.user->output()->is_output())
        other = use.user;
      else
        add(*use.user->output());
    });
    return other;
  }

  /// Weights that stay in f32 for one reader do so for all: stored twice they would cost, not save.
  void LeaveWhatOthersRead() {
    for (bool changed = true; changed;) {
      changed = false;
      planned_.clear();
      for (const WeightReader& r : plan_.readers)
        if (r.reason.empty()) planned_[r.node].insert(r.operand);
      for (WeightReader& r : plan_.readers) {
        if (!r.reason.empty()) continue;
        const Value* v = StoredOf(r).source;
        const Node* other = OtherReader(*v);
        if (!other && !v->is_output()) continue;
        r.reason = other ? Cat("its weights are also read by ", Describe(*other))
                         : "its weights are an output of the model";
        changed = true;
      }
    }
  }

  void Group(size_t i) {
    WeightReader& r = plan_.readers[i];
    const Stored s = StoredOf(r);
    const bool layer = r.use == WeightUse::kLayer, lookup = r.use == WeightUse::kLookup;
    const int axis = layer ? AxisOf(r) : -1;
    const bool apart = !layer && !SharedGrid(s.source->constant()->dim(s.rows_first ? 1 : 0));
    const auto same = std::find_if(plan_.groups.begin(), plan_.groups.end(), [&](const auto& g) {
      return g.source == s.source && g.is_layer == layer && g.axis == axis &&
             (layer || g.rows_first == s.rows_first) && (!apart || g.has_lookup == lookup);
    });
    r.group = static_cast<int>(same - plan_.groups.begin());
    if (same == plan_.groups.end()) {
      WeightGroup group;
      group.source = s.source;
      group.is_layer = layer;
      group.axis = axis;
      group.rows_first = s.rows_first;
      const Tensor& w = *s.source->constant();
      if (layer)
        SetLayerRows(*r.node, w, group);
      else
        group.rows = w.dim(s.rows_first ? 0 : 1), group.depth = w.dim(s.rows_first ? 1 : 0);
      plan_.groups.push_back(std::move(group));
    }
    WeightGroup& group = plan_.groups[static_cast<size_t>(r.group)];
    group.readers.push_back(i);
    group.has_lookup |= lookup;
    group.has_product |= r.use == WeightUse::kProduct;
    SetGrid(group);
  }

  /// What one sum goes over is the depth: a window, the channels of a position, a step's inputs.
  static void SetLayerRows(const Node& n, const Tensor& w, WeightGroup& group) {
    const bool spreads = IsTransposedConvolution(n);
    group.rows_first = !spreads;
    group.depth = IsConvolution(n) ? w.num_elements() / w.dim(0) : w.dim(spreads ? 0 : 2);
    group.rows = w.num_elements() / group.depth;
  }

  static int AxisOf(const WeightReader& r) {
    // With groups, axis 1 of [C, M/group, ...] holds `group` channels in each index.
    const auto layout = WeightLayoutOf(*r.node);
    if (layout && layout->outputs_in_groups && layout->groups != 1) return -1;
    return LayerAxis(*r.node, r.operand).value_or(-1);
  }

  /// Bytes of a row of `codes` codes with the scales and zero points of `depth` numbers.
  static int64_t RowBytes(const BlockGrid& grid, int64_t depth, int64_t codes) {
    const int64_t scale_bits = 32 + (grid.symmetric ? 0 : grid.bits);
    return (codes * grid.bits + grid.BlocksOf(depth) * scale_bits) / 8;
  }
  /// Of MatMulNBits, which pads a row to whole blocks.
  static int64_t PaddedRowBytes(const BlockGrid& grid, int64_t depth) {
    return RowBytes(grid, depth, grid.BlocksOf(depth) * grid.block);
  }

  BlockGrid ProductGrid(int64_t depth) const {
    BlockGrid grid = scheme_.grid;
    if (scheme_.format != WeightFormat::kNBits) return grid;
    // Smaller blocks, which also err less, may cost no more.
    for (BlockGrid half = grid; half.block > 16;) {
      half.block /= 2;
      if (PaddedRowBytes(half, depth) < PaddedRowBytes(grid, depth)) grid = half;
    }
    return grid;
  }

  /// The grid of rows that lookups and products read alike. GatherBlockQuantized does not pad, so
  /// that only rows of whole blocks are the same bytes as those of MatMulNBits. nullopt: no block
  /// divides the depth, or one that does takes more than a form of its own for each.
  std::optional<BlockGrid> SharedGrid(int64_t depth) const {
    BlockGrid grid = scheme_.grid;
    if (scheme_.format != WeightFormat::kNBits) return grid;
    while (grid.block > 16 && depth % grid.block != 0) grid.block /= 2;
    if (depth % grid.block != 0) return std::nullopt;
    const int64_t apart =
        PaddedRowBytes(ProductGrid(depth), depth) + RowBytes(LookupGrid(), depth, depth);
    return RowBytes(grid, depth, depth) < apart ? std::optional(grid) : std::nullopt;
  }

  void SetGrid(WeightGroup& group) const {
    group.grid = group.has_product ? ProductGrid(group.depth) : LookupGrid();
    if (group.has_product && group.has_lookup)
      group.grid = SharedGrid(group.depth).value_or(group.grid);
    group.grid.positive = scheme_.format == WeightFormat::kQdq;
    if (group.is_layer) group.grid = {8, 0, true, true};
  }

  /// Products join tables of the same numbers.
  void MergeTied() {
    for (size_t a = 0; a < plan_.groups.size(); ++a) {
      WeightGroup& table = plan_.groups[a];
      if (!table.has_lookup || table.has_product) continue;
      for (size_t b = 0; b < plan_.groups.size(); ++b) {
        WeightGroup& other = plan_.groups[b];
        if (a == b || other.has_lookup || !other.has_product) continue;
        if (!SharedGrid(other.depth) || !SameNumbers(table, other)) continue;
        for (const size_t r : other.readers) {
          plan_.readers[r].group = static_cast<int>(a);
          table.readers.push_back(r);
        }
        other.readers.clear();
        other.has_product = false;
        table.has_product = true;
        SetGrid(table);
      }
    }
    std::map<int, int> to;
    std::vector<WeightGroup> kept;
    for (size_t i = 0; i < plan_.groups.size(); ++i) {
      if (plan_.groups[i].readers.empty()) continue;
      to[static_cast<int>(i)] = static_cast<int>(kept.size());
      kept.push_back(std::move(plan_.groups[i]));
    }
    plan_.groups = std::move(kept);
    for (WeightReader& r : plan_.readers)
      if (r.group >= 0) r.group = to.at(r.group);
  }

  const Graph& g_;
  const WeightScheme& scheme_;
  NodeFilter include_, exclude_;
  std::map<const Node*, std::set<size_t>> planned_;
  WeightPlan plan_;
};

}  // namespace

Status CheckScheme(const WeightScheme& s) {
  INFER_TRY(CheckGrid(s.grid));
  if (s.lookup_bits != 0)
    INFER_TRY(CheckGrid({s.lookup_bits, s.grid.block, s.grid.symmetric, false}));
  const bool two = s.grid.bits == 2 || s.lookup_bits == 2;
  if (s.format == WeightFormat::kNBits && s.grid.block == 0)
    return InvalidArgument("MatMulNBits has blocks of 16 to 256; a scale per output is for qdq");
  if (s.format == WeightFormat::kQdq && two)
    return InvalidArgument("weights of 2 bits are for nbits; DequantizeLinear has 4 and 8");
  return {};
}

Result<WeightPlan> PlanWeights(const Graph& g, const Graph& original, const WeightScheme& scheme) {
  return Planner(g, scheme).Run(original);
}

WeightGrids GridsOf(const WeightPlan& plan) {
  WeightGrids grids;
  for (const WeightReader& r : plan.readers) {
    const Value* const v = r.node->input(r.operand);
    if (r.group < 0 || r.use == WeightUse::kLookup || !v->is_constant()) continue;
    const WeightGroup& group = plan.groups[static_cast<size_t>(r.group)];
    if (!group.is_layer)
      grids.emplace(v->name(), WeightGrid{group.grid});
    else if (IsConvolution(*r.node))
      grids.emplace(v->name(), IntegerGrid(/*reduce_range=*/false, group.axis < 0));
  }
  return grids;
}

GroupWeights::GroupWeights(const WeightGroup& group) : source_(*group.source->constant()) {
  view_.rows = group.rows;
  view_.depth = group.depth;
  view_.values = source_.data<float>();
  if (group.rows_first) return;
  copy_.resize(view_.values.size());
  const auto from = view_.values;
  constexpr int64_t kTile = 32;  // rows of the copy, so that reads stay in a few lines
  ParallelFor((group.rows + kTile - 1) / kTile, 8, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t)
      for (int64_t k = 0; k < group.depth; ++k)
        for (int64_t r = t * kTile; r < std::min((t + 1) * kTile, group.rows); ++r)
          copy_[static_cast<size_t>(r * group.depth + k)] =
              from[static_cast<size_t>(k * group.rows + r)];
  });
  view_.values = copy_;
}

}  // namespace infer
