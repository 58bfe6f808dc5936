/// Compute::kF16: MatMul, Gemm and Conv whose operands are rounded to f16. One dispatch for each
/// operand writes it in f16 (halve.comp; constant weights once, while compiling), another
/// multiplies (half.comp), with bias and what follows.
#include <algorithm>
#include <bit>
#include <mutex>

#include "lib/ir/roles.h"
#include "lib/ops/conv/conv_geometry.h"
#include "lib/support/strings.h"
#include "lib/tensor/float_types.h"
#include "runtime/vulkan/kernels/functions.h"
#include "runtime/vulkan/kernels/kernels.h"
#include "runtime/vulkan/kernels/product.h"

namespace infer::vulkan {
namespace {

/// Rows in f16 are multiples of it; so is a part of a split product.
constexpr int64_t kStep = 32;
/// Smaller products gain nothing: operands are written once more.
constexpr int64_t kFewest = 16, kShortest = 32;
/// Of images: fewer channels would be mostly zeros behind them.
constexpr int64_t kFewestChannels = 16;
/// Strides and dilations share a word in the shaders.
constexpr int64_t kMostHalfStep = 0x7fff;
/// Bytes of a number, and numbers of a word of halve.comp.
constexpr int64_t kBytes = 2, kWord = 8;

int64_t RoundUp(int64_t a, int64_t b) { return (a + b - 1) / b * b; }
int64_t Pieces(int64_t a, int64_t b) { return (a + b - 1) / b; }
/// A workgroup of half.comp: 256 stands for 256 x 128.
struct HalfTile {
  int64_t rows, columns, invocations;
  int64_t shared_bytes;  ///< of operands, or of results on their way to memory
  bool matrix_only;
};
constexpr HalfTile kHalfTiles[] = {
    {256, 128, 512, 36864, true}, {128, 128, 256, 20480, false}, {64, 64, 128, 20480, false}};
constexpr const HalfTile& kSmallestTile = kHalfTiles[2];

std::string RefuseHalf(const StepCall& call, const DeviceFacts& facts) {
  if (call.options.compute != Compute::kF16) return "not asked for";
  if (std::string r = RefuseUnlessAllF32(call); !r.empty()) return r;
  if (facts.shared_bytes < kSmallestTile.shared_bytes ||
      facts.max_invocations < kSmallestTile.invocations)
    return "workgroups of this device are too small";
  const bool conv = IsConvolution(call.main());
  if (conv && !call.constant(call.main().input(1))) return "its weights are computed";
  const auto tail = TailOf(call, !conv && !call.main().input(2));
  return tail.ok() ? "" : tail.status().message();
}

/// Rows [count, rows, length] of f16, `length` a multiple of kStep, as half.comp reads them.
struct Rows {
  int64_t count = 1, rows = 1, length = kStep;
  int64_t bytes() const { return count * rows * length * kBytes; }
};

class HalfProduct final : public Kernel {
 public:
  HalfProduct(const StepCall& call, Facts facts)
      : node_(call.main()),
        facts_(std::move(facts)),
        conv_(IsConvolution(node_)),
        operands_{call.operand(node_.input(0)), call.operand(node_.input(1))},
        c_(call.operand(node_.input(2))),
        tail_(*TailOf(call, !conv_ && c_ < 0)) {
    if (const Tensor* w = call.constant(node_.input(1))) weights_ = *w;
  }

  Result<Prepared> Prepare(std::span<const Operand> in,
                           std::span<const Operand> out) const override {
    if (!NoneEmpty(in, out)) return Unsupported("an operand is empty");
    if (tail_.residual >= 0 && in[static_cast<size_t>(tail_.residual)].dims != out[0].dims)
      return Unsupported("the residual broadcasts");
    return conv_ ? OfImages(in, out) : OfMatrices(in, out);
  }

 private:
  /// A product as half.comp takes it, but for what its kind adds to the push constants.
  struct Job {
    int64_t m = 1, n = 1, k = kStep;
    Dims batch = {1, 1}, a_batch = {0, 0}, b_batch = {0, 0};  ///< strides in numbers
    int64_t bias_row = 0, bias_column = 0;
    float alpha = 1, beta = 1;
    int bias = -1;
    int64_t batches() const { return batch[0] * batch[1]; }
  };

  static Status CheckSize(int64_t m, int64_t n, int64_t k) {
    if (m < kFewest || n < kFewest || k < kShortest)
      return Unsupported(Cat(m, " x ", k, " by ", k, " x ", n, ": too small to gain by f16"));
    return {};
  }

