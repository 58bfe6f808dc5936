/// Clip.
#include <limits>

#include "lib/ops/common.h"
#include "lib/ops/op_def.h"

namespace infer {
namespace {

/// The scalar of an optional bound, or `absent`.
template <typename T>
Result<T> BoundOr(const OpRun& run, size_t i, T absent) {
  if (!run.has(i)) return absent;
  if (run.in(i).num_elements() != 1)
    return InvalidModel(Cat("Clip: ", i == 1 ? "min" : "max", " is not a scalar"));
  return run.in(i).data<T>()[0];
}

Status InferClip(OpCall& call) {
  for (size_t i : {1, 2}) {
    if (!call.has_input(i) || !call.shape(i).has_rank()) continue;
    if (const Dim n = call.shape(i).num_elements(); n.is_static() && n.value() != 1)
      return InvalidModel(
          Cat("Clip: ", i == 1 ? "min" : "max", " is ", call.shape(i).ToString(), ", no scalar"));
  }
  return InferSame(call);
}

/// min(max(x, lo), hi): with lo > hi everything is hi. A NaN stays.
Status RunClip(OpRun& run) {
  const Tensor& x = run.in(0);
  INFER_TRY(CheckSameTypes(run, 0, 3));
  Tensor& y = run.Out(0, x.dtype(), x.dims());
  Status status;
  INFER_TRY(DispatchNumber(run, x.dtype(), [&]<typename T>(T) {
    using Limits = std::numeric_limits<T>;
    constexpr bool kInf = Limits::has_infinity;
    const auto lo = BoundOr<T>(run, 1, kInf ? -Limits::infinity() : Limits::lowest());
    const auto hi = BoundOr<T>(run, 2, kInf ? Limits::infinity() : Limits::max());
    if (!lo.ok() || !hi.ok()) {
      status = lo.ok() ? hi.status() : lo.status();
      return;
    }
    MapUnary(x.data<T>(), y.mutable_data<T>(), [l = *lo, h = *hi](T v) {
      const T t = v < l ? l : v;
      return t > h ? h : t;
    });
  }));
  return status;
}

std::optional<Clamp> ClampOfClip(const OpCall& call) {
  Clamp c;
  for (const size_t i : {1, 2}) {
    if (!call.has_input(i)) continue;
    const Tensor* bound = call.constant(i);
    if (!bound || bound->num_elements() != 1) return std::nullopt;
    (i == 1 ? c.low : c.high) = bound->At(0);
  }
  return c;
}

/// Before opset 11 the bounds are FLOAT attributes.
Status LiftClip(NodeSpec node, int opset, LiftContext& out) {
  DropAttr(node, "consumed_inputs");
  if (opset < 11 && node.inputs.size() == 1) {
    const std::string x = node.inputs[0];
    const char* names[] = {"min", "max"};
    for (size_t i = 0; i < 2; ++i) {
      const auto it = node.attrs.find(names[i]);
      if (it == node.attrs.end()) continue;
      const auto* bound = std::get_if<float>(&it->second);
      if (!bound) continue;  // the schema check names the wrong kind
      node.inputs.resize(i + 2);
      node.inputs[i + 1] = ScalarLike(*bound, x, node, out);
      node.attrs.erase(it);
    }
  }
  out.Emit(std::move(node));
  return {};
}

Result<NodeSpec> LowerClip(NodeSpec node, int opset, LiftContext& out) {
  if (opset >= 11) return node;
  const char* names[] = {"min", "max"};
  for (size_t i = 1; i < std::min<size_t>(node.inputs.size(), 3); ++i) {
    if (node.inputs[i].empty()) continue;
    const Tensor* bound = out.ConstantValue(node.inputs[i]);
    if (!bound || bound->num_elements() != 1)
      return Unsupported(Cat("Clip '", node.name, "': a computed bound needs opset 11"));
    node.attrs[names[i - 1]] = static_cast<float>(bound->At(0));
  }
  node.inputs.resize(1);
  return node;
}

}  // namespace

std::span<const OpDef> ClipOps() {
  static const OpDef ops[] = {
      {.name = "Clip",
       .doc = "y = min(max(x, min), max).",
       .traits = Trait::kUnary,
       .since = 11,
       .versions = {1, 6, 11, 12, 13},
       .inputs = {{"input", "T"},
                  {"min", "T", Arity::kOptional, 11},
                  {"max", "T", Arity::kOptional, 11}},
       .outputs = {{"output", "T"}},
       .constraints = {{"T", kNumeric}},
       .infer = InferClip,
       .reference = Wide<RunClip>,
       .clamp = ClampOfClip,
       .lift = LiftClip,
       .lower = LowerClip,
       .example = R"(graph g(x: f32[2,3]) -> (y) {
         lo = const f32[] {0}
         hi = const f32[] {6}
         y = Clip(x, lo, hi) })"},
  };
  return ops;
}

}  // namespace infer
