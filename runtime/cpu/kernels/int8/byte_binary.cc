#include "runtime/cpu/kernels/int8/byte_binary.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "lib/ops/common.h"
#include "lib/support/parallel.h"
#include "lib/support/strings.h"
#include "runtime/cpu/kernels/common/appended.h"
#include "runtime/cpu/launch/launch.h"
#include "runtime/cpu/onednn/onednn.h"

namespace infer {
namespace {

constexpr int64_t kBinaryGrain = 65536;
constexpr int64_t kRepeatedTile = 1024;
constexpr int64_t kLongRow = 256;  // rows from here on are not tiled

/// How an operand that broadcasts lies beside the result: for each index of `outer` a row of bytes,
/// which the result has `repeats` times, one after the other.
struct Repeated {
  Dims outer, strides;  ///< strides of the operand over them, in bytes
  int64_t repeats = 1, row = 1;

  int64_t outer_count() const { return NumElements(outer); }
  int64_t Offset(int64_t o) const {
    int64_t at = 0;
    for (size_t d = outer.size(); d-- > 0; o /= outer[d]) at += o % outer[d] * strides[d];
    return at;
  }
  /// Rows of a tile.
  int64_t tile_rows() const {
    return row >= kLongRow ? 1 : std::min(repeats, std::max<int64_t>(1, kRepeatedTile / row));
  }
};

void FillTile(const std::byte* row, int64_t bytes, int64_t rows, std::byte* tile) {
  if (bytes == 1) {
    std::memset(tile, static_cast<int>(row[0]), static_cast<size_t>(rows));
    return;
  }
  for (int64_t i = 0; i < rows; ++i) std::memcpy(tile + i * bytes, row, static_cast<size_t>(bytes));
}

/// `dims` in the order of memory, `strides` of the operand over them. Unsupported where the
/// innermost axis of the operand is neither contiguous nor repeated.
Result<Repeated> RepeatedOf(const Dims& dims, const Dims& strides) {
  Repeated r;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] == 1) continue;
    if (!r.outer.empty() && r.strides.back() == strides[i] * dims[i]) {
      r.outer.back() *= dims[i];
      r.strides.back() = strides[i];
    } else {
      r.outer.push_back(dims[i]);
      r.strides.push_back(strides[i]);
    }
  }
  const auto take = [&r](int64_t& extent) {
    extent = r.outer.back();
    r.outer.pop_back();
    r.strides.pop_back();
  };
  if (!r.outer.empty() && r.strides.back() == 1)
    take(r.row);
  else if (!r.outer.empty() && r.strides.back() != 0)
    return Unsupported("an operand is read with a step");
  if (!r.outer.empty() && r.strides.back() == 0) take(r.repeats);
  return r;
}

Dims Padded(const Dims& dims, size_t rank) {
  Dims out(rank - dims.size(), 1);
  out.insert(out.end(), dims.begin(), dims.end());
  return out;
}

/// [N, C, spatial..] -> [N, spatial.., C]
Dims ChannelsBehind(Dims dims) {
  std::rotate(dims.begin() + 1, dims.begin() + 2, dims.end());
  return dims;
}

/// Strides over `dims` of an operand of these (padded) extents that lies densely; 0 where it is
/// repeated.
Dims BroadcastStrides(const Dims& own, const Dims& dims) {
  Dims strides = Strides(own);
  for (size_t i = 0; i < dims.size(); ++i)
    if (own[i] == 1 && dims[i] != 1) strides[i] = 0;
  return strides;
}

bool IsChannelsLast(const Layout& layout, DType dtype, const Dims& dims) {
  return dims.size() >= 3 && dims.size() <= 5 && layout == onednn::ChannelsLast(dtype, dims);
}

/// The layouts of one preparation, and how the operand that is not whole is repeated.
struct Arrangement {
  Layout lead, other, out;
  Repeated repeated;
};

