#include "quant/train/codes.h"

#include <algorithm>
#include <cmath>

#include "lib/ir/editor.h"
#include "lib/ir/roles.h"
#include "lib/support/strings.h"
#include "quant/scheme/names.h"
#include "quant/train/parameters.h"

namespace infer {
namespace {

/// How far from the middle of its code a latent weight begins at most, in codes.
constexpr double kWithinCode = 0.49;
/// A weight that is further from its code, in codes, was changed since.
constexpr double kSameWeight = 1;
/// As quant/scheme/qdq_weights.cc: the sum of products has room in int32.
constexpr double kBiasReach = 0x1p30;

QuantParams ParamsOf(const Node& n) {
  QuantParams p;
  p.dtype = CodesSide(n)->dtype();
  p.scale = n.input(1)->constant()->ToFloats();
  p.zero_point.assign(p.scale.size(), 0);
  if (n.input(2))
    for (size_t i = 0; i < p.scale.size(); ++i)
      p.zero_point[i] = static_cast<int32_t>(n.input(2)->constant()->At(static_cast<int64_t>(i)));
  if (p.scale.size() > 1) {
    const int rank = CodesSide(n)->shape().rank();
    const auto axis = static_cast<int>(n.Attr<int64_t>("axis"));
    p.axis = axis < 0 ? axis + rank : axis;
  }
  return p;
}

/// Of codes that are multiplied by a factor; nullopt: it differs along several axes.
std::optional<QuantParams> ParamsOfFactor(const Value& codes, const Value& factor) {
  QuantParams p;
  p.dtype = codes.dtype();
  p.scale = factor.constant()->ToFloats();
  p.zero_point.assign(p.scale.size(), 0);
  if (factor.dtype() != DType::kF32) return std::nullopt;
  const int rank = codes.shape().rank(), of = factor.constant()->rank();
  for (int a = 0; a < of; ++a) {
    if (factor.constant()->dim(a) == 1) continue;
    if (p.axis >= 0) return std::nullopt;
    p.axis = a + rank - of;
  }
  return p;
}

/// The index of the scale of each element, in their order.
std::vector<size_t> ScaleOfElements(const Tensor& t, const QuantParams& p) {
  std::vector<size_t> at(static_cast<size_t>(t.num_elements()), 0);
  if (p.axis < 0) return at;
  int64_t inner = 1;
  for (int a = p.axis + 1; a < t.rank(); ++a) inner *= t.dim(a);
  const auto channels = static_cast<int64_t>(p.scale.size());
  for (size_t i = 0; i < at.size(); ++i)
    at[i] = static_cast<size_t>(static_cast<int64_t>(i) / inner % channels);
  return at;
}

double RootMeanSquare(const Tensor& t) {
  double squares = 0;
  for (const float v : t.data<float>()) squares += static_cast<double>(v) * static_cast<double>(v);
  return std::sqrt(squares / static_cast<double>(std::max<int64_t>(1, t.num_elements())));
}

struct Latent {
  Tensor weights;
  std::vector<uint8_t> keep;
};

/// Latent weights of codes whose originals have the same extents; nullopt: most are of others.
std::optional<Latent> LatentFrom(const Tensor& original, const Tensor& codes,
                                 const QuantParams& p) {
  if (original.dims() != codes.dims()) return std::nullopt;
  Latent l{DequantizeTensor(codes, p), {}};
  const auto from = original.data<float>();
  const auto to = l.weights.mutable_data<float>();
  const auto scale_of = ScaleOfElements(codes, p);
  std::vector<uint8_t> keep(to.size(), 1);
  size_t known = 0;
  for (size_t i = 0; i < to.size(); ++i) {
    const double scale = static_cast<double>(p.scale[scale_of[i]]);
    const double middle = static_cast<double>(to[i]);
    const double off = (static_cast<double>(from[i]) - middle) / scale;
    if (from[i] == 0 && to[i] == 0) keep[i] = 0;
    if (!(std::abs(off) <= kSameWeight)) continue;
    ++known;
    to[i] = std::abs(off) <= kWithinCode
                ? from[i]
                : static_cast<float>(middle + std::copysign(kWithinCode, off) * scale);
  }
  if (2 * known < to.size()) return std::nullopt;
  if (std::find(keep.begin(), keep.end(), 0) != keep.end()) l.keep = std::move(keep);
  return l;
}

Tensor TurnedMatrix(const Tensor& t) {
  Tensor turned(t.dtype(), {t.dim(1), t.dim(0)});
  const auto from = t.data<float>();
  const auto to = turned.mutable_data<float>();
  const auto rows = static_cast<size_t>(t.dim(0)), columns = static_cast<size_t>(t.dim(1));
  for (size_t r = 0; r < rows; ++r)
    for (size_t c = 0; c < columns; ++c) to[c * rows + r] = from[r * columns + c];
  return turned;
}

/// `original`: nullptr where it is not known.
Latent LatentOf(const Tensor& codes, const QuantParams& p, const Tensor* original) {
  if (original && original->dtype() == DType::kF32) {
    if (auto l = LatentFrom(*original, codes, p)) return *std::move(l);
    // Layers that are only stored in 8 bits may have their matrix turned.
    if (original->rank() == 2)
      if (auto l = LatentFrom(TurnedMatrix(*original), codes, p)) return *std::move(l);
  }
  return {DequantizeTensor(codes, p), {}};
}

bool IsLayer(const Node& n) { return WeightLayoutOf(n).has_value(); }

/// The one of operands 0 and 1 that is dequantized from constant codes, and the other.
struct Factors {
  const Node* weights = nullptr;
  const Node* data = nullptr;
};
Factors FactorsOf(const Node& layer) {
  Factors f;
  for (const size_t i : {1, 0}) {
    const Node* dq = DequantizeBefore(layer.input(i));
    if (!dq) continue;
    (dq->input(0)->is_constant() && !f.weights ? f.weights : f.data) = dq;
  }
  return f;
}

}  // namespace

Result<LatentCodes> LatentCodes::Of(const Graph& quantized, const Graph& prepared,
                                    const QuantGrid& grid) {
  LatentCodes l(quantized, grid);
  std::vector<Node*> dequantized;
  for (const auto& n : l.graph_.nodes())
    if (n->Is(Trait::kDequantize) && n->input(0)->is_constant() && HasConstantParams(*n))
      dequantized.push_back(n.get());
  // Biases first: their layers still read constant codes.
  for (Node* n : dequantized)
    if (n->input(0)->dtype() == DType::kI32) INFER_TRY(l.OpenBias(*n));
  for (Node* n : dequantized)
    if (n->input(0)->dtype() == DType::kI8 || n->input(0)->dtype() == DType::kU8)
      INFER_TRY(l.OpenWeights(*n, prepared));
  std::vector<Node*> stored;
  for (const auto& n : l.graph_.nodes())
    if (n->Is(Trait::kProduct) && MakesStoredWeights(*n)) stored.push_back(n.get());
  for (Node* n : stored) INFER_TRY(l.OpenStored(*n, prepared));
  if (l.weights_.empty()) return Unsupported("no layer has 8-bit weights to train");
  GraphEditor(l.graph_).Sweep();
  l.ChooseConstants();
  return l;
}

Status LatentCodes::OpenBias(Node& dequantize) {
  Value* result = dequantize.output(0);
  if (!result->has_one_use() || !result->uses()[0].user || !IsLayer(*result->uses()[0].user))
    return Unsupported(Cat("the int32 constant '", result->name(), "' is no bias of one layer"));
  const Use use = result->uses()[0];
  const Factors f = FactorsOf(*use.user);
  if (!f.weights || !f.data)
    return Unsupported(Cat("the layer of the int32 bias '", result->name(), "' is not int8"));
  GraphEditor editor(graph_);
  const Tensor& codes = *dequantize.input(0)->constant();
  Value* latent = editor.AddConstant(DequantizeTensor(codes, ParamsOf(dequantize)),
                                     NameBeside(result->name(), "f32"));
  biases_.push_back(
      {result->name(), latent->name(), f.data->input(1)->name(), f.weights->input(1)->name()});
  editor.SetOperand(*use.user, use.operand, latent);
  return {};
}

Status LatentCodes::OpenWeights(Node& dequantize, const Graph& prepared) {
  const auto& uses = dequantize.output(0)->uses();
  const bool are_weights = std::any_of(uses.begin(), uses.end(), [&](const Use& u) {
    return IsLayer(*u.user) && FactorsOf(*u.user).weights == &dequantize;
  });
  if (!are_weights) return {};
  Value* const scale = dequantize.input(1);
  INFER_ASSIGN(const Rounded r, Open(dequantize, dequantize.input(0), scale->name(), scale,
                                     dequantize.input(2), ParamsOf(dequantize), prepared));
  GraphEditor(graph_).SetOperand(dequantize, 0, r.codes);
  return {};
}

/// Weights that are only stored in 8 bits: Mul of the codes and their scales.
Status LatentCodes::OpenStored(Node& product, const Graph& prepared) {
  const bool first = product.input(0)->producer() && IsCast(*product.input(0)->producer());
  Value* const codes = product.input(first ? 0 : 1)->producer()->input(0);
  Value* const factor = product.input(first ? 1 : 0);
  const auto p = ParamsOfFactor(*codes, *factor);
  if (!p) return {};
  GraphEditor editor(graph_);
  editor.InsertBefore(product);
  Value* scale = factor;
  AttrMap attrs;
  if (p->axis >= 0) {
    INFER_ASSIGN(scale, editor.Add("Reshape", {factor, editor.AddConstant(Tensor::Int64s({-1}))}));
    attrs["axis"] = static_cast<int64_t>(p->axis);
  }
  INFER_ASSIGN(const Rounded r, Open(product, codes, factor->name(), scale, nullptr, *p, prepared));
  INFER_ASSIGN(Value * weights,
               editor.Add("DequantizeLinear", {r.codes, scale, r.zero_point}, std::move(attrs)));
  return editor.ReplaceAllUses(product.output(0), weights);
}

/// QuantizeLinear of latent weights behind `codes`, before `place`. `name`: of the constant with
/// the scales.
Result<LatentCodes::Rounded> LatentCodes::Open(const Node& place, Value* codes,
                                               const std::string& name, Value* scale,
                                               Value* zero_point, QuantParams params,
                                               const Graph& prepared) {
  QuantGrid grid = grid_;
  const bool only_stored = zero_point == nullptr;  // whatever the grid of integer layers is
  if (only_stored || codes->dtype() != grid.dtype) grid = {codes->dtype(), true, false};
  Weights w{codes->name(), "", name, std::move(params), grid.qmin(), grid.qmax()};
  const Value* original = prepared.FindValue(OriginalName(codes->name()));
  Latent latent = LatentOf(*codes->constant(), w.params, original ? original->constant() : nullptr);
  codes_ += codes->constant()->num_elements();
  GraphEditor editor(graph_);
  editor.InsertBefore(place);
  Value* weights = editor.AddConstant(std::move(latent.weights), NameBeside(w.codes, "latent"));
  w.latent = weights->name();
  latent_.push_back({w.latent, std::move(latent.keep)});
  if (!zero_point)
    zero_point = editor.AddConstant(Tensor::Zeros(codes->dtype(), scale->shape().static_dims()));
  INFER_ASSIGN(weights, Bounded(editor, weights, scale, w));
  AttrMap attrs;
  if (w.params.axis >= 0) attrs["axis"] = static_cast<int64_t>(w.params.axis);
  weights_.push_back(std::move(w));
  INFER_ASSIGN(Value * rounded,
               editor.Add("QuantizeLinear", {weights, scale, zero_point}, std::move(attrs)));
  return Rounded{rounded, zero_point};
}

/// Weights within the codes that they may have, where these are fewer than the type's.
Result<Value*> LatentCodes::Bounded(GraphEditor& editor, Value* weights, Value* scale,
                                    const Weights& w) {
  const QuantParams& p = w.params;
  Value* step = scale;
  if (p.axis >= 0) {
    Dims beside(static_cast<size_t>(weights->shape().rank()), 1);
    beside[static_cast<size_t>(p.axis)] = static_cast<int64_t>(p.scale.size());
    INFER_ASSIGN(step, editor.Add("Reshape", {scale, editor.AddConstant(Tensor::Int64s(beside))}));
  }
  const auto bound = [&](std::string_view op, int64_t code) -> Status {
    const auto most = static_cast<float>(code - p.zero_point[0]);
    INFER_ASSIGN(Value * at, editor.Add("Mul", {step, editor.AddConstant(Tensor::Scalar(most))}));
    INFER_ASSIGN(weights, editor.Add(op, {weights, at}));
    return {};
  };
  if (w.lowest > IntegerMin(p.dtype)) INFER_TRY(bound("Max", w.lowest));
  if (w.highest < IntegerMax(p.dtype)) INFER_TRY(bound("Min", w.highest));
  return weights;
}

void LatentCodes::ChooseConstants() {
  constants_ = latent_;
  std::vector<std::string> scales;
  const auto add = [&](const std::string& name) {
    if (std::find(scales.begin(), scales.end(), name) == scales.end()) scales.push_back(name);
  };
  for (const Weights& w : weights_) add(w.scale);
  for (const auto& n : graph_.nodes())
    if (IsQuantizeOrDequantize(*n) && IsF32(n->input(1)) && n->input(1)->is_constant())
      add(n->input(1)->name());
  for (std::string& name : scales) {
    TrainedConstant scale{std::move(name)};
    scale.is_scale = true;
    constants_.push_back(std::move(scale));
  }
  for (std::string& name : TrainableConstants(graph_)) constants_.push_back({std::move(name)});
  ChoosePace();
}

/// A learning rate of 1 moves a weight by one code in a step; a bias and a scale by what has about
/// the effect on the layer's result.
void LatentCodes::ChoosePace() {
  constexpr double kTypicalCode = 64;
  std::map<std::string, std::vector<float>> known;
  for (const Weights& w : weights_) {
    const Tensor& t = *graph_.FindValue(w.latent)->constant();
    std::vector<float>& pace = known[w.latent];
    for (const size_t s : ScaleOfElements(t, w.params)) pace.push_back(w.params.scale[s]);
  }
  for (const Bias& b : biases_) {
    const Node& n = *quantized_.FindValue(b.dequantized)->producer();
    std::vector<float> pace = n.input(1)->constant()->ToFloats();
    for (float& p : pace) p *= static_cast<float>(kTypicalCode);
    known[b.latent] = std::move(pace);
  }
  for (TrainedConstant& c : constants_) {
    const auto it = known.find(c.name);
    const Tensor& t = *graph_.FindValue(c.name)->constant();
    if (it != known.end())
      c.pace = it->second;
    else
      c.pace = {static_cast<float>((c.is_scale ? 1 : RootMeanSquare(t)) / kTypicalCode)};
  }
}

Tensor LatentCodes::CodesOf(const Graph& trained, const Weights& w) {
  QuantParams p = w.params;
  p.scale = trained.FindValue(w.scale)->constant()->ToFloats();
  Tensor q = QuantizeTensor(*trained.FindValue(w.latent)->constant(), p);
  for (int64_t i = 0; i < q.num_elements(); ++i) {
    const auto code = static_cast<int64_t>(q.At(i));
    if (code < w.lowest || code > w.highest) q.SetInt(i, std::clamp(code, w.lowest, w.highest));
  }
  return q;
}

Status LatentCodes::WriteBias(const Graph& trained, const Bias& b, Graph& to) {
  const auto numbers = [&](const std::string& name) {
    return trained.FindValue(name)->constant()->ToFloats();
  };
  const std::vector<float> bias = numbers(b.latent), w = numbers(b.w_scale);
  const float x = numbers(b.x_scale)[0];
  Node& n = *to.FindValue(b.dequantized)->producer();
  Tensor scale(DType::kF32, n.input(1)->shape().static_dims());
  Tensor codes(DType::kI32, n.input(0)->shape().static_dims());
  const auto scales = scale.mutable_data<float>();
  for (size_t c = 0; c < scales.size(); ++c) scales[c] = x * w[c];
  for (size_t c = 0; c < bias.size(); ++c) {
    const double code =
        static_cast<double>(bias[c]) / static_cast<double>(scales[scales.size() > 1 ? c : 0]);
    codes.SetInt(static_cast<int64_t>(c),
                 static_cast<int64_t>(std::nearbyint(std::clamp(code, -kBiasReach, kBiasReach))));
  }
  GraphEditor editor(to);
  editor.SetConstant(n.input(0), std::move(codes));
  // Another bias may have had the same scales.
  if (n.input(1)->has_one_use())
    editor.SetConstant(n.input(1), std::move(scale));
  else
    editor.SetOperand(n, 1, editor.AddConstant(std::move(scale), n.input(1)->name()));
  return {};
}

Result<Graph> LatentCodes::Written(const Graph& trained) const {
  Graph g = quantized_.Clone();
  GraphEditor editor(g);
  for (const TrainedConstant& c : constants_)
    if (Value* v = g.FindValue(c.name))
      editor.SetConstant(v, *trained.FindValue(c.name)->constant());
  for (const Weights& w : weights_) editor.SetConstant(g.FindValue(w.codes), CodesOf(trained, w));
  for (const Bias& b : biases_) INFER_TRY(WriteBias(trained, b, g));
  for (size_t i = g.outputs().size(); i < trained.outputs().size(); ++i)
    editor.MarkOutput(g.FindValue(trained.outputs()[i]->name()));
  return g;
}

int64_t LatentCodes::Changed(const Graph& a, const Graph& b) const {
  int64_t changed = 0;
  for (const Weights& w : weights_) {
    const Tensor &x = *a.FindValue(w.codes)->constant(), &y = *b.FindValue(w.codes)->constant();
    for (int64_t i = 0; i < x.num_elements(); ++i) changed += x.At(i) != y.At(i) ? 1 : 0;
  }
  return changed;
}

}  // namespace infer
