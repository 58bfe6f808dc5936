/// BMP (Windows 2 to 5, OS/2): palettes of 1, 4 and 8 bits; 16 and 32 bits with or without masks;
/// 24 bits. The pixels must be there before anything is allocated, so a small file stays small.
#include <array>
#include <bit>
#include <vector>

#include "lib/image/codecs.h"
#include "lib/support/strings.h"

namespace infer {
namespace {

constexpr int64_t kFileHeader = 14, kMasksAt = kFileHeader + 40;
constexpr uint32_t kPlain = 0, kRle8 = 1, kRle4 = 2, kMasks = 3, kJpeg = 4, kPng = 5,
                   kAlphaMasks = 6;

/// Little-endian numbers. Pre: at + 2 or at + 4 is inside.
uint32_t U16(std::string_view b, int64_t at) {
  const auto byte = [&](int64_t i) {
    return uint32_t{static_cast<uint8_t>(b[static_cast<size_t>(i)])};
  };
  return byte(at) | byte(at + 1) << 8;
}
uint32_t U32(std::string_view b, int64_t at) { return U16(b, at) | U16(b, at + 2) << 16; }

struct Bmp {
  int64_t width = 0, height = 0;
  bool top_down = false;
  int bits = 0;
  int64_t pixels_at = 0, row_bytes = 0;
  std::array<uint32_t, 3> masks{};              // red, green, blue of 16 and 32 bits
  std::vector<std::array<uint8_t, 3>> palette;  // RGB of up to 8 bits
  int64_t channels = 3;
};

/// What the headers say. `name` begins the message of a refusal.
class BmpHeaders {
 public:
  BmpHeaders(std::string_view bytes, const std::string& name, int64_t max_pixels)
      : bytes_(bytes), size_(static_cast<int64_t>(bytes.size())), name_(name), max_(max_pixels) {}

  Result<Bmp> Read() {
    INFER_TRY(ReadExtents());
    INFER_TRY(CheckPixels(bmp_.height, bmp_.width, name_, max_));
    INFER_TRY(CheckCompression());
    INFER_TRY(bmp_.bits <= 8 ? ReadPalette() : ReadMasks());
    bmp_.pixels_at = U32(bytes_, 10);
    bmp_.row_bytes = (bmp_.width * bmp_.bits + 31) / 32 * 4;
    // The padding of the last row may be missing.
    const int64_t last = (bmp_.width * bmp_.bits + 7) / 8;
    if (bmp_.pixels_at < kFileHeader + header_ ||
        bmp_.pixels_at + bmp_.row_bytes * (bmp_.height - 1) + last > size_)
      return Broken(Cat(bmp_.width, " x ", bmp_.height, " pixels are not inside"));
    return std::move(bmp_);
  }

 private:
  Status Broken(const std::string& why) const {
    return InvalidModel(Cat(name_, ": broken BMP: ", why));
  }

  Status ReadExtents() {
    if (size_ < kFileHeader + 12) return Broken("it ends in the header");
    header_ = U32(bytes_, kFileHeader);
    if (header_ != 12 && header_ != 40 && header_ != 52 && header_ != 56 && header_ != 64 &&
        header_ != 108 && header_ != 124)
      return Broken(Cat("a header of ", header_, " bytes"));
    if (size_ < kFileHeader + header_) return Broken("it ends in the header");
    if (header_ == 12) {
      bmp_.width = U16(bytes_, 18);
      bmp_.height = U16(bytes_, 20);
      bmp_.bits = static_cast<int>(U16(bytes_, 24));
      return {};
    }
    bmp_.width = std::bit_cast<int32_t>(U32(bytes_, 18));
    bmp_.height = std::bit_cast<int32_t>(U32(bytes_, 22));
    bmp_.top_down = bmp_.height < 0;
    if (bmp_.top_down) bmp_.height = -bmp_.height;
    bmp_.bits = static_cast<int>(U16(bytes_, 28));
    compression_ = U32(bytes_, 30);
    colours_ = U32(bytes_, 46);
    return {};
  }

  Status CheckCompression() const {
    const int bits = bmp_.bits;
    if (bits != 1 && bits != 4 && bits != 8 && bits != 16 && bits != 24 && bits != 32)
      return Broken(Cat(bits, " bits per pixel"));
    if (compression_ == kPlain) return {};
    if (compression_ == kRle8 || compression_ == kRle4)
      return Unsupported(Cat(name_, ": a run-length coded BMP; store it without"));
    if (compression_ == kJpeg || compression_ == kPng || header_ == 64)
      return Unsupported(Cat(name_, ": a BMP of compression ", compression_));
    if ((compression_ != kMasks && compression_ != kAlphaMasks) || (bits != 16 && bits != 32))
      return Broken(Cat("compression ", compression_, " of ", bits, " bits"));
    return {};
  }

