/// DQ -> Conv | MatMul | Gemm [-> activations] [-> Q [-> DQ -> Add -> Q]] on integers: exact sums,
/// and the roundings of the CPU's integer kernels (runtime/plan_ir/groups/quant_product.h).
#include "runtime/plan_ir/groups/quant_product.h"

#include <algorithm>
#include <array>
#include <mutex>

#include "lib/ir/roles.h"
#include "lib/ops/conv/conv_geometry.h"
#include "lib/support/strings.h"
#include "runtime/vulkan/kernels/functions.h"
#include "runtime/vulkan/kernels/kernels.h"

namespace infer::vulkan {
namespace {

/// So many products are added in f32 (shaders/qconv.comp).
constexpr int64_t kExactProducts = 256;
/// Of shaders/qdot.comp: words of a row that are loaded at once.
constexpr int64_t kDotVector = 4;
constexpr size_t kMostActs = 2;
constexpr int kClipCode = 4;

bool FoldsIntoProduct(const StepCall& call, const Node& n) { return UnaryCodeOf(call, n).ok(); }

std::string RefuseCodesAdded(const QuantGroup& g) {
  const QuantInput& other = g.residual->other;
  if (g.residual->linear) return "QLinearAdd behind it";
  if (!other.params.per_tensor() || other.params.dtype == DType::kI32 || other.constant)
    return "what is added is not 8 bits per tensor";
  return "";
}

std::string RefuseQuantizedProduct(const StepCall& call, const DeviceFacts&) {
  const auto folds = [&](const Node& n) { return FoldsIntoProduct(call, n); };
  if (std::string why = RefuseQuantProduct(call, folds); !why.empty()) return why;
  const auto group = DecodeQuantGroup(call);
  if (group->activations.size() > kMostActs) return "more than two activations";
  return group->residual ? RefuseCodesAdded(*group) : "";
}

int32_t FlipOf(const QuantParams8& p) { return p.dtype == DType::kI8 ? 0x80 : 0; }
/// The zero point among codes less their lowest value.
int32_t ZeroOf(const QuantParams8& p) { return p.zero_point() + FlipOf(p); }

/// A product of x [samples, channels, image] with weights [out][k], as both shaders take it.
struct ProductShape {
  int64_t samples = 1, groups = 1, in_channels = 1, out_channels = 1;
  Dims input = {1}, output = {1}, kernel = {1}, step = {1 | 1 << 16}, pad = {0};
  int64_t per_group_k() const { return in_channels / groups * NumElements(kernel); }
};

class QuantizedProduct final : public Kernel {
 public:
  QuantizedProduct(const StepCall& call, Facts facts)
      : node_(call.main()), facts_(std::move(facts)), group_(*DecodeQuantGroup(call)) {
    const QuantInput& w = *group_.inputs[1];
    const bool first = ChannelsFirst(node_);
    channels_ = w.constant->dim(first ? 0 : -1);
    const Tensor weights = SymmetricWeights(w, channels_, first);
    w_dims_ = weights.dims();
    codes_ = weights;
    channels_first_ = first;
    const ProductScales scales = ScalesOf(call, group_, channels_);
    to_quanta_ = scales.to_quanta;
    for (int64_t c = 0; c < channels_; ++c) {
      scales_.push_back(scales.bias.defined() ? scales.bias.data<float>()[static_cast<size_t>(c)]
                                              : 0.0f);
      scales_.push_back(scales.scales[scales.scales.size() == 1 ? 0 : static_cast<size_t>(c)]);
    }
    if (scales.bounds)
      acts_.push_back({kClipCode, scales.bounds->first, scales.bounds->second});
    else
      for (const Node* n : group_.activations) acts_.push_back(*UnaryCodeOf(call, *n));
  }

  Result<Prepared> Prepare(std::span<const Operand> in,
                           std::span<const Operand> out) const override {
    if (!NoneEmpty(in, out)) return Unsupported("an operand is empty");
    INFER_ASSIGN(const ProductShape s, ShapeOf(in[static_cast<size_t>(x())].dims, out[0].dims));
    if (group_.residual && in[static_cast<size_t>(r())].dims != out[0].dims)
      return Unsupported("what is added broadcasts");
    const int64_t m = s.out_channels / s.groups, columns = s.samples * NumElements(s.output);
    const bool depthwise = IsDepthwise(s);
    const bool dots = s.kernel.size() < 3 && m >= 8 && DotsPay(s);
    const bool direct = s.kernel.size() == 3 || m < 8 || columns < 8;
    INFER_ASSIGN(Prepared p, depthwise ? Depthwise(s, in, out)
                             : dots    ? Dots(s, in, out)
                             : direct  ? Direct(s, in, out)
                                       : Tiled(s, in, out));
    p.weight_bytes = codes_.num_elements() + static_cast<int64_t>(scales_.size() * 4);
    return p;
  }

