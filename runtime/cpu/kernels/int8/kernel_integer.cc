/// MatMulInteger and ConvInteger by constant weights, with the Cast, Mul and Add behind them that
/// make real numbers of the sums: the products of dynamic quantization, whose zero point and scale
/// are known only when they run. Sums are exact and each f32 step is rounded by itself, so that all
/// instruction sets, and the graph step by step, give the same bits.
///
/// With AVX-512 VNNI on our product of bytes (byte_gemm.h), of rows gathered from the image, or, by
/// weights most of whose blocks are zero, on that which skips these (sparse_bytes.h); else,
/// and by groups, on pairs of 16 bits (pair_product.h). Weights that less their zero point take 9
/// bits are codes and an offset (offset_weights.h). Gain: docs/quantization.md.
#include <algorithm>
#include <cstring>
#include <mutex>
#include <vector>

#include "lib/ir/roles.h"
#include "lib/support/strings.h"
#include "runtime/cpu/kernels/common/appended.h"
#include "runtime/cpu/kernels/common/kernels.h"
#include "runtime/cpu/kernels/common/packed.h"
#include "runtime/cpu/kernels/common/zero_share.h"
#include "runtime/cpu/kernels/int8/byte_gathering.h"
#include "runtime/cpu/kernels/int8/byte_gemm.h"
#include "runtime/cpu/kernels/int8/int8_product.h"
#include "runtime/cpu/kernels/int8/offset_weights.h"
#include "runtime/cpu/kernels/int8/pair_product.h"
#include "runtime/cpu/kernels/int8/sparse_bytes.h"
#include "runtime/cpu/launch/launch.h"
#include "runtime/plan_ir/groups/quant_group.h"

