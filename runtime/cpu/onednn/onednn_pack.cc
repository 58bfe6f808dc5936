/// Constant data in the layouts that primitives want.
#include <algorithm>
#include <cstring>

#include "lib/support/parallel.h"
#include "runtime/cpu/onednn/onednn_desc.h"

namespace infer::onednn {
namespace {

using dnnl::memory;

constexpr int64_t kTile = 64;

/// Whether `d` is BA16a64b4a of bytes, with the sums that correct an asymmetric operand behind it.
bool IsTiledWithSums(const dnnl_memory_desc_t& d) {
  const auto& b = d.format_desc.blocking;
  constexpr dnnl_dim_t kBlocks[] = {16, kTile, 4}, kDims[] = {0, 1, 0};
  return d.data_type == dnnl_s8 && d.ndims == 2 && d.offset0 == 0 &&
         d.format_kind == dnnl_blocked && b.inner_nblks == 3 &&
         std::equal(kBlocks, kBlocks + 3, b.inner_blks) &&
         std::equal(kDims, kDims + 3, b.inner_idxs) &&
         d.extra.flags == dnnl_memory_extra_flag_compensation_conv_asymmetric_src &&
         d.extra.asymm_compensation_mask == 2 && d.padded_dims[0] % kTile == 0 &&
         d.padded_dims[1] % kTile == 0;
}

/// w [K, N] in tiles of 64 x 64, each [k / 4][n][k % 4], then -sum_k w[k][n] for each column. What
/// oneDNN's reorder writes, element by element at 10 ns each.
void PackTiles(const dnnl_memory_desc_t& d, const int8_t* w, int64_t k_stride, int64_t n_stride,
               std::byte* to) {
  const auto& strides = d.format_desc.blocking.strides;
  const int64_t rows = d.dims[0], columns = d.dims[1];
  auto* const sums = reinterpret_cast<int32_t*>(to + d.padded_dims[0] * d.padded_dims[1]);
  ParallelFor(d.padded_dims[1] / kTile, 1, [=](int64_t begin, int64_t end) {
    alignas(64) int8_t tile[kTile][kTile];
    for (int64_t c = begin; c < end; ++c) {
      int32_t sum[kTile] = {};
      const int64_t n0 = c * kTile, n = std::min(kTile, columns - n0);
      for (int64_t k0 = 0; k0 < rows; k0 += kTile) {
        const int64_t k = std::min(kTile, rows - k0);
        const int8_t* const from = w + k0 * k_stride + n0 * n_stride;
        if (n < kTile || k < kTile) std::memset(tile, 0, sizeof tile);
        for (int64_t i = 0; i < k; ++i)
          if (n_stride == 1)
            std::copy_n(from + i * k_stride, n, tile[i]);
          else
            for (int64_t j = 0; j < n; ++j) tile[i][j] = from[i * k_stride + j * n_stride];
        for (int64_t i = 0; i < kTile; ++i)
          for (int64_t j = 0; j < kTile; ++j) sum[j] -= tile[i][j];
        auto* at = reinterpret_cast<int8_t*>(to) + k0 / kTile * strides[0] + c * strides[1];
        for (int64_t q = 0; q < kTile; q += 4)
          for (int64_t j = 0; j < kTile; ++j)
            for (int64_t i = 0; i < 4; ++i) *at++ = tile[q + i][j];
      }
      std::copy_n(sum, kTile, sums + n0);
    }
  });
}

}  // namespace

Result<std::shared_ptr<const Buffer>> Pack(const Spec& from, const std::byte* data,
                                           const Layout& to) {
  return Guarded([&]() -> Result<std::shared_ptr<const Buffer>> {
    INFER_ASSIGN(const memory::desc src, DescOf(from));
    Spec target{from.dtype, from.dims, to};
    INFER_ASSIGN(const memory::desc dst, DescOf(target));
    auto buffer = Buffer::Allocate(dst.get_size());
    if (IsTiledWithSums(dst.data)) {
      const auto& strides = src.data.format_desc.blocking.strides;
      PackTiles(dst.data, reinterpret_cast<const int8_t*>(data), strides[0], strides[1],
                buffer->mutable_data());
      return std::shared_ptr<const Buffer>(std::move(buffer));
    }
    dnnl::stream stream(Engine());
    memory a(src, Engine(), const_cast<std::byte*>(data));
    memory b(dst, Engine(), buffer->mutable_data());
    dnnl::reorder(a, b).execute(stream, a, b);
    stream.wait();
    return std::shared_ptr<const Buffer>(std::move(buffer));
  });
}

namespace {

/// From `from` back to plain data; Unsupported where elements would not come back as they were.
Result<dnnl::reorder::primitive_desc> WayBack(const Spec& to, const Layout& from) {
  INFER_ASSIGN(const memory::desc dst, DescOf(to));
  INFER_ASSIGN(memory::desc src, DescOf({to.dtype, to.dims, from}));
  // Sums of the elements stand behind them, which are as they were.
  constexpr uint64_t kSumsBehind = dnnl_memory_extra_flag_compensation_conv_s8s8 |
                                   dnnl_memory_extra_flag_compensation_conv_asymmetric_src;
  if (src.data_type() != dst.data_type() || (src.data.extra.flags & ~kSumsBehind) != 0)
    return Unsupported("packed data are not the elements");
  src.data.extra = {};
  return dnnl::reorder::primitive_desc(Engine(), src, Engine(), dst);
}

}  // namespace

bool CanUnpack(const Spec& to, const Layout& from) {
  return Guarded([&]() -> Result<bool> {
           INFER_TRY(WayBack(to, from).status());
           return true;
         })
      .ok();
}

Status Unpack(const Spec& to, const Buffer& packed, const Layout& from, std::byte* data) {
  return Guarded([&]() -> Status {
    INFER_ASSIGN(const auto way, WayBack(to, from));
    dnnl::stream stream(Engine());
    memory a(way.src_desc(), Engine(), const_cast<std::byte*>(packed.data()));
    memory b(way.dst_desc(), Engine(), data);
    dnnl::reorder(way).execute(stream, a, b);
    stream.wait();
    return {};
  });
}

}  // namespace infer::onednn