 private:
  int x() const { return group_.inputs[0]->operand; }
  int r() const { return group_.residual ? group_.residual->other.operand : -1; }

  /// How weights lie on the device, four to a word; what fills the last word of a row up is 0.
  enum Packing : uint8_t {
    kFlat,   ///< [channel][k / 4], k as the operator has it
    kByTap,  ///< [channel][tap][inner / 4] of four channels of the operand
    kDots    ///< kByTap, channels filled up to kDotVector words
  };
  std::vector<uint32_t> Packed(Packing packing) const {
    const bool by_tap = packing != kFlat;
    const int64_t k = codes_.num_elements() / std::max<int64_t>(channels_, 1);
    const int64_t rows = by_tap ? NumElements(Dims(w_dims_.begin() + 2, w_dims_.end())) : 1;
    const int64_t row = k / rows, words = (row + 3) / 4, all = rows * words;
    const int64_t stride =
        packing == kDots ? (all + kDotVector - 1) / kDotVector * kDotVector : all;
    const auto from = codes_.data<int8_t>();
    std::vector<uint32_t> packed(static_cast<size_t>(channels_ * stride), 0);
    for (int64_t c = 0; c < channels_; ++c)
      for (int64_t i = 0; i < k; ++i) {
        const auto at = static_cast<size_t>(channels_first_ ? c * k + i : i * channels_ + c);
        const auto byte = static_cast<uint32_t>(static_cast<uint8_t>(from[at]));
        // i counts taps fastest.
        const int64_t r = by_tap ? i % rows : 0, in_row = by_tap ? i / rows : i;
        packed[static_cast<size_t>(c * stride + r * words + in_row / 4)] |= byte
                                                                            << (8 * (in_row % 4));
      }
    return packed;
  }

  /// By channel: what the zero point of the operand adds to a sum of signed codes.
  std::vector<int32_t> Offsets() const {
    const int32_t zero = ZeroOf(group_.inputs[0]->params) - 128;
    const auto codes = codes_.data<int8_t>();
    const int64_t k = codes_.num_elements() / std::max<int64_t>(channels_, 1);
    std::vector<int32_t> offsets(static_cast<size_t>(channels_), 0);
    for (int64_t c = 0; c < channels_; ++c)
      for (int64_t i = 0; i < k; ++i)
        offsets[static_cast<size_t>(c)] -=
            zero * codes[static_cast<size_t>(channels_first_ ? c * k + i : i * channels_ + c)];
    return offsets;
  }
  Result<std::shared_ptr<Memory>> OffsetsOnDevice() const {
    const std::lock_guard lock(mutex_);
    if (!offsets_on_device_) {
      const auto offsets = Offsets();
      INFER_ASSIGN(offsets_on_device_, OnDevice(facts_->parts, offsets.data(), offsets.size() * 4));
    }
    return offsets_on_device_;
  }

  /// Weights as Packed() and the channels' bias and scale, on the device.
  Result<std::array<std::shared_ptr<Memory>, 2>> Constants(Packing packing) const {
    const std::lock_guard lock(mutex_);
    auto& weights = weights_[packing];
    if (!weights) {
      const auto packed = Packed(packing);
      INFER_ASSIGN(weights, OnDevice(facts_->parts, packed.data(), packed.size() * 4));
    }
    if (!scales_on_device_) {
      INFER_ASSIGN(scales_on_device_, OnDevice(facts_->parts, scales_.data(), scales_.size() * 4));
    }
    return std::array{weights, scales_on_device_};
  }