namespace infer {
namespace {

/// Positions of what changes from run to run among the operands; -1: not there.
struct Operands {
  int x = -1, zero = -1, scale = -1, bias = -1;
  bool real = false;  ///< the result is f32
};

bool IsIntegerConv(const Node& n) { return n.Is("ConvInteger"); }

/// One f32 number, or one per output channel of `y`.
bool IsPerColumn(const Value* v, const Value* y, int64_t columns, bool conv) {
  if (!v || !v->type().is_tensor() || v->dtype() != DType::kF32 || !v->shape().is_static() ||
      !y->shape().has_rank())
    return false;
  const Dims dims = v->shape().static_dims();
  const size_t rank = static_cast<size_t>(y->shape().rank());
  if (dims.size() > rank) return false;
  if (NumElements(dims) == 1) return true;
  const size_t behind = conv ? rank - 2 : 0;
  return NumElements(dims) == columns && dims.size() > behind &&
         dims[dims.size() - 1 - behind] == columns;
}

/// The weights as codes of a group, for SymmetricWeights().
QuantInput WeightsOf(const StepCall& call) {
  const Node& n = call.main();
  QuantInput w;
  w.constant = call.constant(n.input(1));
  w.params.dtype = w.constant->dtype();
  w.params.zero_points = {0};
  if (const Tensor* z = call.constant(n.input(3))) {
    w.params.zero_points.clear();
    for (int64_t i = 0; i < z->num_elements(); ++i)
      w.params.zero_points.push_back(static_cast<int32_t>(z->IntAt(i)));
  }
  w.params.scales.assign(w.params.zero_points.size(), 1.0f);
  return w;
}

Result<Operands> Decode(const StepCall& call) {
  const Node& n = call.main();
  const bool conv = IsIntegerConv(n);
  const Tensor* const w = call.constant(n.input(1));
  if (!Is8Bit(n.input(0)) || !w) return Unsupported("weights are not constant");
  if (conv ? w->rank() < 3 || w->rank() > 5 : w->rank() != 2) return Unsupported("rank");
  if (n.input(3) && !call.constant(n.input(3)))
    return Unsupported("the zero point of the weights is not constant");
  const Value* const zero = n.input(2);
  if (zero && !(zero->shape().num_elements() == Dim(1)))
    return Unsupported("several zero points of the operand");
  const int64_t columns = w->dim(conv ? 0 : 1);
  if (w->num_elements() == 0 || w->num_elements() / columns > kMostByteProducts)
    return Unsupported("a sum may exceed 32 bits");
  if (const Tensor* z = call.constant(n.input(3));
      z && z->num_elements() != 1 && (z->rank() != 1 || z->dim(0) != columns))
    return Unsupported("zero points are not by output channel");
  Operands o;
  o.x = call.operand(n.input(0));
  if (zero) o.zero = call.operand(zero);
  const auto& nodes = call.step.nodes;
  if (nodes[0] != &n) return Unsupported("something precedes");
  const Value* before = n.output();
  for (size_t i = 1; i < nodes.size(); ++i) {
    const Node& next = *nodes[i];
    const Value* const factor = MultipliedBy(before, next);
    const Value* const other = factor ? factor : AddedTo(before, next);
    if (i == 1 && IsCast(next) && next.output()->dtype() == DType::kF32) {
      o.real = true;
    } else if (o.real && other) {
      if (!IsPerColumn(other, before, columns, conv))
        return Unsupported(Cat(next.op(), " of other than a number per output channel"));
      int& at = factor ? o.scale : o.bias;
      if (at >= 0 || (factor && o.bias >= 0)) return Unsupported("two of a kind");
      at = call.operand(other);
    } else {
      return Unsupported(Cat(next.op(), " cannot be folded"));
    }
    before = next.output();
  }
  return o;
}

std::string RefuseIntegers(const StepCall& call) {
  const auto o = Decode(call);
  if (!o.ok()) return o.status().message();
  const Node& n = call.main();
  const Tensor& w = *call.constant(n.input(1));
  const int64_t columns = w.dim(IsIntegerConv(n) ? 0 : 1);
  if (SymmetricWeights(WeightsOf(call), columns, IsIntegerConv(n)).defined()) return "";
  return w.num_elements() / columns <= kMostWideProducts ? "" : "a sum may exceed 32 bits";
}

Dims Three(const Dims& dims, int64_t fill) {
  Dims out(3 - dims.size(), fill);
  out.insert(out.end(), dims.begin(), dims.end());
  return out;
}

constexpr int64_t Aligned(int64_t bytes) { return BlocksOf(bytes, 64) * 64; }

/// f[0 .. n) from one number, or as many.
void Fill(const std::byte* from, int64_t count, float otherwise, int64_t n, float* to) {
  for (int64_t i = 0; i < n; ++i) to[i] = from ? As<float>(from)[count == 1 ? 0 : i] : otherwise;
}

class IntegerKernel final : public Kernel {
 public:
  explicit IntegerKernel(const StepCall& call)
      : node_(call.main()), is_conv_(IsIntegerConv(node_)), o_(*Decode(call)) {
    const Tensor* const w = call.constant(node_.input(1));
    columns_ = w->dim(is_conv_ ? 0 : 1);
    groups_ = is_conv_ ? node_.Attr<int64_t>("group") : 1;
    depth_ = is_conv_ ? w->dim(1) * groups_ : w->dim(0);
    weights_ = SymmetricWeights(WeightsOf(call), columns_, is_conv_);
    if (!weights_.defined()) {
      OffsetWeights apart = OffsetWeightsOf(WeightsOf(call), columns_);
      if (IsDepthwise())
        wide_ = apart.Added();
      else
        offsets_ = std::make_shared<const std::vector<int32_t>>(std::move(apart.offsets));
      weights_ = std::move(apart.codes);
    }
    is_signed_ = node_.input(0)->dtype() == DType::kI8;
    lanes_ = call.options.threads > 0 ? call.options.threads : LaneBudget();
    const auto codes = weights_.data<int8_t>();
    skips_zeros_ = simd::TheSparseBytes() && !offsets_ && groups_ == 1 &&
                   ShareOfSample(weights_.num_elements(), [&](int64_t i) {
                     return codes[static_cast<size_t>(i)] == 0;
                   }) >= kLeastZeros;
  }

