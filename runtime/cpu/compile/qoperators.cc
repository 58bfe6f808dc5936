#include "runtime/cpu/compile/qoperators.h"

#include <algorithm>
#include <optional>
#include <set>

#include "lib/ir/replacement.h"
#include "lib/support/strings.h"
#include "runtime/plan_ir/groups/quant_group.h"

namespace infer {
namespace {

/// From this level on, products that no integer kernel takes may be multiplied in f32.
constexpr int kF32Level = 2;

/// Scale and zero point of one tensor, constants of as many values.
struct Params {
  Tensor scale, zero;
  bool per_tensor() const { return scale.rank() == 0; }
};

/// Scalars where there is one value, else [n], of tensors that have them along the last axis.
/// `scale` nullptr: 1.
std::optional<Params> ParamsOf(const Value* scale, const Value* zero, DType type) {
  if ((scale && !scale->is_constant()) || (zero && !zero->is_constant())) return std::nullopt;
  const Tensor one = Tensor::Scalar(1.0f);
  const Tensor& s = scale ? *scale->constant() : one;
  if (s.dtype() != DType::kF32 || s.num_elements() == 0) return std::nullopt;
  for (const float v : s.data<float>())
    if (!(v > 0)) return std::nullopt;
  const Tensor none = Tensor::Zeros(type, {});
  const Tensor& z = zero ? *zero->constant() : none;
  const int64_t n = std::max(s.num_elements(), z.num_elements());
  for (const Tensor* t : {&s, &z})
    if (t->num_elements() != 1 && (t->num_elements() != n || t->dims().back() != n))
      return std::nullopt;
  const Dims dims = n == 1 ? Dims{} : Dims{n};
  Params p{Tensor(DType::kF32, dims), Tensor::Zeros(type, dims)};
  for (int64_t i = 0; i < n; ++i) {
    p.scale.Set(i, s.At(s.num_elements() == 1 ? 0 : i));
    p.zero.SetInt(i, z.IntAt(z.num_elements() == 1 ? 0 : i));
  }
  return p;
}

/// Constant codes, less zero points that run along `axis`, in 8 bits with a sign.
bool FitsSigned(const Tensor& codes, const Params& p, int axis) {
  int64_t inner = 1;
  for (int i = axis + 1; i < codes.rank(); ++i) inner *= codes.dim(i);
  for (int64_t i = 0; i < codes.num_elements(); ++i) {
    const int64_t v =
        codes.IntAt(i) - p.zero.IntAt(p.per_tensor() ? 0 : i / inner % codes.dim(axis));
    if (v < -128 || v > 127) return false;
  }
  return true;
}

/// Codes less their zero points, which run along `axis`, as the sum of two halves that stand one
/// behind the other along axis `along`; undefined where a half does not fit 8 bits.
Tensor InHalves(const Tensor& codes, const Params& p, int axis, int along) {
  Dims dims = codes.dims();
  dims[static_cast<size_t>(along)] *= 2;
  Tensor out(DType::kI8, dims);
  int64_t inner = 1, behind = 1;
  for (int i = axis + 1; i < codes.rank(); ++i) inner *= codes.dim(i);
  for (int i = along; i < codes.rank(); ++i) behind *= codes.dim(i);
  for (int64_t i = 0; i < codes.num_elements(); ++i) {
    const int64_t v =
        codes.IntAt(i) - p.zero.IntAt(p.per_tensor() ? 0 : i / inner % codes.dim(axis));
    const int64_t second = v / 2, first = v - second;
    if (first > 127 || first < -128) return {};
    const int64_t at = i / behind * 2 * behind + i % behind;
    out.SetInt(at, first);
    out.SetInt(at + behind, second);
  }
  return out;
}

class QOperatorTaker {
 public:
  QOperatorTaker(Graph& g, int level) : g_(g), editor_(g), level_(level) {}

  Result<int> Run() {
    std::vector<Node*> nodes;
    for (const auto& n : g_.nodes()) nodes.push_back(n.get());
    for (Node* n : nodes) INFER_TRY(TakeNode(*n));
    if (taken_ > 0) editor_.Sweep();
    return taken_;
  }