  Result<ProductShape> ShapeOf(const Dims& x, const Dims& y) const {
    ProductShape s;
    s.out_channels = channels_;
    if (!IsConvolution(node_)) {
      if (x.empty()) return Unsupported("a scalar operand");
      s.in_channels = x.back();
      s.samples = NumElements(x) / x.back();
      if (s.samples * channels_ != NumElements(y)) return Unsupported("extents do not fit");
      return s;
    }
    INFER_ASSIGN(const ConvGeometry g,
                 ReadConvGeometry(node_.def(), node_.attrs(), x, w_dims_, false));
    s.samples = g.batch;
    s.groups = g.groups;
    s.in_channels = g.in_channels;
    s.input = g.input;
    s.output = g.output;
    s.kernel.clear();
    s.step.clear();
    s.pad.clear();
    for (const WindowAxis& a : g.window.axes) {
      if (a.stride > 0x7fff || a.dilation > 0x7fff || a.kernel > 1023)
        return Unsupported("so large a step or window");
      s.kernel.push_back(a.kernel);
      s.step.push_back(a.stride | a.dilation << 16);
      s.pad.push_back(a.pad_begin);
    }
    return s;
  }

  std::vector<int32_t> Specialized(std::initializer_list<int32_t> more) const {
    const QuantResidual* added = group_.residual ? &*group_.residual : nullptr;
    std::vector<int32_t> c(kMostActs, 0);
    for (size_t i = 0; i < acts_.size(); ++i) c[i] = acts_[i].code;
    c.push_back(!group_.output ? 0 : added ? 2 : 1);
    c.push_back(FlipOf(group_.inputs[0]->params));
    c.push_back(group_.output ? FlipOf(*group_.output) : 0);
    c.push_back(added ? FlipOf(added->other.params) : 0);
    c.push_back(added && added->relu);
    c.insert(c.end(), more);
    return c;
  }

  void AddActs(Push& push) const {
    for (size_t i = 0; i < kMostActs; ++i)
      push.F(i < acts_.size() ? acts_[i].a : 0).F(i < acts_.size() ? acts_[i].b : 0);
  }
  /// What follows x_zero in the shaders' blocks.
  void AddRoundings(Push& push) const {
    const QuantResidual* added = group_.residual ? &*group_.residual : nullptr;
    const auto lowest = [](const QuantParams8& p) { return static_cast<float>(-ZeroOf(p)); };
    const QuantParams8* y = group_.output ? &*group_.output : nullptr;
    push.F(to_quanta_).F(added ? lowest(added->between) : y ? lowest(*y) : 0);
    push.F(y ? lowest(*y) : 0).U(added ? ZeroOf(added->other.params) : 0);
    push.F(added ? added->other.params.scale() : 1).F(added ? added->between.scale() : 1);
    push.F(y ? y->scale() : 1);
  }

  std::vector<LaunchBuilder::Arg> Args(LaunchBuilder& b,
                                       const std::array<std::shared_ptr<Memory>, 2>& constants,
                                       LaunchBuilder::Arg y) const {
    return {b.Read(x()), b.Kept(constants[0]), b.Kept(constants[1]), b.ReadOr(r(), x()), y};
  }

  /// One tap, as many results as there are pixels.
  static bool IsPointwise(const ProductShape& s) {
    return NumElements(s.kernel) == 1 && s.input == s.output && (s.step[0] & 0xffff) == 1 &&
           (s.step.back() & 0xffff) == 1 && s.pad.back() == 0 && s.pad[0] == 0;
  }

  /// The blocks of the shaders by tiles and subgroups; `k` as they count it.
  Push TilesPush(const ProductShape& s, const Tiling& t, int64_t k, int64_t x_zero) const {
    const bool flat = s.kernel.size() == 1;
    const auto high = [&](const Dims& d, int64_t none) { return flat ? none : d[0]; };
    const int64_t step_h = flat ? 1 | 1 << 16 : s.step[0], step_w = s.step.back();
    Push push;
    push.U(s.out_channels / s.groups).U(k).U(t.tiles_m).U(t.tiles_n).U(s.samples).U(s.groups);
    push.U(high(s.input, 1)).U(s.input.back()).U(high(s.output, 1)).U(s.output.back());
    push.U(high(s.kernel, 1)).U(s.kernel.back());
    push.U((step_h & 0xffff) | (step_w & 0xffff) << 16).U(step_h >> 16 | step_w >> 16 << 16);
    push.U(high(s.pad, 0)).U(s.pad.back()).U(s.in_channels).U(x_zero);
    AddActs(push);
    AddRoundings(push);
    return push;
  }

