#include "passes/rewrite/region.h"

#include "lib/support/strings.h"

namespace infer {
namespace {

constexpr int kMostNodes = 256;

class RegionBuilder {
 public:
  RegionBuilder(Region& region, FunctionRef<bool(const Value&)> is_known)
      : region_(region), is_known_(is_known), editor_(region.graph) {}

  /// The value that stands for `v` inside.
  Result<Value*> Get(const Value* v) {
    if (const auto it = inside_.find(v); it != inside_.end()) return it->second;
    if (v->is_constant()) return inside_[v] = editor_.AddConstant(*v->constant(), v->name());
    if (is_known_(*v)) {
      Value* const mine = editor_.AddInput(v->name(), v->type());
      editor_.CopyElements(mine, *v);
      region_.inputs.push_back(v);
      return inside_[v] = mine;
    }
    if (!v->producer()) return Unsupported(Cat("no value was captured of '", v->name(), "'"));
    INFER_TRY(Copy(*v->producer()));
    return inside_.at(v);
  }

  Status AddTarget(const Value* v) {
    INFER_ASSIGN(Value * mine, Get(v));
    editor_.MarkOutput(mine);
    region_.outputs.push_back(v);
    return {};
  }

 private:
  Status Copy(const Node& n) {
    if (++nodes_ > kMostNodes) return Unsupported("too far from captured values");
    std::vector<Value*> operands;
    for (const Value* v : n.inputs()) {
      operands.push_back(nullptr);
      if (!v) continue;
      INFER_ASSIGN(operands.back(), Get(v));
    }
    NodeOptions options;
    for (const Value* v : n.outputs()) options.output_names.push_back(v ? v->name() : "");
    options.num_captures = n.num_captures();
    for (const auto& [attr, graph] : n.subgraphs())
      options.subgraphs.emplace_back(attr, std::make_unique<Graph>(graph->Clone()));
    INFER_ASSIGN(Node * made,
                 editor_.AddNode(n.def(), std::move(operands), n.attrs(), std::move(options)));
    for (size_t i = 0; i < n.outputs().size(); ++i) {
      if (!n.output(i)) continue;
      inside_[n.output(i)] = made->output(i);
      editor_.CopyElements(made->output(i), *n.output(i));
    }
    return {};
  }

  Region& region_;
  FunctionRef<bool(const Value&)> is_known_;
  GraphEditor editor_;
  std::unordered_map<const Value*, Value*> inside_;
  int nodes_ = 0;
};

}  // namespace

Result<Region> RegionBetween(const OpRegistry& ops, std::span<const Value* const> targets,
                             FunctionRef<bool(const Value&)> is_known) {
  Region region(ops);
  RegionBuilder builder(region, is_known);
  for (const Value* v : targets) INFER_TRY(builder.AddTarget(v));
  return region;
}

}  // namespace infer