  Result<Prepared> OfMatrices(std::span<const Operand> in, std::span<const Operand> out) const {
    const Dims &a = in[static_cast<size_t>(operands_[0])].dims,
               &b = in[static_cast<size_t>(operands_[1])].dims;
    INFER_ASSIGN(const Product p, ProductOf(node_, a, b));
    INFER_TRY(CheckSize(p.m, p.n, p.k));
    if (p.batches() * p.m * p.n != NumElements(out[0].dims)) return Unsupported("extents");
    Job job{.m = p.m, .n = p.n, .k = RoundUp(p.k, kStep), .batch = p.batch};
    job.alpha = p.alpha;
    job.beta = p.beta;
    job.bias = c_ >= 0 ? c_ : tail_.bias;
    if (job.bias >= 0) {
      Dims dims = in[static_cast<size_t>(job.bias)].dims;
      while (dims.size() < 2) dims.insert(dims.begin(), 1);
      if (dims.size() > 2) return Unsupported("C has more than two axes");
      job.bias_row = dims[0] == 1 ? 0 : dims[1];
      job.bias_column = dims[1] == 1 ? 0 : 1;
    }
    const Rows rows_a = RowsOf(p.batch, p.a_batch, p.m, job.k, job.a_batch),
               rows_b = RowsOf(p.batch, p.b_batch, p.n, job.k, job.b_batch);
    const bool kept = weights_.defined() && p.b_batch == Dims{0, 0};
    LaunchBuilder builder(facts_, in, out);
    const Tiling t = TilesOf(job);
    const Places places = ReservePlaces(job, t, rows_a, kept ? Rows{.count = 0} : rows_b, builder);
    Halve(Matrices{p.batch, p.a_batch, p.a_row, p.a_column, p.k}, operands_[0], rows_a, places.a,
          builder);
    LaunchBuilder::Arg b_arg = places.b;
    if (kept) {
      INFER_ASSIGN(const auto weights, Weights(p.n, p.k, p.b_row, p.b_column));
      b_arg = builder.Kept(weights);
    } else {
      Halve(Matrices{p.batch, p.b_batch, p.b_column, p.b_row, p.k}, operands_[1], rows_b, places.b,
            builder);
    }
    return Multiply(job, t, places.a, b_arg, places, {}, builder);
  }

  Result<Prepared> OfImages(std::span<const Operand> in, std::span<const Operand> out) const {
    if (IsTransposedConvolution(node_)) return Unsupported("transposed convolutions stay in f32");
    INFER_ASSIGN(const ConvGeometry g, ReadConvGeometry(node_.def(), node_.attrs(),
                                                        in[static_cast<size_t>(operands_[0])].dims,
                                                        weights_.dims(), false));
    if (g.groups > 1) return Unsupported("groups stay in f32");
    if (g.window.rank() > 2) return Unsupported("more than two axes");
    if (g.in_channels < kFewestChannels) return Unsupported("few channels");
    for (const WindowAxis& a : g.window.axes)
      if (a.stride > kMostHalfStep || a.dilation > kMostHalfStep)
        return Unsupported("so large a step");
    // One axis stands as the width.
    const bool flat = g.window.rank() == 1;
    const WindowAxis none, &h = flat ? none : g.window.axes[0], &w = g.window.axes.back();
    const int64_t in_h = flat ? 1 : g.input[0], in_w = g.input.back();
    const int64_t out_h = flat ? 1 : g.output[0], out_w = g.output.back();
    const int64_t pixels = out_h * out_w, channels = RoundUp(g.in_channels, kStep);
    INFER_TRY(CheckSize(g.out_channels, g.batch * pixels, g.in_channels * g.kernel_size()));
    const auto padded = [](const WindowAxis& a, int64_t from, int64_t to) {
      return std::max(from + a.pad_begin, (to - 1) * a.stride + (a.kernel - 1) * a.dilation + 1);
    };
    const int64_t padded_h = padded(h, in_h, out_h), padded_w = padded(w, in_w, out_w);
    Job job{.m = g.out_channels, .n = g.batch * pixels, .k = g.kernel_size() * channels};
    job.bias = c_;
    job.bias_row = 1;
    const Rows rows{g.batch, padded_h * padded_w, channels};
    LaunchBuilder builder(facts_, in, out);
    const Tiling t = TilesOf(job);
    const Places places = ReservePlaces(job, t, {.count = 0}, rows, builder);
    Push halve;
    halve.U(rows.bytes() / kBytes / kWord).U(rows.rows).U(g.in_channels).U(channels / kWord);
    halve.U(0).U(in_h * in_w).U(1).U(g.batch).U(0).U(g.in_channels * in_h * in_w);
    halve.U(padded_w).U(in_h).U(in_w).U(h.pad_begin).U(w.pad_begin);
    builder.DispatchElements("halve", {1, 1}, {LaunchBuilder::Read(operands_[0]), places.b}, halve,
                             rows.bytes() / kBytes / kWord, 64);
    INFER_ASSIGN(const auto weights, WeightsByTap(g, channels));
    const Dims more = {pixels,
                       out_w,
                       h.stride | w.stride << 16,
                       h.dilation | w.dilation << 16,
                       padded_h,
                       padded_w,
                       channels,
                       w.kernel};
    const int64_t n = pixels;
    Sums sums{.batches = g.batch, .m = job.m, .n = n};
    return Multiply(job, t, builder.Kept(weights), places.b, places, {more, sums}, builder);
  }

