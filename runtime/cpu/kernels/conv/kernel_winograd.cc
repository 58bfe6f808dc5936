/// Conv 3x3 of stride 1 by runtime/cpu/kernels/conv/winograd.h. Against oneDNN's direct
/// convolution, whole networks, one thread of AVX-512: resnet18 0.60, vgg16 0.49, resnet50 0.82 of
/// its time (docs/adr/0007-own-kernels-where-they-win.md).
///
/// Error against the exact value, relative to the largest: <= 2e-5
/// (tests/suites/convolution_suite.cc). Level 2 only, therefore.
#include <algorithm>

#include "lib/support/strings.h"
#include "runtime/cpu/kernels/common/kernels.h"
#include "runtime/cpu/kernels/common/packed.h"
#include "runtime/cpu/kernels/common/spatial.h"
#include "runtime/cpu/kernels/conv/winograd.h"
#include "runtime/cpu/launch/launch.h"

namespace infer {
namespace {

class WinogradKernel final : public Kernel {
 public:
  WinogradKernel(const StepCall& call, int m)
      : m_(m),
        node_(call.main()),
        panels_(*simd::ThePanels()),
        x_(call.operand(node_.input(0))),
        w_(call.operand(node_.input(1))),
        b_(call.operand(node_.input(2))),
        weights_(call.source(node_.input(1))),
        appended_(*Appended::Of(call, *DecodeEpilogue(call, false))),
        threads_(call.options.threads > 0 ? call.options.threads : LaneBudget()) {
    if (b_ >= 0) bias_ = WholeBlocks(*call.constant(node_.input(2)));
  }

  bool packs(int operand) const override { return operand == w_; }
  Result<Prepared> Prepare(std::span<const Operand> in,
                           std::span<const Operand> out) const override {
    INFER_ASSIGN(Winograd w, Of(in, out));
    const Operand& x = in[static_cast<size_t>(x_)];
    // oneDNN's neighbours prefer channels last with AVX-512, blocks of channels below.
    const bool whole = x.dims[1] % panels_.lanes == 0 && out[0].dims[1] % panels_.lanes == 0;
    const bool blocks =
        panels_.lanes == 8 || x.layout == onednn::ChannelBlocked(x.dims, panels_.lanes);
    if (!blocks && !whole) return Unsupported("the channels are not whole vectors");
    SetStrides(w, blocks);
    INFER_ASSIGN(const auto weights,
                 weights_->Get(Cat("winograd:", w.m, ",", panels_.lanes),
                               [&](const Tensor& from) -> Result<WeightSource::Form> {
                                 return TransformWeights(from, w.m, panels_.lanes);
                               }));
    const auto layout = [&](const Dims& dims) {
      return blocks ? onednn::ChannelBlocked(dims, panels_.lanes)
                    : onednn::ChannelsLast(DType::kF32, dims);
    };
    Prepared p;
    p.name = Cat(w.m == 2 ? "own:winograd2x2:" : "own:winograd4x4:", panels_.isa);
    p.unused.assign(in.size(), false);
    p.unused[static_cast<size_t>(w_)] = true;
    if (b_ >= 0) p.unused[static_cast<size_t>(b_)] = true;
    p.in_layouts.resize(in.size());
    p.in_layouts[static_cast<size_t>(x_)] = layout(x.dims);
    p.out_layouts = {layout(out[0].dims)};
    p.accumulate = appended_.residual;
    if (p.accumulate >= 0) p.in_layouts[static_cast<size_t>(p.accumulate)] = p.out_layouts[0];
    p.weight_bytes = static_cast<int64_t>(weights->size());
    p.scratch_bytes = w.scratch_bytes();
    const int at = x_;
    const size_t y = in.size();
    p.launch = LaunchOf([=, bias = bias_](std::byte* const* args) {
      w.Run(As<float>(static_cast<const std::byte*>(args[at])), As<float>(weights->data()),
            bias ? As<float>(bias->data()) : nullptr, As<float>(args[y]), As<float>(args[y + 1]));
    });
    return p;
  }

