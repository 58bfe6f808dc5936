/// MatMul and Gemm in f32, with a bias and what follows it in the same dispatch.
#include "lib/ops/matmul/matmul.h"

#include <algorithm>

#include "lib/ir/roles.h"
#include "lib/support/strings.h"
#include "runtime/vulkan/kernels/functions.h"
#include "runtime/vulkan/kernels/kernels.h"
#include "runtime/vulkan/kernels/product.h"

namespace infer::vulkan {
namespace {

/// From here on sums are made of parts.
constexpr int64_t kLongProduct = 1024;

std::string RefuseMatMul(const StepCall& call, const DeviceFacts&) {
  if (std::string r = RefuseUnlessAllF32(call); !r.empty()) return r;
  const auto tail = TailOf(call, !call.main().input(2));
  return tail.ok() ? "" : tail.status().message();
}

class MatMulKernel final : public Kernel {
 public:
  MatMulKernel(const StepCall& call, Facts facts)
      : node_(call.main()),
        facts_(std::move(facts)),
        a_(call.operand(node_.input(0))),
        b_(call.operand(node_.input(1))),
        c_(call.operand(node_.input(2))),
        tail_(*TailOf(call, c_ < 0)) {}

  Result<Prepared> Prepare(std::span<const Operand> in,
                           std::span<const Operand> out) const override {
    if (!NoneEmpty(in, out)) return Unsupported("an operand is empty");
    const Dims &a = in[static_cast<size_t>(a_)].dims, &b = in[static_cast<size_t>(b_)].dims;
    INFER_ASSIGN(Product p, ProductOf(node_, a, b));
    if (p.batches() * p.m * p.n != NumElements(out[0].dims)) return Unsupported("extents");
    const int bias = c_ >= 0 ? c_ : tail_.bias;
    if (bias >= 0) {
      Dims dims = in[static_cast<size_t>(bias)].dims;
      while (dims.size() < 2) dims.insert(dims.begin(), 1);
      if (dims.size() > 2) return Unsupported("C has more than two axes");
      p.bias_row = dims[0] == 1 ? 0 : dims[1];
      p.bias_column = dims[1] == 1 ? 0 : 1;
    }
    if (tail_.residual >= 0 && in[static_cast<size_t>(tail_.residual)].dims != out[0].dims)
      return Unsupported("the residual broadcasts");
    return Add(p, bias, in, out);
  }

 private:
  Result<Prepared> Add(const Product& p, int bias, std::span<const Operand> in,
                       std::span<const Operand> out) const {
    // B lies row by row: of k, or of n where it is transposed.
    const bool along_k = p.b_column == 1;
    const int64_t rows = along_k ? p.k : p.n, row_bytes = (along_k ? p.n : p.k) * 4;
    int64_t per_part = rows;
    if (p.b_batch == Dims{0, 0}) {
      INFER_ASSIGN(per_part, RowsOfAPart(*facts_, rows, {row_bytes}));
    }
    LaunchBuilder b(facts_, in, out);
    std::string name;
    for (int64_t begin = 0; begin < rows; begin += per_part) {
      Part part{.p = p, .bytes_at = begin * row_bytes, .y_columns = p.n};
      const int64_t count = std::min(per_part, rows - begin);
      part.bytes = count == rows ? -1 : count * row_bytes;
      (along_k ? part.p.k : part.p.n) = count;
      if (along_k && count < rows) part.place = begin == 0 ? 1 : begin + count < rows ? 2 : 3;
      (along_k ? part.a_first : part.first_column) = begin * (along_k ? p.a_column : 1);
      name = AddPart(part, bias, b);
    }
    return b.Finish(Cat(name, per_part < rows ? "_parts" : ""));
  }

  /// What a dispatch sees of B: a part where no buffer holds it.
  struct Part {
    Product p;  ///< its extents
    int64_t bytes_at = 0, bytes = -1;
    int64_t a_first = 0, y_columns = 0, first_column = 0;
    int32_t place = 0;  ///< PART of shaders/matmul.comp
    bool whole() const { return bytes < 0; }
  };

  /// The shader's name.
  std::string AddPart(const Part& part, int bias, LaunchBuilder& b) const {
    const Product& p = part.p;
    std::vector<int32_t> constants = tail_.Constants();
    constants.push_back(bias >= 0);
    const bool few = p.m <= 4;
    const bool rows = few && p.b_column != 1;  // a column of B lies together
    Tiling t = TilingOf(*facts_, p.m, p.n, p.k, p.batches(), part.whole(), 128);
    if (few) {
      t = {};
      t.tiles_m = p.m;
      t.tiles_n = rows ? p.n : (p.n + 63) / 64;
    }
    b.Iterations(few ? (rows ? p.k / 64 : p.k + p.k / 256) + kFewRounds
                     : TileRounds(t.tile, t.k_part));
    Push push;
    push.U(p.m).U(p.n).U(p.k).U(t.tiles_m).U(t.tiles_n);
    push.U(p.a_row).U(p.a_column).U(p.b_row).U(p.b_column);
    push.List(p.batch, 2, 1).List(p.a_batch, 2, 0).List(p.b_batch, 2, 0);
    push.U(p.bias_row).U(p.bias_column).F(p.alpha).F(p.beta);
    if (!few) push.U(t.k_part);
    push.U(part.a_first).U(part.y_columns).U(part.first_column);
    tail_.Add(push);
    const std::string shader = few ? "gemv" : Cat("matmul", t.suffix());
    const auto c = b.ReadOr(bias, a_), residual = b.ReadOr(tail_.residual, a_);
    const bool split = t.parts > 1;
    const LaunchBuilder::Split sums{.tiling = t,
                                    .batches = p.batches(),
                                    .m = p.m,
                                    .n = p.n,
                                    .bias_row = p.bias_row,
                                    .bias_column = p.bias_column,
                                    .alpha = p.alpha,
                                    .beta = p.beta};
    std::vector<int32_t> own = constants;
    own.push_back(few ? rows : t.k_part > kLongProduct);
    if (!few) own.push_back(split);
    own.push_back(part.place);
    b.Dispatch(shader, own,
               {b.Read(a_), b.Part(b.Read(b_), part.bytes_at, part.bytes), c, residual,
                split ? b.Scratch(sums.bytes()) : b.Write()},
               push, p.batches() * t.groups());
    if (split) b.Finish(sums, constants, c, residual, [&](Push& end) { tail_.Add(end); });
    return Cat(shader, split ? "_split" : "");
  }

  const Node& node_;
  Facts facts_;
  int a_, b_, c_;
  Tail tail_;
};

std::unique_ptr<Kernel> MakeMatMul(const StepCall& call, const Facts& facts) {
  return std::make_unique<MatMulKernel>(call, facts);
}

}  // namespace

KernelList MatMulKernels(const Facts& facts) {
  return {Def(facts, "MatMul", "", "matmul", RefuseMatMul, MakeMatMul),
          Def(facts, "Gemm", "", "matmul", RefuseMatMul, MakeMatMul)};
}

}  // namespace infer::vulkan