 private:
  Status TakeNode(Node& n) {
    if (gone_.count(&n) > 0) return {};
    if (n.Is("QLinearConv")) return Convolve(n);
    if (n.Is("QLinearMatMul")) return Multiply(n);
    if (n.Is("QGemm", kMicrosoft)) return Gemm(n);
    if (n.Is("QLinearConcat", kMicrosoft)) return Concat(n);
    if (n.Is("QLinearWhere", kMicrosoft)) return Choose(n);
    if (n.Is("MaxPool")) return Pool(n);
    if (n.Is("MatMulInteger") || n.Is("ConvInteger")) return Integers(n);
    return {};
  }

  Result<Value*> Dequantized(const Node& n, Value* codes, const Params& p, int64_t axis) {
    AttrMap attrs;
    if (!p.per_tensor()) attrs["axis"] = axis;
    return editor_.Add("DequantizeLinear",
                       {codes, editor_.AddConstant(p.scale), editor_.AddConstant(p.zero)},
                       std::move(attrs), "", NamesOf(n));
  }

  /// The int32 bias in units of the sum.
  Result<Value*> Bias(const Node& n, Value* codes, const Params& x, const Params& w) {
    Params p{w.scale.Clone(), Tensor::Zeros(DType::kI32, w.scale.dims())};
    const float x_scale = x.scale.data<float>()[0];
    for (float& v : p.scale.mutable_data<float>()) v = x_scale * v;
    return Dequantized(n, codes, p, 0);
  }

  Result<Value*> Quantized(const Node& n, Value* real, const Params& p) {
    return editor_.Add("QuantizeLinear",
                       {real, editor_.AddConstant(p.scale), editor_.AddConstant(p.zero)}, {}, "",
                       NamesOf(n));
  }

  /// `codes` of parameters `from` as codes of parameters `to`.
  Result<Value*> Requantized(const Node& n, Value* codes, const Params& from, const Params& to) {
    if (BitEqual(from.scale, to.scale) && BitEqual(from.zero, to.zero)) return codes;
    INFER_ASSIGN(Value * real, Dequantized(n, codes, from, 0));
    return Quantized(n, real, to);
  }

  Status Replace(Node& n, Value* made) {
    gone_.insert(&n);
    INFER_TRY(ReplaceNode(editor_, n, made));
    ++taken_;
    return {};
  }

  Status Finish(Node& n, Value* real, const Params& y) {
    INFER_ASSIGN(Value * q, Quantized(n, real, y));
    return Replace(n, q);
  }

  /// Parameters of the weights: of 8-bit constants, one or one per output along `axis`. Those that
  /// do not fit 8 bits less their zero point are multiplied in f32.
  std::optional<Params> Weights(const Value* codes, const Value* scale, const Value* zero,
                                int axis) {
    if (!Is8Bit(codes) || !codes->is_constant()) return std::nullopt;
    auto p = ParamsOf(scale, zero, codes->dtype());
    if (!p || codes->constant()->rank() <= axis) return std::nullopt;
    if (!p->per_tensor() && p->scale.dim(0) != codes->constant()->dim(axis)) return std::nullopt;
    if (level_ < kF32Level && !FitsSigned(*codes->constant(), *p, axis)) return std::nullopt;
    return p;
  }

  std::optional<Params> Activation(const Value* codes, const Value* scale, const Value* zero) {
    if (!Is8Bit(codes)) return std::nullopt;
    auto p = ParamsOf(scale, zero, codes->dtype());
    return p && p->per_tensor() ? p : std::nullopt;
  }

  /// Of a result: its zero point, of 8 bits, says the type.
  std::optional<Params> Result8(const Node& n, const Value* scale, const Value* zero) {
    if (!Is8Bit(n.output())) return std::nullopt;
    auto p = ParamsOf(scale, zero, n.output()->dtype());
    return p && p->per_tensor() ? p : std::nullopt;
  }

