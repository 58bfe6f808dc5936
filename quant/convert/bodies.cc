#include "quant/convert/bodies.h"

#include <algorithm>
#include <iterator>
#include <map>

#include "lib/ir/editor.h"
#include "lib/ir/inference.h"
#include "lib/support/strings.h"

namespace infer {
namespace {

/// Constants of fewer bytes may lie in each body: extents, axes, scalars.
constexpr int64_t kSharedBytes = 256;

bool MayBeShared(const Value& v) {
  return v.is_constant() && v.dtype() != DType::kString &&
         v.constant()->byte_size() >= kSharedBytes;
}

/// A node with bodies, which are taken out, quantized, and put back.
class NodeWithBodies {
 public:
  NodeWithBodies(Graph& g, Node& node)
      : g_(g), editor_(g), node_(node), operands_(node.inputs().size() - node.num_captures()) {}

  Status Run(const QuantizeBody& quantize, QuantizeReport& report, std::string& refusal) {
    INFER_TRY(TakeOut());
    bool changed = false;
    for (Graph& body : bodies_) {
      const size_t inputs = body.inputs().size();
      auto made = quantize(body);
      if (!made.ok()) {
        if (made.status().code() != Code::kUnsupported) return made.status();
        refusal = made.status().message();
        continue;
      }
      if (body.inputs().size() != inputs) return Internal("a body lost an input");
      changed = true;
      std::move(made->layers.begin(), made->layers.end(), std::back_inserter(report.layers));
      report.has_wide_pairs |= made->has_wide_pairs;
    }
    if (!changed) return {};
    INFER_TRY(LayTogether());
    return PutBack();
  }

 private:
  /// Constants that one or more bodies and the graph around have alike.
  struct Shared {
    Tensor contents;
    Value* outer = nullptr;                          // in the graph around; nullptr: not there yet
    std::vector<std::pair<size_t, Value*>> holders;  // body, constant of it
  };

  size_t own_inputs(const Graph& body) const { return body.inputs().size() - node_.num_captures(); }

  /// Copies of the bodies. What they capture of constants is theirs, unless one returns it.
  Status TakeOut() {
    const auto& subgraphs = node_.subgraphs();
    for (size_t k = 0; k < node_.num_captures(); ++k) {
      Value* const outer = node_.input(operands_ + k);
      const bool returned = std::any_of(subgraphs.begin(), subgraphs.end(), [&](const auto& s) {
        return s.second->inputs()[own_inputs(*s.second) + k]->is_output();
      });
      if (!outer || !outer->is_constant() || returned) kept_.push_back(outer);
    }
    for (const auto& [name, subgraph] : subgraphs) {
      Graph body = subgraph->Clone();
      GraphEditor inside(body);
      const std::vector<Value*> inputs = body.inputs();
      const size_t own = own_inputs(*subgraph);
      for (size_t k = 0, kept = 0; k < node_.num_captures(); ++k) {
        Value* const outer = node_.input(operands_ + k);
        if (kept < kept_.size() && kept_[kept] == outer)
          ++kept;
        else
          inside.SetConstant(inputs[own + k], *outer->constant());
      }
      INFER_TRY(InferTypes(body));
      bodies_.push_back(std::move(body));
    }
    return {};
  }

  Shared& SharedOf(const Tensor& t) {
    auto& alike = shared_[HashOf(t)];
    for (Shared& s : alike)
      if (BitEqual(t, s.contents)) return s;
    alike.push_back({t, nullptr, {}});
    return alike.back();
  }

  Status LayTogether() {
    for (const auto& v : g_.values())
      if (MayBeShared(*v)) SharedOf(*v->constant()).outer = v.get();
    for (size_t b = 0; b < bodies_.size(); ++b)
      for (const auto& v : bodies_[b].values())
        if (MayBeShared(*v) && !v->is_output())
          SharedOf(*v->constant()).holders.emplace_back(b, v.get());
    for (auto& [hash, alike] : shared_)
      for (Shared& s : alike) {
        const bool in_one = std::all_of(s.holders.begin(), s.holders.end(), [&](const auto& h) {
          return h.first == s.holders.front().first;
        });
        if (s.holders.empty() || (!s.outer && in_one)) continue;
        if (!s.outer) s.outer = editor_.AddConstant(s.contents, s.holders.front().second->name());
        INFER_TRY(Capture(s));
      }
    return {};
  }

