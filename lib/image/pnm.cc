/// PBM, PGM and PPM, as text (P1, P2, P3) and binary (P4, P5, P6). Of several images in a file the
/// first is read. The samples must be there before anything is allocated.
#include <algorithm>

#include "lib/image/codecs.h"
#include "lib/support/strings.h"

namespace infer {
namespace {

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

/// Numbers between white space and comments. Any failure leaves -1.
class PnmText {
 public:
  PnmText(std::string_view bytes, size_t at) : bytes_(bytes), at_(at) {}

  /// At most `most`, which is far from overflow.
  int64_t Number(int64_t most) {
    Skip();
    int64_t value = -1;
    for (; at_ < bytes_.size() && IsDigit(bytes_[at_]); ++at_) {
      value = std::max<int64_t>(value, 0) * 10 + (bytes_[at_] - '0');
      if (value > most) return -1;
    }
    return value;
  }
  /// A digit of P1, which needs no space before the next.
  int64_t Bit() {
    Skip();
    if (at_ == bytes_.size() || (bytes_[at_] != '0' && bytes_[at_] != '1')) return -1;
    return bytes_[at_++] - '0';
  }
  /// Passes the one white space between header and binary samples.
  bool OneSpace() { return at_ < bytes_.size() && IsSpace(bytes_[at_++]); }
  std::string_view rest() const { return bytes_.substr(at_); }

 private:
  void Skip() {
    for (; at_ < bytes_.size(); ++at_) {
      if (bytes_[at_] == '#') at_ = bytes_.find_first_of("\n\r", at_);
      if (at_ >= bytes_.size() || !IsSpace(bytes_[at_])) break;
    }
    at_ = std::min(at_, bytes_.size());
  }

  std::string_view bytes_;
  size_t at_;
};

struct Pnm {
  char kind;  // '1' to '6'
  int64_t width, height, channels, most;

  bool text() const { return kind <= '3'; }
  bool bitmap() const { return kind == '1' || kind == '4'; }
  int64_t samples() const { return width * height * channels; }
  /// What the samples take at least.
  int64_t bytes() const {
    if (kind == '1') return samples();
    if (kind == '4') return (width + 7) / 8 * height;
    if (text()) return 2 * samples() - 1;
    return samples() * (most > 255 ? 2 : 1);
  }
};

/// Sample i of binary data.
int64_t BinarySample(const Pnm& pnm, std::string_view data, int64_t i) {
  const auto byte = [&](int64_t at) {
    return int64_t{static_cast<uint8_t>(data[static_cast<size_t>(at)])};
  };
  if (pnm.kind == '4') {
    const int64_t x = i % pnm.width;
    return byte(i / pnm.width * ((pnm.width + 7) / 8) + x / 8) >> (7 - x % 8) & 1;
  }
  return pnm.most > 255 ? byte(2 * i) << 8 | byte(2 * i + 1) : byte(i);
}

}  // namespace

Result<Tensor> DecodePnm(std::string_view bytes, const std::string& name, int64_t max_pixels) {
  const auto broken = [&](const std::string& why) {
    return InvalidModel(Cat(name, ": broken PNM: ", why));
  };
  constexpr int64_t kMostExtent = 1 << 30;
  PnmText text(bytes, 2);
  Pnm pnm{bytes[1], 0, 0, 1, 1};
  pnm.width = text.Number(kMostExtent);
  pnm.height = text.Number(kMostExtent);
  if (pnm.width < 0 || pnm.height < 0) return broken("no extents");
  INFER_TRY(CheckPixels(pnm.height, pnm.width, name, max_pixels));
  if (!pnm.bitmap()) pnm.most = text.Number(65535);
  if (pnm.most < 1) return broken("no largest value in [1, 65535]");
  if (pnm.kind == '3' || pnm.kind == '6') pnm.channels = 3;
  if (!pnm.text() && !text.OneSpace()) return broken("no white space after the header");
  if (pnm.bytes() > static_cast<int64_t>(text.rest().size()))
    return broken(Cat(pnm.width, " x ", pnm.height, " pixels are not inside"));
  Tensor out(DType::kU8, {pnm.height, pnm.width, pnm.channels});
  const std::string_view data = text.rest();
  uint8_t* to = out.mutable_data<uint8_t>().data();
  for (int64_t i = 0; i < pnm.samples(); ++i) {
    const int64_t sample = !pnm.text()       ? BinarySample(pnm, data, i)
                           : pnm.kind == '1' ? text.Bit()
                                             : text.Number(pnm.most);
    if (sample < 0 || sample > pnm.most) return broken(Cat("sample ", i, " is none"));
    // Of a bitmap 1 is black.
    to[i] = static_cast<uint8_t>(pnm.bitmap() ? 255 * (1 - sample)
                                              : (510 * sample + pnm.most) / (2 * pnm.most));
  }
  return out;
}

}  // namespace infer