  /// A product whose operands may change before it is made.
  struct Product {
    Value *x, *w;
    Params p;  ///< of w
  };
  /// Weights that less their zero points do not fit 8 bits as twice as many that do, times `x`
  /// twice along `x_axis`: the same sums.
  Status Narrow(Product& product, int axis, int along, int64_t x_axis) {
    const Tensor& codes = *product.w->constant();
    if (FitsSigned(codes, product.p, axis)) return {};
    const Tensor halves = InHalves(codes, product.p, axis, along);
    if (!halves.defined()) return {};
    INFER_ASSIGN(product.x, editor_.Add("Concat", {product.x, product.x}, {{"axis", x_axis}}));
    product.w = editor_.AddConstant(halves);
    product.p.zero = Tensor::Zeros(DType::kI8, product.p.scale.dims());
    return {};
  }

  Status Convolve(Node& n) {
    const auto x = Activation(n.input(0), n.input(1), n.input(2));
    const auto w = Weights(n.input(3), n.input(4), n.input(5), 0);
    const auto y = Result8(n, n.input(6), n.input(7));
    if (!x || !w || !y || (n.input(8) && !n.input(8)->is_constant())) return {};
    editor_.InsertBefore(n);
    Product product{n.input(0), n.input(3), *w};
    if (n.Attr<int64_t>("group") == 1) INFER_TRY(Narrow(product, 0, 1, 1));
    if (!FitsSigned(*product.w->constant(), product.p, 0)) return ConvolveWhole(n, *x, *w, *y);
    INFER_ASSIGN(Value * xr, Dequantized(n, product.x, *x, 0));
    INFER_ASSIGN(Value * wr, Dequantized(n, product.w, product.p, 0));
    std::vector<Value*> operands{xr, wr};
    if (n.input(8)) {
      INFER_ASSIGN(Value * b, Bias(n, n.input(8), *x, *w));
      operands.push_back(b);
    }
    INFER_ASSIGN(Value * real, editor_.Add("Conv", std::move(operands), n.attrs(), "", NamesOf(n)));
    return Finish(n, real, *y);
  }

  /// In f32, of codes less their zero points: whole numbers, so that sums below 2^24 are exact, and
  /// the result is scaled once, as the operator has it.
  Status ConvolveWhole(Node& n, const Params& x, const Params& w, const Params& y) {
    const auto unscaled = [](const Params& p) {
      Params one{Tensor(DType::kF32, p.scale.dims()), p.zero};
      for (float& v : one.scale.mutable_data<float>()) v = 1;
      return one;
    };
    Dims dims(static_cast<size_t>(n.input(3)->constant()->rank()) - 1, 1);
    dims[0] = w.scale.num_elements();
    Tensor factor(DType::kF32, dims);
    for (int64_t i = 0; i < w.scale.num_elements(); ++i)
      factor.mutable_data<float>()[static_cast<size_t>(i)] =
          x.scale.data<float>()[0] * w.scale.data<float>()[static_cast<size_t>(i)] /
          y.scale.data<float>()[0];
    INFER_ASSIGN(Value * xr, Dequantized(n, n.input(0), unscaled(x), 0));
    INFER_ASSIGN(Value * wr, Dequantized(n, n.input(3), unscaled(w), 0));
    std::vector<Value*> operands{xr, wr};
    if (n.input(8))
      operands.push_back(editor_.AddConstant(n.input(8)->constant()->Cast(DType::kF32)));
    INFER_ASSIGN(Value * sums, editor_.Add("Conv", std::move(operands), n.attrs(), "", NamesOf(n)));
    INFER_ASSIGN(Value * quanta,
                 editor_.Add("Mul", {sums, editor_.AddConstant(factor)}, {}, "", NamesOf(n)));
    return Finish(n, quanta, unscaled(y));
  }

