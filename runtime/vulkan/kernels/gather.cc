/// Gather and GatherBlockQuantized by indices that the run brings. The host looks at their range
/// and hands them on; tables that no buffer of the device holds go part by part.
#include <algorithm>

#include "lib/ir/roles.h"
#include "lib/ops/common.h"
#include "lib/support/strings.h"
#include "runtime/vulkan/kernels/kernels.h"

namespace infer::vulkan {
namespace {

std::string RefuseIndices(const StepCall& call) {
  if (std::string r = RefuseEpilogue(call); !r.empty()) return r;
  const DType t = call.main().input(1)->dtype();
  return t == DType::kI64 || t == DType::kI32 ? "" : "the indices are neither i64 nor i32";
}

/// Indices of a run, each within [-extent, extent).
struct RunIndices {
  int operand = -1;
  bool wide = true;  ///< i64
  int64_t count = 0, extent = 0;

  /// Those of the host, from 0 on, to the launch's own memory.
  Status Bring(Encoder& encoder, std::span<const BufferView> args) const {
    const std::byte* from = args[static_cast<size_t>(operand)].host;
    std::vector<int32_t> numbers(static_cast<size_t>(count));
    for (size_t i = 0; i < numbers.size(); ++i) {
      const int64_t raw = wide ? reinterpret_cast<const int64_t*>(from)[i]
                               : int64_t{reinterpret_cast<const int32_t*>(from)[i]};
      if (raw < -extent || raw >= extent)
        return InvalidModel(Cat("index ", raw, " is out of range for an extent of ", extent));
      numbers[i] = static_cast<int32_t>(raw < 0 ? raw + extent : raw);
    }
    BufferView to = args.back();
    to.bytes = count * 4;
    return encoder.Upload(to, reinterpret_cast<const std::byte*>(numbers.data()));
  }

