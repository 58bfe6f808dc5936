#pragma once
/// What the kernels of the Vulkan backend share: facts of the device, and launches as lists of
/// dispatches. Values lie row-major; a kernel refuses what a buffer of the device cannot hold.
#include <functional>
#include <string>
#include <vector>

#include "runtime/plan_ir/function_kernel.h"
#include "runtime/vulkan/record/encoder.h"

namespace infer::vulkan {

/// Whether 3x3 convolutions go by Winograd's algorithm: the feature is off; it was not measured on
/// such a device; where measurements say so; wherever it fits, for who measures.
enum class WinogradUse : uint8_t { kOff, kUnmeasured, kByRule, kAlways };

/// What a kernel may know of its device. Without `parts` kernels can be listed, not made.
struct DeviceFacts {
  std::shared_ptr<DeviceParts> parts;
  int64_t max_buffer_bytes = INT64_MAX;
  int64_t max_iterations = INT64_MAX;  ///< of all loops of an invocation
  bool int8 = true, int16 = true, subgroup = true;
  bool dot = false;               ///< INT8 products by integer dot products
  int64_t max_invocations = 128;  ///< of a workgroup
  int64_t shared_bytes = 16384;   ///< of a workgroup
  bool matrix = false;            ///< cooperative matrices: feature `matrix`
  WinogradUse winograd = WinogradUse::kByRule;
  /// Workgroups that keep the device busy: products of fewer are split along their common axis.
  int64_t busy_groups = 1;
  /// Rows of a workgroup of a product, where such a shader fits; 0: by the product's extents.
  int64_t tile = 0;
};
using Facts = std::shared_ptr<const DeviceFacts>;

/// What loops beside the one that counts take, more than any shader has.
inline constexpr int64_t kFewRounds = 64;
/// Rounds of all loops of shaders/matmul.comp and conv.comp along a common axis of `k`.
inline int64_t TileRounds(int64_t tile, int64_t k) {
  // Per 16 of k: loads of both tiles, and what is left of the loops over them when those with
  // constant bounds are unrolled or not (measured on llvmpipe: 52 and 19).
  return (k + 15) / 16 * (tile >= 64 ? 64 : 24) + kFewRounds;
}

/// How a product [m, k] x [k, n] is cut into workgroups of matmul.comp and conv.comp.
struct Tiling {
  int64_t tile = 64;  ///< rows and columns of a workgroup
  bool wide = false;  ///< 256 invocations a workgroup, not 64
  int64_t tiles_m = 1, tiles_n = 1;
  int64_t parts = 1;   ///< of the common axis; more than one: finish.comp adds them
  int64_t k_part = 0;  ///< extent of a part
  int64_t groups() const { return tiles_m * tiles_n * parts; }
  /// "128w", "64", "64w", "32": the shader's name begins with its family's.
  std::string suffix() const;
};
/// `batches` products at once. Without `may_split` there is one part; tiles are at most `largest`.
Tiling TilingOf(const DeviceFacts& facts, int64_t m, int64_t n, int64_t k, int64_t batches,
                bool may_split = true, int64_t largest = 64);

/// Of shaders/conv_subgroup.comp and qconv_subgroup.comp: rows and columns of a workgroup.
inline constexpr int64_t kSubgroupRows = 16, kSubgroupColumns = 32;
/// Their rounds along a common axis of `k`, over a window of `taps`: also those over the pixels and
/// rows of a lane, unrolled or not.
inline int64_t SubgroupRounds(int64_t k, int64_t taps) {
  return k + (k / 256 + taps) * 96 + 4 * kFewRounds;
}

/// Windows of shaders/depthwise.comp and qdepthwise.comp.
inline constexpr int64_t kMostDepthwiseWidth = 11, kMostDepthwiseStride = 4;

/// A row of a kernel list, bound to its device.
using RefuseFn = std::string (*)(const StepCall& call, const DeviceFacts& facts);
using MakeFn = std::unique_ptr<Kernel> (*)(const StepCall& call, const Facts& facts);
KernelDef Def(const Facts& facts, std::string_view op, std::string_view domain,
              std::string_view name, RefuseFn refuse, MakeFn make);

/// Push constants in the order of the shader's block.
class Push {
 public:
  Push& U(int64_t v) { return Word(static_cast<uint32_t>(v)); }
  Push& F(float v);
  /// `count` words: the list behind as many of `before` as are missing.
  Push& List(const Dims& values, size_t count, int64_t before);
  const PushData& data() const { return data_; }

 private:
  Push& Word(uint32_t v) {
    INFER_CHECK(at_ < data_.words.size());
    data_.words[at_++] = v;
    return *this;
  }
  PushData data_;
  size_t at_ = 0;
};

/// Collects the dispatches of one launch.
class LaunchBuilder {
 public:
  LaunchBuilder(const Facts& facts, std::span<const Operand> in, std::span<const Operand> out)
      : facts_(facts), in_(in), out_(out) {}

