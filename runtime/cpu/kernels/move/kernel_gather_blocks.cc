/// GatherBlockQuantized: rows of a table of 2-, 4- and 8-bit codes, dequantized as they are looked
/// up. Exact: the same numbers as the reference.
#include <algorithm>

#include "lib/support/strings.h"
#include "runtime/cpu/kernels/common/appended.h"
#include "runtime/cpu/kernels/common/kernels.h"
#include "runtime/cpu/launch/launch.h"

namespace infer {
namespace {

enum BlockInput : size_t { kData, kIndices, kBlockScales, kBlockZeros };

bool Has(const Value* v, DType type) { return v && v->type().is_tensor() && v->dtype() == type; }

std::string RefuseGatherBlocks(const StepCall& call) {
  const Node& n = call.main();
  if (call.step.nodes.size() > 1) return "it has no epilogue";
  if (!Has(n.input(kData), DType::kU8)) return "the codes are not u8";
  if (!Has(n.input(kBlockScales), DType::kF32)) return "the scales are not f32";
  if (!Has(n.input(kIndices), DType::kI64) && !Has(n.input(kIndices), DType::kI32))
    return "the indices are neither i64 nor i32";
  return "";
}

/// Codes of `kBits`, the lowest bits first: y[i] = (code[i] - zero) * scale.
template <int kBits>
void Decode(const uint8_t* codes, int64_t count, int zero, float scale, float* y) {
  constexpr int kPerByte = 8 / kBits, kMask = (1 << kBits) - 1;
  const int64_t whole = count / kPerByte;
  for (int64_t i = 0; i < whole; ++i)
    for (int j = 0; j < kPerByte; ++j)
      y[i * kPerByte + j] = static_cast<float>((codes[i] >> (j * kBits) & kMask) - zero) * scale;
  for (int64_t i = whole * kPerByte; i < count; ++i)
    y[i] = static_cast<float>((codes[whole] >> (i % kPerByte * kBits) & kMask) - zero) * scale;
}

class GatherBlocksLaunch final : public Launch {
 public:
  int64_t extent = 0, count = 0,
          rows = 0;  ///< of the table, of indices, and of codes for each index
  int64_t width = 0, block = 0, blocks = 0;
  int bits = 0;
  int data = -1, indices = -1, scales = -1, zeros = -1, result = -1;
  bool wide = true;  ///< i64 indices

  Status Run(std::byte* const* args, LaunchState*) const override {
    for (int64_t j = 0; j < count; ++j)
      if (const int64_t k = At(args, j); k < -extent || k >= extent)
        return InvalidModel(Cat("index ", k, " is out of range for an extent of ", extent));
    ForRange(count * rows, std::max<int64_t>(1, 16384 / width), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        int64_t k = At(args, i / rows);
        if (k < 0) k += extent;
        Row(args, k * rows + i % rows, As<float>(args[result]) + i * width);
      }
    });
    return {};
  }

 private:
  int64_t At(std::byte* const* args, int64_t j) const {
    return wide ? As<int64_t>(static_cast<const std::byte*>(args[indices]))[j]
                : As<int32_t>(static_cast<const std::byte*>(args[indices]))[j];
  }

  void Row(std::byte* const* args, int64_t row, float* y) const {
    const auto* codes =
        As<uint8_t>(static_cast<const std::byte*>(args[data])) + row * width * bits / 8;
    const auto* scale = As<float>(static_cast<const std::byte*>(args[scales])) + row * blocks;
    const uint8_t* zero = zeros < 0 ? nullptr
                                    : As<uint8_t>(static_cast<const std::byte*>(args[zeros])) +
                                          row * BlocksOf(blocks * bits, 8);
    for (int64_t b = 0; b < blocks; ++b) {
      const int64_t from = b * block, n = std::min(block, width - from);
      int z = 1 << (bits - 1);
      if (zero) z = zero[b * bits / 8] >> (b * bits % 8) & ((1 << bits) - 1);
      const uint8_t* const at = codes + from * bits / 8;
      if (bits == 4)
        Decode<4>(at, n, z, scale[b], y + from);
      else if (bits == 8)
        Decode<8>(at, n, z, scale[b], y + from);
      else
        Decode<2>(at, n, z, scale[b], y + from);
    }
  }
};

std::unique_ptr<Kernel> MakeGatherBlocks(const StepCall& call) {
  const Node& n = call.main();
  GatherBlocksLaunch launch;
  launch.bits = static_cast<int>(n.Attr<int64_t>("bits"));
  launch.block = n.Attr<int64_t>("block_size");
  launch.data = call.operand(n.input(kData));
  launch.indices = call.operand(n.input(kIndices));
  launch.scales = call.operand(n.input(kBlockScales));
  launch.zeros = n.input(kBlockZeros) ? call.operand(n.input(kBlockZeros)) : -1;
  launch.wide = n.input(kIndices)->dtype() == DType::kI64;
  return KernelOf(
      [launch](std::span<const Operand> in, std::span<const Operand>) -> Result<Prepared> {
        // Inference has checked that codes of bytes lie along the last axis and rows are looked up
        // along the first.
        const Dims& dims = in[static_cast<size_t>(launch.data)].dims;
        auto made = std::make_shared<GatherBlocksLaunch>(launch);
        made->extent = dims.front();
        made->rows = NumElements(Dims(dims.begin() + 1, dims.end() - 1));
        made->width = dims.back() * 8 / launch.bits;
        made->blocks = BlocksOf(made->width, launch.block);
        made->count = NumElements(in[static_cast<size_t>(launch.indices)].dims);
        made->result = static_cast<int>(in.size());
        Prepared p;
        p.name = "own:gather-blocks";
        p.launch = std::move(made);
        return p;
      });
}

}  // namespace

KernelList GatherBlockKernels() {
  return {{"GatherBlockQuantized", "com.microsoft", "own", RefuseGatherBlocks, MakeGatherBlocks}};
}

}  // namespace infer
