#include "lib/ops/move/move.h"

#include <algorithm>
#include <cstring>

#include "lib/support/strings.h"

namespace infer {
namespace {

/// Copies `count` codes of `bits` bits (2 or 4), lowest bits first.
void CopyCodes(const std::byte* src, int64_t from, int64_t from_step, std::byte* dst, int64_t to,
               int64_t to_step, int64_t count, int bits) {
  const int64_t per_byte = 8 / bits;
  const unsigned mask = (1u << bits) - 1;
  for (int64_t i = 0; i < count; ++i, from += from_step, to += to_step) {
    const int shift_from = static_cast<int>(from % per_byte) * bits;
    const int shift_to = static_cast<int>(to % per_byte) * bits;
    const unsigned code = (static_cast<unsigned>(src[from / per_byte]) >> shift_from) & mask;
    const unsigned old = static_cast<unsigned>(dst[to / per_byte]) & ~(mask << shift_to);
    dst[to / per_byte] = static_cast<std::byte>(old | (code << shift_to));
  }
}

/// A strided copy whose extents of one are gone and whose mergeable loops are merged.
struct CopyPlan {
  Dims extents, from, to;
  int64_t outer = 1;  // product of all extents but the last
};

CopyPlan PlanCopy(const StridedView& from, const StridedView& to, const Dims& extents) {
  CopyPlan p;
  for (size_t i = 0; i < extents.size(); ++i) {
    if (extents[i] == 1) continue;
    const int64_t f = from.strides[i], t = to.strides[i], n = extents[i];
    if (!p.extents.empty() && p.from.back() == f * n && p.to.back() == t * n) {
      p.extents.back() *= n;
      p.from.back() = f;
      p.to.back() = t;
    } else {
      p.extents.push_back(n);
      p.from.push_back(f);
      p.to.push_back(t);
    }
  }
  if (p.extents.empty()) p.extents = p.from = p.to = {1};
  for (size_t i = 0; i + 1 < p.extents.size(); ++i) p.outer *= p.extents[i];
  return p;
}

/// Calls inner(from, to) for outer iterations [begin, end), positions in elements.
template <typename F>
void ForOuter(const CopyPlan& p, int64_t from, int64_t to, int64_t begin, int64_t end, F inner) {
  const int levels = static_cast<int>(p.extents.size()) - 1;
  Dims at(static_cast<size_t>(levels), 0);
  int64_t rest = begin;
  for (int k = levels - 1; k >= 0; --k) {
    const auto u = static_cast<size_t>(k);
    at[u] = rest % p.extents[u];
    rest /= p.extents[u];
    from += at[u] * p.from[u];
    to += at[u] * p.to[u];
  }
  for (int64_t i = begin; i < end; ++i) {
    inner(from, to);
    for (int k = levels - 1; k >= 0; --k) {
      const auto u = static_cast<size_t>(k);
      from += p.from[u];
      to += p.to[u];
      if (++at[u] < p.extents[u]) break;
      from -= p.from[u] * p.extents[u];
      to -= p.to[u] * p.extents[u];
      at[u] = 0;
    }
  }
}

template <typename T>
void CopyTyped(const T* src, int64_t from, T* dst, int64_t to, const CopyPlan& p) {
  const int64_t n = p.extents.back(), sf = p.from.back(), st = p.to.back();
  ParallelFor(p.outer, std::max<int64_t>(1, 16384 / n), [&](int64_t begin, int64_t end) {
    ForOuter(p, from, to, begin, end, [&](int64_t f, int64_t t) {
      if (sf == 1 && st == 1) {
        std::copy_n(src + f, n, dst + t);
      } else {
        for (int64_t i = 0; i < n; ++i) dst[t + i * st] = src[f + i * sf];
      }
    });
  });
}

struct Bytes16 {
  uint64_t words[2];
};

/// Calls f(T{}) with an unsigned type as wide as `bits`.
template <typename F>
void DispatchWidth(int bits, F f) {
  switch (bits) {
    case 8: f(uint8_t{}); return;
    case 16: f(uint16_t{}); return;
    case 32: f(uint32_t{}); return;
    case 64: f(uint64_t{}); return;
    default:
      INFER_CHECK(bits == 128);
      f(Bytes16{});
      return;
  }
}

}  // namespace

RunCopier::RunCopier(const Tensor& src, Tensor& dst, int64_t run)
    : src_(src.raw()), dst_(nullptr), bits_(BitWidth(src.dtype())), run_(run) {
  INFER_CHECK(src.dtype() == dst.dtype());
  if (src.dtype() == DType::kString) {
    src_strings_ = src.strings().data();
    dst_strings_ = dst.mutable_strings().data();
  } else {
    dst_ = dst.mutable_raw();
  }
}

void RunCopier::operator()(int64_t from, int64_t to) const {
  if (src_strings_) {
    std::copy_n(src_strings_ + from, run_, dst_strings_ + to);
  } else if (bits_ >= 8) {
    const int64_t width = bits_ / 8;
    std::memcpy(dst_ + to * width, src_ + from * width, static_cast<size_t>(run_ * width));
  } else {
    CopyCodes(src_, from, 1, dst_, to, 1, run_, bits_);
  }
}

void CopyStrided(const Tensor& src, const StridedView& from, Tensor& dst, const StridedView& to,
                 const Dims& extents) {
  INFER_CHECK(src.dtype() == dst.dtype());
  if (NumElements(extents) == 0) return;
  const CopyPlan p = PlanCopy(from, to, extents);
  const int bits = BitWidth(src.dtype());
  if (src.dtype() == DType::kString) {
    CopyTyped(src.strings().data(), from.offset, dst.mutable_strings().data(), to.offset, p);
  } else if (bits < 8) {
    ForOuter(p, from.offset, to.offset, 0, p.outer, [&](int64_t f, int64_t t) {
      CopyCodes(src.raw(), f, p.from.back(), dst.mutable_raw(), t, p.to.back(), p.extents.back(),
                bits);
    });
  } else {
    DispatchWidth(bits, [&]<typename T>(T) {
      CopyTyped(reinterpret_cast<const T*>(src.raw()), from.offset,
                reinterpret_cast<T*>(dst.mutable_raw()), to.offset, p);
    });
  }
}

void Fill(Tensor& dst, const Tensor& value) {
  CopyStrided(value, {0, {0}}, dst, {0, {1}}, {dst.num_elements()});
}

Tensor ZerosOf(DType dtype, Dims dims) {
  return dtype == DType::kString ? Tensor(dtype, std::move(dims))
                                 : Tensor::Zeros(dtype, std::move(dims));
}

Result<Tensor*> MakeOut(OpRun& run, size_t i, DType dtype, Dims dims) {
  constexpr int64_t kMaxBytes = int64_t{1} << 38;
  const auto n = CheckedNumElements(dims);
  if (std::any_of(dims.begin(), dims.end(), [](int64_t d) { return d < 0; }))
    return InvalidModel(Cat(run.call().def().name, ": result would have shape ", ToString(dims)));
  const int64_t bytes_each = dtype == DType::kString ? 32 : std::max(1, BitWidth(dtype) / 8);
  if (!n || *n > kMaxBytes / bytes_each)
    return ResourceExhausted(Cat(run.call().def().name, ": a result of shape ", ToString(dims),
                                 " is beyond the limit of 256 GiB"));
  return &run.Out(i, dtype, std::move(dims));
}

std::optional<std::vector<int64_t>> KnownInts(const OpCall& call, size_t i) {
  // Not through elements(): a Dim cannot hold INT64_MIN, which slices use for "the beginning".
  if (const Tensor* t = call.constant(i)) {
    if (!IsInteger(t->dtype())) return std::nullopt;
    return t->ToInts();
  }
  const auto elements = call.elements(i);
  if (!elements) return std::nullopt;
  std::vector<int64_t> out;
  for (const Dim& d : *elements) {
    if (!d.is_static()) return std::nullopt;
    out.push_back(d.value());
  }
  return out;
}

std::optional<int64_t> KnownInt(const OpCall& call, size_t i) {
  const auto ints = KnownInts(call, i);
  if (!ints || ints->size() != 1) return std::nullopt;
  return ints->front();
}

Dim LengthOf(const OpCall& call, size_t i) {
  if (const auto e = call.elements(i)) return static_cast<int64_t>(e->size());
  return call.shape(i).has_rank() && call.shape(i).rank() == 1 ? call.shape(i)[0] : Dim();
}

Result<std::vector<int64_t>> NormalizeIndices(const Tensor& indices, int64_t extent) {
  std::vector<int64_t> out = indices.ToInts();
  for (int64_t& i : out) {
    if (i < -extent || i >= extent)
      return InvalidModel(Cat("index ", i, " is out of range for an extent of ", extent));
    if (i < 0) i += extent;
  }
  return out;
}

Result<std::vector<int64_t>> ElementOffsets(const Tensor& data, const Tensor& index,
                                            int64_t axis_or_negative) {
  INFER_ASSIGN(const int axis, NormalizeAxis(axis_or_negative, data.rank()));
  for (int k = 0; k < data.rank(); ++k)
    if (k != axis && index.dim(k) > data.dim(k))
      return InvalidModel(
          Cat("indices ", ToString(index.dims()), " exceed data ", ToString(data.dims())));
  INFER_ASSIGN(std::vector<int64_t> offsets, NormalizeIndices(index, data.dim(axis)));
  const Dims strides = Strides(data.dims()), own = Strides(index.dims());
  ParallelFor(index.num_elements(), kElementGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      int64_t& at = offsets[static_cast<size_t>(i)];
      at *= strides[static_cast<size_t>(axis)];
      for (size_t k = 0; k < own.size(); ++k)
        if (static_cast<int>(k) != axis) at += i / own[k] % index.dims()[k] * strides[k];
    }
  });
  return offsets;
}

int64_t Product(const Dims& dims, int begin, int end) {
  int64_t n = 1;
  for (int i = begin; i < end; ++i) n *= dims[static_cast<size_t>(i)];
  return n;
}

void PassElements(OpCall& call) {
  if (auto e = call.elements(0)) call.SetElements(0, *std::move(e));
}

std::string StrAttrOr(const NodeSpec& node, std::string_view name, std::string_view absent) {
  const auto it = node.attrs.find(name);
  const auto* s = it == node.attrs.end() ? nullptr : std::get_if<std::string>(&it->second);
  return s ? *s : std::string(absent);
}

}  // namespace infer
