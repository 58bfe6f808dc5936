/// FusedMatMul: a product with a factor and transposed operands. ONNX Runtime 1.30 wants two
/// operands of one rank of 3 or more where batches are transposed.
#include <algorithm>
#include <cmath>

#include "lib/ops/matmul/matmul.h"
#include "passes/ort/ort.h"
#include "passes/rewrite/queries.h"

namespace infer {
namespace {

constexpr std::string_view kProducts = "MatMul|com.microsoft::FusedMatMul";

bool IsProductNode(const Node& n) { return n.Is("MatMul") || n.Is("FusedMatMul", "com.microsoft"); }

/// ONNX Runtime has FusedMatMul for f32; what is dequantized becomes a product of integers.
bool IsOperand(const Value& v) {
  return v.type().is_tensor() && v.dtype() == DType::kF32 && !DequantizeBefore(&v);
}
Pattern Operand() { return Any().Where("an f32 tensor that is not dequantized", IsOperand); }

bool OnlyProductsRead(const Value& v) {
  return !v.is_output() && std::all_of(v.uses().begin(), v.uses().end(),
                                       [](const Use& u) { return IsProductNode(*u.user); });
}

/// Attributes of a FusedMatMul; of a MatMul, their defaults.
struct Form {
  float alpha = 1;
  bool trans[2] = {}, batch[2] = {};

  AttrMap Attrs() const {
    AttrMap attrs;
    if (alpha != 1) attrs["alpha"] = alpha;
    constexpr const char* kTrans[] = {"transA", "transB"};
    constexpr const char* kBatch[] = {"transBatchA", "transBatchB"};
    for (size_t i = 0; i < 2; ++i) {
      if (trans[i]) attrs[kTrans[i]] = int64_t{1};
      if (batch[i]) attrs[kBatch[i]] = int64_t{1};
    }
    return attrs;
  }
};

Form FormOf(const Node& n) {
  Form f;
  f.alpha = n.AttrOr("alpha", 1.0f);
  const auto is = [&](const char* attr) { return n.AttrOr(attr, int64_t{0}) != 0; };
  f.trans[0] = is("transA");
  f.trans[1] = is("transB");
  f.batch[0] = is("transBatchA");
  f.batch[1] = is("transBatchB");
  return f;
}

Result<Value*> Fused(const Form& f, std::vector<Value*> operands, PatchBuilder& b) {
  return b("com.microsoft::FusedMatMul", std::move(operands), f.Attrs());
}

/// `f` with operand i multiplied by c, or divided by it.
Result<Form> Scaled(Form f, double c, bool divided) {
  const double alpha =
      divided ? static_cast<double>(f.alpha) / c : static_cast<double>(f.alpha) * c;
  f.alpha = static_cast<float>(alpha);
  if (!std::isfinite(f.alpha)) return InvalidModel("needs a finite factor");
  return f;
}

/// Whether flags say that an operand is read in the order `axes`; sets them.
bool Say(const std::vector<int>& axes, bool may_move_batch, bool& trans, bool& batch) {
  for (const bool b : {false, true})
    for (const bool t : {false, true}) {
      if ((b && !may_move_batch) || FusedMatMulAxes(static_cast<int>(axes.size()), t, b) != axes)
        continue;
      trans = t;
      batch = b;
      return true;
    }
  return false;
}

}  // namespace

Rule FuseProductScale() {
  Pattern a = Operand(), b = Operand(), c = Scalar();
  Pattern product = Op(kProducts, a, b);
  Pattern times = Op("Mul", product, c), over = Op("Div", product, c);
  return {
      .name = "ort-product-scale",
      .doc = "c * (A * B), (A * B) / c => com.microsoft::FusedMatMul(A, B) {alpha=c}",
      .match = OneOf({times, over}),
      .build = [=](const Match& m, PatchBuilder& make) -> Result<Value*> {
        if (RankOf(*m[product]) < RankOf(*m[c]))
          return InvalidModel("needs a factor of no more axes");
        INFER_ASSIGN(const Form f, Scaled(FormOf(m.node(product)), m.scalar(c), m.Has(over)));
        return Fused(f, {m[a], m[b]}, make);
      },
      .fires_on = {R"(graph g(x: f32[N,3,4], z: f32[N,4,5]) -> (y) { c = const f32[1] {0.125}
             p = MatMul(x, z)  y = Mul(c, p) })",
                   R"(graph g(x: f32[N,4,3], z: f32[N,4,5]) -> (y) { c = const f32[] {8}
             p = com.microsoft::FusedMatMul(x, z) {transA=1, alpha=0.5}  y = Div(p, c) })"},
      .silent_on = {{R"(graph g(x: f16[N,3,4], z: f16[N,4,5]) -> (y) { c = const f16[] {0.125}
             p = MatMul(x, z)  y = Mul(c, p) })",
                     "an f32 tensor"},
                    {R"(graph g(x: f32[3,4], z: f32[4,5]) -> (y) { c = const f32[1,1,1] {0.125}
             p = MatMul(x, z)  y = Mul(c, p) })",
                     "a factor of no more axes"},
                    {R"(graph g(x: f32[3,4], z: f32[4,5]) -> (y) { c = const f32[] {0}
             p = MatMul(x, z)  y = Div(p, c) })",
                     "a finite factor"},
                    {R"(graph g(x: f32[3,4], q: u8[4,5]) -> (y) { c = const f32[] {2}
             s = const f32[] {0.5}  z = DequantizeLinear(q, s)  p = MatMul(x, z)  y = Div(p, c) })",
                     "not dequantized"}},
  };
}