  void Add(LaunchBuilder& b) const {
    b.ReadOnHost(operand);
    b.Scratch(count * 4);
    b.Before([*this](Encoder& encoder, std::span<const BufferView> args) {
      return Bring(encoder, args);
    });
  }
};

std::string RefuseGather(const StepCall& call, const DeviceFacts&) {
  if (std::string r = RefuseIndices(call); !r.empty()) return r;
  const DType t = call.main().input(0)->dtype();
  return t != DType::kString && t != DType::kUndefined && BitWidth(t) % 8 == 0
             ? ""
             : "elements that are no whole bytes";
}

std::unique_ptr<Kernel> MakeGather(const StepCall& call, const Facts& facts) {
  const Node& n = call.main();
  const int x = call.operand(n.input(0));
  const int64_t axis = n.Attr<int64_t>("axis");
  const RunIndices given{call.operand(n.input(1)), n.input(1)->dtype() == DType::kI64};
  return KernelOf([=](std::span<const Operand> in,
                      std::span<const Operand> out) -> Result<Prepared> {
    const Operand& table = in[static_cast<size_t>(x)];
    const Dims& dims = table.dims;
    INFER_ASSIGN(const int a, NormalizeAxis(axis, static_cast<int>(dims.size())));
    RunIndices indices = given;
    indices.count = NumElements(in[static_cast<size_t>(given.operand)].dims);
    indices.extent = dims[static_cast<size_t>(a)];
    const int64_t outer = NumElements(Dims(dims.begin(), dims.begin() + a));
    const int64_t bytes =
        NumElements(Dims(dims.begin() + a + 1, dims.end())) * BitWidth(table.dtype) / 8;
    if (bytes % 4 != 0) return Unsupported("rows that are no whole words");
    if (indices.extent > INT32_MAX) return Unsupported("more than 2^31 rows");
    int64_t per_part = indices.extent;
    if (outer == 1) {
      INFER_ASSIGN(per_part, RowsOfAPart(*facts, indices.extent, {bytes}));
    }
    LaunchBuilder b(facts, in, out);
    indices.Add(b);
    const int64_t words = outer * indices.count * bytes / 4;
    for (int64_t first = 0; first < indices.extent; first += per_part) {
      const int64_t rows = std::min(per_part, indices.extent - first);
      const bool whole = rows == indices.extent;
      b.DispatchElements(
          "gather", {},
          {b.Part(b.Read(x), first * bytes, whole ? -1 : rows * bytes),
           b.Part(b.ScratchRead(), 0, indices.count * 4), b.Write()},
          Push().U(words).U(bytes / 4).U(indices.count).U(indices.extent).U(first).U(rows), words);
    }
    return b.Finish(per_part < indices.extent ? "gather_parts" : "gather");
  });
}

// ---- Tables of codes -------------------------------------------------------------------------

std::string RefuseGatherCodes(const StepCall& call, const DeviceFacts&) {
  if (std::string r = RefuseIndices(call); !r.empty()) return r;
  const Node& n = call.main();
  if (n.input(0)->dtype() != DType::kU8) return "the codes are not u8";
  if (!IsF32(n.input(2))) return "the scales are not f32";
  return n.input(3) && n.input(3)->dtype() != DType::kU8 ? "the zero points are not u8" : "";
}

std::unique_ptr<Kernel> MakeGatherCodes(const StepCall& call, const Facts& facts) {
  const Node& n = call.main();
  const int x = call.operand(n.input(0)), scales = call.operand(n.input(2)),
            zeros = call.operand(n.input(3));
  const int64_t bits = n.Attr<int64_t>("bits"), block = n.Attr<int64_t>("block_size");
  const RunIndices given{call.operand(n.input(1)), n.input(1)->dtype() == DType::kI64};
  return KernelOf(
      [=](std::span<const Operand> in, std::span<const Operand> out) -> Result<Prepared> {
        // Inference has checked that bytes of codes lie along the last axis and entries are looked
        // up along the first.
        const Dims& dims = in[static_cast<size_t>(x)].dims;
        RunIndices indices = given;
        indices.count = NumElements(in[static_cast<size_t>(given.operand)].dims);
        indices.extent = dims.front();
        const int64_t rows = NumElements(Dims(dims.begin() + 1, dims.end() - 1));
        const int64_t row_bytes = dims.back(), width = row_bytes * 8 / bits;
        const int64_t blocks = (width + block - 1) / block, zero_bytes = (blocks * bits + 7) / 8;
        const Dims entry = {rows * row_bytes, rows * blocks * 4, rows * zero_bytes};
        INFER_ASSIGN(const int64_t per_part, RowsOfAPart(*facts, indices.extent, entry));
        LaunchBuilder b(facts, in, out);
        indices.Add(b);
        const int64_t words = indices.count * rows * width;
        for (int64_t first = 0; first < indices.extent; first += per_part) {
          const int64_t n_entries = std::min(per_part, indices.extent - first);
          const auto part = [&](int operand, size_t i) {
            return b.Part(b.Read(operand), first * entry[i], n_entries * entry[i]);
          };
          Push push;
          push.U(words).U(width).U(rows).U(block).U(blocks).U(row_bytes).U(zero_bytes);
          push.U(first).U(n_entries);
          b.DispatchElements(
              "gather_blocks", {static_cast<int32_t>(bits), zeros >= 0},
              {part(x, 0), b.Part(b.ScratchRead(), 0, indices.count * 4), part(scales, 1),
               zeros >= 0 ? part(zeros, 2) : part(scales, 1), b.Write()},
              push, words);
        }
        return b.Finish(per_part < indices.extent ? "gather_blocks_parts" : "gather_blocks");
      });
}

}  // namespace

KernelList GatherKernels(const Facts& facts) {
  return {Def(facts, "Gather", "", "gather", RefuseGather, MakeGather),
          Def(facts, "GatherBlockQuantized", "com.microsoft", "gather", RefuseGatherCodes,
              MakeGatherCodes)};
}

}  // namespace infer::vulkan