  Status Capture(const Shared& s) {
    kept_.push_back(s.outer);
    for (size_t b = 0; b < bodies_.size(); ++b) {
      GraphEditor inside(bodies_[b]);
      Value* const input = inside.AddInput(s.outer->name(), s.outer->type());
      for (const auto& [body, constant] : s.holders)
        if (body == b) INFER_TRY(inside.ReplaceAllUses(constant, input));
    }
    return {};
  }

  Status PutBack() {
    std::vector<Value*> inputs(node_.inputs().begin(),
                               node_.inputs().begin() + static_cast<std::ptrdiff_t>(operands_));
    inputs.insert(inputs.end(), kept_.begin(), kept_.end());
    NodeOptions options{.name = node_.name(),
                        .num_captures = kept_.size(),
                        .fused_from = node_.fused_from(),
                        .extra = node_.extra()};
    for (size_t b = 0; b < bodies_.size(); ++b) {
      GraphEditor(bodies_[b]).Sweep();
      options.subgraphs.emplace_back(node_.subgraphs()[b].first,
                                     std::make_unique<Graph>(std::move(bodies_[b])));
    }
    for (const Value* v : node_.outputs())
      options.output_names.push_back(v ? editor_.FreshName(v->name()) : "");
    editor_.InsertBefore(node_);
    INFER_ASSIGN(Node * made, editor_.AddNode(node_.def(), std::move(inputs), node_.attrs(),
                                              std::move(options)));
    std::vector<std::pair<Value*, std::string>> names;
    for (size_t i = 0; i < node_.outputs().size(); ++i) {
      Value* const old = node_.output(i);
      if (!old) continue;
      Value* const now = made->output(i);
      // The model may know more of the type than inference does.
      INFER_ASSIGN(ValueType both, Meet(now->type(), old->type()));
      editor_.SetType(now, std::move(both));
      if (!old->is_output()) names.emplace_back(now, old->name());
      INFER_TRY(editor_.ReplaceAllUses(old, now));
    }
    editor_.Erase(node_);
    for (const auto& [v, name] : names) editor_.Rename(v, editor_.FreshName(name));
    return {};
  }

  Graph& g_;
  GraphEditor editor_;
  Node& node_;
  size_t operands_;
  std::vector<Value*> kept_;  // captures
  std::vector<Graph> bodies_;
  std::map<uint64_t, std::vector<Shared>> shared_;
};

/// The patterns that match in `g`.
Result<std::vector<NodePattern>> Matching(const Graph& g,
                                          const std::vector<NodePattern>& patterns) {
  const Graph* const graphs[] = {&g};
  std::vector<NodePattern> matching;
  for (const NodePattern& p : patterns) {
    INFER_ASSIGN(const NodeFilter filter, NodeFilter::Compile(std::span(&p, 1), &g));
    if (filter.CheckEachMatches(graphs, "").ok()) matching.push_back(p);
  }
  return matching;
}

}  // namespace

Result<std::string> QuantizeBodies(Graph& g, const QuantizeBody& quantize, QuantizeReport& report) {
  std::string refusal;
  std::vector<Node*> nodes;
  for (const auto& n : g.nodes())
    if (!n->subgraphs().empty()) nodes.push_back(n.get());
  for (Node* n : nodes) {
    const std::string name = Describe(*n);
    if (Status s = NodeWithBodies(g, *n).Run(quantize, report, refusal); !s.ok())
      return std::move(s).In(name);
  }
  if (!nodes.empty()) GraphEditor(g).Sweep();
  return refusal;
}

Status FitPatterns(const Graph& body, std::vector<NodePattern>& include,
                   std::vector<NodePattern>& exclude) {
  const bool chooses = !include.empty();
  INFER_ASSIGN(include, Matching(body, include));
  INFER_ASSIGN(exclude, Matching(body, exclude));
  return chooses && include.empty() ? Unsupported("nothing in it is included") : Status();
}

}  // namespace infer
