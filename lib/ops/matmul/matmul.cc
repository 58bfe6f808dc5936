/// MatMul and Gemm.
#include "lib/ops/matmul/matmul.h"

#include <algorithm>

#include "lib/ops/common.h"
#include "lib/ops/conv/conv_reference.h"
#include "lib/ops/decompositions.h"
#include "lib/ops/matmul/gemm_reference.h"
#include "lib/ops/move/move.h"
#include "lib/ops/move/permute.h"
#include "lib/ops/op_def.h"

namespace infer {
namespace {

constexpr TypeSet kMatMulTypes =
    kFloatsBF16 | TypeSet(DType::kI32, DType::kI64, DType::kU32, DType::kU64);

Shape BatchOf(const Shape& s) {
  return Shape(std::vector<Dim>(s.dims().begin(), s.dims().end() - 2));
}

/// Element offset of every batch of `output` in an operand with batch extents `own`, each `matrix`
/// elements large.
Dims BatchOffsets(const Dims& output, const Dims& own, int64_t matrix) {
  Dims offsets = {0};
  const size_t skip = output.size() - own.size();
  const Dims strides = Strides(own);
  for (size_t d = 0; d < output.size(); ++d) {
    const int64_t step = d < skip || own[d - skip] == 1 ? 0 : strides[d - skip] * matrix;
    Dims next;
    next.reserve(offsets.size() * static_cast<size_t>(output[d]));
    for (int64_t base : offsets)
      for (int64_t i = 0; i < output[d]; ++i) next.push_back(base + i * step);
    offsets = std::move(next);
  }
  return offsets;
}

/// Integer products wrap modulo 2^bits, as NumPy's do; u64 arithmetic gives that for every type.
template <typename T>
void MatMulIntegers(const MatMulGeometry& g, const Tensor& a, const Tensor& b, Tensor& y) {
  const T *pa = a.data<T>().data(), *pb = b.data<T>().data();
  T* py = y.mutable_data<T>().data();
  ParallelFor(g.num_batches() * g.m, 1, [&](int64_t begin, int64_t end) {
    std::vector<uint64_t> sums(static_cast<size_t>(g.n));
    for (int64_t r = begin; r < end; ++r) {
      const auto batch = static_cast<size_t>(r / g.m);
      const T* row = pa + g.a_offset[batch] + r % g.m * g.k;
      std::fill(sums.begin(), sums.end(), 0);
      for (int64_t k = 0; k < g.k; ++k) {
        const T* col = pb + g.b_offset[batch] + k * g.n;
        const auto av = static_cast<uint64_t>(row[k]);
        for (int64_t j = 0; j < g.n; ++j)
          sums[static_cast<size_t>(j)] += av * static_cast<uint64_t>(col[j]);
      }
      std::transform(sums.begin(), sums.end(), py + r * g.n,
                     [](uint64_t s) { return static_cast<T>(s); });
    }
  });
}

/// Calls f(T{}) for the integer types of MatMul; false for floats.
template <typename F>
bool DispatchWideInteger(DType t, F&& f) {
  switch (t) {
    case DType::kI32: f(int32_t{}); return true;
    case DType::kI64: f(int64_t{}); return true;
    case DType::kU32: f(uint32_t{}); return true;
    case DType::kU64: f(uint64_t{}); return true;
    default: return false;
  }
}

Status InferMatMul(OpCall& call) {
  INFER_ASSIGN(Shape y, MatMulShape(call.shape(0), call.shape(1)));
  call.SetOut(0, call.dtype(0), std::move(y));
  return {};
}

Status RunMatMul(OpRun& run) {
  const Tensor &a = run.in(0), &b = run.in(1);
  INFER_ASSIGN(const MatMulGeometry g, ReadMatMulGeometry(a.dims(), b.dims()));
  Tensor& y = run.Out(0, a.dtype(), g.output);
  const bool integer =
      DispatchWideInteger(a.dtype(), [&]<typename T>(T) { MatMulIntegers<T>(g, a, b, y); });
  if (!integer)
    MatMulReference(
        g, a, b, [&](int64_t batch, int64_t row, int64_t col, int64_t count, const double* sums) {
          StoreRounded(y, (batch * g.m + row) * g.n + col, count, sums);
        });
  return {};
}

Cost CostMatMul(const OpCall& call) {
  Cost c = TrafficOf(call);
  c.flops = MatMulFlops(call, 0, 1);
  return c;
}

/// The two extents of a Gemm operand after its transposition.
Result<std::pair<Dim, Dim>> GemmExtents(const OpCall& call, size_t i, std::string_view transpose) {
  const Shape& s = call.shape(i);
  if (!s.has_rank()) return std::pair(Dim(), Dim());
  if (s.rank() != 2) return InvalidModel(Cat("an operand is ", s.ToString(), ", wants rank 2"));
  return call.Int(transpose) != 0 ? std::pair(s[1], s[0]) : std::pair(s[0], s[1]);
}

Status InferGemm(OpCall& call) {
  INFER_ASSIGN(const auto a, GemmExtents(call, 0, "transA"));
  INFER_ASSIGN(const auto b, GemmExtents(call, 1, "transB"));
  INFER_TRY(Meet(a.second, b.first)
                .status()
                .In(Cat("A is ", call.shape(0).ToString(), ", B is ", call.shape(1).ToString())));
  const Shape y({a.first, b.second});
  if (call.has_input(2) && call.shape(2).has_rank() && call.shape(2).is_static() && y.is_static()) {
    const auto c = Broadcast(call.shape(2), y);
    if (!c.ok() || !(*c == y))
      return InvalidModel(
          Cat("C is ", call.shape(2).ToString(), ", which does not broadcast to ", y.ToString()));
  }
  call.SetOut(0, call.dtype(0), y);
  return {};
}

/// Strides of C seen as [m, n]; 0 along a broadcast axis.
std::pair<int64_t, int64_t> BiasStrides(const Tensor& c) {
  const int64_t n = c.rank() >= 1 ? c.dim(-1) : 1, m = c.rank() >= 2 ? c.dim(-2) : 1;
  return {m == 1 ? 0 : n, n == 1 ? 0 : 1};
}

Status RunGemm(OpRun& run) {
  const bool ta = run.Int("transA") != 0, tb = run.Int("transB") != 0;
  const Tensor a = run.in(0), b = run.in(1);
  const int64_t m = a.dim(ta ? 1 : 0), k = a.dim(ta ? 0 : 1), n = b.dim(tb ? 0 : 1);
  const double alpha = run.Float("alpha"), beta = run.Float("beta");
  const Tensor* c = run.in_or_null(2);
  const auto [c_row, c_col] = c ? BiasStrides(*c) : std::pair<int64_t, int64_t>();
  Tensor& y = run.Out(0, a.dtype(), {m, n});
  if (IsInteger(a.dtype())) {
    // alpha and beta are floats: exact for results below 2^53, which is all that can be asked.
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j) {
        uint64_t sum = 0;
        for (int64_t l = 0; l < k; ++l)
          sum += static_cast<uint64_t>(a.IntAt(ta ? l * m + i : i * k + l)) *
                 static_cast<uint64_t>(b.IntAt(tb ? j * k + l : l * n + j));
        const auto product = static_cast<int64_t>(sum);
        const int64_t bias = c ? c->IntAt(i * c_row + j * c_col) : 0;
        if (alpha == 1 && beta == 1)
          y.SetInt(i * n + j, static_cast<int64_t>(sum + static_cast<uint64_t>(bias)));
        else
          y.Set(i * n + j, alpha * static_cast<double>(product) + beta * static_cast<double>(bias));
      }
    return {};
  }
  const StoreRow store = [&](int64_t, int64_t row, int64_t col, int64_t count, const double* sums) {
    std::vector<double> v(sums, sums + count);
    for (int64_t j = 0; j < count; ++j) {
      double& s = v[static_cast<size_t>(j)];
      s *= alpha;
      if (c) s += beta * c->At(row * c_row + (col + j) * c_col);
    }
    StoreRounded(y, row * n + col, count, v.data());
  };
  const Tensor wa = Widen(a), wb = Widen(b);
  auto multiply = [&]<typename T>(T) {
    auto zero = [](int64_t) { return int64_t{0}; };
    GemmReference(1, m, n, k, PackStrided(wa.data<T>().data(), ta ? 1 : k, ta ? m : 1, zero),
                  PackStrided(wb.data<T>().data(), tb ? k : 1, tb ? 1 : n, zero), store);
  };
  wa.dtype() == DType::kF64 ? multiply(double{}) : multiply(float{});
  return {};
}

/// 2 m n k, one more per output for alpha != 1, one for C, one for beta != 1.
Cost CostGemm(const OpCall& call) {
  Cost c = TrafficOf(call);
  if (!call.in(0).is_static() || !call.out(0).is_static()) return c;
  const int64_t outputs = NumElements(call.out(0).shape.static_dims());
  const int64_t k = call.shape(0)[call.Int("transA") != 0 ? 0 : 1].value();
  c.flops = outputs * (2 * k + (call.Float("alpha") != 1) +
                       (call.has_input(2) ? 1 + (call.Float("beta") != 1) : 0));
  return c;
}

/// Opset 1 and 6 had `broadcast`; what it allowed, all later versions allow.
Status LiftGemm(NodeSpec node, int, LiftContext& out) {
  node.attrs.erase("broadcast");
  out.Emit(std::move(node));
  return {};
}

/// C may be absent since opset 11; before 7 it broadcast only where the node said so.
Result<NodeSpec> LowerGemm(NodeSpec node, int opset, LiftContext&) {
  if (opset < 11 && (node.inputs.size() < 3 || node.inputs[2].empty()))
    return Unsupported("Gemm without C needs opset 11");
  if (opset < 7) node.attrs["broadcast"] = int64_t{1};
  return node;
}

}  // namespace