  Status Multiply(Node& n) {
    const auto a = Activation(n.input(0), n.input(1), n.input(2));
    const auto y = Result8(n, n.input(6), n.input(7));
    if (!a || !y) return {};
    const bool fixed = n.input(3)->is_constant();
    if (fixed && n.input(3)->constant()->rank() != 2) return {};
    if (!fixed && level_ < kF32Level) return {};
    const auto b = fixed ? Weights(n.input(3), n.input(4), n.input(5), 1)
                         : Activation(n.input(3), n.input(4), n.input(5));
    if (!b) return {};
    editor_.InsertBefore(n);
    Product product{n.input(0), n.input(3), *b};
    if (fixed) INFER_TRY(Narrow(product, 1, 0, -1));
    INFER_ASSIGN(Value * ar, Dequantized(n, product.x, *a, 0));
    INFER_ASSIGN(Value * br, Dequantized(n, product.w, product.p, 1));
    INFER_ASSIGN(Value * real, editor_.Add("MatMul", {ar, br}, {}, "", NamesOf(n)));
    return Finish(n, real, *y);
  }

  Status Gemm(Node& n) {
    if (n.Attr<float>("alpha") != 1 || n.Attr<int64_t>("transA") != 0) return {};
    const int axis = n.Attr<int64_t>("transB") != 0 ? 0 : 1;
    const auto a = Activation(n.input(0), n.input(1), n.input(2));
    const auto b = Weights(n.input(3), n.input(4), n.input(5), axis);
    if (!a || !b || n.input(3)->constant()->rank() != 2) return {};
    const int64_t columns = n.input(3)->constant()->dim(axis);
    const Value* const c = n.input(6);
    if (c && (!c->is_constant() || c->constant()->num_elements() != columns ||
              c->constant()->dim(-1) != columns))
      return {};
    const bool quantizes = n.input(7) != nullptr && n.input(8) != nullptr;
    if (!quantizes && n.input(7)) return {};
    const auto y = quantizes ? Result8(n, n.input(7), n.input(8)) : std::nullopt;
    if (quantizes && !y) return {};
    editor_.InsertBefore(n);
    Product product{n.input(0), n.input(3), *b};
    INFER_TRY(Narrow(product, axis, 1 - axis, -1));
    INFER_ASSIGN(Value * ar, Dequantized(n, product.x, *a, 0));
    INFER_ASSIGN(Value * br, Dequantized(n, product.w, product.p, axis));
    std::vector<Value*> operands{ar, br};
    if (c) {
      INFER_ASSIGN(Value * bias,
                   Bias(n, editor_.AddConstant(c->constant()->Reshaped({columns})), *a, *b));
      operands.push_back(bias);
    }
    INFER_ASSIGN(Value * real, editor_.Add("Gemm", std::move(operands),
                                           {{"transB", int64_t{1 - axis}}}, "", NamesOf(n)));
    return quantizes ? Finish(n, real, *y) : Replace(n, real);
  }

  /// Concat moves codes; those of other parameters are rounded to the result's first.
  Status Concat(Node& n) {
    const auto y = Result8(n, n.input(0), n.input(1));
    if (!y) return {};
    std::vector<Params> params;
    for (size_t i = 2; i + 2 < n.inputs().size(); i += 3) {
      auto p = Activation(n.input(i), n.input(i + 1), n.input(i + 2));
      if (!p || n.input(i)->dtype() != n.output()->dtype()) return {};
      params.push_back(std::move(*p));
    }
    editor_.InsertBefore(n);
    std::vector<Value*> operands;
    for (size_t k = 0; k < params.size(); ++k) {
      INFER_ASSIGN(Value * codes, Requantized(n, n.input(2 + 3 * k), params[k], *y));
      operands.push_back(codes);
    }
    INFER_ASSIGN(Value * made, editor_.Add("Concat", std::move(operands),
                                           {{"axis", n.Attr<int64_t>("axis")}}, "", NamesOf(n)));
    return Replace(n, made);
  }

  Status Choose(Node& n) {
    const auto a = Activation(n.input(1), n.input(2), n.input(3));
    const auto b = Activation(n.input(4), n.input(5), n.input(6));
    const auto y = Result8(n, n.input(7), n.input(8));
    if (!a || !b || !y) return {};
    editor_.InsertBefore(n);
    INFER_ASSIGN(Value * ac, Requantized(n, n.input(1), *a, *y));
    INFER_ASSIGN(Value * bc, Requantized(n, n.input(4), *b, *y));
    INFER_ASSIGN(Value * made, editor_.Add("Where", {n.input(0), ac, bc}, {}, "", NamesOf(n)));
    return Replace(n, made);
  }