  Status ReadPalette() {
    const int64_t most = int64_t{1} << bmp_.bits, count = colours_ == 0 ? most : colours_;
    const int64_t entry = header_ == 12 ? 3 : 4, at = kFileHeader + header_;
    if (count > most) return Broken(Cat("a palette of ", count, " colours"));
    if (at + count * entry > size_) return Broken("it ends in the palette");
    bool grey = true;
    for (int64_t i = 0; i < count; ++i) {
      const char* bgr = bytes_.data() + at + i * entry;
      bmp_.palette.push_back({static_cast<uint8_t>(bgr[2]), static_cast<uint8_t>(bgr[1]),
                              static_cast<uint8_t>(bgr[0])});
      grey = grey && bgr[0] == bgr[1] && bgr[1] == bgr[2];
    }
    bmp_.channels = grey ? 1 : 3;
    return {};
  }

  Status ReadMasks() {
    bmp_.masks = bmp_.bits == 16 ? std::array<uint32_t, 3>{0x7c00, 0x3e0, 0x1f}
                                 : std::array<uint32_t, 3>{0xff0000, 0xff00, 0xff};
    if (compression_ == kPlain) return {};
    if (size_ < kMasksAt + 12) return Broken("it ends in the masks");
    for (size_t c = 0; c < 3; ++c) {
      const uint32_t mask = U32(bytes_, kMasksAt + 4 * static_cast<int64_t>(c));
      const uint32_t ones = mask == 0 ? 0 : mask >> std::countr_zero(mask);
      if ((ones & (ones + 1)) != 0 || (bmp_.bits == 16 && mask > 0xffff))
        return Broken(Cat("a mask of ", mask));
      bmp_.masks[c] = mask;
    }
    return {};
  }

  std::string_view bytes_;
  int64_t size_;
  const std::string& name_;
  int64_t max_;
  int64_t header_ = 0;
  uint32_t compression_ = kPlain, colours_ = 0;
  Bmp bmp_;
};

/// Row `from` of indices as colours. False for an index beyond the palette.
bool PaletteRow(const Bmp& bmp, const uint8_t* from, uint8_t* to) {
  const int per_byte = 8 / bmp.bits, ones = (1 << bmp.bits) - 1;
  for (int64_t x = 0; x < bmp.width; ++x) {
    const int shift = 8 - bmp.bits * (static_cast<int>(x % per_byte) + 1);
    const auto index = static_cast<size_t>(from[x / per_byte] >> shift & ones);
    if (index >= bmp.palette.size()) return false;
    for (int64_t c = 0; c < bmp.channels; ++c) *to++ = bmp.palette[index][static_cast<size_t>(c)];
  }
  return true;
}

void MaskedRow(const Bmp& bmp, const uint8_t* from, uint8_t* to) {
  for (int64_t x = 0; x < bmp.width; ++x) {
    uint32_t pixel = 0;
    for (int i = 0; i < bmp.bits; i += 8) pixel |= uint32_t{*from++} << i;
    for (const uint32_t mask : bmp.masks) {
      const int shift = mask == 0 ? 0 : std::countr_zero(mask);
      const uint64_t most = mask >> shift, value = (pixel & mask) >> shift;
      *to++ = static_cast<uint8_t>(most == 255 || most == 0 ? value : value * 255 / most);
    }
  }
}

}  // namespace

Result<Tensor> DecodeBmp(std::string_view bytes, const std::string& name, int64_t max_pixels) {
  INFER_ASSIGN(const Bmp bmp, BmpHeaders(bytes, name, max_pixels).Read());
  Tensor out(DType::kU8, {bmp.height, bmp.width, bmp.channels});
  uint8_t* to = out.mutable_data<uint8_t>().data();
  const auto* pixels = reinterpret_cast<const uint8_t*>(bytes.data()) + bmp.pixels_at;
  for (int64_t y = 0; y < bmp.height; ++y, to += bmp.width * bmp.channels) {
    const int64_t row = bmp.top_down ? y : bmp.height - 1 - y;
    const uint8_t* from = pixels + row * bmp.row_bytes;
    if (bmp.bits > 8)
      MaskedRow(bmp, from, to);
    else if (!PaletteRow(bmp, from, to))
      return InvalidModel(Cat(name, ": broken BMP: an index beyond the palette"));
  }
  return out;
}

}  // namespace infer
