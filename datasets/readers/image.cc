#include "datasets/readers/image.h"

#include <algorithm>
#include <cctype>
#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <vector>

#include "lib/support/strings.h"
#ifdef INFER_HAVE_PNG
#include <png.h>
#endif
#ifdef INFER_HAVE_JPEG
#include <jerror.h>
#include <jpeglib.h>
#endif

namespace infer {
namespace {

Status CheckPixels(int64_t height, int64_t width, const std::string& name,
                   const ReadLimits& limits) {
  if (height < 1 || width < 1 || height > limits.max_pixels / width)
    return InvalidModel(
        Cat(name, ": ", width, " x ", height, " pixels; the limit is ", limits.max_pixels));
  return {};
}

#ifdef INFER_HAVE_PNG
Result<Tensor> DecodePng(std::string_view bytes, const std::string& name,
                         const ReadLimits& limits) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  const auto fail = [&] {
    std::string why = image.message;
    png_image_free(&image);
    return InvalidModel(Cat(name, ": broken PNG: ", why));
  };
  if (!png_image_begin_read_from_memory(&image, bytes.data(), bytes.size())) return fail();
  const int64_t height = image.height, width = image.width;
  if (Status s = CheckPixels(height, width, name, limits); !s.ok()) {
    png_image_free(&image);
    return s;
  }
  const int64_t colours = image.format & PNG_FORMAT_FLAG_COLOR ? 3 : 1;
  // With alpha asked for, nothing is blended; it is dropped below.
  const bool alpha = image.format & PNG_FORMAT_FLAG_ALPHA;
  image.format =
      (colours == 3 ? PNG_FORMAT_RGB : PNG_FORMAT_GRAY) | (alpha ? PNG_FORMAT_FLAG_ALPHA : 0u);
  const int64_t stored = colours + alpha;
  Tensor pixels(DType::kU8, {height, width, stored});
  if (!png_image_finish_read(&image, nullptr, pixels.mutable_raw(), 0, nullptr)) return fail();
  if (!alpha) return pixels;
  Tensor out(DType::kU8, {height, width, colours});
  const uint8_t* from = pixels.data<uint8_t>().data();
  uint8_t* to = out.mutable_data<uint8_t>().data();
  for (int64_t i = 0; i < height * width; ++i)
    for (int64_t c = 0; c < colours; ++c) to[i * colours + c] = from[i * stored + c];
  return out;
}
#endif

#ifdef INFER_HAVE_JPEG
/// libjpeg reports through callbacks that must not return: longjmp to JpegReader::Run.
struct JpegError {
  jpeg_error_mgr manager;
  jpeg_progress_mgr progress;
  jmp_buf jump;
  char text[JMSG_LENGTH_MAX];
};

[[noreturn]] void OnJpegError(j_common_ptr info) {
  auto* error = static_cast<JpegError*>(info->client_data);
  info->err->format_message(info, error->text);
  longjmp(error->jump, 1);
}

/// Broken data that libjpeg would patch up with grey; only bytes between markers are harmless.
void OnJpegWarning(j_common_ptr info, int level) {
  if (level < 0 && info->err->msg_code != JWRN_EXTRANEOUS_DATA) OnJpegError(info);
}

/// A progressive file of thousands of scans over one huge image costs minutes per kilobyte.
void OnJpegProgress(j_common_ptr info) {
  constexpr int kMaxScans = 200;
  auto* error = static_cast<JpegError*>(info->client_data);
  if (info->is_decompressor &&
      reinterpret_cast<j_decompress_ptr>(info)->input_scan_number > kMaxScans) {
    std::snprintf(error->text, sizeof error->text, "more than %d scans", kMaxScans);
    longjmp(error->jump, 1);
  }
}

/// Between setjmp and longjmp only trivial objects may live, so the steps are apart.
class JpegReader {
 public:
  JpegReader() {
    info_.err = jpeg_std_error(&error_.manager);
    error_.manager.error_exit = OnJpegError;
    error_.manager.emit_message = OnJpegWarning;
    error_.progress.progress_monitor = OnJpegProgress;
    info_.client_data = &error_;
  }
  ~JpegReader() { jpeg_destroy_decompress(&info_); }
  JpegReader(const JpegReader&) = delete;
  JpegReader& operator=(const JpegReader&) = delete;

