/// Shape and Size: where data propagation begins.
#include <algorithm>

#include "lib/ops/common.h"
#include "lib/ops/move/move.h"
#include "lib/ops/op_def.h"

namespace infer {
namespace {

/// [begin, end) of Shape's slice for this rank.
std::pair<int, int> ShapeRange(const OpCall& call, int rank) {
  auto clamp = [&](int64_t i) {
    return static_cast<int>(std::clamp<int64_t>(i < 0 ? i + rank : i, 0, rank));
  };
  const int begin = clamp(call.Int("start"));
  const int end = call.HasAttr("end") ? clamp(call.Int("end")) : rank;
  return {begin, std::max(begin, end)};
}

Status InferShape(OpCall& call) {
  const Shape& s = call.shape(0);
  if (!s.has_rank()) {
    call.SetOut(0, DType::kI64, UnknownOfRank(1));
    return {};
  }
  const auto [begin, end] = ShapeRange(call, s.rank());
  call.SetOut(0, DType::kI64, Shape(Dims{end - begin}));
  call.SetElements(0, {s.dims().begin() + begin, s.dims().begin() + end});
  return {};
}

Status RunShape(OpRun& run) {
  const Dims& dims = run.in(0).dims();
  const auto [begin, end] = ShapeRange(run.call(), run.in(0).rank());
  run.Set(0, Tensor::Int64s({dims.begin() + begin, dims.begin() + end}));
  return {};
}

/// Before opset 15 a Slice of the whole shape.
Result<NodeSpec> LowerShape(NodeSpec node, int opset, LiftContext& out) {
  const bool whole = IntAttrOr(node, "start", 0) == 0 && !node.attrs.contains("end");
  if (opset >= 15 || whole) return node;
  const int64_t start = IntAttrOr(node, "start", 0), end = IntAttrOr(node, "end", INT64_MAX);
  const std::string all = out.Fresh("shape_of_all");
  NodeSpec part = MakeSpec("Slice", node, {all}, {node.outputs[0]});
  if (opset < 10) {
    part.attrs = {{"starts", std::vector{start}}, {"ends", std::vector{end}}};
  } else {
    for (const int64_t bound : {start, end})
      part.inputs.push_back(out.Constant(Tensor::Int64s({bound})));
  }
  DropAttr(node, "start");
  DropAttr(node, "end");
  node.outputs[0] = all;
  out.Emit(std::move(node));
  return part;
}

Status InferSize(OpCall& call) {
  call.SetOut(0, DType::kI64, Shape(Dims{}));
  call.SetElements(0, {call.shape(0).num_elements()});
  return {};
}

Status RunSize(OpRun& run) {
  run.Set(0, Tensor::Scalar<int64_t>(run.in(0).num_elements()));
  return {};
}

/// Neither reads its operand's elements.
Cost ShapeCost(const OpCall& call) { return {0, 0, TrafficOf(call).bytes_written}; }

}  // namespace

std::span<const OpDef> ShapeOps() {
  static const OpDef ops[] = {
      {
          .name = "Shape",
          .doc = "The extents of axes [start, end) as a 1-D tensor.",
          .traits = Trait::kShapeMath,
          .since = 1,
          .versions = {1, 13, 15, 19, 21, 23, 24, 25},
          .inputs = {{"data", "T"}},
          .outputs = {{"shape", "T1"}},
          .attrs = {{"start", AttrKind::kInt, int64_t{0}, false, 15},
                    {"end", AttrKind::kInt, {}, false, 15}},
          .constraints = {{"T", kAllTypes}, {"T1", TypeSet(DType::kI64)}},
          .tolerance = 0,
          .infer = InferShape,
          .reference = RunShape,
          .cost = ShapeCost,
          .lower = LowerShape,
          .example = "graph g(x: f32[2,3,4]) -> (y) { y = Shape(x) {start=1} }",
      },
      {
          .name = "Size",
          .doc = "The number of elements as a scalar.",
          .traits = Trait::kShapeMath,
          .since = 1,
          .versions = {1, 13, 19, 21, 23, 24, 25},
          .inputs = {{"data", "T"}},
          .outputs = {{"size", "T1"}},
          .constraints = {{"T", kAllTypes}, {"T1", TypeSet(DType::kI64)}},
          .tolerance = 0,
          .infer = InferSize,
          .reference = RunSize,
          .cost = ShapeCost,
          .example = "graph g(x: f32[2,3]) -> (y) { y = Size(x) }",
      },
  };
  return ops;
}

}  // namespace infer