  Result<Prepared> Prepare(std::span<const Operand> in,
                           std::span<const Operand> out) const override {
    if (!NoneEmpty(in, out)) return Unsupported("an operand is empty");
    const Operand& x = in[static_cast<size_t>(o_.x)];
    if (x.dims.size() < 2 || x.dims[is_conv_ ? 1 : x.dims.size() - 1] != depth_)
      return Unsupported("extents do not fit");
    if (o_.zero >= 0 && NumElements(in[static_cast<size_t>(o_.zero)].dims) != 1)
      return Unsupported("several zero points");
    Spatial s{{1}, {1}, {1}, {0}, {0}};
    Dims src{NumElements(x.dims) / depth_}, dst = src, kernel{1};
    int64_t images = 1;
    if (is_conv_) {
      kernel = Dims(weights_.dims().begin() + 2, weights_.dims().end());
      INFER_ASSIGN(s, SpatialOf(node_, kernel, x.dims, out[0].dims, false));
      images = x.dims[0];
      src = Dims(x.dims.begin() + 2, x.dims.end());
      dst = Dims(out[0].dims.begin() + 2, out[0].dims.end());
    }
    Prepared p;
    p.in_layouts.resize(in.size());
    p.unused.assign(in.size(), true);
    for (const int i : {o_.x, o_.zero, o_.scale, o_.bias})
      if (i >= 0) p.unused[static_cast<size_t>(i)] = false;
    if (is_conv_) {
      p.in_layouts[static_cast<size_t>(o_.x)] = onednn::ChannelsLast(x.dtype, x.dims);
      p.out_layouts = {onednn::ChannelsLast(out[0].dtype, out[0].dims)};
    }
    const auto count = [&](int i) {
      return i >= 0 ? NumElements(in[static_cast<size_t>(i)].dims) : int64_t{0};
    };
    const Counts counts{count(o_.scale), count(o_.bias)};
    if (skips_zeros_ && SetSparse(s, x.dims, out[0].dims, counts, in.size(), p)) return p;
    if (simd::TheMultiplyBytes() && groups_ == 1)
      SetBytes(images, src, dst, kernel, s, counts, in.size(), p);
    else
      INFER_TRY(SetPairs(images, src, dst, kernel, s, counts, in.size(), p));
    return p;
  }

 private:
  struct Counts {
    int64_t scale, bias;
  };

  bool IsDepthwise() const { return groups_ > 1 && groups_ == depth_ && groups_ == columns_; }

  /// Of a run: 0 where the operand has none.
  static int32_t ZeroOf(std::byte* const* args, int at, bool is_signed) {
    if (at < 0) return 0;
    return is_signed ? int32_t{As<int8_t>(args[at])[0]} : int32_t{As<uint8_t>(args[at])[0]};
  }

  void SetBytes(int64_t images, const Dims& src, const Dims& dst, const Dims& kernel,
                const Spatial& s, const Counts& counts, size_t operands, Prepared& p) const {
    ByteGathering g;
    g.images = images;
    g.channels = depth_;
    g.image = Three(src, 1);
    g.result = Three(dst, 1);
    g.window = Three(kernel, 1);
    g.strides = Three(s.strides, 1);
    g.dilations = Three(s.dilations, 1);
    g.pads = Three(s.pads_begin, 0);
    g.flip = is_signed_ ? 128 : 0;
    const int64_t k = NumElements(g.window) * depth_;
    g.row_bytes = BlocksOf(k, 4) * 4;
    const auto w = bytes_.Get([&] { return PackBytes(NumElements(g.window)); });
    ByteGemm gemm;
    gemm.multiply = simd::TheMultiplyBytes();
    gemm.finish.form =
        o_.real && !offsets_ ? simd::ByteFinish::Form::kFloat : simd::ByteFinish::Form::kInts;
    gemm.rows.width = g.rows();
    gemm.depth = g.row_bytes;
    gemm.columns = columns_;
    const Columns of(columns_, simd::kByteColumns);
    const int64_t gathered = g.direct() ? 0 : g.rows() * g.row_bytes;
    p.name = "own:bytes:avx512_vnni";
    p.scratch_bytes = of.bytes() + gathered;
    const AddOffsets add{offsets_, g.rows(), g.row_bytes, k, columns_, o_.real};
    p.weight_bytes = static_cast<int64_t>(w->panels->size());
    p.launch =
        LaunchOf([=, o = o_, columns = columns_, is_signed = is_signed_](std::byte* const* args) {
          std::byte* const scratch = args[operands + 1];
          const int32_t zero = ZeroOf(args, o.zero, is_signed) + (is_signed ? 128 : 0);
          ByteColumns of_run =
              FillColumns(of, w->start, w->bias, columns, zero, o, counts, args, scratch);
          of_run.panels = w->panels->data();
          const std::byte* rows = args[o.x];
          if (gathered > 0) {
            // A padding is the zero point, before its sign is flipped with the rest of the row.
            g.Run(As<uint8_t>(rows), static_cast<uint8_t>(is_signed ? zero - 128 : zero),
                  As<uint8_t>(scratch + of.bytes()));
            rows = scratch + of.bytes();
          }
          gemm.Run(rows, of_run, args[operands], nullptr);
          if (add.offsets)
            add.Run(As<uint8_t>(rows), zero, of_run.scales, of_run.plus, args[operands]);
        });
  }

  /// Scratch of a run: what belongs to columns, padded to whole panels, then bytes for `others`.
  struct Columns {
    int64_t padded, per_column;
    Columns(int64_t columns, int64_t panel)
        : padded(BlocksOf(columns, panel) * panel), per_column(Aligned(padded * 4)) {}
    int64_t bytes() const { return 3 * per_column; }
  };