/// Pre: not a scalar.
static Dims AsMatrices(Dims dims, bool is_row) {
  if (dims.size() == 1) dims.insert(is_row ? dims.begin() : dims.end(), 1);
  return dims;
}

Result<Shape> MatMulShape(const Shape& a, const Shape& b) {
  if ((a.has_rank() && a.rank() == 0) || (b.has_rank() && b.rank() == 0))
    return InvalidModel("a scalar cannot be multiplied as a matrix");
  if (!a.has_rank() || !b.has_rank()) return Shape();
  auto fail = [&](const Status&) {
    return InvalidModel(Cat(a.ToString(), " and ", b.ToString(), " cannot be multiplied"));
  };
  const Dim inner_b = b.rank() == 1 ? b[0] : b[-2];
  if (auto met = Meet(a[-1], inner_b); !met.ok()) return fail(met.status());
  auto batch = Broadcast(a.rank() == 1 ? Shape(Dims{}) : BatchOf(a),
                         b.rank() == 1 ? Shape(Dims{}) : BatchOf(b));
  if (!batch.ok()) return fail(batch.status());
  std::vector<Dim> out = batch->dims();
  if (a.rank() > 1) out.push_back(a[-2]);
  if (b.rank() > 1) out.push_back(b[-1]);
  return Shape(std::move(out));
}

