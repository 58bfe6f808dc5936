#include "runtime/cpu/compile/widen.h"

#include <algorithm>
#include <map>
#include <set>

#include "lib/ir/editor.h"
#include "lib/ir/roles.h"
#include "lib/support/strings.h"
#include "runtime/cpu/kernels/common/kernels.h"

namespace infer {
namespace {

bool IsHalf(const Value* v) {
  return v && v->type().is_tensor() && (v->dtype() == DType::kF16 || v->dtype() == DType::kBF16);
}

/// Kernels that take any element by its width, and conversions.
bool TakesHalves(const Node& n) {
  static const std::vector<KernelList> moves = {MoveKernels(), ViewKernels(), IndexKernels(),
                                                ScatterKernels(), FillKernels()};
  if (Interpolates(n)) return false;
  if (n.Is(Trait::kConversion) || n.Is("Where")) return true;
  return std::any_of(moves.begin(), moves.end(), [&](const KernelList& list) {
    return std::any_of(list.begin(), list.end(),
                       [&](const KernelDef& k) { return k.Takes(n.def()); });
  });
}

class Widener {
 public:
  Widener(Graph& g, bool stay_wide) : editor_(g), stay_wide_(stay_wide) {}

  /// Whether a move of halves moves what is there in f32, too.
  bool MovesWide(const Node& n) const {
    return !n.Is(Trait::kConversion) && stay_wide_ && !n.inputs().empty() && n.input(0) &&
           narrowed_.count(n.input(0)) > 0;
  }

  /// The node computed in f32. A node that cannot be is left as it is.
  Status Widen(Node& n) {
    editor_.InsertBefore(n);
    std::vector<Value*> operands;
    for (Value* v : n.inputs()) {
      if (!IsHalf(v)) {
        operands.push_back(v);
        continue;
      }
      INFER_ASSIGN(Value * wide, Wide(v));
      operands.push_back(wide);
    }
    NodeOptions options{.name = n.name(), .fused_from = n.fused_from()};
    for (const Value* v : n.outputs())
      options.output_names.push_back(
          !v ? "" : editor_.FreshName(IsHalf(v) ? Cat(v->name(), "_f32") : v->name()));
    auto made = editor_.AddNode(n.def(), std::move(operands), n.attrs(), std::move(options));
    if (!made.ok()) return {};
    for (size_t o = 0; o < n.outputs().size(); ++o) {
      Value* old = n.output(o);
      Value* y = (*made)->output(o);
      if (!old || !y) continue;
      const std::string name = old->name();
      if (IsHalf(old)) {
        // The model may know more of the shape than inference does.
        editor_.SetType(y, TensorType{DType::kF32, old->shape()});
        Value* const wide = y;
        INFER_ASSIGN(y, editor_.Add("Cast", {y}, To(old->dtype())));
        if (stay_wide_) wide_[y] = wide;
        narrowed_.insert(y);
      } else {
        editor_.SetType(y, old->type());
      }
      const bool output = old->is_output();
      INFER_TRY(editor_.ReplaceAllUses(old, y));
      if (!output) names_.emplace_back(y, name);
    }
    replaced_.push_back(&n);
    return {};
  }

  /// A value keeps its name, which profiles and reports show.
  void Finish() {
    for (auto n = replaced_.rbegin(); n != replaced_.rend(); ++n) editor_.Erase(**n);
    std::erase_if(names_, [this](const auto& named) {
      Value* v = named.first;
      if (narrowed_.count(v) == 0 || !v->uses().empty() || v->is_output()) return false;
      editor_.Rename(v->producer()->input(0), editor_.FreshName(named.second));
      editor_.Erase(*v->producer());
      return true;
    });
    for (auto& [v, name] : names_) editor_.Rename(v, editor_.FreshName(name));
  }

 private:
  static AttrMap To(DType t) { return {{"to", static_cast<int64_t>(t)}}; }

  Result<Value*> Wide(Value* v) {
    if (const auto it = wide_.find(v); it != wide_.end()) return it->second;
    if (v->is_constant()) {
      Tensor t = v->constant()->Cast(DType::kF32);
      return wide_[v] = editor_.AddConstant(std::move(t), Cat(v->name(), "_f32"));
    }
    INFER_ASSIGN(Value * y, editor_.Add("Cast", {v}, To(DType::kF32)));
    return wide_[v] = y;
  }

  GraphEditor editor_;
  bool stay_wide_;
  std::set<Value*> narrowed_;      // results of our casts back
  std::map<Value*, Value*> wide_;  // one cast per value, before its first reader
  std::vector<Node*> replaced_;    // until the end, so that no value's address comes again
  std::vector<std::pair<Value*, std::string>> names_;
};

}  // namespace

Status WidenHalves(Graph& g, const KernelList& kernels, bool stay_wide) {
  const auto has_kernel = [&](const OpDef& def) {
    return std::any_of(kernels.begin(), kernels.end(), [&](const KernelDef& k) {
      return k.Takes(def) && !k.name.starts_with("int8:");
    });
  };
  std::vector<Node*> nodes;
  for (const auto& n : g.nodes()) {
    const bool half = std::any_of(n->inputs().begin(), n->inputs().end(), IsHalf) ||
                      std::any_of(n->outputs().begin(), n->outputs().end(), IsHalf);
    // Of an element type that only the run tells, none is widened.
    const bool open = std::any_of(n->inputs().begin(), n->inputs().end(), [](const Value* v) {
      return v && v->type().is_tensor() && v->dtype() == DType::kUndefined;
    });
    // An operator that may be replaced by its parts rounds its result alone, not what lies between.
    const bool parts =
        n->def().decompose && std::any_of(n->inputs().begin(), n->inputs().end(), IsHalf);
    if (half && !open && n->subgraphs().empty() && (parts || has_kernel(n->def())))
      nodes.push_back(n.get());
  }
  Widener widener(g, stay_wide);
  for (Node* n : nodes)
    if (!TakesHalves(*n) || (widener.MovesWide(*n))) INFER_TRY(widener.Widen(*n));
  widener.Finish();
  return {};
}

}  // namespace infer