/// With channels last, as the whole operand lies; Unsupported where that does not suit the other.
Result<Arrangement> Behind(const Operand& lead, const Operand& other, const Operand& out) {
  Arrangement a;
  if (!IsChannelsLast(lead.layout, lead.dtype, lead.dims)) return Unsupported("not channels last");
  a.lead = lead.layout;
  a.out = onednn::ChannelsLast(out.dtype, out.dims);
  const Dims dims = ChannelsBehind(out.dims), own = Padded(other.dims, out.dims.size());
  const bool is_one_pixel =
      std::all_of(own.begin() + 2, own.end(), [](int64_t d) { return d == 1; });
  const bool keeps = other.dims.size() == out.dims.size() &&
                     (!is_one_pixel || IsChannelsLast(other.layout, other.dtype, other.dims));
  if (keeps) {
    a.other = onednn::ChannelsLast(other.dtype, other.dims);
    INFER_ASSIGN(a.repeated, RepeatedOf(dims, BroadcastStrides(ChannelsBehind(own), dims)));
  } else {
    INFER_ASSIGN(a.repeated, RepeatedOf(dims, ChannelsBehind(BroadcastStrides(own, out.dims))));
  }
  return a;
}

Result<Arrangement> Plain(const Operand& other, const Operand& out) {
  Arrangement a;
  const Dims own = Padded(other.dims, out.dims.size());
  INFER_ASSIGN(a.repeated, RepeatedOf(out.dims, BroadcastStrides(own, out.dims)));
  return a;
}

Prepared Begin(const ByteBinary& op, size_t operands) {
  Prepared p;
  p.name = Cat("own:", simd::TheLoops().isa);
  p.unused.assign(operands, true);
  p.unused[static_cast<size_t>(op.a)] = p.unused[static_cast<size_t>(op.b)] = false;
  p.in_layouts.resize(operands);
  return p;
}

/// Both of the result's extents: any layout that they share.
Prepared SameExtents(const ByteBinary& op, std::span<const Operand> in, const Operand& out) {
  const Operand &x = in[static_cast<size_t>(op.a)], &z = in[static_cast<size_t>(op.b)];
  const Operand& lead = x.layout.plain() ? z : x;
  Prepared p = Begin(op, in.size());
  p.in_place = true;
  int64_t n = x.plain_bytes();
  // A layout names its element type.
  if (!lead.layout.plain() && x.dtype == z.dtype && x.dtype == out.dtype) {
    n = lead.layout.bytes;
    p.in_layouts[static_cast<size_t>(op.a)] = p.in_layouts[static_cast<size_t>(op.b)] = lead.layout;
    p.out_layouts = {lead.layout};
  }
  const size_t y = in.size();
  p.launch = LaunchOf([=](std::byte* const* args) {
    ParallelFor((n + 63) / 64, kBinaryGrain / 64, [&](int64_t u, int64_t v) {
      const int64_t begin = u * 64, end = std::min(n, v * 64);
      const std::byte *a = args[op.a] + begin, *b = args[op.b] + begin;
      op.loop(As<uint8_t>(a), As<uint8_t>(b), As<uint8_t>(args[y] + begin), end - begin, op.params);
    });
  });
  return p;
}

/// Several rows of the other operand, each repeated, in one tile: for few repetitions of short
/// rows.
void RunTogether(const ByteBinary& op, const Repeated& r, bool lead_is_a, const std::byte* lead,
                 const std::byte* other, std::byte* to) {
  const int64_t bytes = r.repeats * r.row, together = kRepeatedTile / bytes;
  ForRange(BlocksOf(r.outer_count(), together), std::max<int64_t>(1, kBinaryGrain / kRepeatedTile),
           [&](int64_t begin, int64_t end) {
             std::array<std::byte, kRepeatedTile> tile;
             for (int64_t u = begin; u < end; ++u) {
               const int64_t first = u * together;
               const int64_t count = std::min(together, r.outer_count() - first);
               for (int64_t i = 0; i < count; ++i)
                 FillTile(other + r.Offset(first + i), r.row, r.repeats, tile.data() + i * bytes);
               const std::byte* const whole = lead + first * bytes;
               const std::byte* const row = tile.data();
               op.loop(As<uint8_t>(lead_is_a ? whole : row), As<uint8_t>(lead_is_a ? row : whole),
                       As<uint8_t>(to + first * bytes), count * bytes, op.params);
             }
           });
}