Result<MatMulGeometry> ReadMatMulGeometry(const Dims& a, const Dims& b) {
  INFER_ASSIGN(const Shape out, MatMulShape(Shape(a), Shape(b)));
  const Dims wide_a = AsMatrices(a, true), wide_b = AsMatrices(b, false);
  MatMulGeometry g;
  g.output = out.static_dims();
  g.m = wide_a[wide_a.size() - 2];
  g.k = wide_a.back();
  g.n = wide_b.back();
  const Dims batch_a(wide_a.begin(), wide_a.end() - 2), batch_b(wide_b.begin(), wide_b.end() - 2);
  INFER_ASSIGN(g.batch, Broadcast(batch_a, batch_b));
  if (NumElements(g.output) == 0) return g;  // nothing to do, however many batches
  g.a_offset = BatchOffsets(g.batch, batch_a, g.m * g.k);
  g.b_offset = BatchOffsets(g.batch, batch_b, g.k * g.n);
  return g;
}

void MatMulReference(
    const MatMulGeometry& g, const Tensor& a, const Tensor& b,
    const std::function<void(int64_t, int64_t, int64_t, int64_t, const double*)>& store) {
  const Tensor wa = Widen(a), wb = Widen(b);
  auto multiply = [&]<typename T>(T) {
    GemmReference(g.num_batches(), g.m, g.n, g.k,
                  PackStrided(wa.data<T>().data(), g.k, 1,
                              [&](int64_t i) { return g.a_offset[static_cast<size_t>(i)]; }),
                  PackStrided(wb.data<T>().data(), 1, g.n,
                              [&](int64_t i) { return g.b_offset[static_cast<size_t>(i)]; }),
                  store);
  };
  wa.dtype() == DType::kF64 ? multiply(double{}) : multiply(float{});
}

int64_t MatMulFlops(const OpCall& call, size_t a, size_t b) {
  if (!call.in(a).is_static() || !call.in(b).is_static()) return 0;
  // Extents are what the model declares: nothing of their size is made, and no product wraps.
  const auto out = MatMulShape(call.shape(a), call.shape(b));
  if (!out.ok()) return 0;
  Dims factors = out->static_dims();
  factors.push_back(call.shape(a)[-1].value());
  factors.push_back(2);
  constexpr int64_t kMost = int64_t{1} << 56;
  return CheckedNumElements(factors).value_or(kMost);
}