Rule FuseOperandScale() {
  Pattern x = Operand(), other = Operand(), c = Scalar();
  const auto scaled = [&](std::string_view op) {
    return Op(op, x, c).Shared().Where("read by products only", OnlyProductsRead);
  };
  Pattern times = scaled("Mul"), over = scaled("Div"), operand = OneOf({times, over});
  Pattern first = Op(kProducts, operand, other), second = Op(kProducts, other, operand);
  Pattern root = OneOf({first, second});
  return {
      .name = "ort-operand-scale",
      .doc = "(c * A) * B, A * (B / c) => com.microsoft::FusedMatMul(A, B) {alpha=c}",
      .match = root,
      .build = [=](const Match& m, PatchBuilder& make) -> Result<Value*> {
        if (RankOf(*m[x]) < 0 || RankOf(*m[x]) < RankOf(*m[c]))
          return InvalidModel("needs a factor of no more axes");
        INFER_ASSIGN(const Form f, Scaled(FormOf(m.node(root)), m.scalar(c), m.Has(over)));
        if (m.Has(first)) return Fused(f, {m[x], m[other]}, make);
        return Fused(f, {m[other], m[x]}, make);
      },
      .fires_on = {R"(graph g(x: f32[N,3,4], z: f32[N,4,5]) -> (y) { c = const f32[] {0.125}
             s = Mul(c, x)  y = MatMul(s, z) })",
                   R"(graph g(x: f32[N,3,4], z: f32[N,5,4]) -> (y) { c = const f32[1] {8}
             s = Div(z, c)  y = com.microsoft::FusedMatMul(x, s) {transB=1} })"},
      .silent_on = {{R"(graph g(x: f32[N,3,4], z: f32[N,4,5]) -> (y, s) { c = const f32[] {0.125}
             s = Mul(c, x)  y = MatMul(s, z) })",
                     "read by products only"},
                    {R"(graph g(x: f32[*], z: f32[4,5]) -> (y) { c = const f32[1] {0.125}
             s = Mul(c, x)  y = MatMul(s, z) })",
                     "a factor of no more axes"},
                    {R"(graph g(x: f32[3,4], z: f32[4,5]) -> (y) { c = const f32[] {0}
             s = Div(z, c)  y = MatMul(x, s) })",
                     "a finite factor"}},
  };
}