  /// Of an operand of a product: a matrix for each of the batch that is its own. `strides` become
  /// those of half.comp, in numbers.
  static Rows RowsOf(const Dims& batch, const Dims& given, int64_t rows, int64_t length,
                     Dims& strides) {
    const int64_t outer = given[0] != 0 ? batch[0] : 1, inner = given[1] != 0 ? batch[1] : 1;
    strides = {given[0] != 0 ? inner * rows * length : 0, given[1] != 0 ? rows * length : 0};
    return {outer * inner, rows, length};
  }

  /// The largest tile of which there are enough: for a third (256 x 128) or half of the workgroups
  /// that keep the device busy.
  Tiling TilesOf(const Job& job) const {
    constexpr int64_t kShortestPart = 128, kMostParts = 32;
    Tiling t;
    for (const HalfTile& tile : kHalfTiles) {
      t.tile = tile.rows;
      t.tiles_m = Pieces(job.m, tile.rows);
      t.tiles_n = Pieces(job.n, tile.columns);
      const bool fits =
          facts_->busy_groups > 1 && facts_->shared_bytes >= tile.shared_bytes &&
          facts_->max_invocations >= tile.invocations &&
          (facts_->matrix || (!tile.matrix_only && Rounds(t, job.k) <= facts_->max_iterations));
      const int64_t groups = t.tiles_m * t.tiles_n * job.batches();
      const bool filled = 2 * job.m > tile.rows && 2 * job.n > tile.columns;
      const bool enough = filled && (tile.rows == 256 ? 3 : 2) * groups >= facts_->busy_groups;
      if (fits && (facts_->tile != 0 ? tile.rows == facts_->tile : enough)) break;
    }
    const int64_t parts = std::min({facts_->busy_groups / (t.tiles_m * t.tiles_n * job.batches()),
                                    job.k / kShortestPart, kMostParts});
    t.k_part = parts < 2 ? job.k : RoundUp(Pieces(job.k, parts), kStep);
    t.parts = Pieces(job.k, t.k_part);
    return t;
  }
  /// Of all loops of half.comp along `k`, where nothing is unrolled and there are no matrices.
  static int64_t Rounds(const Tiling& t, int64_t k) {
    return (Pieces(k, kStep) + 8) * (t.tile == 64 ? 1000 : 1600);
  }

  /// Where scratch memory holds what: the sums of a split product, which finish.comp reads from its
  /// beginning, then the operands.
  struct Places {
    LaunchBuilder::Arg sums, a, b;
  };
  static Places ReservePlaces(const Job& job, const Tiling& t, const Rows& a, const Rows& b,
                              LaunchBuilder& builder) {
    constexpr int64_t kAlignment = 256;
    const int64_t sums =
        t.parts > 1 ? RoundUp(t.parts * job.batches() * job.m * job.n * 4, kAlignment) : 0;
    const int64_t a_bytes = RoundUp(a.bytes(), kAlignment);
    const LaunchBuilder::Arg all = builder.Scratch(sums + a_bytes + b.bytes());
    return {LaunchBuilder::Part(all, 0, sums), LaunchBuilder::Part(all, sums, a.bytes()),
            LaunchBuilder::Part(all, sums + a_bytes, b.bytes())};
  }

  /// How an operand lies in memory, in elements.
  struct Matrices {
    Dims batch, batch_stride;
    int64_t row_stride, k_stride, k;
  };
  static void Halve(const Matrices& m, int operand, const Rows& rows, const LaunchBuilder::Arg& to,
                    LaunchBuilder& builder) {
    const int64_t words = rows.bytes() / kBytes / kWord;
    Push push;
    push.U(words).U(rows.rows).U(m.k).U(rows.length / kWord).U(m.row_stride).U(m.k_stride);
    for (size_t d : {0, 1}) push.U(m.batch_stride[d] != 0 ? m.batch[d] : 1);
    push.List(m.batch_stride, 2, 0).U(1).U(1).U(1).U(0).U(0);
    builder.DispatchElements("halve", {0, m.k_stride != 1}, {LaunchBuilder::Read(operand), to},
                             push, words, 64);
  }

