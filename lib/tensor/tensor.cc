#include "lib/tensor/tensor.h"

#include <sys/mman.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <new>

#include "lib/support/hash.h"
#include "lib/support/memory_limit.h"
#include "lib/support/strings.h"
#include "lib/tensor/to_integer.h"

namespace infer {
namespace {

/// From this size on a buffer lies on huge pages, where the system gives them on request: weights
/// that are read once per run cost a look-up per 2 MB instead of per 4 KB.
constexpr size_t kHuge = size_t{4} << 20, kHugePage = size_t{2} << 20;

/// Of a tensor besides its elements, about: a loop may make millions of one element each.
constexpr int64_t kOverhead = 256;

std::align_val_t AlignmentOf(size_t bytes) {
  return static_cast<std::align_val_t>(bytes >= kHuge ? kHugePage : 64);
}

/// Bits [i*width, (i+1)*width) of a packed array.
uint8_t GetPacked(const std::byte* p, int64_t i, int width) {
  const int64_t per_byte = 8 / width;
  const auto byte = static_cast<uint8_t>(p[i / per_byte]);
  return static_cast<uint8_t>((byte >> (i % per_byte * width)) & ((1 << width) - 1));
}

void SetPacked(std::byte* p, int64_t i, int width, uint8_t v) {
  const int64_t per_byte = 8 / width;
  const int shift = static_cast<int>(i % per_byte) * width;
  const auto mask = static_cast<uint8_t>(((1 << width) - 1) << shift);
  auto byte = static_cast<uint8_t>(p[i / per_byte]);
  byte = static_cast<uint8_t>((byte & ~mask) | ((v << shift) & mask));
  p[i / per_byte] = static_cast<std::byte>(byte);
}

bool IsMiniFloat(DType t) { return IsFloat(t) && BitWidth(t) <= 8; }

int64_t SignExtend(uint8_t v, int width) {
  const int shift = 64 - width;
  return static_cast<int64_t>(static_cast<uint64_t>(v) << shift) >> shift;
}

}  // namespace

std::shared_ptr<Buffer> Buffer::Allocate(size_t bytes) {
  std::shared_ptr<Buffer> b(new Buffer);
  if (bytes > INT64_MAX - kOverhead) throw std::bad_alloc();
  ChargeMemory(static_cast<int64_t>(bytes) + kOverhead);
  try {
    b->data_ =
        static_cast<std::byte*>(::operator new(std::max<size_t>(bytes, 1), AlignmentOf(bytes)));
  } catch (...) {
    ReleaseMemory(static_cast<int64_t>(bytes) + kOverhead);
    throw;
  }
  b->size_ = bytes;
#ifdef MADV_HUGEPAGE
  if (bytes >= kHuge) (void)madvise(b->data_, bytes / kHugePage * kHugePage, MADV_HUGEPAGE);
#endif
  return b;
}

std::shared_ptr<Buffer> Buffer::Borrow(const void* data, size_t bytes,
                                       std::shared_ptr<const void> owner) {
  std::shared_ptr<Buffer> b(new Buffer);
  b->data_ = const_cast<std::byte*>(static_cast<const std::byte*>(data));
  b->size_ = bytes;
  b->borrowed_ = true;
  b->owner_ = std::move(owner);
  return b;
}

std::shared_ptr<Buffer> Buffer::Strings(std::vector<std::string> values) {
  std::shared_ptr<Buffer> b(new Buffer);
  b->strings_ = std::move(values);
  return b;
}

Buffer::~Buffer() {
  if (!data_ || borrowed_) return;
  ::operator delete(data_, AlignmentOf(size_));
  ReleaseMemory(static_cast<int64_t>(size_) + kOverhead);
}

uint64_t Buffer::ContentHash() const {
  std::call_once(hash_once_, [this] {
    Hasher h;
    h.Add(HashBytes(data_, size_));
    for (const std::string& s : strings_) h.Add(s);
    hash_ = h.value();
  });
  return hash_;
}

Tensor::Tensor() = default;
Tensor::Tensor(const Tensor&) = default;
Tensor::Tensor(Tensor&&) noexcept = default;
Tensor& Tensor::operator=(const Tensor&) = default;
Tensor& Tensor::operator=(Tensor&&) noexcept = default;
Tensor::~Tensor() = default;

/// The count alone is read without order: what a thread read before it gave its copy up might still
/// be read. Giving a copy up here acquires what every one before it released.
bool Tensor::HeldAlone() const {
  if (!buffer_ || buffer_->borrowed() || buffer_.use_count() > 1) return false;
  std::shared_ptr<Buffer>(buffer_).reset();
  return true;
}

TensorType Tensor::type() const { return {dtype_, Shape(dims_)}; }

Tensor::Tensor(DType dtype, Dims dims)
    : dtype_(dtype), dims_(std::move(dims)), num_elements_(CheckedNumElements(dims_).value_or(0)) {
  // What nothing can hold is memory that is not there, as what this machine cannot hold is.
  if (!CheckedNumElements(dims_)) throw std::bad_alloc();
  if (dtype == DType::kString) {
    buffer_ = Buffer::Strings(std::vector<std::string>(static_cast<size_t>(num_elements_)));
  } else {
    buffer_ = Buffer::Allocate(static_cast<size_t>(PackedBytes(dtype, num_elements_)));
    if (IsPacked(dtype)) std::memset(buffer_->mutable_data(), 0, buffer_->size());
  }
}

Tensor::Tensor(DType dtype, Dims dims, std::shared_ptr<Buffer> buffer)
    : dtype_(dtype), dims_(std::move(dims)), buffer_(std::move(buffer)) {
  INFER_CHECK(CheckedNumElements(dims_).has_value());
  num_elements_ = NumElements(dims_);
  if (dtype == DType::kString) {
    INFER_CHECK(static_cast<int64_t>(buffer_->strings().size()) == num_elements_);
  } else {
    INFER_CHECK(static_cast<int64_t>(buffer_->size()) >= PackedBytes(dtype, num_elements_));
    const auto align = static_cast<uintptr_t>(std::clamp(BitWidth(dtype) / 8, 1, 8));
    INFER_CHECK(reinterpret_cast<uintptr_t>(buffer_->data()) % align == 0);
  }
}

Tensor Tensor::OfStrings(Dims dims, std::vector<std::string> values) {
  return Tensor(DType::kString, std::move(dims), Buffer::Strings(std::move(values)));
}

Tensor Tensor::Zeros(DType dtype, Dims dims) {
  Tensor t(dtype, std::move(dims));
  if (t.byte_size() > 0) std::memset(t.mutable_raw(), 0, static_cast<size_t>(t.byte_size()));
  return t;
}

int64_t Tensor::byte_size() const {
  return !defined() || dtype_ == DType::kString ? 0 : PackedBytes(dtype_, num_elements_);
}

Tensor Tensor::Reshaped(Dims dims) const {
  INFER_CHECK(NumElements(dims) == num_elements_);
  Tensor t = *this;
  t.dims_ = std::move(dims);
  return t;
}

Tensor Tensor::Clone() const {
  if (dtype_ == DType::kString) return OfStrings(dims_, strings());
  Tensor t(dtype_, dims_);
  if (byte_size() > 0) std::memcpy(t.mutable_raw(), raw(), static_cast<size_t>(byte_size()));
  return t;
}

double Tensor::At(int64_t i) const {
  double v = 0;
  if (DispatchReal(dtype_, [&]<typename T>(T) {
        v = static_cast<double>(data<T>()[static_cast<size_t>(i)]);
      }))
    return v;
  if (IsMiniFloat(dtype_))
    return MiniFloatToFloat(
        dtype_, BitWidth(dtype_) == 8 ? static_cast<uint8_t>(raw()[i]) : GetPacked(raw(), i, 4));
  INFER_CHECK(IsPacked(dtype_));  // strings and complex numbers are no real ones
  return static_cast<double>(IntAt(i));
}

int64_t Tensor::IntAt(int64_t i) const {
  if (IsPacked(dtype_) && IsInteger(dtype_)) {
    const int width = BitWidth(dtype_);
    const uint8_t v = GetPacked(raw(), i, width);
    return IsSignedInteger(dtype_) ? SignExtend(v, width) : v;
  }
  int64_t v = 0;
  const bool ok = DispatchReal(dtype_, [&]<typename T>(T) {
    const T x = data<T>()[static_cast<size_t>(i)];
    if constexpr (std::is_integral_v<T>)
      v = static_cast<int64_t>(x);
    else
      v = ToInteger<int64_t>(static_cast<double>(x));
  });
  return ok ? v : ToInteger<int64_t>(At(i));
}

void Tensor::Set(int64_t i, double value) {
  const bool ok = DispatchReal(dtype_, [&]<typename T>(T) {
    T& x = mutable_data<T>()[static_cast<size_t>(i)];
    if constexpr (std::is_same_v<T, Half>)
      x.bits = FloatToF16(static_cast<float>(value));
    else if constexpr (std::is_same_v<T, BFloat16>)
      x.bits = FloatToBF16(static_cast<float>(value));
    else if constexpr (std::is_same_v<T, bool>)
      x = value != 0;
    else if constexpr (std::is_integral_v<T>)
      x = ToInteger<T>(value);
    else
      x = static_cast<T>(value);
  });
  if (ok) return;
  if (IsMiniFloat(dtype_)) {
    const uint8_t code = FloatToMiniFloat(dtype_, static_cast<float>(value));
    if (BitWidth(dtype_) == 8)
      mutable_raw()[i] = static_cast<std::byte>(code);
    else
      SetPacked(mutable_raw(), i, 4, code);
    return;
  }
  INFER_CHECK(IsPacked(dtype_));
  SetInt(i, ToInteger<int64_t>(value));
}

void Tensor::SetInt(int64_t i, int64_t value) {
  if (IsPacked(dtype_) && IsInteger(dtype_)) {
    value = std::clamp(value, IntegerMin(dtype_), IntegerMax(dtype_));
    SetPacked(mutable_raw(), i, BitWidth(dtype_), static_cast<uint8_t>(value));
    return;
  }
  const bool ok = DispatchReal(dtype_, [&]<typename T>(T) {
    if constexpr (std::is_same_v<T, bool>)
      mutable_data<T>()[static_cast<size_t>(i)] = value != 0;
    else if constexpr (std::is_integral_v<T>)
      mutable_data<T>()[static_cast<size_t>(i)] = static_cast<T>(value);
    else
      Set(i, static_cast<double>(value));
  });
  if (!ok) Set(i, static_cast<double>(value));
}

std::vector<int64_t> Tensor::ToInts() const {
  std::vector<int64_t> out(static_cast<size_t>(num_elements_));
  for (size_t i = 0; i < out.size(); ++i) out[i] = IntAt(static_cast<int64_t>(i));
  return out;
}

std::vector<float> Tensor::ToFloats() const {
  if (dtype_ == DType::kF32) return {data<float>().begin(), data<float>().end()};
  std::vector<float> out(static_cast<size_t>(num_elements_));
  for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<float>(At(static_cast<int64_t>(i)));
  return out;
}

Tensor Tensor::Cast(DType to) const {
  if (to == dtype_) return *this;
  Tensor out(to, dims_);
  const bool exact_ints = IsInteger(dtype_) || dtype_ == DType::kBool;
  if (exact_ints && IsInteger(to) && !IsPacked(to)) {  // wraps, as C does
    for (int64_t i = 0; i < num_elements_; ++i) out.SetInt(i, IntAt(i));
  } else {
    for (int64_t i = 0; i < num_elements_; ++i) out.Set(i, At(i));
  }
  return out;
}

bool BitEqual(const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype() || a.dims() != b.dims()) return false;
  if (!a.defined()) return true;
  if (a.dtype() == DType::kString) return a.strings() == b.strings();
  return a.byte_size() == 0 || a.raw() == b.raw() ||
         std::memcmp(a.raw(), b.raw(), static_cast<size_t>(a.byte_size())) == 0;
}