Rule FuseOperandTranspose() {
  Pattern x = Any(), other = Operand();
  Pattern turned = Op("Transpose", x).Shared().Where("read by products only", [](const Value& v) {
    return !v.is_output() && std::all_of(v.uses().begin(), v.uses().end(), [](const Use& u) {
      return IsProductNode(*u.user) || (u.user->Is("Cast") && OnlyProductsRead(*u.user->output(0)));
    });
  });
  Pattern cast = Op("Cast", turned).Shared().Where("read by products only", OnlyProductsRead);
  Pattern operand = OneOf({cast, turned}).Where("an f32 tensor that is not dequantized", IsOperand);
  Pattern first = Op(kProducts, operand, other), second = Op(kProducts, other, operand);
  Pattern root = OneOf({first, second});
  return {
      .name = "ort-operand-transpose",
      .doc =
          "Transpose(A) * B, also of B, of batches and behind a Cast => "
          "com.microsoft::FusedMatMul(A, "
          "B) {transA=1}",
      .match = root,
      .build = [=](const Match& m, PatchBuilder& make) -> Result<Value*> {
        const size_t i = m.Has(first) ? 0 : 1;
        const std::vector<int64_t> perm = PermOf(m.node(turned));
        const auto rank = static_cast<int>(perm.size());
        if (rank < 2 || rank != RankOf(*m[x]))
          return InvalidModel("needs a known rank of 2 or more");
        if (IsIdentityPerm(perm)) return InvalidModel("needs axes that move");
        Form f = FormOf(m.node(root));
        std::vector<int> axes = FusedMatMulAxes(rank, f.trans[i], f.batch[i]);
        for (int& a : axes) a = static_cast<int>(perm[static_cast<size_t>(a)]);
        if (!Say(axes, rank >= 3 && rank == RankOf(*m[other]), f.trans[i], f.batch[i]))
          return InvalidModel("needs the last axes swapped, or axis 0 moved behind the batch");
        Value* in = m[x];
        if (m.Has(cast)) {
          INFER_ASSIGN(in, make("Cast", {in}, m.node(cast).attrs()));
        }
        if (i == 0) return Fused(f, {in, m[other]}, make);
        return Fused(f, {m[other], in}, make);
      },
      .fires_on = {R"(graph g(x: f32[N,2,4,3], z: f32[N,2,4,5]) -> (y) {
             t = Transpose(x) {perm=[0,1,3,2]}  y = MatMul(t, z) })",
                   R"(graph g(x: f32[N,2,3,4], z: f32[5,N,2,4]) -> (y) {
             t = Transpose(z) {perm=[1,2,3,0]}
             y = com.microsoft::FusedMatMul(x, t) {alpha=2.0} })",
                   R"(graph g(x: f32[2,N,3,4], z: f32[N,5,4]) -> (y) {
             t = Transpose(z) {perm=[0,2,1]}
             y = com.microsoft::FusedMatMul(x, t) {alpha=2.0} })",
                   R"(graph g(x: f16[3,N,2,4], z: f32[N,2,4,5]) -> (y) {
             t = Transpose(x) {perm=[1,2,0,3]}  c = Cast(t) {to=1}  y = MatMul(c, z) })"},
      .silent_on = {{R"(graph g(x: f32[N,2,4,3], z: f32[N,2,4,5]) -> (y, t) {
             t = Transpose(x) {perm=[0,1,3,2]}  y = MatMul(t, z) })",
                     "read by products only"},
                    {R"(graph g(x: f32[4,2,N,3], z: f32[N,2,4,5]) -> (y) {
             t = Transpose(x) {perm=[2,1,3,0]}  y = MatMul(t, z) })",
                     "the last axes swapped"},
                    {R"(graph g(x: f32[3,N,2,4], z: f32[4,5]) -> (y) {
             t = Transpose(x) {perm=[1,2,0,3]}  y = MatMul(t, z) })",
                     "the last axes swapped"},
                    {R"(graph g(x: f32[2,3,4], z: f32[2,4,5]) -> (y) {
             t = Transpose(x) {perm=[0,1,2]}  y = MatMul(t, z) })",
                     "axes that move"},
                    {R"(graph g(x: f32[*], z: f32[2,4,5]) -> (y) {
             t = Transpose(x)  y = MatMul(t, z) })",
                     "a known rank"}},
  };
}

Rule FuseProductTranspose() {
  Pattern a = Operand(), b = Operand();
  Pattern product = Op(kProducts, a, b), root = Op("Transpose", product);
  return {
      .name = "ort-product-transpose",
      .doc =
          "Transpose(A * B) of the last axes => com.microsoft::FusedMatMul(B, A), both transposed",
      .match = root,
      .build = [=](const Match& m, PatchBuilder& make) -> Result<Value*> {
        if (RankOf(*m[a]) < 2 || RankOf(*m[b]) < 2)
          return InvalidModel("needs two known ranks of 2 or more");
        std::vector<int64_t> perm = PermOf(m.node(root));
        if (perm.size() < 2) return InvalidModel("needs a known rank");
        std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
        if (!IsIdentityPerm(perm)) return InvalidModel("needs the last axes swapped");
        const Form f = FormOf(m.node(product));
        Form turned;
        turned.alpha = f.alpha;
        for (size_t i = 0; i < 2; ++i) {
          turned.trans[i] = !f.trans[1 - i];
          turned.batch[i] = f.batch[1 - i];
        }
        return Fused(turned, {m[b], m[a]}, make);
      },
      .fires_on = {R"(graph g(x: f32[N,2,3,4], z: f32[4,5]) -> (y) {
             p = MatMul(x, z)  y = Transpose(p) {perm=[0,1,3,2]} })",
                   R"(graph g(x: f32[2,N,3,4], z: f32[N,3,5,4]) -> (y) {
             p = com.microsoft::FusedMatMul(x, z) {transBatchA=1, transB=1, alpha=0.5}
             y = Transpose(p) {perm=[0,1,3,2]} })"},
      .silent_on = {{R"(graph g(x: f32[N,2,3,4], z: f32[4,5]) -> (y) {
             p = MatMul(x, z)  y = Transpose(p) {perm=[0,2,1,3]} })",
                     "the last axes swapped"},
                    {R"(graph g(x: f32[2,3,4], z: f32[4]) -> (y) {
             p = MatMul(x, z)  y = Transpose(p) {perm=[1,0]} })",
                     "two known ranks"}},
  };
}

}  // namespace infer