  /// How the sums of a split product lie, for finish.comp.
  struct Sums {
    int64_t batches = 0, m = 0, n = 0;
  };
  struct Kind {
    Dims more = {};  ///< of images: what half.comp's block has of them
    std::optional<Sums> sums = std::nullopt;
  };
  Result<Prepared> Multiply(const Job& job, const Tiling& t, LaunchBuilder::Arg a,
                            LaunchBuilder::Arg b, const Places& places, const Kind& kind,
                            LaunchBuilder& builder) const {
    if (!facts_->matrix) builder.Iterations(Rounds(t, t.k_part));
    a.written = b.written = false;
    Push push;
    push.U(job.m).U(job.n).U(job.k).U(t.tiles_m).U(t.tiles_n).List(job.batch, 2, 1);
    for (const Dims* strides : {&job.a_batch, &job.b_batch})
      for (int64_t s : *strides) push.U(s / kWord);
    push.U(t.k_part).U(job.bias_row).U(job.bias_column).F(job.alpha).F(job.beta);
    push.List(kind.more, 8, 0);
    tail_.Add(push);
    std::vector<int32_t> constants = tail_.Constants();
    constants.push_back(job.bias >= 0);
    std::vector<int32_t> own = constants;
    const bool split = t.parts > 1;
    own.push_back(split);
    const int any = operands_[0];
    const auto c = LaunchBuilder::ReadOr(job.bias, any),
               residual = LaunchBuilder::ReadOr(tail_.residual, any);
    const std::string shader = Cat(conv_ ? "half_conv" : "half", t.tile, facts_->matrix ? "m" : "");
    builder.Dispatch(shader, own, {a, b, c, residual, split ? places.sums : builder.Write()}, push,
                     job.batches() * t.groups());
    if (split) {
      const Sums s = kind.sums.value_or(Sums{job.batches(), job.m, job.n});
      builder.Finish({.tiling = t,
                      .batches = s.batches,
                      .m = s.m,
                      .n = s.n,
                      .bias_row = job.bias_row,
                      .bias_column = job.bias_column,
                      .alpha = job.alpha,
                      .beta = job.beta},
                     constants, c, residual, [&](Push& end) { tail_.Add(end); });
    }
    INFER_ASSIGN(Prepared p, builder.Finish(Cat(shader, split ? "_split" : "")));
    p.precision = facts_->matrix ? "f16" : "f16, rounded";
    if (packed_) p.weight_bytes = packed_->bytes();
    return p;
  }

  /// `rows` x `length` numbers that `at` finds in the weights, in f16 on the device; made once.
  template <typename At>
  Result<std::shared_ptr<Memory>> Pack(int64_t rows, int64_t length, int64_t k,
                                       const At& at) const {
    const std::lock_guard lock(mutex_);
    if (packed_) return packed_;
    const auto from = weights_.data<float>();
    std::vector<uint16_t> packed(static_cast<size_t>(rows * length), 0);
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t i = 0; i < k; ++i)
        if (const int64_t source = at(r, i); source >= 0)
          packed[static_cast<size_t>(r * length + i)] =
              FloatToF16(from[static_cast<size_t>(source)]);
    INFER_ASSIGN(packed_, OnDevice(facts_->parts, packed.data(), packed.size() * kBytes));
    return packed_;
  }
  Result<std::shared_ptr<Memory>> Weights(int64_t n, int64_t k, int64_t row, int64_t column) const {
    return Pack(n, RoundUp(k, kStep), k,
                [&](int64_t r, int64_t i) { return i * row + r * column; });
  }
  /// [out][tap][channel].
  Result<std::shared_ptr<Memory>> WeightsByTap(const ConvGeometry& g, int64_t channels) const {
    const int64_t taps = g.kernel_size(), length = taps * channels;
    return Pack(g.out_channels, length, length, [&](int64_t r, int64_t i) {
      const int64_t tap = i / channels, c = i % channels;
      return c < g.in_channels ? (r * g.in_channels + c) * taps + tap : -1;
    });
  }

  const Node& node_;
  Facts facts_;
  bool conv_;
  int operands_[2];
  int c_;
  Tail tail_;
  Tensor weights_;
  mutable std::mutex mutex_;
  mutable std::shared_ptr<Memory> packed_;
};

std::unique_ptr<Kernel> MakeHalf(const StepCall& call, const Facts& facts) {
  return std::make_unique<HalfProduct>(call, facts);
}

}  // namespace

KernelList HalfKernels(const Facts& facts) {
  const auto half = [&](const char* op) {
    return Def(facts, op, "", Name(Compute::kF16), RefuseHalf, MakeHalf);
  };
  return {half("MatMul"), half("Gemm"), half("Conv")};
}

}  // namespace infer::vulkan
