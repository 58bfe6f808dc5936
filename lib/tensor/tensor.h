#pragma once
/// Tensor: a dense row-major array of one element type. No graph, no operator, no backend here.
///
/// Copies share the buffer; mutable access is for whoever created the tensor and owns it alone.
/// A tensor may borrow memory (a mapped file) when that is aligned for its element type.
/// Packed types (u4, i4, f4e2m1, u2, i2) store the first element in the lowest bits of each byte.
#include <complex>
#include <cstddef>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "lib/tensor/float_types.h"
#include "lib/tensor/value_type.h"

namespace infer {

/// Bytes with an owner. Immutable once shared; the content hash is computed at most once.
class Buffer {
 public:
  /// 64-byte aligned, uninitialised. Throws std::bad_alloc; counts for SetMemoryLimit.
  static std::shared_ptr<Buffer> Allocate(size_t bytes);
  /// Memory of someone else, kept alive by `owner`.
  static std::shared_ptr<Buffer> Borrow(const void* data, size_t bytes,
                                        std::shared_ptr<const void> owner);
  static std::shared_ptr<Buffer> Strings(std::vector<std::string> values);
  ~Buffer();
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  const std::byte* data() const { return data_; }
  std::byte* mutable_data() {  ///< Pre: not borrowed
    INFER_CHECK(!borrowed_);
    return data_;
  }
  size_t size() const { return size_; }
  bool borrowed() const { return borrowed_; }
  std::vector<std::string>& strings() { return strings_; }
  const std::vector<std::string>& strings() const { return strings_; }
  /// Hash of the bytes (or strings). Thread-safe; the caller promises that nobody writes any more.
  uint64_t ContentHash() const;

 private:
  Buffer() = default;
  std::byte* data_ = nullptr;
  size_t size_ = 0;
  bool borrowed_ = false;
  std::shared_ptr<const void> owner_;
  std::vector<std::string> strings_;
  mutable std::once_flag hash_once_;
  mutable uint64_t hash_ = 0;
};

/// The DType that stores a C++ type.
template <typename T>
constexpr DType DTypeOf();
#define INFER_DTYPE_OF(type, dtype) \
  template <>                       \
  constexpr DType DTypeOf<type>() { \
    return DType::dtype;            \
  }
INFER_DTYPE_OF(float, kF32)
INFER_DTYPE_OF(double, kF64)
INFER_DTYPE_OF(Half, kF16)
INFER_DTYPE_OF(BFloat16, kBF16)
INFER_DTYPE_OF(int8_t, kI8)
INFER_DTYPE_OF(int16_t, kI16)
INFER_DTYPE_OF(int32_t, kI32)
INFER_DTYPE_OF(int64_t, kI64)
INFER_DTYPE_OF(uint8_t, kU8)
INFER_DTYPE_OF(uint16_t, kU16)
INFER_DTYPE_OF(uint32_t, kU32)
INFER_DTYPE_OF(uint64_t, kU64)
INFER_DTYPE_OF(bool, kBool)
INFER_DTYPE_OF(std::complex<float>, kC64)
INFER_DTYPE_OF(std::complex<double>, kC128)
#undef INFER_DTYPE_OF

class Tensor {
 public:
  Tensor();  ///< dtype kUndefined, no data
  // Copied in thousands of places, so compiled once.
  Tensor(const Tensor&);
  Tensor(Tensor&&) noexcept;
  Tensor& operator=(const Tensor&);
  Tensor& operator=(Tensor&&) noexcept;
  ~Tensor();
  /// Uninitialised contents (empty strings). Pre: dims >= 0 and their product fits.
  Tensor(DType dtype, Dims dims);
  /// Takes or borrows `buffer`. Pre: it holds at least the packed size and is aligned for dtype.
  Tensor(DType dtype, Dims dims, std::shared_ptr<Buffer> buffer);
  template <typename T>
  static Tensor Of(Dims dims, std::span<const T> values);
  template <typename T>
  static Tensor Of(Dims dims, std::initializer_list<T> values) {
    return Of<T>(std::move(dims), std::span<const T>(values.begin(), values.size()));
  }
  template <typename T>
  static Tensor Scalar(T value) {
    return Of<T>({}, {value});
  }
  static Tensor Int64s(const std::vector<int64_t>& values) {  ///< shape [n]
    return Of<int64_t>({static_cast<int64_t>(values.size())}, values);
  }
  static Tensor OfStrings(Dims dims, std::vector<std::string> values);
  static Tensor Zeros(DType dtype, Dims dims);