  /// Whether the weights have zeros enough.
  bool SetSparse(const Spatial& s, const Dims& x, const Dims& y, const Counts& counts,
                 size_t operands, Prepared& p) const {
    SparseByteProduct product;
    if (is_conv_) {
      auto windows = ByteWindows::Of(s, x, y);
      if (!windows.ok()) return false;
      product.windows = *std::move(windows);
    } else {
      product.windows = ByteWindows::Rows(NumElements(x) / depth_);
    }
    // For a zero point of 1: the start of each sum is minus the sum of the weights.
    const float one = 1;
    const ByteMatrix matrix = ByteMatrix::Of(weights_, is_conv_, is_conv_);
    auto weights = choice_.Make(matrix, product.windows.rows(), [&] {
      return SparseByteWeights::Pack(matrix, 1, is_signed_, {}, {&one, 1});
    });
    if (!weights.ok()) return false;
    product.loops = simd::TheSparseBytes();
    product.finish.form = o_.real ? simd::ByteFinish::Form::kFloat : simd::ByteFinish::Form::kInts;
    product.channels = depth_;
    product.columns = columns_;
    product.lanes = lanes_;
    product.w = *std::move(weights);
    const Columns of(columns_, simd::kSparseByteColumns);
    const int64_t pixel = Aligned(depth_);
    p.name = "own:sparse16x4:avx512_vnni";
    p.scratch_bytes = of.bytes() + pixel + product.scratch_bytes();
    p.weight_bytes = product.w->bytes();
    p.launch = LaunchOf([=, o = o_, is_signed = is_signed_](std::byte* const* args) {
      std::byte* const scratch = args[operands + 1];
      const int32_t zero = ZeroOf(args, o.zero, is_signed);
      const ByteColumns columns =
          FillColumns(of, product.w->start, product.w->bias, product.columns,
                      zero + (is_signed ? 128 : 0), o, counts, args, scratch);
      std::byte* const padding = scratch + of.bytes();
      std::memset(padding, zero & 255, static_cast<size_t>(product.channels));
      product.Run({As<uint8_t>(static_cast<const std::byte*>(args[o.x])),
                   As<uint8_t>(static_cast<const std::byte*>(padding)), columns, args[operands]},
                  padding + pixel);
    });
    return true;
  }

  /// Starts of sums, scales and biases of one run, in `scratch`. `zero`: as an unsigned byte.
  static ByteColumns FillColumns(const Columns& of, const std::vector<int32_t>& minus_sums,
                                 const std::vector<float>& none, int64_t columns, int32_t zero,
                                 const Operands& o, const Counts& counts, std::byte* const* args,
                                 std::byte* scratch) {
    int32_t* const start = As<int32_t>(scratch);
    float* const scale = As<float>(scratch + of.per_column);
    float* const plus = As<float>(scratch + 2 * of.per_column);
    for (int64_t i = 0; i < of.padded; ++i) start[i] = zero * minus_sums[static_cast<size_t>(i)];
    Fill(o.scale >= 0 ? args[o.scale] : nullptr, counts.scale, 1, columns, scale);
    Fill(o.bias >= 0 ? args[o.bias] : nullptr, counts.bias, 0, columns, plus);
    std::fill(scale + columns, scale + of.padded, 0.0f);
    std::fill(plus + columns, plus + of.padded, 0.0f);
    return {nullptr, start, none.data(), scale, o.bias >= 0 ? plus : nullptr};
  }

  /// k = tap * channels + channel, as the rows are gathered; start: minus the sum of a column.
  std::shared_ptr<const ByteWeights> PackBytes(int64_t taps) const {
    const int64_t k = taps * depth_;
    const int8_t* from = weights_.data<int8_t>().data();
    std::vector<int8_t> turned;
    if (is_conv_) {
      turned.resize(static_cast<size_t>(k * columns_));
      for (int64_t n = 0; n < columns_; ++n)
        for (int64_t c = 0; c < depth_; ++c)
          for (int64_t t = 0; t < taps; ++t)
            turned[static_cast<size_t>(n * k + t * depth_ + c)] = from[(n * depth_ + c) * taps + t];
      from = turned.data();
    }
    const float one = 1;
    return std::make_shared<ByteWeights>(ByteWeights::Pack(
        from, k, is_conv_ ? 1 : columns_, columns_, is_conv_ ? k : 1, 1, {}, {&one, 1}));
  }

