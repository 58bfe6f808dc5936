#include "runtime/cpu/onednn/onednn_desc.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <new>

namespace infer::onednn {
namespace {

using dnnl::memory;

Result<memory::data_type> TypeOf(DType t) {
  switch (t) {
    case DType::kF32: return memory::data_type::f32;
    case DType::kU8: return memory::data_type::u8;
    case DType::kI8: return memory::data_type::s8;
    case DType::kI32: return memory::data_type::s32;
    default: return Unsupported(Cat("oneDNN has no ", Name(t)));
  }
}

Layout CodeOf(const memory::desc& md) {
  return {std::string(reinterpret_cast<const char*>(&md.data), sizeof md.data),
          static_cast<int64_t>(md.get_size())};
}

memory::desc FromCode(const Layout& layout) {
  memory::desc md;
  std::memcpy(&md.data, layout.code.data(), sizeof md.data);
  return md;
}

}  // namespace

void CheckRoomForCode() {
  // A primitive may have dozens of kernels, each of which maps 256 KiB.
  constexpr size_t kBytes = size_t{16} << 20;
  void* const room =
      ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (room == MAP_FAILED) throw std::bad_alloc();
  ::munmap(room, kBytes);
}

const dnnl::engine& Engine() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

memory::desc PlainDesc(memory::data_type type, const Dims& dims) {
  return memory::desc(dims, type, Strides(dims));
}

Layout LayoutOf(const memory::desc& md) {
  const Dims dims = md.dims();
  const memory::desc row_major = PlainDesc(md.data_type(), dims);
  // The plain layout is of the value's own type, f32.
  const bool is_bf16 = md.data_type() == memory::data_type::bf16;
  Layout plain = is_bf16 ? CodeOf(row_major) : Layout();
  if (md == row_major) return plain;
  const auto bytes = static_cast<int64_t>(md.get_size());
  const auto& d = md.data;
  const int64_t plain_bytes =
      NumElements(dims) * static_cast<int64_t>(memory::data_type_size(md.data_type()));
  // A blocked or channels-last form of [N, C, 1, ...] without padding orders nothing otherwise.
  bool flat = bytes == plain_bytes && d.ndims >= 2 && d.format_kind == dnnl_blocked;
  for (int i = 2; i < d.ndims; ++i) flat &= d.dims[i] == 1;
  flat &= d.format_desc.blocking.inner_nblks == 0 ||
          (d.format_desc.blocking.inner_nblks == 1 && d.format_desc.blocking.inner_idxs[0] == 1);
  flat &= d.dims[0] == 1 || d.format_desc.blocking.strides[0] == d.dims[1];
  return flat ? plain : CodeOf(md);
}

Layout PlainBf16(const Dims& dims) { return CodeOf(PlainDesc(memory::data_type::bf16, dims)); }

bool IsBf16(const Layout& layout) {
  return !layout.plain() && FromCode(layout).data_type() == memory::data_type::bf16;
}

Status CheckCounts(const Dims& counts) {
  for (const int64_t n : counts)
    if (n < -kMostCounted || n > kMostCounted)
      return Unsupported(Cat("oneDNN counts in 32 bits, which ", n, " is too large for"));
  return {};
}

Status CheckProduct(const Dims& dims, size_t first) {
  const Dims part(dims.begin() + static_cast<int64_t>(std::min(first, dims.size())), dims.end());
  const auto n = CheckedNumElements(part);
  if (n && *n <= kMostCounted) return {};
  return Unsupported(Cat("oneDNN counts in 32 bits, which ", ToString(part), " are too many for"));
}

Result<memory::desc> DescOf(const Spec& s) {
  INFER_TRY(CheckCounts(s.dims));
  INFER_ASSIGN(memory::data_type type, TypeOf(s.dtype));
  if (s.bf16) type = memory::data_type::bf16;
  if (s.any) return memory::desc(s.dims, type, memory::format_tag::any);
  if (!s.strides.empty()) return memory::desc(s.dims, type, s.strides);
  if (!s.layout.plain()) return FromCode(s.layout);
  return PlainDesc(type, s.dims);
}

Layout ChannelBlocked(const Dims& dims, int block) {
  using Tag = memory::format_tag;
  static constexpr Tag k16[] = {Tag::nCw16c, Tag::nChw16c, Tag::nCdhw16c};
  static constexpr Tag k8[] = {Tag::nCw8c, Tag::nChw8c, Tag::nCdhw8c};
  INFER_CHECK((block == 8 || block == 16) && dims.size() >= 3 && dims.size() <= 5);
  const Tag tag = (block == 16 ? k16 : k8)[dims.size() - 3];
  return LayoutOf(memory::desc(dims, memory::data_type::f32, tag));
}

Layout ChannelsLast(DType dtype, const Dims& dims) {
  using Tag = memory::format_tag;
  static constexpr Tag kTags[] = {Tag::nwc, Tag::nhwc, Tag::ndhwc};
  INFER_CHECK(dims.size() >= 3 && dims.size() <= 5);
  return LayoutOf(memory::desc(dims, *TypeOf(dtype), kTags[dims.size() - 3]));
}

std::optional<int64_t> ChannelBlockOf(DType dtype, const Dims& dims, const Layout& layout) {
  if (layout.plain()) return 0;
  if (dims.size() < 3 || dims.size() > 5 || !TypeOf(dtype).ok()) return std::nullopt;
  if (layout == ChannelsLast(dtype, dims)) return dims[1];
  if (dtype != DType::kF32) return std::nullopt;
  for (const int block : {16, 8})
    if (layout == ChannelBlocked(dims, block)) return block;
  return std::nullopt;
}

std::string NameOf(const Layout& layout) {
  if (layout.plain()) return "plain";
  const memory::desc md = FromCode(layout);
  const auto& d = md.data;
  if (d.format_kind != dnnl_blocked) return "opaque";
  const auto& b = d.format_desc.blocking;
  std::vector<int> order(static_cast<size_t>(d.ndims));
  for (int i = 0; i < d.ndims; ++i) order[static_cast<size_t>(i)] = i;
  std::stable_sort(order.begin(), order.end(),
                   [&](int i, int j) { return b.strides[i] > b.strides[j]; });
  std::string name = IsBf16(layout) ? "bf16:" : "";
  for (int i : order) {
    const bool blocked =
        std::find(b.inner_idxs, b.inner_idxs + b.inner_nblks, i) != b.inner_idxs + b.inner_nblks;
    name += static_cast<char>((blocked ? 'A' : 'a') + i);
  }
  for (int i = 0; i < b.inner_nblks; ++i)
    name += Cat(b.inner_blks[i], std::string(1, static_cast<char>('a' + b.inner_idxs[i])));
  return name;
}

}  // namespace infer::onednn
