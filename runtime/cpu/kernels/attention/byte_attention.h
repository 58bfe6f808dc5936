#pragma once
/// Attention whose queries, keys, values and probabilities are 8-bit numbers: both products on
/// integers, which are exact; scores and softmax in f32 between them.
#include "runtime/cpu/kernels/attention/attention.h"
#include "runtime/cpu/simd/byte_attention.h"

namespace infer {

class ByteAttention {
 public:
  /// nullopt: something is not quantized to 8 bits, or the machine has no VNNI.
  static std::optional<ByteAttention> Of(const Attention& attention);

  int64_t scratch_bytes() const { return attention_.chunks * chunk_bytes(); }
  /// The same bits for any number of threads and chunks.
  void Run(std::byte* const* args, std::byte* scratch) const;

 private:
  struct Lane;
  /// An operand's 8-bit numbers: what gives them, then (number - zero) * scale.
  struct Bytes {
    std::vector<ElementStep> steps;
    float scale = 1;
    int32_t zero = 0;  ///< of the number with its sign flipped where `flip` says so
    uint8_t flip = 0;  ///< 0x80: to the signedness that the product wants
  };
  static std::optional<Bytes> BytesOf(const HeadRows& h, bool wants_signed);

  int64_t runs() const;
  /// The pointers of a chunk whose scratch is there; one walk says where each is and how much all
  /// take.
  Lane LaneAt(std::byte* scratch) const;
  int64_t chunk_bytes() const;
  int64_t padded_depth() const { return (attention_.depth + 15) / 16 * 16; }
  int64_t panels(int64_t columns) const {
    return (columns + simd::kByteWidth - 1) / simd::kByteWidth;
  }
  int64_t score_stride() const { return panels(attention_.keys) * simd::kByteWidth + 16; }
  int64_t probability_stride() const { return (value_quads() * 4 + 63) / 64 * 64; }
  int64_t value_quads() const { return (attention_.keys + 3) / 4; }
  const uint8_t* Load(const HeadRows& h, const Bytes& b, int64_t lead, int64_t i, int64_t n,
                      uint8_t* to, const Lane& lane) const;
  void PackKeys(int64_t lead, const Lane& lane) const;
  void PackValues(int64_t lead, const Lane& lane) const;
  void Rows(int64_t lead, int64_t first, int rows, const Lane& lane) const;

  Attention attention_;
  const simd::ByteAttentionLoops* loops_ = nullptr;
  Bytes q_, k_, v_;
  float probability_ = 1;  ///< scale of the probabilities, whose zero point is 0
};

}  // namespace infer