  Result<Prepared> Tiled(const ProductShape& s, std::span<const Operand> in,
                         std::span<const Operand> out) const {
    const int64_t m = s.out_channels / s.groups, k = s.per_group_k();
    const int64_t columns = s.samples * NumElements(s.output);
    const int64_t taps = NumElements(s.kernel);
    const bool subgroup = facts_->subgroup && SubgroupRounds(2 * k, taps) <= facts_->max_iterations;
    Tiling t = TilingOf(*facts_, m, columns, k, s.groups, false);
    if (subgroup) {
      t.tiles_m = (m + kSubgroupRows - 1) / kSubgroupRows;
      t.tiles_n = (columns + kSubgroupColumns - 1) / kSubgroupColumns;
    }
    INFER_ASSIGN(const auto constants,
                 Constants(subgroup && IsConvolution(node_) ? kByTap : kFlat));
    const Push push = TilesPush(s, t, k, ZeroOf(group_.inputs[0]->params));
    LaunchBuilder b(facts_, in, out);
    b.Iterations(subgroup ? SubgroupRounds(2 * k, taps) : TileRounds(t.tile, k));
    const bool bytes = group_.output && facts_->int8, packs = group_.output && !bytes;
    const std::string shader = Cat("qconv", subgroup ? "_subgroup" : t.suffix(), bytes ? "b" : "");
    const int64_t n = NumElements(out[0].dims);
    const LaunchBuilder::Arg y = packs ? b.Scratch(n * 4) : b.Write();
    b.Dispatch(shader, Specialized({IsPointwise(s), k > kExactProducts}), Args(b, constants, y),
               push, t.groups() * s.groups);
    if (packs) b.DispatchElements("qpack", {}, {b.ScratchRead(), b.Write()}, Push().U(n), n);
    return b.Finish(shader);
  }

  /// Words of four channels for each tap.
  static int64_t DotWords(const ProductShape& s) {
    return (s.in_channels / s.groups + 3) / 4 * NumElements(s.kernel);
  }
  /// Rounds of all loops of shaders/qdot.comp along `words`, at most: those of the other tiles, and
  /// by windows the steps from tap to tap.
  static int64_t DotRounds(const ProductShape& s, int64_t words) {
    return TileRounds(64, words) + (IsPointwise(s) ? 0 : 3 * words);
  }
  /// Windows over one channel leave three quarters of each word empty.
  bool DotsPay(const ProductShape& s) const {
    const int64_t words = DotWords(s);
    return facts_->dot && 4 * words <= std::max<int64_t>(2 * s.per_group_k(), 4) &&
           DotRounds(s, words) <= facts_->max_iterations;
  }
  /// How shaders/qdot.comp reads codes: LOAD there.
  static int32_t DotLoad(const ProductShape& s) {
    constexpr int32_t kWindow = 0, kCodes = 1, kPixels = 2, kVectors = 3, kWords = 4;
    const int64_t channels = s.in_channels / s.groups, plane = NumElements(s.input);
    if (!IsPointwise(s)) return kWindow;
    if (plane == 1 && channels % 16 == 0) return kVectors;
    if (plane == 1 && channels % 4 == 0) return kWords;
    return plane % 4 == 0 ? kPixels : kCodes;
  }

  Result<Prepared> Dots(const ProductShape& s, std::span<const Operand> in,
                        std::span<const Operand> out) const {
    const int64_t m = s.out_channels / s.groups, pixels = NumElements(s.output);
    const Tiling t = TilingOf(*facts_, m, s.samples * pixels, DotWords(s), s.groups);
    INFER_ASSIGN(const auto constants, Constants(kDots));
    INFER_ASSIGN(const auto offsets, OffsetsOnDevice());
    const bool split = t.parts > 1, flat = pixels == 1, whole = (flat ? m : pixels) % 4 == 0;
    const bool packs = group_.output && !facts_->int8 && !whole && !split;
    const QuantParams8& x_params = group_.inputs[0]->params;
    const int64_t zero = static_cast<uint8_t>(x_params.zero_point());
    const int64_t n = NumElements(out[0].dims);
    LaunchBuilder b(facts_, in, out);
    b.Iterations(DotRounds(s, t.k_part));
    const std::string shader = Cat("qdot", t.suffix(), facts_->int8 ? "b" : "");
    const LaunchBuilder::Arg y = split   ? b.Scratch(t.parts * n * 4)
                                 : packs ? b.Scratch(n * 4)
                                         : b.Write();
    auto args = Args(b, constants, y);
    const LaunchBuilder::Arg offset = b.Kept(offsets);
    args.push_back(offset);
    b.Dispatch(shader, Specialized({DotLoad(s), flat, whole, split}), args,
               TilesPush(s, t, t.k_part, zero * 0x01010101), t.groups() * s.groups);
    if (packs) b.DispatchElements("qpack", {}, {b.ScratchRead(), b.Write()}, Push().U(n), n);
    if (split) {
      Push push;
      push.U(n).U(t.parts).U(s.out_channels).U(pixels);
      AddActs(push);
      AddRoundings(push);
      b.DispatchElements("qdot_finish", Specialized({}),
                         {b.ScratchRead(), offset, args[2], args[3], b.Write()}, push, n);
    }
    return b.Finish(Cat(shader, split ? "_split" : ""));
  }

