#include "quant/convert/dynamic.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "lib/ir/roles.h"
#include "lib/ir/verify.h"
#include "lib/support/strings.h"
#include "passes/rewrite/queries.h"
#include "quant/convert/bodies.h"
#include "quant/convert/layers.h"
#include "quant/scheme/op_rules.h"
#include "quant/scheme/quantize.h"

namespace infer {
namespace {

bool IsFinite(const Tensor& t) {
  const auto x = t.data<float>();
  return std::all_of(x.begin(), x.end(), [](float v) { return std::isfinite(v); });
}

/// Scales of `p` as a tensor of `dims`, and zero points 0 of the same extents.
Tensor ScaleTensor(const QuantParams& p, Dims dims) {
  return Tensor::Of<float>(std::move(dims), p.scale);
}

class DynamicWriter {
 public:
  DynamicWriter(Graph& g, const DynamicOptions& options) : g_(g), options_(options), editor_(g) {}
  Status Filter(const Graph& original);
  Status Write(QuantizeReport& report);
  /// How the weights of layers that become integer will be stored; recurrent ones are not told.
  WeightGrids Grids() const;

 private:
  struct Quantized {
    Value *codes = nullptr, *scale = nullptr, *zero_point = nullptr;
  };
  bool Covers(const Node& n) const {
    const auto layout = WeightLayoutOf(n);
    return (layout && !layout->outputs_in_groups) || IsRecurrentLayer(n);
  }
  std::string WhyNot(const Node& n) const;
  Result<Quantized> QuantizeActivation(Value* x);
  Status WriteNode(Node& n, QuantizedLayer& layer);
  Status WriteMatrix(Node& n);
  Status WriteConv(Node& n);
  Status WriteLstm(Node& n);
  Status WriteWeightOnly(Node& n);
  Result<Value*> Scaled(Value* sums, Value* x_scale, Value* w_scale, Value* bias,
                        const std::string& name);
  Status Replace(Node& n, Value* y);
  QuantParams Params(const Tensor& w, int axis, bool reduce_range) const {
    return ChooseWeightParams(w, options_.per_channel ? axis : -1,
                              QuantGrid{DType::kI8, true, reduce_range});
  }