uint64_t HashOf(const Tensor& t) {
  Hasher h;
  h.Add(static_cast<uint64_t>(t.dtype()));
  for (int64_t d : t.dims()) h.Add(static_cast<uint64_t>(d));
  if (!t.buffer()) return h.value();
  // A tensor may be a prefix of its buffer; then its own bytes count, uncached.
  if (t.dtype() == DType::kString || static_cast<size_t>(t.byte_size()) == t.buffer()->size())
    h.Add(t.buffer()->ContentHash());
  else
    h.Add(Hasher().Add(HashBytes(t.raw(), static_cast<size_t>(t.byte_size()))).value());
  return h.value();
}

std::string ToString(const Tensor& t, int64_t max_elements) {
  std::string out = Cat(ToString(t.type()), " {");
  const int64_t n = std::min(t.num_elements(), max_elements);
  for (int64_t i = 0; i < n; ++i) {
    if (i) out += ", ";
    if (t.dtype() == DType::kString)
      out += Cat('"', t.strings()[static_cast<size_t>(i)], '"');
    else if (t.dtype() == DType::kC64)
      out += Cat(t.data<std::complex<float>>()[static_cast<size_t>(i)].real(), "+",
                 t.data<std::complex<float>>()[static_cast<size_t>(i)].imag(), "i");
    else if (t.dtype() == DType::kC128)
      out += Cat(t.data<std::complex<double>>()[static_cast<size_t>(i)].real(), "+",
                 t.data<std::complex<double>>()[static_cast<size_t>(i)].imag(), "i");
    else if (IsFloat(t.dtype()))
      out += t.dtype() == DType::kF64 ? FormatDouble(t.At(i))
                                      : FormatFloat(static_cast<float>(t.At(i)));
    else if (t.dtype() == DType::kU64)
      out += Cat(t.data<uint64_t>()[static_cast<size_t>(i)]);
    else
      out += Cat(t.IntAt(i));
  }
  return out + (n < t.num_elements() ? ", ...}" : "}");
}

}  // namespace infer