namespace {

WeightLayout MatMulWeights(const OpCall&) { return {}; }

WeightLayout GemmWeights(const OpCall& call) {
  const bool turned = call.Int("transB") != 0;
  return {.data_axis = call.Int("transA") != 0 ? 0 : 1,
          .in_axis = turned ? 1 : 0,
          .out_axis = turned ? 0 : 1,
          .data_transposed = call.Int("transA") != 0,
          .has_bias = true,
          .alpha = call.Float("alpha"),
          .beta = call.Float("beta")};
}

void MatMulAxes(const OpCall& call, AxisLinks& links) {
  const Shape &a = call.shape(0), &b = call.shape(1), &y = call.out(0).shape;
  if (!a.has_rank() || !b.has_rank() || !y.has_rank()) return;
  LinkContracted(call, 0, a.rank() - 1, 1, std::max(b.rank() - 2, 0), links);
  if (b.rank() > 1) LinkSame(call, 1, b.rank() - 1, 0, y.rank() - 1, links);
  const int row = y.rank() - (b.rank() > 1 ? 2 : 1);
  if (a.rank() > 1) LinkSame(call, 0, a.rank() - 2, 0, row, links);
  const int batch = y.rank() - (a.rank() > 1) - (b.rank() > 1);  // axes
  for (int i = 1; i <= batch; ++i) {
    if (a.rank() - 2 - i >= 0) LinkSame(call, 0, a.rank() - 2 - i, 0, batch - i, links);
    if (b.rank() - 2 - i >= 0) LinkSame(call, 1, b.rank() - 2 - i, 0, batch - i, links);
  }
}

void GemmAxes(const OpCall& call, AxisLinks& links) {
  const int rows = call.Int("transA") != 0 ? 1 : 0, columns = call.Int("transB") != 0 ? 0 : 1;
  LinkSame(call, 0, rows, 0, 0, links);
  LinkContracted(call, 0, 1 - rows, 1, 1 - columns, links);
  LinkSame(call, 1, columns, 0, 1, links);
  LinkBroadcast(call, 2, links);
}

/// A product of few channels, the last axis, by a constant matrix, where they are axis 1 of the
/// other order: a convolution by windows of one element. Of many channels MatMul is the better
/// form, and the one that layers are looked for in.
PermuteResult PermuteMatMul(const OpCall& call, const Perm& perm, PermutedCall to) {
  constexpr int64_t kMostChannels = 32;
  const Tensor* const w = call.constant(1);
  const auto rank = static_cast<int64_t>(perm.size());
  if (!w || w->rank() != 2 || std::max(w->dim(0), w->dim(1)) > kMostChannels || rank < 3 ||
      rank > 5)
    return std::nullopt;
  if (w->num_elements() == 0 || (w->dtype() != DType::kF32 && w->dtype() != DType::kF16))
    return std::nullopt;
  for (int64_t i = 0; i < rank; ++i)
    if (perm[static_cast<size_t>(i)] != (i == 0 ? 0 : i + 1 == rank ? 1 : i + 1))
      return std::nullopt;
  Dims dims(static_cast<size_t>(rank), 1);
  dims[0] = w->dim(1);
  dims[1] = w->dim(0);
  to.replaced[1] = Transposed(*w, {1, 0}).Reshaped(dims);
  to.op = "Conv";
  return to;
}

}  // namespace

std::span<const OpDef> MatMulOps() {
  static const OpDef ops[] = {
      {
          .name = "MatMul",
          .doc = "Matrix product with NumPy's batch broadcasting.",
          .traits = Trait::kContraction,
          .axes = MatMulAxes,
          .permute = PermuteMatMul,
          .since = 1,
          .versions = {1, 9, 13},
          .inputs = {{"A", "T"}, {"B", "T"}},
          .outputs = {{"Y", "T"}},
          .constraints = {{"T", kMatMulTypes}},
          .infer = InferMatMul,
          .reference = RunMatMul,
          .cost = CostMatMul,
          .weights = MatMulWeights,
          .example = R"(graph g(x: f32[2,1,3,5]) -> (y) {
            w = const f32[4,5,7] ~1
            y = MatMul(x, w) })",
      },
      {
          .name = "Gemm",
          .doc = "alpha A' B' + beta C, where ' transposes as asked and C broadcasts.",
          .traits = Trait::kContraction,
          .axes = GemmAxes,
          .since = 11,
          .versions = {1, 6, 7, 9, 11, 13},
          .inputs = {{"A", "T"}, {"B", "T"}, {"C", "T", Arity::kOptional}},
          .outputs = {{"Y", "T"}},
          .attrs = {{"alpha", AttrKind::kFloat, 1.0f},
                    {"beta", AttrKind::kFloat, 1.0f},
                    {"transA", AttrKind::kInt, int64_t{0}},
                    {"transB", AttrKind::kInt, int64_t{0}}},
          .constraints = {{"T", kMatMulTypes}},
          .infer = InferGemm,
          .reference = RunGemm,
          .cost = CostGemm,
          .weights = GemmWeights,
          .lift = LiftGemm,
          .lower = LowerGemm,
          .decompose = DecomposeGemm,
          .example = R"(graph g(x: f32[3,5]) -> (y) {
            w = const f32[7,5] ~1
            c = const f32[7] ~2
            y = Gemm(x, w, c) {alpha=0.5, beta=2.0, transB=1} })",
      },
  };
  return ops;
}

}  // namespace infer