  /// A shader's buffers: positions among the arguments of the launch, or tables of its own. The
  /// results follow the operands; those are written.
  struct Arg {
    int at;
    bool written;
    int table = -1;
    int kept = -1;
    int64_t offset = 0, bytes = -1;  ///< of the part that is bound; -1: up to the end
  };
  /// `bytes` of it, from a multiple of kPartAlignment on.
  static Arg Part(Arg arg, int64_t offset, int64_t bytes) {
    arg.offset = offset;
    arg.bytes = bytes;
    return arg;
  }
  static Arg Read(int operand) { return {operand, false}; }
  /// An operand that may be missing: another stands in its place, which the shader does not look
  /// at.
  static Arg ReadOr(int operand, int other) { return {operand >= 0 ? operand : other, false}; }
  Arg Write(size_t result = 0) const { return {static_cast<int>(in_.size() + result), true}; }
  /// Numbers that the launch keeps on the device.
  Arg Table(std::vector<int32_t> numbers) {
    tables_.push_back(std::move(numbers));
    return {-1, false, static_cast<int>(tables_.size()) - 1};
  }

  /// Memory of the kernel's, which the launch keeps.
  Arg Kept(std::shared_ptr<Memory> memory) {
    kept_.push_back(std::move(memory));
    return {-1, false, -1, static_cast<int>(kept_.size()) - 1};
  }
  /// Memory of the run between the dispatches of the launch: written by one, read by those behind.
  Arg Scratch(int64_t bytes) {
    scratch_bytes_ = bytes;
    return {static_cast<int>(in_.size() + out_.size()), true};
  }
  Arg ScratchRead() const { return {static_cast<int>(in_.size() + out_.size()), false}; }

  /// `groups` workgroups, numbered along the first axis and then the second.
  void Dispatch(std::string_view shader, std::vector<int32_t> constants, std::vector<Arg> args,
                const Push& push, int64_t groups);
  /// The sums of a split product become results: shaders/finish.comp, behind a dispatch that wrote
  /// `parts` x `batches` x `m` x `n` of them to Scratch(). `constants` are the tail's and whether
  /// there is a bias.
  struct Split {
    Tiling tiling;
    int64_t batches, m, n;
    int64_t bias_row, bias_column;
    float alpha = 1, beta = 1;
    int64_t bytes() const { return tiling.parts * batches * m * n * 4; }
  };
  void Finish(const Split& split, std::vector<int32_t> constants, Arg bias, Arg residual,
              const std::function<void(Push&)>& add_tail);
  /// One invocation for each of `n` elements, by workgroups that take `per_group` of them.
  void DispatchElements(std::string_view shader, std::vector<int32_t> constants,
                        std::vector<Arg> args, const Push& push, int64_t n,
                        int64_t per_group = 256) {
    Dispatch(shader, std::move(constants), std::move(args), push, (n + per_group - 1) / per_group);
  }
  /// The operand is read by `Before`, in host memory.
  void ReadOnHost(int operand) { on_host_.push_back(operand); }
  /// Runs each time before the dispatches are recorded: looks at what is read on the host, and
  /// brings to the device what hangs on it. `args` as Launch::Record has them. A failure ends the
  /// run before the launch has written anything.
  using BeforeFn = std::function<Status(Encoder& encoder, std::span<const BufferView> args)>;
  void Before(BeforeFn before) { before_ = std::move(before); }

  /// What an invocation of a dispatch runs through in loops, at most; few without it.
  void Iterations(int64_t n) { most_iterations_ = std::max(most_iterations_, n); }
  /// Unsupported where a buffer is too large for the device, or loops too long. `name` is the
  /// shader's, as plans and profiles show it.
  Result<Prepared> Finish(std::string_view name);

 private:
  struct Call {
    std::string shader;
    std::vector<int32_t> constants;
    std::vector<Arg> args;
    PushData push;
    int64_t groups;
  };
  const Operand& OperandAt(int arg) const;
  Status CheckBuffer(const Arg& arg) const;
  const Facts& facts_;
  std::span<const Operand> in_, out_;
  std::vector<Call> calls_;
  int64_t most_iterations_ = 0;
  std::vector<std::vector<int32_t>> tables_;
  std::vector<std::shared_ptr<Memory>> kept_;
  int64_t scratch_bytes_ = 0;
  std::vector<int> on_host_;
  BeforeFn before_;
};

/// In bytes, of the begin of a bound part: what every device takes that we run on.
inline constexpr int64_t kPartAlignment = 64;
/// An operand of more bytes than the device binds at once goes part by part: how many of its `rows`
/// of `row_bytes` a part has. All of them where they fit. Several operands that are cut alike have
/// a row size each: each of their parts begins at a multiple of kPartAlignment. Unsupported where
/// too few rows fit.
Result<int64_t> RowsOfAPart(const DeviceFacts& facts, int64_t rows, const Dims& row_bytes);

/// Bytes in memory of the device that is theirs alone.
Result<std::shared_ptr<Memory>> OnDevice(const std::shared_ptr<DeviceParts>& parts,
                                         const void* data, size_t bytes);

/// "" or which operand or result of the step's nodes is no f32 tensor.
std::string RefuseUnlessAllF32(const StepCall& call);
/// "" or that the step has more nodes than one.
std::string RefuseEpilogue(const StepCall& call);
/// Both.
std::string RefuseUnlessPlainF32(const StepCall& call);

}  // namespace infer::vulkan
