#include <csetjmp>
#include <cstdio>

#include "lib/image/codecs.h"
#include "lib/support/strings.h"

#ifdef INFER_HAVE_JPEG
#include <jerror.h>
#include <jpeglib.h>

namespace infer {
namespace {

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
  bool out_of_memory() const { return error_.manager.msg_code == JERR_OUT_OF_MEMORY; }

 private:
  jpeg_decompress_struct info_{};
  JpegError error_{};
};

}  // namespace

Result<Tensor> DecodeJpeg(std::string_view bytes, const std::string& name, int64_t max_pixels) {
  JpegReader reader;
  const auto fail = [&] {
    if (reader.out_of_memory()) return ResourceExhausted(Cat(name, ": JPEG: ", reader.error()));
    return InvalidModel(Cat(name, ": broken JPEG: ", reader.error()));
  };
  if (!reader.ReadHeader(bytes)) return fail();
  const int64_t height = reader.info().image_height, width = reader.info().image_width;
  INFER_TRY(CheckPixels(height, width, name, max_pixels));
  if (reader.info().num_components > 3)
    return Unsupported(Cat(name, ": a CMYK JPEG; convert it to RGB"));
  const int64_t channels = reader.info().num_components == 1 ? 1 : 3;
  Tensor out(DType::kU8, {height, width, channels});
  if (!reader.ReadPixels(out.mutable_data<uint8_t>().data(), static_cast<size_t>(width * channels)))
    return fail();
  return out;
}

}  // namespace infer
#else
namespace infer {

Result<Tensor> DecodeJpeg(std::string_view, const std::string& name, int64_t) {
  return Unsupported(Cat(name, ": this build has no libjpeg; convert the image to .npy"));
}

}  // namespace infer
#endif
