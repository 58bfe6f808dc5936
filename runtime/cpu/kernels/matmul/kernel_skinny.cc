/// MatMul and Gemm of few columns, or of few terms, which products in blocks of 16 columns and
/// terms mostly multiply with padding: few columns by sums along the terms, few terms by adding
/// multiples of the rows of B.
#include <algorithm>

#include "lib/support/strings.h"
#include "runtime/cpu/kernels/common/appended.h"
#include "runtime/cpu/kernels/common/kernels.h"
#include "runtime/cpu/kernels/common/packed.h"
#include "runtime/cpu/kernels/matmul/matmul_parts.h"
#include "runtime/cpu/launch/launch.h"
#include "runtime/cpu/simd/skinny.h"

namespace infer {
namespace {

/// Columns or terms at most; the least terms that few columns are worth it for, and the least
/// columns for few terms.
constexpr int64_t kSkinny = 7, kLeastTerms = 4, kLeastColumns = 16;
/// Results of two operands that are no constants, at most.
constexpr int64_t kMostOfRun = int64_t{1} << 16;
/// Columns of B that are walked at once: with kSkinny rows of them, and 8 of y, in L1.
constexpr int64_t kColumnsAtOnce = 512;

/// y [batch, rows, columns] = epilogue(a [batch, rows, depth] b + bias); b of each batch lies
/// b_step floats after the one before.
struct SkinnyProduct {
  const simd::Skinny* loop = nullptr;
  Appended appended;
  int64_t batch = 1, rows = 1, depth = 1, columns = 1, b_step = 0;

  bool few_columns() const { return columns <= kSkinny; }
  int64_t packed_floats() const { return columns * loop->PaddedDepth(depth); }
  /// b[k][n] at from[k * k_step + n * n_step], as Run() wants it.
  void Pack(const float* from, int64_t k_step, int64_t n_step, float* to) const {
    if (few_columns()) {
      for (int64_t n = 0; n < columns; ++n)
        loop->PackDots(from + n * n_step, k_step, depth, to + n * loop->PaddedDepth(depth));
    } else {
      for (int64_t k = 0; k < depth; ++k)
        for (int64_t n = 0; n < columns; ++n) to[k * columns + n] = from[k * k_step + n * n_step];
    }
  }

  void Run(const float* a, const float* b, const float* bias, float* y) const {
    const int64_t work = depth * columns;
    ForRange(batch * rows, std::max<int64_t>(loop->together, 65536 / work),
             [&](int64_t begin, int64_t end) {
               // Matrix by matrix.
               for (int64_t r = begin; r < end;) {
                 const int64_t image = r / rows, n = std::min(end, (image + 1) * rows) - r;
                 const float* const of = b + image * b_step;
                 few_columns() ? Dots(a + r * depth, of, bias, y + r * columns, n)
                               : Multiples(a + r * depth, of, bias, y + r * columns, n);
                 r += n;
               }
             });
  }

 private:
  void Dots(const float* a, const float* b, const float* bias, float* y, int64_t n) const {
    const int64_t zero = 0;
    simd::DotsCall d;
    d.x = a;
    d.x_step = depth;
    d.x_at = d.w_at = &zero;
    d.taps = 1;
    d.depth = depth;
    d.w = b;
    d.w_out = loop->PaddedDepth(depth);
    d.outputs = columns;
    d.y = y;
    d.y_step = columns;
    d.points = n;
    d.start = bias;
    d.add = appended.residual >= 0;
    loop->dots(d);
    if (appended.function) appended.Apply(y, n * columns);
  }

  void Multiples(const float* a, const float* b, const float* bias, float* y, int64_t n) const {
    int64_t at[kSkinny];
    for (int64_t k = 0; k < depth; ++k) at[k] = k * columns;
    simd::PointsCall d;
    d.x_at = at;
    d.taps = depth;
    d.w_out = depth;
    d.y_stride = columns;
    d.add = appended.residual >= 0;
    for (int64_t r = 0; r < n; r += loop->together) {
      d.outputs = std::min(loop->together, n - r);
      d.w = a + r * depth;
      for (int64_t c = 0; c < columns; c += kColumnsAtOnce) {
        d.points = std::min(kColumnsAtOnce, columns - c);
        d.x = b + c;
        d.y = y + r * columns + c;
        d.along = bias ? bias + c : nullptr;
        loop->points(d);
      }
      if (appended.function) appended.Apply(y + r * columns, d.outputs * columns);
    }
  }
};

std::string RefuseSkinny(const StepCall& call) {
  if (std::string r = RefuseMatMul(call); !r.empty()) return r;
  const MatMulParts p(call);
  if (p.trans_a) return "A is transposed";
  const auto appended = Appended::Of(call, p.epilogue);
  if (!appended.ok()) return appended.status().message();
  return appended->residual_last ? "the residual follows the activation" : "";
}

class SkinnyKernel final : public Kernel {
 public:
  explicit SkinnyKernel(const StepCall& call)
      : p_(call), appended_(*Appended::Of(call, p_.epilogue)) {
    p_.TakeWeights(call);
  }

  bool packs(int operand) const override { return p_.packs(operand); }