  bool defined() const { return dtype_ != DType::kUndefined; }
  DType dtype() const { return dtype_; }
  const Dims& dims() const { return dims_; }
  int rank() const { return static_cast<int>(dims_.size()); }
  int64_t dim(int i) const { return dims_[static_cast<size_t>(i < 0 ? i + rank() : i)]; }
  int64_t num_elements() const { return num_elements_; }
  int64_t byte_size() const;  ///< 0 for strings
  TensorType type() const;

  /// Typed access. Pre: T stores dtype().
  template <typename T>
  std::span<const T> data() const {
    INFER_CHECK(DTypeOf<T>() == dtype_);
    return {reinterpret_cast<const T*>(raw()), static_cast<size_t>(num_elements_)};
  }
  template <typename T>
  std::span<T> mutable_data() {
    INFER_CHECK(DTypeOf<T>() == dtype_);
    return {reinterpret_cast<T*>(mutable_raw()), static_cast<size_t>(num_elements_)};
  }
  const std::byte* raw() const { return buffer_ ? buffer_->data() : nullptr; }
  std::byte* mutable_raw() { return buffer_->mutable_data(); }
  std::span<const std::byte> bytes() const { return {raw(), static_cast<size_t>(byte_size())}; }
  const std::vector<std::string>& strings() const { return buffer_->strings(); }  ///< Pre: kString
  std::vector<std::string>& mutable_strings() { return buffer_->strings(); }
  const std::shared_ptr<Buffer>& buffer() const { return buffer_; }
  /// Whether nobody else holds or lends the elements, and what others did with them has happened
  /// before: whoever has this tensor may write over them.
  bool HeldAlone() const;

  /// Same buffer, other extents. Pre: the same number of elements.
  Tensor Reshaped(Dims dims) const;
  /// An own, writable copy.
  Tensor Clone() const;
  /// Element i (flat) of any real type as a number; bool as 0/1. Pre: not string or complex.
  double At(int64_t i) const;
  int64_t IntAt(int64_t i) const;  ///< exact for integers; floats truncate
  /// Rounds and saturates as ONNX Cast does for the type. Pre: not string or complex.
  void Set(int64_t i, double value);
  void SetInt(int64_t i, int64_t value);
  /// All elements as int64 (shapes, axes). Pre: an integer or bool type.
  std::vector<int64_t> ToInts() const;
  std::vector<float> ToFloats() const;
  /// Element-wise conversion with Cast's rules between real types. Packed types unpack and pack.
  Tensor Cast(DType to) const;

 private:
  DType dtype_ = DType::kUndefined;
  Dims dims_;
  int64_t num_elements_ = 0;
  std::shared_ptr<Buffer> buffer_;
};

template <typename T>
Tensor Tensor::Of(Dims dims, std::span<const T> values) {
  Tensor t(DTypeOf<T>(), std::move(dims));
  INFER_CHECK(static_cast<int64_t>(values.size()) == t.num_elements());
  std::copy(values.begin(), values.end(), t.mutable_data<T>().begin());
  return t;
}

/// Same type, extents and bytes (strings compared as strings).
bool BitEqual(const Tensor& a, const Tensor& b);
/// Hash of type, extents and contents.
uint64_t HashOf(const Tensor& t);
/// "f32[2] {1, 2.5}", shortened after `max_elements`.
std::string ToString(const Tensor& t, int64_t max_elements = 16);

/// Calls `f` with a value of the C++ type that stores `t`: f(float{}), f(Half{}), ... for every
/// unpacked real type and bool. Returns false (no call) for the others.
template <typename F>
bool DispatchReal(DType t, F&& f) {
  switch (t) {
    case DType::kF32: f(float{}); return true;
    case DType::kF64: f(double{}); return true;
    case DType::kF16: f(Half{}); return true;
    case DType::kBF16: f(BFloat16{}); return true;
    case DType::kI8: f(int8_t{}); return true;
    case DType::kI16: f(int16_t{}); return true;
    case DType::kI32: f(int32_t{}); return true;
    case DType::kI64: f(int64_t{}); return true;
    case DType::kU8: f(uint8_t{}); return true;
    case DType::kU16: f(uint16_t{}); return true;
    case DType::kU32: f(uint32_t{}); return true;
    case DType::kU64: f(uint64_t{}); return true;
    case DType::kBool: f(bool{}); return true;
    default: return false;
  }
}

}  // namespace infer