  bool ReadHeader(std::string_view bytes) {
    if (setjmp(error_.jump)) return false;
    jpeg_create_decompress(&info_);
    info_.client_data = &error_;
    info_.progress = &error_.progress;
    jpeg_mem_src(&info_, reinterpret_cast<const unsigned char*>(bytes.data()),
                 static_cast<unsigned long>(bytes.size()));
    jpeg_read_header(&info_, TRUE);
    info_.out_color_space = info_.num_components == 1 ? JCS_GRAYSCALE : JCS_RGB;
    return true;
  }
  bool ReadPixels(uint8_t* out, size_t row_bytes) {
    if (setjmp(error_.jump)) return false;
    jpeg_start_decompress(&info_);
    while (info_.output_scanline < info_.output_height) {
      JSAMPROW row = out + info_.output_scanline * row_bytes;
      jpeg_read_scanlines(&info_, &row, 1);
    }
    jpeg_finish_decompress(&info_);
    return true;
  }
  const jpeg_decompress_struct& info() const { return info_; }
  const char* error() const { return error_.text; }

 private:
  jpeg_decompress_struct info_{};
  JpegError error_{};
};

Result<Tensor> DecodeJpeg(std::string_view bytes, const std::string& name,
                          const ReadLimits& limits) {
  JpegReader reader;
  const auto fail = [&] { return InvalidModel(Cat(name, ": broken JPEG: ", reader.error())); };
  if (!reader.ReadHeader(bytes)) return fail();
  const int64_t height = reader.info().image_height, width = reader.info().image_width;
  INFER_TRY(CheckPixels(height, width, name, limits));
  if (reader.info().num_components > 3)
    return Unsupported(Cat(name, ": a CMYK JPEG; convert it to RGB"));
  const int64_t channels = reader.info().num_components == 1 ? 1 : 3;
  Tensor out(DType::kU8, {height, width, channels});
  if (!reader.ReadPixels(out.mutable_data<uint8_t>().data(), static_cast<size_t>(width * channels)))
    return fail();
  return out;
}
#endif

}  // namespace

Result<Tensor> DecodeImage(std::string_view bytes, const std::string& name,
                           [[maybe_unused]] const ReadLimits& limits) {
  if (bytes.starts_with("\x89PNG")) {
#ifdef INFER_HAVE_PNG
    return DecodePng(bytes, name, limits);
#else
    return Unsupported(Cat(name, ": this build has no libpng; convert the image to .npy"));
#endif
  }
  if (bytes.starts_with("\xff\xd8")) {
#ifdef INFER_HAVE_JPEG
    return DecodeJpeg(bytes, name, limits);
#else
    return Unsupported(Cat(name, ": this build has no libjpeg; convert the image to .npy"));
#endif
  }
  return InvalidModel(Cat(name, ": neither a PNG nor a JPEG file"));
}

Result<Tensor> ReadImage(const std::string& path, const ReadLimits& limits) {
  INFER_ASSIGN(DataBytesPtr source, DataBytes::Open(path));
  if (source->size() > limits.max_pixels * 8)
    return InvalidModel(Cat(path, ": ", HumanBytes(source->size()), " is too large for an image"));
  INFER_ASSIGN(const std::string bytes, source->ReadString(0, source->size()));
  return DecodeImage(bytes, path, limits);
}

bool IsImagePath(std::string_view path) {
  std::string lower(path);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return lower.ends_with(".png") || lower.ends_with(".jpg") || lower.ends_with(".jpeg");
}

}  // namespace infer
