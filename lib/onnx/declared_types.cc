#include "lib/onnx/declared_types.h"

#include <algorithm>

#include "lib/ir/control_flow.h"
#include "lib/ir/inference.h"
#include "lib/support/strings.h"

namespace infer::onnx_io {
namespace {

constexpr size_t kMaxWarnings = 100;

/// Stand-ins for extents that are open: a symbol for each, the same symbol for all, or a number,
/// for named ones too. What one of them leaves open for its sake (do two symbols broadcast?),
/// another settles.
enum class Filling : uint8_t { kEach, kSame, kOne, kMany };
constexpr Filling kFillings[] = {Filling::kEach, Filling::kSame, Filling::kOne, Filling::kMany};
constexpr int kMostRank = 4;  ///< of those tried for an operand of unknown rank

/// A call of the node in which all extents of operands are given.
class FilledCall {
 public:
  FilledCall(const Node& node, const std::unordered_set<const Value*>& of_extents, Filling filling,
             int rank)
      : node_(node),
        of_extents_(of_extents),
        filling_(filling),
        rank_(rank),
        types_(node.inputs().size()),
        elements_(node.inputs().size()) {}

  /// Shapes of results; nullopt where such operands do not fit together.
  std::optional<std::vector<Shape>> Infer(const OpRegistry& ops) {
    const size_t inputs = node_.inputs().size(), operands = inputs - node_.num_captures();
    OpCall call(node_.def(), node_.attrs(), operands, node_.outputs().size());
    std::vector<const ValueType*> captures;
    for (size_t i = 0; i < inputs; ++i) {
      if (const Value* v = node_.input(i)) {
        FillInput(*v, i);
        if (i < operands)
          call.BindInput(i, &types_[i], v->known(), elements_[i] ? &*elements_[i] : nullptr);
      }
      if (i >= operands) captures.push_back(&types_[i]);
    }
    std::vector<std::pair<std::string, std::unique_ptr<Graph>>> subgraphs;
    for (const auto& [attr, sub] : node_.subgraphs())
      subgraphs.emplace_back(attr, std::make_unique<Graph>(sub->Clone()));
    if (!InferCall(call, subgraphs, captures, ops).ok()) return std::nullopt;
    std::vector<Shape> shapes(node_.outputs().size());
    for (size_t o = 0; o < shapes.size(); ++o) shapes[o] = call.out_type(o).shape();
    return shapes;
  }

 private:
  Dim Fill(const Dim& d) {
    switch (filling_) {
      case Filling::kEach: return d.is_unknown() ? Dim::Symbol(Cat("?", count_++)) : d;
      case Filling::kSame: return d.is_unknown() ? Dim::Symbol("?") : d;
      case Filling::kOne: return d.is_static() ? d : 1;
      case Filling::kMany: return d.is_static() ? d : 64;
    }
    return d;
  }
  std::vector<Dim> FillAll(std::vector<Dim> dims) {
    for (Dim& d : dims) d = Fill(d);
    return dims;
  }

  void FillInput(const Value& v, size_t i) {
    types_[i] = v.type();
    if (v.type().is_tensor()) {
      std::vector<Dim> dims =
          v.shape().has_rank() ? v.shape().dims() : std::vector<Dim>(static_cast<size_t>(rank_));
      types_[i] = TensorType{v.dtype(), Shape(FillAll(std::move(dims)))};
    }
    if (v.elements()) elements_[i] = *v.elements();
    if (!of_extents_.contains(&v)) return;
    if (!elements_[i]) {
      const Dim count = v.shape().has_rank() ? v.shape().num_elements() : Dim();
      elements_[i].emplace(count.is_static() && count.value() <= kMaxRank ? count.value() : rank_);
    }
    elements_[i] = FillAll(*std::move(elements_[i]));
  }

  const Node& node_;
  const std::unordered_set<const Value*>& of_extents_;
  Filling filling_;
  int rank_, count_ = 0;
  std::vector<ValueType> types_;
  std::vector<std::optional<std::vector<Dim>>> elements_;
};

bool IsWhole(const Shape& s) {
  return s.has_rank() && std::none_of(s.dims().begin(), s.dims().end(),
                                      [](const Dim& d) { return d.is_unknown(); });
}

/// Whether another rank of operands may be tried.
bool HasOpenRank(const Node& node) {
  return std::any_of(node.inputs().begin(), node.inputs().end(), [](const Value* v) {
    return v && v->type().is_tensor() && !v->shape().has_rank();
  });
}

}  // namespace

Shape FillUnknown(const Shape& inferred, const Shape& declared) {
  if (!inferred.has_rank()) return declared;
  if (!declared.has_rank() || declared.rank() != inferred.rank()) return inferred;
  std::vector<Dim> dims = inferred.dims();
  for (size_t i = 0; i < dims.size(); ++i)
    if (dims[i].is_unknown()) dims[i] = declared.dims()[i];
  Shape filled(std::move(dims));
  return filled.CanExist() ? filled : inferred;
}

void DeclaredTypes::Enter(const Node& node) {
  node_ = &node;
  settled_.reset();
  const auto& in = node.inputs();
  const bool none_from_run = std::all_of(in.begin(), in.end(), [&](const Value* v) {
    return !v || v->is_constant() || of_extents_.contains(v);
  });
  const bool of_extents = node.Is(Trait::kShapeMath) || (!in.empty() && none_from_run);
  if (of_extents && node.def().deterministic)
    for (const Value* v : node.outputs())
      if (v) of_extents_.insert(v);
}

Shape DeclaredTypes::Countable(const Shape& inferred, const Shape& declared, size_t output) {
  if (!declared.has_rank() || IsWhole(inferred)) return inferred;
  if (!settled_) Settle();
  if (fits_ && !IsWhole((*settled_)[output])) return FillUnknown(inferred, declared);
  std::vector<Dim> dims = declared.dims();
  bool has_name = false;
  for (Dim& d : dims) {
    has_name |= d.is_symbolic();
    if (d.is_static()) d = Dim();
  }
  return has_name ? FillUnknown(inferred, Shape(std::move(dims))) : inferred;
}

void DeclaredTypes::Settle() {
  const size_t results = node_->outputs().size();
  settled_.emplace(results);
  fits_ = false;
  const int most = HasOpenRank(*node_) ? kMostRank : 0;
  for (int rank = std::min(most, 1); rank <= most; ++rank)
    for (const Filling filling : kFillings) {
      const auto shapes = FilledCall(*node_, of_extents_, filling, rank).Infer(ops_);
      if (!shapes) continue;
      fits_ = true;
      for (size_t o = 0; o < results; ++o)
        (*settled_)[o] = FillUnknown((*settled_)[o], (*shapes)[o]);
    }
}

Status DeclaredTypes::Add(const ValueType& declared, size_t output, GraphEditor& editor,
                          std::vector<std::string>& warnings) {
  Value* v = node_->output(output);
  auto met = Meet(v->type(), declared);
  if (!met.ok()) {
    std::string what = Cat("value '", v->name(), "' is declared ", ToString(declared), ", but is ",
                           ToString(v->type()));
    if (!SameElements(v->type(), declared)) return InvalidModel(std::move(what));
    if (warnings.size() < kMaxWarnings) warnings.push_back(std::move(what));
    return {};
  }
  if (!v->type().is_tensor() || !met->is_tensor()) {
    editor.SetType(v, *std::move(met));
    return {};
  }
  TensorType merged = met->tensor();
  merged.shape = Countable(v->shape(), merged.shape, output);
  editor.SetType(v, std::move(merged));
  return {};
}

}  // namespace infer::onnx_io