/// Units of work: pieces of at most a tile of the rows that read one row of the other operand.
void RunRepeated(const ByteBinary& op, const Repeated& r, bool lead_is_a, const std::byte* lead,
                 const std::byte* other, std::byte* to) {
  if (r.repeats > 1 && 2 * r.repeats * r.row <= kRepeatedTile)
    return RunTogether(op, r, lead_is_a, lead, other, to);
  const int64_t rows = r.tile_rows(), pieces = BlocksOf(r.repeats, rows);
  ForRange(r.outer_count() * pieces, std::max<int64_t>(1, kBinaryGrain / (rows * r.row)),
           [&](int64_t begin, int64_t end) {
             std::array<std::byte, kRepeatedTile> tile;
             int64_t filled = -1;
             for (int64_t u = begin; u < end; ++u) {
               const int64_t o = u / pieces, first = u % pieces * rows;
               const std::byte* row = other + r.Offset(o);
               if (rows > 1) {
                 if (filled != o) FillTile(row, r.row, rows, tile.data());
                 filled = o;
                 row = tile.data();
               }
               const int64_t at = (o * r.repeats + first) * r.row;
               const int64_t n = std::min(rows, r.repeats - first) * r.row;
               const std::byte* const whole = lead + at;
               op.loop(As<uint8_t>(lead_is_a ? whole : row), As<uint8_t>(lead_is_a ? row : whole),
                       As<uint8_t>(to + at), n, op.params);
             }
           });
}

/// The operand written out as often as the result has it.
void Expand(const Repeated& r, const std::byte* from, std::byte* to) {
  const int64_t bytes = r.repeats * r.row;
  ForRange(r.outer_count(), std::max<int64_t>(1, kBinaryGrain / bytes),
           [&](int64_t begin, int64_t end) {
             for (int64_t o = begin; o < end; ++o)
               FillTile(from + r.Offset(o), r.row, r.repeats, to + o * bytes);
           });
}

}  // namespace

Result<Prepared> PrepareByteBinary(const ByteBinary& op, std::span<const Operand> in,
                                   const Operand& out) {
  const Operand &a = in[static_cast<size_t>(op.a)], &b = in[static_cast<size_t>(op.b)];
  if (a.dims == out.dims && b.dims == out.dims) return SameExtents(op, in, out);
  const bool none_whole = a.dims != out.dims && b.dims != out.dims;
  const bool lead_is_a = a.dims == out.dims || none_whole;
  const int lead = lead_is_a ? op.a : op.b, other = lead_is_a ? op.b : op.a;
  const Operand &x = in[static_cast<size_t>(lead)], &z = in[static_cast<size_t>(other)];
  Prepared p = Begin(op, in.size());
  const size_t y = in.size();
  if (none_whole) {
    INFER_ASSIGN(const Arrangement first, Plain(x, out));
    INFER_ASSIGN(const Arrangement second, Plain(z, out));
    p.scratch_bytes = out.plain_bytes();
    p.launch = LaunchOf([=](std::byte* const* args) {
      Expand(first.repeated, args[lead], args[y + 1]);
      RunRepeated(op, second.repeated, lead_is_a, args[y + 1], args[other], args[y]);
    });
    return p;
  }
  Result<Arrangement> how = Behind(x, z, out);
  if (!how.ok()) how = Plain(z, out);
  INFER_TRY(how.status());
  p.in_place = true;
  p.in_layouts[static_cast<size_t>(lead)] = how->lead;
  p.in_layouts[static_cast<size_t>(other)] = how->other;
  p.out_layouts = {how->out};
  p.launch = LaunchOf([=, r = how->repeated](std::byte* const* args) {
    RunRepeated(op, r, lead_is_a, args[lead], args[other], args[y]);
  });
  return p;
}

}  // namespace infer
