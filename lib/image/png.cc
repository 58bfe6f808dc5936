#include <csetjmp>
#include <cstdio>
#include <cstring>

#include "lib/image/codecs.h"
#include "lib/support/strings.h"

#ifdef INFER_HAVE_PNG
#include <png.h>

namespace infer {
namespace {

/// libpng's simplified API would convert 16-bit files and those with a gAMA chunk to sRGB; here the
/// stored values count, as they do for other readers. Errors longjmp out of a callback. Between
/// setjmp and longjmp only trivial objects may live, so the steps are apart.
class PngReader {
 public:
  explicit PngReader(std::string_view bytes) : rest_(bytes) {}
  ~PngReader() { png_destroy_read_struct(&png_, &info_, nullptr); }
  PngReader(const PngReader&) = delete;
  PngReader& operator=(const PngReader&) = delete;

  bool ReadHeader() {
    if (setjmp(jump_)) return false;
    png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, this, OnError, OnWarning);
    if (png_) info_ = png_create_info_struct(png_);
    if (!info_) {
      std::snprintf(text_, sizeof text_, "libpng does not start");
      return false;
    }
    png_set_read_fn(png_, this, OnRead);
    png_read_info(png_, info_);
    return true;
  }
  bool ReadPixels(uint8_t* out, size_t row_bytes) {
    if (setjmp(jump_)) return false;
    png_set_expand(png_);  // palettes, fewer than 8 bits, tRNS
    png_set_strip_16(png_);
    png_set_strip_alpha(png_);
    const int passes = png_set_interlace_handling(png_);
    png_read_update_info(png_, info_);
    INFER_CHECK(png_get_rowbytes(png_, info_) == row_bytes);
    const png_uint_32 height = png_get_image_height(png_, info_);
    for (int pass = 0; pass < passes; ++pass)
      for (png_uint_32 y = 0; y < height; ++y) png_read_row(png_, out + y * row_bytes, nullptr);
    return true;
  }
  int64_t height() const { return png_get_image_height(png_, info_); }
  int64_t width() const { return png_get_image_width(png_, info_); }
  int64_t channels() const {
    return png_get_color_type(png_, info_) & PNG_COLOR_MASK_COLOR ? 3 : 1;
  }
  const char* error() const { return text_; }

 private:
  [[noreturn]] static void OnError(png_structp png, png_const_charp text) {
    auto* reader = static_cast<PngReader*>(png_get_error_ptr(png));
    std::snprintf(reader->text_, sizeof reader->text_, "%s", text);
    longjmp(reader->jump_, 1);
  }
  static void OnWarning(png_structp, png_const_charp) {}
  static void OnRead(png_structp png, png_bytep out, size_t n) {
    auto* reader = static_cast<PngReader*>(png_get_io_ptr(png));
    if (n > reader->rest_.size()) png_error(png, "the file ends too early");
    std::memcpy(out, reader->rest_.data(), n);
    reader->rest_.remove_prefix(n);
  }

  std::string_view rest_;
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
  jmp_buf jump_;
  char text_[128] = "";
};

}  // namespace

Result<Tensor> DecodePng(std::string_view bytes, const std::string& name, int64_t max_pixels) {
  PngReader reader(bytes);
  const auto fail = [&] { return InvalidModel(Cat(name, ": broken PNG: ", reader.error())); };
  if (!reader.ReadHeader()) return fail();
  const int64_t height = reader.height(), width = reader.width(), channels = reader.channels();
  INFER_TRY(CheckPixels(height, width, name, max_pixels));
  Tensor out(DType::kU8, {height, width, channels});
  if (!reader.ReadPixels(out.mutable_data<uint8_t>().data(), static_cast<size_t>(width * channels)))
    return fail();
  return out;
}

}  // namespace infer
#else
namespace infer {

Result<Tensor> DecodePng(std::string_view, const std::string& name, int64_t) {
  return Unsupported(Cat(name, ": this build has no libpng; convert the image to .npy"));
}

}  // namespace infer
#endif
