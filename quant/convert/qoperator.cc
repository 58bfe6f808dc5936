#include "quant/convert/qoperator.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "lib/ir/roles.h"
#include "lib/ir/verify.h"
#include "lib/support/strings.h"
#include "quant/convert/layers.h"
#include "quant/scheme/op_rules.h"
#include "quant/scheme/quantize.h"

namespace infer {
namespace {

bool Is8Bit(DType t) { return t == DType::kU8 || t == DType::kI8; }

/// Codes with their parameters: what DequantizeLinear reads or QuantizeLinear makes.
struct Codes {
  Value *codes = nullptr, *scale = nullptr, *zero_point = nullptr;
  bool per_tensor() const { return scale->constant()->num_elements() == 1; }
};

/// A result on its way to QuantizeLinear.
struct Result8 {
  Node* quantize = nullptr;
  std::optional<Clamp> bounds;  ///< of a Relu or Clip between; nullopt for none
  Codes to;                     ///< `codes` is QuantizeLinear's result
};

class QOperatorWriter {
 public:
  explicit QOperatorWriter(Graph& g) : g_(g), editor_(g) {}
  Status Write(QOperatorReport& report);

 private:
  std::optional<Codes> From(Value* v);
  std::optional<Result8> To(Value* v);
  Value* ZeroPoint(const Node& n);
  /// All operands [0, count) as codes; nullopt where one is none.
  std::optional<std::vector<Codes>> Operands(const Node& n, size_t count);
  /// False: the node stays, with `why_`.
  Result<bool> WriteNode(Node& n);
  Result<bool> WriteConv(Node& n);
  Result<bool> WriteMatMul(Node& n);
  Result<bool> WriteGemm(Node& n);
  Result<bool> WriteElementwise(Node& n);
  Result<bool> WriteConcat(Node& n);
  Result<bool> WriteMovement(Node& n);
  Result<bool> Make(Node& n, std::string_view op, std::vector<Value*> inputs, AttrMap attrs,
                    std::string_view domain, const Result8& to);
  Result<bool> Keep(std::string why) {
    why_ = std::move(why);
    return false;
  }

