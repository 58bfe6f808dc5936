/// Conv and ConvTranspose through oneDNN, with bias and epilogue, in the layout oneDNN likes best.
#include <algorithm>

#include "lib/ir/roles.h"
#include "lib/support/strings.h"
#include "runtime/cpu/kernels/common/bf16.h"
#include "runtime/cpu/kernels/common/kernels.h"
#include "runtime/cpu/kernels/common/packed.h"
#include "runtime/cpu/kernels/conv/channel_finish.h"
#include "runtime/cpu/kernels/conv/conv_spec.h"
#include "runtime/cpu/launch/launch.h"
#include "runtime/plan_ir/wanted_layout.h"

namespace infer {
namespace {

using onednn::Arg;
using onednn::Binding;

std::string RefuseConv(const StepCall& call) {
  if (std::string r = RefuseUnlessF32(call); !r.empty()) return r;
  const Node& n = call.main();
  if (!n.input(1)->shape().has_rank()) return "the weights have no known rank";
  const int rank = n.input(1)->shape().rank();
  if (rank < 3 || rank > 5) return "only 1 to 3 spatial dimensions";
  auto e = DecodeEpilogue(call, false);
  return e.ok() ? "" : e.status().message();
}

std::string RefuseBf16Conv(const StepCall& call) {
  if (std::string r = RefuseConv(call); !r.empty()) return r;
  if (call.main().Attr<int64_t>("group") != 1) return "groups are faster in f32";
  return RefuseBf16(call);
}

/// A product, then what follows it.
class FinishedLaunch final : public Launch {
 public:
  FinishedLaunch(std::shared_ptr<const Launch> product, const ChannelFinish& finish, int bias,
                 int y)
      : product_(std::move(product)), finish_(finish), bias_(bias), y_(y) {}

  std::unique_ptr<LaunchState> NewState() const override { return product_->NewState(); }
  Status Run(std::byte* const* args, LaunchState* state) const override {
    INFER_TRY(product_->Run(args, state));
    const int residual = finish_.appended.residual;
    finish_.Run(bias_ >= 0 ? As<float>(args[bias_]) : nullptr,
                residual >= 0 ? As<float>(args[residual]) : nullptr, As<float>(args[y_]));
    return {};
  }

 private:
  std::shared_ptr<const Launch> product_;
  ChannelFinish finish_;
  int bias_, y_;  // operands; bias_ is -1 where there is none
};

class ConvKernel final : public Kernel {
 public:
  ConvKernel(const StepCall& call, Numbers numbers)
      : node_(call.main()),
        numbers_(numbers),
        result_in_bf16_(numbers != Numbers::kF32 && call.plan.lies_in_bf16(call.step.outputs[0])),
        x_(call.operand(node_.input(0))),
        w_(call.operand(node_.input(1))),
        b_(call.operand(node_.input(2))),
        epilogue_(*DecodeEpilogue(call, false)) {
    if (IsTransposedConvolution(node_) && numbers == Numbers::kF32)
      if (auto appended = Appended::Of(call, epilogue_); appended.ok()) apart_ = *appended;
    const Tensor* const weights = call.constant(node_.input(1));
    if (weights)
      weights_ = numbers == Numbers::kRounded
                     ? std::make_shared<WeightSource>(RoundedToBf16(*weights))
                     : call.source(node_.input(1));
  }

  bool packs(int operand) const override {
    return numbers_ == Numbers::kF32 && weights_ && operand == w_;
  }