  Graph& g_;
  const DynamicOptions& options_;
  GraphEditor editor_;
  NodeFilter include_, exclude_;
  std::map<const Value*, Quantized> activations_;
};

Status DynamicWriter::Filter(const Graph& original) {
  INFER_ASSIGN(include_, NodeFilter::Compile(options_.include, &original));
  INFER_ASSIGN(exclude_, NodeFilter::Compile(options_.exclude, &original));
  const Graph* graphs[] = {&g_, &original};
  INFER_TRY(include_.CheckEachMatches(graphs, "include"));
  return exclude_.CheckEachMatches(graphs, "exclude");
}

std::string DynamicWriter::WhyNot(const Node& n) const {
  if (!Covers(n)) return "dynamic INT8 does not cover the operator";
  if (const NodePattern* p = exclude_.Match(n)) return Cat("excluded by ", ToString(*p));
  if (!include_.empty() && !include_.Match(n)) return "no include entry matches it";
  if (IsConvolution(n) && !options_.convolutions) return "convolutions were not asked for";
  if (!IsF32(n.input(0)) || n.input(0)->is_constant()) return "its input is no computed f32";
  for (size_t i = 1; i < (IsRecurrentLayer(n) ? 3u : 2u); ++i) {
    if (!IsF32(n.input(i)) || !n.input(i)->is_constant()) return "its weights are computed";
    if (!IsFinite(*n.input(i)->constant())) return "its weights hold NaN or infinity";
  }
  if (IsRecurrentLayer(n)) return "";
  if (IsMatrixProduct(n) && n.input(1)->constant()->rank() != 2) return "its weights are no matrix";
  const QuantOp* op = FindQuantOp(n);
  return op && op->refuse ? op->refuse(n) : "";
}

WeightGrids DynamicWriter::Grids() const {
  WeightGrids grids;
  for (const auto& n : g_.nodes()) {
    if (!WhyNot(*n).empty() || IsRecurrentLayer(*n)) continue;
    const bool reduce = IsConvolution(*n) ? options_.reduce_convolutions : options_.reduce_range;
    grids.emplace(n->input(1)->name(), IntegerGrid(reduce, !options_.per_channel));
  }
  return grids;
}

Result<DynamicWriter::Quantized> DynamicWriter::QuantizeActivation(Value* x) {
  Quantized& slot = activations_[x];
  if (slot.codes) return slot;
  if (x->producer())
    editor_.InsertAfter(*x->producer());
  else
    editor_.InsertBefore(*g_.nodes().front());
  NodeOptions options;
  options.name = x->name() + "_DynamicQuantizeLinear";
  options.output_names = {x->name() + "_quantized", x->name() + "_scale",
                          x->name() + "_zero_point"};
  const OpDef* def = g_.ops().Find("DynamicQuantizeLinear");
  INFER_CHECK(def);
  INFER_ASSIGN(Node * q, editor_.AddNode(*def, {x}, {}, std::move(options)));
  return slot = {q->output(0), q->output(1), q->output(2)};
}

/// f32(sums) * (x_scale * w_scale) [+ bias].
Result<Value*> DynamicWriter::Scaled(Value* sums, Value* x_scale, Value* w_scale, Value* bias,
                                     const std::string& name) {
  INFER_ASSIGN(Value * real, AddCast(editor_, sums, DType::kF32, name + "_f32"));
  INFER_ASSIGN(Value * scale, AddNamed(editor_, "Mul", {x_scale, w_scale}, {}, name + "_scales"));
  INFER_ASSIGN(Value * y, AddNamed(editor_, "Mul", {real, scale}, {}, name + "_scaled"));
  if (!bias) return y;
  return AddNamed(editor_, "Add", {y, bias}, {}, name + "_biased");
}

/// `y` takes the place and the name of n's first result.
Status DynamicWriter::Replace(Node& n, Value* y) {
  Value* old = n.output(0);
  const std::string name = old->name();
  editor_.SetType(y, old->type());
  INFER_TRY(editor_.ReplaceAllUses(old, y));
  editor_.Erase(n);
  if (y->name() != name && !g_.FindValue(name)) editor_.Rename(y, name);
  return {};
}

Status DynamicWriter::WriteMatrix(Node& n) {
  const WeightLayout layout = *WeightLayoutOf(n);
  const std::string name = LayerName(n), weights = n.input(1)->name();
  Tensor w = *n.input(1)->constant();
  if (layout.rows_are_outputs()) w = Transposed(w, {1, 0});
  if (layout.alpha != 1.0f) {
    w = w.Clone();
    for (float& v : w.mutable_data<float>()) v *= layout.alpha;
  }
  Value* bias = n.input(2);
  if (bias && layout.beta != 1.0f) {
    Tensor c = bias->constant()->Clone();
    for (float& v : c.mutable_data<float>()) v *= layout.beta;
    bias = editor_.AddConstant(std::move(c), bias->name());
  }
  const QuantParams p = Params(w, 1, options_.reduce_range);
  const auto scales = static_cast<int64_t>(p.scale.size());
  const Dims dims = p.axis < 0 ? Dims{} : Dims{scales};
  INFER_ASSIGN(const Quantized x, QuantizeActivation(n.input(0)));
  editor_.InsertBefore(n);
  Value* codes = editor_.AddConstant(QuantizeTensor(w, p), weights + "_quantized");
  Value* zero = editor_.AddConstant(Tensor::Zeros(DType::kI8, dims), weights + "_zero_point");
  Value* scale = editor_.AddConstant(ScaleTensor(p, dims), weights + "_scale");
  INFER_ASSIGN(Value * sums,
               AddNamed(editor_, "MatMulInteger", {x.codes, codes, x.zero_point, zero}, {},
                        name + "_MatMulInteger"));
  INFER_ASSIGN(Value * y, Scaled(sums, x.scale, scale, bias, name));
  return Replace(n, y);
}

Status DynamicWriter::WriteConv(Node& n) {
  const std::string name = LayerName(n), weights = n.input(1)->name();
  const Tensor& w = *n.input(1)->constant();
  const QuantParams p = Params(w, 0, options_.reduce_convolutions);
  Dims dims(static_cast<size_t>(w.rank()) - 1, 1);  // [C, 1, ...]
  Tensor bias;
  if (n.input(2)) {
    dims[0] = w.dim(0);
    bias = n.input(2)->constant()->Reshaped(dims);
  }
  dims[0] = static_cast<int64_t>(p.scale.size());
  INFER_ASSIGN(const Quantized x, QuantizeActivation(n.input(0)));
  editor_.InsertBefore(n);
  Value* codes = editor_.AddConstant(QuantizeTensor(w, p), weights + "_quantized");
  Value* scale = editor_.AddConstant(ScaleTensor(p, dims), weights + "_scale");
  Value* b = bias.defined() ? editor_.AddConstant(bias, name + "_bias") : nullptr;
  INFER_ASSIGN(Value * sums, AddNamed(editor_, "ConvInteger", {x.codes, codes, x.zero_point},
                                      n.attrs(), name + "_ConvInteger"));
  INFER_ASSIGN(Value * y, Scaled(sums, x.scale, scale, b, name));
  return Replace(n, y);
}

/// [D, 4 H, K] weights become [D, K, 4 H] codes with scales [D, 4 H] (or [D]).
Status DynamicWriter::WriteLstm(Node& n) {
  std::vector<Value*> inputs(12, nullptr);
  for (size_t i = 0; i < n.inputs().size(); ++i) inputs[i] = n.input(i);
  editor_.InsertBefore(n);
  for (const size_t i : {size_t{1}, size_t{2}}) {
    const Tensor& w = *n.input(i)->constant();
    const std::string& name = n.input(i)->name();
    const int64_t dirs = w.dim(0), rows = w.dim(1), depth = w.dim(2);
    // One parameter per (direction, row), or per direction.
    const Dims scales = options_.per_channel ? Dims{dirs, rows} : Dims{dirs};
    const int64_t groups = Tensor(DType::kF32, scales).num_elements();
    const Tensor grouped = w.Reshaped({groups, w.num_elements() / groups});
    const QuantParams p =
        ChooseWeightParams(grouped, 0, QuantGrid{DType::kI8, true, options_.reduce_range});
    const Tensor codes = QuantizeTensor(grouped, p).Reshaped({dirs, rows, depth});
    inputs[i] = editor_.AddConstant(Transposed(codes, {0, 2, 1}), name + "_quantized");
    inputs[6 + 2 * i] = editor_.AddConstant(ScaleTensor(p, scales), name + "_scale");
    inputs[7 + 2 * i] =
        editor_.AddConstant(Tensor::Zeros(DType::kI8, scales), name + "_zero_point");
  }
  const OpDef* def = g_.ops().Find("com.microsoft", "DynamicQuantizeLSTM");
  INFER_CHECK(def);
  AttrMap attrs;
  for (const auto& [attr, value] : n.attrs())
    if (def->FindAttr(attr)) attrs[attr] = value;
  NodeOptions options;
  options.name = LayerName(n) + "_DynamicQuantizeLSTM";
  for (const Value* v : n.outputs()) options.output_names.push_back(v ? v->name() : "");
  std::vector<std::string> names = options.output_names;
  INFER_ASSIGN(Node * made,
               editor_.AddNode(*def, std::move(inputs), std::move(attrs), std::move(options)));
  for (size_t i = 0; i < names.size(); ++i)
    if (n.output(i)) INFER_TRY(editor_.ReplaceAllUses(n.output(i), made->output(i)));
  editor_.Erase(n);
  for (size_t i = 0; i < names.size(); ++i)
    if (made->output(i) && made->output(i)->name() != names[i] && !g_.FindValue(names[i]))
      editor_.Rename(made->output(i), names[i]);
  return {};
}

Status DynamicWriter::WriteWeightOnly(Node& n) {
  editor_.InsertBefore(n);
  for (const size_t i : {size_t{1}, size_t{2}}) {
    const Tensor& w = *n.input(i)->constant();
    const std::string name = n.input(i)->name();
    const QuantParams p = Params(w, 1, /*reduce_range=*/false);  // multiplied in f32
    const Dims dims = p.axis < 0 ? Dims{} : Dims{w.dim(1)};
    Value* codes = editor_.AddConstant(QuantizeTensor(w, p), name + "_quantized");
    Value* scale = editor_.AddConstant(ScaleTensor(p, dims), name + "_scale");
    AttrMap attrs;
    if (p.axis >= 0) attrs["axis"] = int64_t{1};
    INFER_ASSIGN(Value * real, AddNamed(editor_, "DequantizeLinear", {codes, scale},
                                        std::move(attrs), name + "_dequantized"));
    editor_.SetOperand(n, i, real);
  }
  return {};
}

Status DynamicWriter::WriteNode(Node& n, QuantizedLayer& layer) {
  const size_t weights = IsRecurrentLayer(n) ? 2 : 1;
  layer.precision = "int8";
  layer.per_channel = options_.per_channel;
  for (size_t i = 1; i <= weights; ++i) {
    const Tensor& w = *n.input(i)->constant();
    layer.weight_bytes_before += w.byte_size();
    layer.weight_bytes_after += w.num_elements();
  }
  if (IsConvolution(n)) return WriteConv(n);
  if (!IsRecurrentLayer(n)) return WriteMatrix(n);
  const bool lstm = n.Is("LSTM");
  if (lstm && n.Attr<int64_t>("layout") == 0) return WriteLstm(n);
  layer.precision = "int8-weights";
  layer.reason = lstm ? "DynamicQuantizeLSTM has no layout: only its weights are int8"
                      : "no runtime has a dynamic form of it: only its weights are int8";
  return WriteWeightOnly(n);
}

Status DynamicWriter::Write(QuantizeReport& report) {
  std::vector<Node*> nodes;
  for (const auto& n : g_.nodes()) nodes.push_back(n.get());
  for (Node* n : nodes) {
    if (!IsLayer(*n)) continue;
    QuantizedLayer layer;
    layer.name = LayerName(*n);
    layer.op = n->op();
    layer.precision = "f32";
    layer.reason = WhyNot(*n);
    layer.quantizable = Covers(*n);
    const bool may_be_wide = !options_.reduce_range && !IsConvolution(*n);  // n is erased
    if (layer.reason.empty())
      if (Status s = WriteNode(*n, layer); !s.ok()) return std::move(s).In(layer.name);
    if (may_be_wide && layer.precision == "int8") report.has_wide_pairs = true;
    report.layers.push_back(std::move(layer));
  }
  CountLayers(report);
  editor_.Sweep();
  return {};
}

/// The reasons of the layers that could have been INT8.
std::string WhyNone(const QuantizeReport& report) {
  std::vector<std::string> reasons;
  for (const QuantizedLayer& l : report.layers)
    if (l.quantizable) reasons.push_back(Cat(l.op, " '", l.name, "': ", l.reason));
  if (reasons.empty())
    return "the model has no convolution, matrix product or recurrent layer with constant weights";
  return FirstReasons(std::move(reasons));
}

}  // namespace

Result<QuantizeReport> QuantizeDynamic(Graph& g, const DynamicOptions& options) {
  INFER_TRY(CheckIsFloat(g));
  if (options.prepare) INFER_TRY(CheckFiniteWeights(g));
  Graph work = g.Clone();
  if (options.prepare)
    if (Status s = PrepareForQuantization(work); !s.ok())
      return std::move(s).In("preparing the model");
  QuantizeReport report;
  INFER_ASSIGN(const std::string bodies,
               QuantizeBodies(
                   work,
                   [&](Graph& body) -> Result<QuantizeReport> {
                     DynamicOptions inside = options;
                     inside.change = nullptr;
                     INFER_TRY(FitPatterns(body, inside.include, inside.exclude));
                     return QuantizeDynamic(body, inside);
                   },
                   report));
  DynamicWriter writer(work, options);
  INFER_TRY(writer.Filter(g));
  if (options.change) INFER_TRY(options.change(work, g, writer.Grids()));
  report.weight_bytes_before = ConstantBytes(g);
  INFER_TRY(writer.Write(report));
  if (report.integer_layers == 0)
    return Unsupported(
        Cat("no layer can be INT8 with dynamic ranges: ", WhyNone(report), InABody(bodies)));
  if (Status s = Verify(work); !s.ok()) return Internal(Cat("after quantization: ", s.message()));
  report.weight_bytes_after = ConstantBytes(work);
  g = std::move(work);
  return report;
}

}  // namespace infer