  /// Every channel by itself, and rows of results that are whole words.
  bool IsDepthwise(const ProductShape& s) const {
    if (s.kernel.size() != 2 || s.in_channels != s.groups) return false;
    return s.step[0] >> 16 == 1 && s.step[1] >> 16 == 1 && s.kernel[1] <= kMostDepthwiseWidth &&
           (s.step[1] & 0xffff) <= kMostDepthwiseStride && s.output[1] % 4 == 0;
  }

  Result<Prepared> Depthwise(const ProductShape& s, std::span<const Operand> in,
                             std::span<const Operand> out) const {
    const int64_t across = s.output[1] / 4, stride = s.step[1] & 0xffff;
    const int64_t n = s.samples * s.out_channels * s.output[0] * across;
    Push push;
    push.U(n).U(s.out_channels).U(s.out_channels / s.groups).U(s.input[0]).U(s.input[1]);
    push.U(s.output[0]).U(s.output[1]).U(across).U(s.kernel[0]).U(s.step[0] & 0xffff);
    push.U(s.pad[0]).U(s.pad[1]);
    AddActs(push);
    push.U(ZeroOf(group_.inputs[0]->params));
    AddRoundings(push);
    INFER_ASSIGN(const auto constants, Constants(kFlat));
    LaunchBuilder b(facts_, in, out);
    b.Iterations(s.kernel[0] * (6 * s.kernel[1] + 3 * stride) + kFewRounds);
    b.DispatchElements(
        "qdepthwise",
        Specialized({static_cast<int32_t>(s.kernel[1]), static_cast<int32_t>(stride)}),
        Args(b, constants, b.Write()), push, n, 64);
    return b.Finish("qdepthwise");
  }

  Result<Prepared> Direct(const ProductShape& s, std::span<const Operand> in,
                          std::span<const Operand> out) const {
    const int64_t n = NumElements(out[0].dims);
    Dims kernel = s.kernel;
    kernel.insert(kernel.begin(), 3 - kernel.size(), 1);
    Push push;
    push.U(n).U(s.in_channels / s.groups).U(s.in_channels).U(s.out_channels / s.groups);
    push.U(s.out_channels).List(s.input, 3, 1).List(s.output, 3, 1);
    push.U(kernel[0] | kernel[1] << 10 | kernel[2] << 20);
    push.List(s.step, 3, 1 | 1 << 16).List(s.pad, 3, 0);
    AddActs(push);
    push.U(ZeroOf(group_.inputs[0]->params));
    AddRoundings(push);
    INFER_ASSIGN(const auto constants, Constants(kFlat));
    LaunchBuilder b(facts_, in, out);
    b.Iterations(4 * (NumElements(kernel) * (s.in_channels / s.groups + 3) + kFewRounds));
    b.DispatchElements("qdirect", Specialized({}), Args(b, constants, b.Write()), push, n);
    return b.Finish("qdirect");
  }

  const Node& node_;
  Facts facts_;
  QuantGroup group_;
  int64_t channels_ = 0;
  Dims w_dims_;
  Tensor codes_;  // s8, with zero point 0
  bool channels_first_ = false;
  std::vector<float> scales_;  // bias and scale of each channel
  std::vector<UnaryCode> acts_;
  float to_quanta_ = 1;
  mutable std::mutex mutex_;
  mutable std::shared_ptr<Memory> weights_[3], scales_on_device_;  // by Packing
  mutable std::shared_ptr<Memory> offsets_on_device_;
};

std::unique_ptr<Kernel> MakeQuantizedProduct(const StepCall& call, const Facts& facts) {
  return std::make_unique<QuantizedProduct>(call, facts);
}

}  // namespace

KernelList QuantProductKernels(const Facts& facts) {
  const auto product = [&](const char* op) {
    return Def(facts, op, "", "int8:product", RefuseQuantizedProduct, MakeQuantizedProduct);
  };
  return {product("Conv"), product("MatMul"), product("Gemm")};
}

}  // namespace infer::vulkan