  /// Of codes as of real numbers of scale 1.
  Status Pool(Node& n) {
    if (!Is8Bit(n.input(0)) || n.output(1)) return {};
    const Params p{Tensor::Scalar(1.0f), Tensor::Zeros(n.input(0)->dtype(), {})};
    editor_.InsertBefore(n);
    INFER_ASSIGN(Value * x, Dequantized(n, n.input(0), p, 0));
    INFER_ASSIGN(Value * pooled, editor_.Add("MaxPool", {x}, n.attrs(), "", NamesOf(n)));
    INFER_ASSIGN(Value * y, Quantized(n, pooled, p));
    return Replace(n, y);
  }

  /// Cast to f32 and Mul by constant scales behind a sum: f32(sum) * scale, as integer kernels have
  /// it where the operand's scale is 1.
  Status Integers(Node& n) {
    const bool conv = n.Is("ConvInteger");
    const Value* const w = n.input(1);
    if (!w->is_constant() || (!conv && w->constant()->rank() != 2)) return {};
    const auto next = [](const Value* v, std::string_view op) -> Node* {
      return v->has_one_use() && v->uses()[0].user->Is(op) ? v->uses()[0].user : nullptr;
    };
    Node* const cast = next(n.output(), "Cast");
    if (!cast || cast->output()->dtype() != DType::kF32) return {};
    Node* const mul = next(cast->output(), "Mul");
    if (!mul || mul->input(0) == mul->input(1)) return {};
    const Value* const factor = mul->input(mul->input(0) == cast->output() ? 1 : 0);
    if (!factor->is_constant() || factor->dtype() != DType::kF32) return {};
    // By output: the last axis of a matrix, the second of an image.
    const int axis = conv ? 0 : 1;
    const Tensor& s = *factor->constant();
    const int64_t columns = w->constant()->dim(axis), behind = conv ? w->constant()->rank() - 2 : 0;
    if (s.num_elements() != 1 && (s.num_elements() != columns || s.rank() <= behind ||
                                  s.dim(-1 - static_cast<int>(behind)) != columns))
      return {};
    if (!cast->output()->shape().has_rank() || s.rank() > cast->output()->shape().rank()) return {};
    const auto x = Activation(n.input(0), nullptr, n.input(2));
    editor_.InsertBefore(*mul);
    Value* const flat =
        editor_.AddConstant(s.Reshaped(s.num_elements() == 1 ? Dims{} : Dims{columns}));
    const auto p = x ? Weights(w, flat, n.input(3), axis) : std::nullopt;
    if (!p) return {};
    INFER_ASSIGN(Value * xr, Dequantized(n, n.input(0), *x, 0));
    INFER_ASSIGN(Value * wr, Dequantized(n, n.input(1), *p, axis));
    INFER_ASSIGN(Value * real,
                 editor_.Add(conv ? "Conv" : "MatMul", {xr, wr}, n.attrs(), "", NamesOf(n)));
    for (Node* node : {cast, &n}) gone_.insert(node);
    INFER_TRY(Replace(*mul, real));
    editor_.Erase(*cast);
    editor_.Erase(n);
    return {};
  }

  Graph& g_;
  GraphEditor editor_;
  int level_;
  std::set<const Node*> gone_;
  int taken_ = 0;
};

}  // namespace

Result<int> TakeQOperators(Graph& g, int level) {
  if (std::none_of(g.nodes().begin(), g.nodes().end(), [](const auto& n) {
        return (n->Is(Trait::kQuantization) && !n->Is(Trait::kConversion)) ||
               (n->Is("MaxPool") && Is8Bit(n->input(0)));
      }))
    return 0;
  return QOperatorTaker(g, level).Run();
}

}  // namespace infer