  Result<Prepared> Prepare(std::span<const Operand> in,
                           std::span<const Operand> out) const override {
    if (!NoneEmpty(in, out)) return Unsupported("an operand is empty");
    const Dims& src = in[static_cast<size_t>(x_)].dims;
    const Dims& dst = out[0].dims;
    if (epilogue_.residual >= 0 && in[static_cast<size_t>(epilogue_.residual)].dims != dst)
      return Unsupported("the residual is broadcast");
    if (x_ == w_) return Unsupported("operand and weights are one value");
    const Dims& w = in[static_cast<size_t>(w_)].dims;
    if (numbers_ != Numbers::kF32) INFER_TRY(CheckPaysInBf16(node_, src, w, dst));
    INFER_ASSIGN(AskedConv asked, AskedConv::Of(node_, src, dst, w, weights_ != nullptr));
    const bool is_column = asked.is_column && numbers_ == Numbers::kF32 && HasNoAxes();
    if (is_column) asked.SwapSpatialAxes();
    onednn::ConvSpec& spec = asked.spec;
    spec.src.bf16 = spec.weights.bf16 = numbers_ == Numbers::kBf16;
    spec.dst.bf16 = spec.src.bf16 && result_in_bf16_;
    if (apart_) spec.bias = {};
    onednn::Attributes attributes;
    if (!apart_) attributes.post_ops = epilogue_.ops;
    INFER_ASSIGN(const onednn::Made made, onednn::MakeConv(spec, attributes));
    Prepared p;
    p.name = made.name;
    p.scratch_bytes = made.scratch_bytes;
    p.in_layouts.resize(in.size());
    p.unused.assign(in.size(), false);
    Layout from = made.src, to = made.dst;
    if (is_column) {
      INFER_ASSIGN(from, AsColumn(made.src, spec.src.dims, src));
      INFER_ASSIGN(to, AsColumn(made.dst, spec.dst.dims, dst));
    }
    p.in_layouts[static_cast<size_t>(x_)] = from;
    p.out_layouts = {to};
    if (!apart_) p.accumulate = epilogue_.residual;
    if (epilogue_.residual >= 0) p.in_layouts[static_cast<size_t>(epilogue_.residual)] = to;
    std::vector<Binding> bindings = {{Arg::kSrc, x_}, {Arg::kDst, static_cast<int>(in.size())}};
    if (weights_) {
      INFER_ASSIGN(const auto packed, PackedFor(*weights_, spec.weights, made.weights));
      p.unused[static_cast<size_t>(w_)] = true;
      p.weight_bytes = static_cast<int64_t>(packed->size());
      bindings.push_back({Arg::kWeights, -1, packed});
    } else {
      bindings.push_back({Arg::kWeights, w_});
      if (spec.weights.any) p.in_layouts[static_cast<size_t>(w_)] = made.weights;
    }
    if (b_ >= 0 && !apart_) bindings.push_back({Arg::kBias, b_});
    const auto operands = static_cast<int>(in.size());
    p.launch = MakeLaunch(made, std::move(bindings), operands + 1);
    if (apart_) return Finished(std::move(p), made.dst, spec.dst.dims, operands);
    if (numbers_ == Numbers::kBf16) p.precision = "bf16";
    if (numbers_ != Numbers::kRounded) return p;
    const int64_t x_bytes = BytesIn(made.src, in[static_cast<size_t>(x_)]);
    return WithRounding(std::move(p), operands, x_, x_bytes,
                        result_in_bf16_ ? BytesIn(made.dst, out[0]) : 0);
  }

 private:
  /// Followed by bias, residual and activation, which oneDNN's transposed convolutions compute by
  /// plain loops.
  Result<Prepared> Finished(Prepared p, const Layout& layout, const Dims& dims,
                            int operands) const {
    const auto block = onednn::ChannelBlockOf(DType::kF32, dims, layout);
    if (!block) return Unsupported("results in a layout without a name");
    ChannelFinish finish{dims[0], dims[1], 1, *block, *apart_};
    for (size_t i = 2; i < dims.size(); ++i) finish.points *= dims[i];
    if (!finish.any(b_ >= 0)) return p;
    p.launch = std::make_shared<FinishedLaunch>(std::move(p.launch), finish, b_, operands);
    return p;
  }

  /// Of what is appended.
  bool HasNoAxes() const {
    return std::all_of(epilogue_.ops.begin(), epilogue_.ops.end(), [](const onednn::PostOp& op) {
      return op.kind == onednn::PostOp::Kind::kEltwise || op.kind == onednn::PostOp::Kind::kSum;
    });
  }
  /// The layout of a column of extents `dims` that has the bytes of a row's `layout`.
  static Result<Layout> AsColumn(const Layout& layout, const Dims& row, const Dims& dims) {
    const auto block = onednn::ChannelBlockOf(DType::kF32, row, layout);
    if (!block) return Unsupported("a layout that has no name for a column");
    if (*block == 0) return Layout();
    return *block == dims[1] ? onednn::ChannelsLast(DType::kF32, dims)
                             : onednn::ChannelBlocked(dims, static_cast<int>(*block));
  }

  const Node& node_;
  Numbers numbers_;
  bool result_in_bf16_;
  int x_, w_, b_;
  Epilogue epilogue_;
  std::optional<Appended> apart_;          // runs behind the product, with the bias
  std::shared_ptr<WeightSource> weights_;  // nullptr: not constant
};

std::unique_ptr<Kernel> MakeConvKernel(const StepCall& call) {
  return std::make_unique<ConvKernel>(call, Numbers::kF32);
}

std::unique_ptr<Kernel> MakeBf16Conv(const StepCall& call) {
  return std::make_unique<ConvKernel>(call, Bf16Numbers());
}

}  // namespace

KernelList Bf16ConvKernels() {
  return {{"Conv", "", kBf16Kernel, RefuseBf16Conv, MakeBf16Conv},
          {"ConvTranspose", "", kBf16Kernel, RefuseBf16Conv, MakeBf16Conv}};
}

KernelList ConvKernels() {
  return {{"Conv", "", "onednn", RefuseConv, MakeConvKernel},
          {"ConvTranspose", "", "onednn", RefuseConv, MakeConvKernel}};
}

}  // namespace infer