  Result<Prepared> Prepare(std::span<const Operand> in,
                           std::span<const Operand> out) const override {
    if (!NoneEmpty(in, out)) return Unsupported("an operand is empty");
    INFER_ASSIGN(const SkinnyProduct product, Shapes(in, out[0].dims));
    if (p_.bias >= 0) {
      const Dims& bias = in[static_cast<size_t>(p_.bias)].dims;
      if (NumElements(bias) != product.columns || bias.back() != product.columns)
        return Unsupported("the bias is broadcast");
    }
    return Bind(in, product);
  }

 private:
  Result<SkinnyProduct> Shapes(std::span<const Operand> in, const Dims& y) const {
    const Dims& a = in[static_cast<size_t>(p_.a)].dims;
    const Dims& b = in[static_cast<size_t>(p_.b)].dims;
    if (p_.a == p_.b || a.size() < 2 || b.size() < 2) return Unsupported("operands");
    if (appended_.residual >= 0 && in[static_cast<size_t>(appended_.residual)].dims != y)
      return Unsupported("the residual is broadcast");
    SkinnyProduct s{&simd::TheSkinny(), appended_};
    s.depth = a.back();
    s.columns = b[b.size() - (p_.trans_b ? 2 : 1)];
    s.rows = NumElements(a) / s.depth;
    if (b.size() > 2) {
      if (a.size() != b.size() || !std::equal(a.begin(), a.end() - 2, b.begin()))
        return Unsupported("batches are broadcast");
      s.rows = a[a.size() - 2];
      s.batch = NumElements(a) / s.depth / s.rows;
    }
    const bool skinny = (s.columns <= kSkinny && s.depth >= kLeastTerms) ||
                        (s.depth <= kSkinny && s.columns >= kLeastColumns);
    if (!skinny || s.rows < 2) return Unsupported("neither few columns nor few terms");
    // A product of two operands that are made in the run is bound by memory where the result leaves
    // L2, and oneDNN's writes it faster (0.8 of the time for 12 x 256 x 256).
    if (!p_.weights && !s.few_columns() && NumElements(y) > kMostOfRun)
      return Unsupported("few terms and a large result");
    return s;
  }

  Result<Prepared> Bind(std::span<const Operand> in, SkinnyProduct product) const {
    Prepared p;
    p.name = Cat("own:skinny:", product.loop->isa);
    p.unused.assign(in.size(), false);
    p.accumulate = appended_.residual;
    const Tensor bias = p_.bias_constant;
    if (bias.defined()) p.unused[static_cast<size_t>(p_.bias)] = true;
    // Packed once, while it runs, or not at all.
    std::shared_ptr<const Buffer> weights;
    const int64_t k_step = p_.trans_b ? 1 : product.columns;
    const int64_t n_step = p_.trans_b ? product.depth : 1;
    const int64_t matrix = product.depth * product.columns;
    const int64_t packed = product.few_columns() ? product.packed_floats() : matrix;
    const bool as_is = !product.few_columns() && n_step == 1;
    if (p_.weights) {
      INFER_ASSIGN(weights, Packed(product, k_step, n_step, packed));
      p.unused[static_cast<size_t>(p_.b)] = true;
      p.weight_bytes = static_cast<int64_t>(weights->size());
      product.b_step = product.batch > 1 ? packed : 0;
    } else {
      product.b_step = product.batch > 1 ? packed : 0;
      if (!as_is) p.scratch_bytes = product.batch * packed * 4;
    }
    const int64_t matrices = product.batch;
    const int a = p_.a, b = p_.b, c = p_.bias;
    const size_t y = in.size();
    p.launch = LaunchOf([=](std::byte* const* args) {
      const auto at = [args](int i) { return As<float>(static_cast<const std::byte*>(args[i])); };
      const float* w = weights ? As<float>(weights->data()) : at(b);
      if (!weights && !as_is) {
        float* const scratch = As<float>(args[y + 1]);
        for (int64_t i = 0; i < matrices; ++i)
          product.Pack(w + i * matrix, k_step, n_step, scratch + i * packed);
        w = scratch;
      }
      const float* const row = bias.defined() ? bias.data<float>().data()
                               : c >= 0       ? at(c)
                                              : nullptr;
      product.Run(at(a), w, row, As<float>(args[y]));
    });
    return p;
  }

  Result<WeightSource::Form> Packed(const SkinnyProduct& product, int64_t k_step, int64_t n_step,
                                    int64_t floats) const {
    const std::string key = Cat("skinny:", product.few_columns() ? "columns" : "terms", ",",
                                product.batch, ",", k_step, ",", n_step);
    return p_.weights->Get(key, [&](const Tensor& from) -> Result<WeightSource::Form> {
      auto buffer = Buffer::Allocate(static_cast<size_t>(product.batch * floats) * sizeof(float));
      const int64_t matrix = product.depth * product.columns;
      for (int64_t i = 0; i < product.batch; ++i)
        product.Pack(from.data<float>().data() + i * matrix, k_step, n_step,
                     As<float>(buffer->mutable_data()) + i * floats);
      return WeightSource::Form(std::move(buffer));
    });
  }

  MatMulParts p_;
  Appended appended_;
};

std::unique_ptr<Kernel> MakeSkinny(const StepCall& call) {
  return std::make_unique<SkinnyKernel>(call);
}

}  // namespace

KernelList SkinnyKernels() {
  return {{"MatMul", "", "skinny", RefuseSkinny, MakeSkinny},
          {"Gemm", "", "skinny", RefuseSkinny, MakeSkinny}};
}

}  // namespace infer
