#include "lib/ops/move/resize_lifted.h"

#include "lib/ops/move/move.h"

namespace infer {
namespace {

void SetLegacyModes(NodeSpec& node, LiftContext& out, size_t scales_at) {
  node.attrs["coordinate_transformation_mode"] = std::string("asymmetric");
  const std::string mode = StrAttrOr(node, "mode", "nearest");
  if (mode == "bilinear") node.attrs["mode"] = std::string("linear");
  if (mode != "nearest") return;
  // Shrinking took the next pixel up before opset 11, growing the one below.
  const Tensor* scales =
      scales_at < node.inputs.size() ? out.ConstantValue(node.inputs[scales_at]) : nullptr;
  bool shrinks = false, grows = !scales;
  for (int64_t i = 0; scales && i < scales->num_elements(); ++i) {
    shrinks |= scales->At(i) < 1;
    grows |= scales->At(i) > 1;
  }
  node.attrs["nearest_mode"] = std::string(shrinks && !grows ? "ceil" : "floor");
}

/// Before opset 18 there was one transform more: (x + 0.5) / scale. That is half_pixel plus one
/// half: its floor is half_pixel rounded with halves up, and it rounded with halves down is
/// half_pixel's ceil. The other choices have no equal in the newest form.
Status LiftOldTransform(NodeSpec& node) {
  if (StrAttrOr(node, "coordinate_transformation_mode", "") != "tf_half_pixel_for_nn") return {};
  const std::string nearest = StrAttrOr(node, "nearest_mode", "round_prefer_floor");
  if (StrAttrOr(node, "mode", "nearest") != "nearest" ||
      (nearest != "floor" && nearest != "round_prefer_floor"))
    return Unsupported(Cat("Resize '", node.name,
                           "': tf_half_pixel_for_nn is known with mode nearest and nearest_mode "
                           "floor or round_prefer_floor only"));
  node.attrs["coordinate_transformation_mode"] = std::string("half_pixel");
  node.attrs["nearest_mode"] = std::string(nearest == "floor" ? "round_prefer_ceil" : "ceil");
  return {};
}

/// Resize of opset 10 and Upsample before it know scales alone, and pixels by the old rule.
Result<NodeSpec> LowerToScales(NodeSpec node, int opset, LiftContext& out) {
  constexpr int kResize = 10, kScalesOperand = 9, kScalesAttribute = 7;
  const auto needs = [](std::string_view what) {
    return Unsupported(Cat("Resize ", what, " needs opset 11"));
  };
  const auto has = [&](size_t i) { return i < node.inputs.size() && !node.inputs[i].empty(); };
  const std::string mode = StrAttrOr(node, "mode", "nearest");
  if (StrAttrOr(node, "coordinate_transformation_mode", "half_pixel") != "asymmetric")
    return needs("by other than asymmetric coordinates");
  if (mode != "nearest" && mode != "linear") return needs(Cat("of mode ", mode));
  if (has(1) || has(3) || !has(2)) return needs("to sizes");
  const Tensor* scales = out.ConstantValue(node.inputs[2]);
  const std::string nearest = StrAttrOr(node, "nearest_mode", "round_prefer_floor");
  bool shrinks = false, grows = !scales;
  for (int64_t i = 0; scales && i < scales->num_elements(); ++i) {
    shrinks |= scales->At(i) < 1;
    grows |= scales->At(i) > 1;
  }
  if (mode == "nearest" && nearest != (shrinks && !grows ? "ceil" : "floor"))
    return needs(Cat("with nearest_mode ", nearest));
  NodeSpec old{"", "Resize", node.name, {node.inputs[0], node.inputs[2]}, node.outputs, {}};
  old.attrs["mode"] = mode;
  if (opset >= kResize) return old;
  if (shrinks) return Unsupported("Resize that shrinks needs opset 10");
  old.op = "Upsample";
  if (opset >= kScalesOperand) return old;
  if (opset < kScalesAttribute || !scales)
    return Unsupported("Resize by scales of the run needs opset 9");
  old.inputs.resize(1);
  std::vector<float> values;
  for (int64_t i = 0; i < scales->num_elements(); ++i)
    values.push_back(static_cast<float>(scales->At(i)));
  old.attrs["scales"] = std::move(values);
  return old;
}

}  // namespace

Status LiftResize(NodeSpec node, int opset, LiftContext& out) {
  if (opset < 11) {
    if (node.inputs.size() != 2) return InvalidModel("Resize of opset 10 takes two operands");
    node.inputs = {node.inputs[0], "", node.inputs[1]};
    SetLegacyModes(node, out, 2);
  }
  if (opset < 18) INFER_TRY(LiftOldTransform(node));
  for (size_t i = 1; i < node.inputs.size(); ++i)  // empty tensors stood for omitted operands
    if (const Tensor* t = node.inputs[i].empty() ? nullptr : out.ConstantValue(node.inputs[i]);
        t && t->num_elements() == 0)
      node.inputs[i].clear();
  out.Emit(std::move(node));
  return {};
}

Result<NodeSpec> LowerResize(NodeSpec node, int opset, LiftContext& out) {
  if (opset < 11) return LowerToScales(std::move(node), opset, out);
  if (opset < 18)
    for (const char* attr : {"antialias", "axes", "keep_aspect_ratio_policy"})
      if (node.attrs.contains(attr))
        return Unsupported(Cat("Resize with ", attr, " needs opset 18"));
  if (opset >= 13) return node;
  if (StrAttrOr(node, "coordinate_transformation_mode", "") == "half_pixel_symmetric")
    return Unsupported("Resize with half_pixel_symmetric needs opset 19");
  node.inputs.resize(std::max<size_t>(node.inputs.size(), 3));
  for (size_t i : {1, 2})
    if (node.inputs[i].empty()) node.inputs[i] = out.Constant(Tensor(DType::kF32, {0}));
  return node;
}

Status LiftUpsample(NodeSpec node, int opset, LiftContext& out) {
  std::vector<float> scales;
  if (opset < 7) {
    scales = {1, 1, FloatAttrOr(node, "height_scale", 1), FloatAttrOr(node, "width_scale", 1)};
  } else if (auto it = node.attrs.find("scales"); it != node.attrs.end()) {
    if (const auto* floats = std::get_if<std::vector<float>>(&it->second)) scales = *floats;
  }
  for (const char* attr : {"height_scale", "width_scale", "scales"}) DropAttr(node, attr);
  std::string scales_name;
  if (opset < 9)
    scales_name = out.Constant(
        Tensor::Of<float>({static_cast<int64_t>(scales.size())}, std::span<const float>(scales)));
  else if (node.inputs.size() == 2)
    scales_name = node.inputs[1];
  if (scales_name.empty() || node.inputs.empty()) return InvalidModel("Upsample has no scales");
  node.op = "Resize";
  node.inputs = {node.inputs[0], "", scales_name};
  SetLegacyModes(node, out, 2);
  out.Emit(std::move(node));
  return {};
}

}  // namespace infer