  Graph& g_;
  GraphEditor editor_;
  std::string why_;
  std::map<const Node*, Value*> zero_points_;  // made for nodes without one
};

Value* QOperatorWriter::ZeroPoint(const Node& n) {
  if (n.input(2)) return n.input(2);
  Value*& slot = zero_points_[&n];
  const DType t = CodesSide(n)->dtype();
  if (!slot)
    slot = editor_.AddConstant(Tensor::Zeros(t, n.input(1)->constant()->dims()),
                               n.output(0)->name() + "_zero_point");
  return slot;
}

std::optional<Codes> QOperatorWriter::From(Value* v) {
  const Node* n = DequantizeBefore(v);
  if (!n || !HasConstantParams(*n)) return std::nullopt;
  if (n->input(1)->constant()->rank() > 1 || n->Attr<int64_t>("block_size") != 0)
    return std::nullopt;
  return Codes{n->input(0), n->input(1), ZeroPoint(*n)};
}

/// The QuantizeLinear that alone reads `v`, directly or through a constant bound.
std::optional<Result8> QOperatorWriter::To(Value* v) {
  Result8 r;
  if (!v || !v->has_one_use()) return std::nullopt;
  const Node& next = *v->uses()[0].user;
  if (next.input(0) == v) r.bounds = ClampOf(next);
  r.quantize = QuantizeBehind(r.bounds ? next.output(0) : v);
  if (!r.quantize || !HasConstantParams(*r.quantize)) return std::nullopt;
  r.to = {r.quantize->output(0), r.quantize->input(1), ZeroPoint(*r.quantize)};
  if (!r.to.per_tensor() || !Is8Bit(r.to.codes->dtype())) return std::nullopt;
  return r;
}

std::optional<std::vector<Codes>> QOperatorWriter::Operands(const Node& n, size_t count) {
  std::vector<Codes> all;
  for (size_t i = 0; i < count; ++i) {
    const auto c = From(n.input(i));
    if (!c) return std::nullopt;
    all.push_back(*c);
  }
  return all;
}

/// Adds the operator before `n`, and the bound on integers; readers of QuantizeLinear read it.
Result<bool> QOperatorWriter::Make(Node& n, std::string_view op, std::vector<Value*> inputs,
                                   AttrMap attrs, std::string_view domain, const Result8& to) {
  editor_.InsertBefore(n);
  Value* const old = to.to.codes;
  INFER_ASSIGN(Value * q, AddNamed(editor_, op, std::move(inputs), std::move(attrs),
                                   Cat(LayerName(n), "_", op), domain));
  if (to.bounds) {
    const auto code = [&](double bound) {
      Tensor t(old->dtype(), {});
      t.SetInt(0, QuantizeValue(bound, static_cast<float>(to.to.scale->constant()->At(0)),
                                to.to.zero_point->constant()->IntAt(0), old->dtype()));
      return editor_.AddConstant(std::move(t), old->name() + "_bound");
    };
    std::vector<Value*> operands{q, nullptr, nullptr};
    if (std::isfinite(to.bounds->low)) operands[1] = code(to.bounds->low);
    if (std::isfinite(to.bounds->high)) operands[2] = code(to.bounds->high);
    INFER_ASSIGN(q, AddNamed(editor_, "Clip", std::move(operands), {}, q->name() + "_Clip"));
  }
  editor_.SetType(q, old->type());
  INFER_TRY(editor_.ReplaceAllUses(old, q));
  return true;
}

Result<bool> QOperatorWriter::WriteConv(Node& n) {
  const auto in = Operands(n, 2);
  const auto to = To(n.output(0));
  if (!in) return Keep("its operands are not quantized");
  if (!to) return Keep("its result is not quantized, and QLinearConv has no float result");
  const Codes &x = (*in)[0], &w = (*in)[1];
  std::vector<Value*> inputs{x.codes, x.scale,      x.zero_point, w.codes,
                             w.scale, w.zero_point, to->to.scale, to->to.zero_point};
  if (n.input(2)) {
    const auto bias = From(n.input(2));
    if (!bias || bias->codes->dtype() != DType::kI32) return Keep("its bias is not int32");
    inputs.push_back(bias->codes);
  }
  return Make(n, "QLinearConv", std::move(inputs), n.attrs(), "", *to);
}

Result<bool> QOperatorWriter::WriteMatMul(Node& n) {
  const auto in = Operands(n, 2);
  if (!in) return Keep("its operands are not quantized");
  const Codes &a = (*in)[0], &b = (*in)[1];
  if (!a.per_tensor()) return Keep("its activations have several scales");
  if (!b.per_tensor() && (!b.codes->is_constant() || b.codes->constant()->rank() != 2 ||
                          b.scale->constant()->num_elements() != b.codes->constant()->dim(1)))
    return Keep("its weights have scales that are not by column");
  if (const auto to = To(n.output(0)))
    return Make(n, "QLinearMatMul",
                {a.codes, a.scale, a.zero_point, b.codes, b.scale, b.zero_point, to->to.scale,
                 to->to.zero_point},
                {}, "", *to);
  // The sum is an integer, what follows stays float.
  const std::string name = LayerName(n);
  Tensor scale = b.scale->constant()->Clone();
  for (float& s : scale.mutable_data<float>()) s *= static_cast<float>(a.scale->constant()->At(0));
  editor_.InsertBefore(n);
  INFER_ASSIGN(Value * sums,
               AddNamed(editor_, "MatMulInteger", {a.codes, b.codes, a.zero_point, b.zero_point},
                        {}, name + "_MatMulInteger"));
  INFER_ASSIGN(Value * real, AddCast(editor_, sums, DType::kF32, name + "_f32"));
  Value* const factor = editor_.AddConstant(std::move(scale), name + "_scale");
  INFER_ASSIGN(Value * y, AddNamed(editor_, "Mul", {real, factor}, {}, name + "_scaled"));
  editor_.SetType(y, n.output(0)->type());
  INFER_TRY(editor_.ReplaceAllUses(n.output(0), y));
  return true;
}

Result<bool> QOperatorWriter::WriteGemm(Node& n) {
  const auto in = Operands(n, 2);
  if (!in) return Keep("its operands are not quantized");
  if (n.Attr<float>("alpha") != 1.0f || n.Attr<float>("beta") != 1.0f)
    return Keep("its factors are not 1");
  const Codes &a = (*in)[0], &b = (*in)[1];
  std::vector<Value*> inputs{a.codes, a.scale, a.zero_point, b.codes, b.scale, b.zero_point};
  Value* bias = nullptr;
  if (n.input(2)) {
    const auto c = From(n.input(2));
    if (!c || c->codes->dtype() != DType::kI32) return Keep("its bias is not int32");
    bias = c->codes;
  }
  AttrMap attrs{{"transA", n.Attr<int64_t>("transA")}, {"transB", n.Attr<int64_t>("transB")}};
  inputs.push_back(bias);
  if (const auto to = To(n.output(0))) {
    inputs.insert(inputs.end(), {to->to.scale, to->to.zero_point});
    return Make(n, "QGemm", std::move(inputs), std::move(attrs), kMicrosoft, *to);
  }
  editor_.InsertBefore(n);
  INFER_ASSIGN(Value * y, AddNamed(editor_, "QGemm", std::move(inputs), std::move(attrs),
                                   LayerName(n) + "_QGemm", kMicrosoft));
  editor_.SetType(y, n.output(0)->type());
  INFER_TRY(editor_.ReplaceAllUses(n.output(0), y));
  return true;
}

/// Add, Mul, AveragePool, GlobalAveragePool: operands, then the result's parameters.
Result<bool> QOperatorWriter::WriteElementwise(Node& n) {
  const bool pool = n.Is("AveragePool") || n.Is("GlobalAveragePool");
  const auto in = Operands(n, pool ? 1 : 2);
  const auto to = To(n.output(0));
  if (!in) return Keep("its operands are not quantized");
  if (!to) return Keep("its result is not quantized");
  const OpDef* def = g_.ops().Find(kMicrosoft, Cat("QLinear", n.op()));
  INFER_CHECK(def);
  AttrMap attrs;
  for (const auto& [name, value] : n.attrs()) {
    if (def->FindAttr(name)) {
      attrs[name] = value;
    } else if (!(name == "dilations" && std::holds_alternative<std::vector<int64_t>>(value) &&
                 std::ranges::all_of(std::get<std::vector<int64_t>>(value),
                                     [](int64_t d) { return d == 1; }))) {
      return Keep(Cat(def->name, " has no ", name));
    }
  }
  std::vector<Value*> inputs;
  for (const Codes& c : *in) {
    if (!c.per_tensor()) return Keep("an operand has several scales");
    inputs.insert(inputs.end(), {c.codes, c.scale, c.zero_point});
  }
  inputs.insert(inputs.end(), {to->to.scale, to->to.zero_point});
  return Make(n, def->name, std::move(inputs), std::move(attrs), kMicrosoft, *to);
}

Result<bool> QOperatorWriter::WriteConcat(Node& n) {
  const auto in = Operands(n, n.inputs().size());
  const auto to = To(n.output(0));
  if (!in) return Keep("its operands are not quantized");
  if (!to) return Keep("its result is not quantized");
  std::vector<Value*> inputs{to->to.scale, to->to.zero_point};
  for (const Codes& c : *in) inputs.insert(inputs.end(), {c.codes, c.scale, c.zero_point});
  return Make(n, "QLinearConcat", std::move(inputs), n.attrs(), kMicrosoft, *to);
}

Result<bool> QOperatorWriter::WriteMovement(Node& n) {
  const auto x = From(n.input(0));
  if (!x || !x->per_tensor()) return Keep("its operand is not quantized");
  std::vector<std::optional<Result8>> to;
  for (Value* v : n.outputs()) {
    to.push_back(v ? To(v) : std::nullopt);
    if (!v) continue;
    if (!to.back() || to.back()->bounds) return Keep("its result is not quantized");
    const Codes& c = to.back()->to;
    if (c.codes->dtype() != x->codes->dtype() ||
        !BitEqual(*c.scale->constant(), *x->scale->constant()) ||
        !BitEqual(*c.zero_point->constant(), *x->zero_point->constant()))
      return Keep("its result has other parameters than its operand");
  }
  std::vector<Value*> inputs = n.inputs();
  inputs[0] = x->codes;
  if (n.Is("Pad") && n.Attr<std::string>("mode") == "constant") {
    inputs.resize(std::max<size_t>(inputs.size(), 3), nullptr);
    inputs[2] = editor_.AddConstant(x->zero_point->constant()->Reshaped({}),
                                    LayerName(n) + "_zero");  // the code of 0
  }
  editor_.InsertBefore(n);
  NodeOptions options;
  options.name = LayerName(n) + "_quantized";
  options.num_outputs = n.outputs().size();
  INFER_ASSIGN(Node * made,
               editor_.AddNode(n.def(), std::move(inputs), n.attrs(), std::move(options)));
  for (size_t i = 0; i < to.size(); ++i) {
    if (!to[i]) continue;
    editor_.SetType(made->output(i), to[i]->to.codes->type());
    INFER_TRY(editor_.ReplaceAllUses(to[i]->to.codes, made->output(i)));
  }
  return true;
}

Result<bool> QOperatorWriter::WriteNode(Node& n) {
  if (n.Is("Conv")) return WriteConv(n);
  if (n.Is("MatMul")) return WriteMatMul(n);
  if (n.Is("Gemm")) return WriteGemm(n);
  if (n.Is("Concat")) return WriteConcat(n);
  const QuantOp* op = FindQuantOp(n);
  if (op && (op->role == QuantRole::kElementwise || op->role == QuantRole::kPool))
    return WriteElementwise(n);
  if (op && op->role == QuantRole::kMovement) return WriteMovement(n);
  return Keep(Cat("QOperator has no ", n.op()));
}

Status QOperatorWriter::Write(QOperatorReport& report) {
  std::vector<Node*> nodes;
  for (const auto& n : g_.nodes()) {
    if (n->Is(Trait::kDequantize) && !Is8Bit(n->input(0)->dtype()) &&
        n->input(0)->dtype() != DType::kI32)
      return Unsupported(Cat("QOperator takes 8-bit codes, not ", Name(n->input(0)->dtype()), " (",
                             Describe(*n), ")"));
    if (!IsQuantizeOrDequantize(*n)) nodes.push_back(n.get());
  }
  for (Node* n : nodes) {
    if (std::none_of(n->inputs().begin(), n->inputs().end(), DequantizeBefore)) continue;
    auto made = WriteNode(*n);
    if (!made.ok()) return std::move(made.status()).In(LayerName(*n));
    if (*made)
      ++report.converted;
    else if (FindQuantOp(*n))
      report.kept.emplace_back(LayerName(*n), why_);
  }
  editor_.Sweep();
  return {};
}

}  // namespace

Result<QOperatorReport> ConvertToQOperator(Graph& g, QuantizeReport& report) {
  Graph work = g.Clone();
  QOperatorReport done;
  INFER_TRY(QOperatorWriter(work).Write(done));
  if (Status s = Verify(work); !s.ok()) return Internal(Cat("after conversion: ", s.message()));
  for (const auto& [name, reason] : done.kept)
    for (QuantizedLayer& l : report.layers) {
      if (l.name != name || l.precision != "int8") continue;
      l.precision = l.weight_bytes_before > 0 ? "int8-weights" : "f32";
      l.reason = reason;
    }
  CountLayers(report);
  report.weight_bytes_after = ConstantBytes(work);
  g = std::move(work);
  return done;
}

}  // namespace infer