  Status SetPairs(int64_t images, const Dims& src, const Dims& dst, const Dims& kernel,
                  const Spatial& s, const Counts& counts, size_t operands, Prepared& p) const {
    PairProduct product;
    product.pairs = &simd::ThePairs();
    product.columns = columns_;
    product.depth = depth_;
    product.groups = groups_;
    product.window = Three(kernel, 1);
    product.dilations = Three(s.dilations, 1);
    product.is_signed = is_signed_;
    const bool finishes = o_.real && !offsets_;
    product.after.type = finishes ? simd::AfterSum::Type::kF32 : simd::AfterSum::Type::kI32;
    const int64_t window = NumElements(kernel);
    const auto w = pairs_.Get([&] {
      if (!wide_.empty()) return product.PackWide(wide_.data(), window);
      return product.Pack(weights_.data<int8_t>().data(),
                          is_conv_ ? weights_.num_elements() / columns_ : 1,
                          is_conv_ ? window : columns_);
    });
    INFER_ASSIGN(const PlacedPairs placed, PlacedPairs::Make(product, images, src, dst, s));
    const int64_t padded = product.panels() * product.width(), per_column = Aligned(padded * 4);
    p.name = Cat("own:pairs:", product.pairs->isa);
    p.scratch_bytes = 3 * per_column + placed.scratch_bytes();
    p.weight_bytes = static_cast<int64_t>(w->size());
    p.launch =
        LaunchOf([=, o = o_, is_signed = is_signed_, offsets = offsets_](std::byte* const* args) {
          std::byte* const scratch = args[operands + 1];
          float* const none = As<float>(scratch);
          float* const scale = As<float>(scratch + per_column);
          float* const plus = As<float>(scratch + 2 * per_column);
          std::fill_n(none, padded, 0.0f);
          const auto fill = [&](int at, int64_t count, float otherwise, float* to) {
            if (offsets)
              return Fill(at >= 0 ? args[at] : nullptr, count, otherwise, product.columns, to);
            for (int64_t panel = 0; panel < product.panels(); ++panel)
              for (int64_t j = 0; j < product.width(); ++j, ++to) {
                *to = otherwise;
                if (at >= 0 && j < product.columns_of(panel))
                  *to = As<float>(args[at])[count == 1 ? 0 : product.first_column(panel) + j];
              }
          };
          fill(o.scale, counts.scale, 1, scale);
          fill(o.bias, counts.bias, 0, plus);
          PlacedPairs::OfRun run{ZeroOf(args, o.zero, is_signed), product.after};
          run.after.bias = none;
          run.after.scale = scale;
          run.after.plus = o.bias >= 0 ? plus : nullptr;
          const auto add_offsets = [&](int64_t row, int64_t group, int32_t sum) {
            const int64_t columns = product.group_columns(), first = group * columns;
            AddOffsetsToRow(sum, offsets->data() + first, scale + first,
                            run.after.plus ? plus + first : nullptr, columns, o.real,
                            args[operands] + (row * product.columns + first) * 4);
          };
          const PlacedPairs::OfRun::OnRow on_row = add_offsets;
          if (offsets) run.on_row = &on_row;
          placed.Run(args[o.x], w->data(), nullptr, args[operands], scratch + 3 * per_column, run);
        });
    return {};
  }

  /// Packed once, whatever the shapes.
  class BytesOnce {
   public:
    template <typename F>
    std::shared_ptr<const ByteWeights> Get(const F& make) const {
      std::lock_guard lock(mutex_);
      if (!kept_) kept_ = make();
      return kept_;
    }

   private:
    mutable std::mutex mutex_;
    mutable std::shared_ptr<const ByteWeights> kept_;
  };

  const Node& node_;
  bool is_conv_;
  Operands o_;
  int64_t columns_ = 0, depth_ = 0, groups_ = 1;
  bool is_signed_ = false;
  Tensor weights_;
  std::shared_ptr<const std::vector<int32_t>> offsets_;  // by column; nullptr: weights_ are whole
  std::vector<int16_t> wide_;  // of depthwise filters in place of weights_, where they take 9 bits
  int64_t lanes_ = 1;
  bool skips_zeros_ = false;
  SparseByteChoice choice_;
  BytesOnce bytes_;
  PackedOnce pairs_;
};

std::unique_ptr<Kernel> MakeIntegers(const StepCall& call) {
  return std::make_unique<IntegerKernel>(call);
}

}  // namespace

KernelList IntegerKernels() {
  return {{"MatMulInteger", "", "integers", RefuseIntegers, MakeIntegers},
          {"ConvInteger", "", "integers", RefuseIntegers, MakeIntegers}};
}

}  // namespace infer
