#include "quant/prune/split_layer.h"

#include <algorithm>
#include <utility>

#include "lib/ir/editor.h"
#include "lib/ir/roles.h"
#include "lib/support/strings.h"

namespace infer {
namespace {

/// Attributes that say how a convolution reads its operand: the first product's.
constexpr const char* kWindowAttrs[] = {"strides", "pads", "dilations", "auto_pad"};

/// [rows, columns] of a row-major matrix as weights like `w`, a matrix either way round or 1x1
/// windows.
Tensor AsWeights(std::span<const float> matrix, int64_t rows, int64_t columns, bool rows_first,
                 const Dims& w) {
  Dims dims = w;
  const size_t out = rows_first ? 0 : 1;
  dims[out] = rows;
  dims[1 - out] = columns;
  Tensor t(DType::kF32, dims);
  const auto to = t.mutable_data<float>();
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c)
      to[static_cast<size_t>(rows_first ? r * columns + c : c * rows + r)] =
          matrix[static_cast<size_t>(r * columns + c)];
  return t;
}

Status SplitNode(GraphEditor& edit, Node& node, Value* right, Value* left) {
  NodeOptions options;
  options.name = node.name().empty() ? "" : node.name() + "_right";
  options.output_names = {node.output(0)->name() + "_rank"};
  options.fused_from = node.fused_from();
  edit.InsertBefore(node);
  Value* inner = nullptr;
  if (IsConvolution(node)) {
    INFER_ASSIGN(Node* const first, edit.AddNode(node.def(), {node.input(0), right}, node.attrs(),
                                                 std::move(options)));
    inner = first->output(0);
    for (const char* name : kWindowAttrs) edit.EraseAttr(node, name);
  } else {
    // Every opset has it; a Gemm without bias is younger.
    INFER_ASSIGN(inner, edit.Add("MatMul", {node.input(0), right}, {}, "", std::move(options)));
  }
  edit.SetOperand(node, 0, inner);
  edit.SetOperand(node, 1, left);
  return edit.Reinfer(node);
}

}  // namespace

std::string WhyNotSplit(const Graph& g, const PrunableWeights& w) {
  if (!w.reason.empty()) return w.reason;
  const WeightPlane& plane = w.place.plane;
  for (const Use& use : g.FindValue(w.weights)->uses()) {
    const Node& n = *use.user;
    if (IsRecurrentLayer(n)) return "a recurrent layer multiplies by it in every step";
    if (IsTransposedConvolution(n)) return "it is a transposed convolution";
    if (!IsConvolution(n) && !IsMatrixProduct(n)) return Cat(n.op(), " is not written as two");
    if (n.output(0)->dtype() != DType::kF32) return "it is not computed in f32";
  }
  if (plane.groups > 1) return "its groups multiply matrices of their own";
  if (plane.taps > 1) return "its windows are larger than one point";
  if (!w.no_data.empty()) return w.no_data;
  if (w.sources.empty()) return "nothing is known of what it multiplies";
  if (plane.depth() > kMaxPruneDepth)
    return Cat("it sums over more than ", kMaxPruneDepth, " inputs");
  return "";
}

Status SplitLayer(Graph& g, const PrunableWeights& w, const LowRankFactors& f) {
  Value* const v = g.FindValue(w.weights);
  const Dims dims = v->constant()->dims();
  std::vector<Node*> readers;
  for (const Use& use : v->uses()) readers.push_back(use.user);
  std::sort(readers.begin(), readers.end(),
            [](const Node* a, const Node* b) { return Graph::Before(*a, *b); });
  const auto layout = WeightLayoutOf(*readers.front());
  const bool rows_first = layout->is_window || layout->rows_are_outputs();
  const int64_t rows = w.place.plane.rows, depth = w.place.plane.depth();
  GraphEditor edit(g);
  // The first of two matrix products is a plain one.
  Value* const right = edit.AddConstant(AsWeights(f.right, f.rank, depth, layout->is_window, dims),
                                        w.weights + "_right");
  Value* const left =
      edit.AddConstant(AsWeights(f.left, rows, f.rank, rows_first, dims), w.weights + "_left");
  for (Node* node : readers) INFER_TRY(SplitNode(edit, *node, right, left));
  edit.Sweep();
  return {};
}

}  // namespace infer