 private:
  /// All but the strides.
  Result<Winograd> Of(std::span<const Operand> in, std::span<const Operand> out) const {
    if (!NoneEmpty(in, out)) return Unsupported("an operand is empty");
    if (x_ == w_ || x_ == b_) return Unsupported("operand and weights are one value");
    const int residual = appended_.residual;
    if (residual >= 0 && in[static_cast<size_t>(residual)].dims != out[0].dims)
      return Unsupported("the residual is broadcast");
    const Dims& x = in[static_cast<size_t>(x_)].dims;
    const Dims& y = out[0].dims;
    INFER_ASSIGN(const Spatial s, SpatialOf(node_, {3, 3}, x, y, false));
    if (s.strides != Dims{1, 1}) return Unsupported("the stride is not 1");
    if (s.dilations != Dims{1, 1}) return Unsupported("dilation");
    Winograd w;
    w.panels = &panels_;
    w.appended = appended_;
    w.images = x[0];
    w.in.height = x[2];
    w.in.width = x[3];
    w.in.blocks = BlocksOf(x[1], panels_.lanes);
    w.out.height = y[2];
    w.out.width = y[3];
    w.out.blocks = BlocksOf(y[1], panels_.lanes);
    w.top = s.pads_begin[0];
    w.left = s.pads_begin[1];
    w.lanes = threads_;
    // Few channels leave the transforms to dominate; few tiles leave the larger weights of F(4x4)
    // to be read for too little.
    if (x[1] < 16 || y[1] < 16) return Unsupported("too few channels");
    w.m = m_;
    if (w.tiles() < 12) return Unsupported("too few points");
    w.SetBatch();
    return w;
  }

  void SetStrides(Winograd& w, bool blocks) const {
    for (BlockedImage* i : {&w.in, &w.out}) {
      const int64_t plane = i->height * i->width;
      i->pixel = blocks ? panels_.lanes : i->blocks * panels_.lanes;
      i->block = blocks ? plane * panels_.lanes : panels_.lanes;
      i->image = plane * i->blocks * panels_.lanes;
    }
  }

  std::shared_ptr<const Buffer> WholeBlocks(const Tensor& bias) const {
    const int64_t n = bias.num_elements(), padded = BlocksOf(n, panels_.lanes) * panels_.lanes;
    auto buffer = Buffer::Allocate(static_cast<size_t>(padded) * sizeof(float));
    float* to = As<float>(buffer->mutable_data());
    std::fill_n(to, padded, 0.0f);
    std::copy_n(bias.data<float>().data(), n, to);
    return buffer;
  }

  int m_;
  const Node& node_;
  const simd::Panels& panels_;
  int x_, w_, b_;
  std::shared_ptr<WeightSource> weights_;
  Appended appended_;
  int threads_;
  std::shared_ptr<const Buffer> bias_;
};

std::string RefuseWinograd(const StepCall& call) {
  if (call.options.level < 2) return "it changes rounding (level 2)";
  if (call.options.low_memory) return "its weights are larger (low memory)";
  if (std::string r = RefuseUnlessF32(call); !r.empty()) return r;
  const simd::Panels* panels = simd::ThePanels();
  if (!panels) return "no kernel for this instruction set";
  const Node& n = call.main();
  const Tensor* weights = call.constant(n.input(1));
  if (!weights) return "the weights are not constant";
  if (weights->rank() != 4 || weights->dims()[2] != 3 || weights->dims()[3] != 3)
    return "the window is not 3x3";
  if (n.Attr<int64_t>("group") != 1) return "more than one group";
  if (n.input(2) && !call.constant(n.input(2))) return "the bias is not constant";
  const auto epilogue = DecodeEpilogue(call, false);
  if (!epilogue.ok()) return epilogue.status().message();
  const auto appended = Appended::Of(call, *epilogue);
  if (!appended.ok()) return appended.status().message();
  if (!appended->keeps_zero() && weights->dims()[0] % panels->lanes != 0)
    return "the activation would fill the padding of the channels";
  return "";
}

template <int kM>
std::unique_ptr<Kernel> MakeWinograd(const StepCall& call) {
  return std::make_unique<WinogradKernel>(call, kM);
}

}  // namespace

KernelList WinogradKernels() {
  return {{"Conv", "", "winograd4x4", RefuseWinograd, MakeWinograd<4>},
          {"Conv", "", "winograd2x2", RefuseWinograd, MakeWinograd<2>}};
}

}  // namespace infer
