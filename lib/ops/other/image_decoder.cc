/// ImageDecoder: the file formats are those of lib/image.
#include "lib/image/decode.h"
#include "lib/ops/common.h"
#include "lib/ops/op_def.h"

namespace infer {
namespace {

Status InferImageDecoder(OpCall& call) {
  INFER_TRY(CheckRank(call, 0, 1, 1));
  const std::string& format = call.Str("pixel_format");
  if (format != "RGB" && format != "BGR" && format != "Grayscale")
    return InvalidModel(Cat("pixel_format is '", format, "'"));
  call.SetOut(0, DType::kU8, Shape({Dim(), Dim(), Dim(format == "Grayscale" ? 1 : 3)}));
  return {};
}

/// Pixels of 1 or 3 channels as another format has them.
void Convert(std::span<const uint8_t> from, int64_t channels, const std::string& format,
             std::span<uint8_t> to) {
  if (channels == 1) {
    for (size_t i = 0; i < to.size(); ++i) to[i] = from[i / 3];
  } else if (format == "BGR") {
    for (size_t i = 0; i < to.size(); ++i) to[i] = from[i + 2 - 2 * (i % 3)];
  } else {
    for (size_t i = 0; i < to.size(); ++i)
      to[i] = Luma(from[3 * i], from[3 * i + 1], from[3 * i + 2]);
  }
}

Status RunImageDecoder(OpRun& run) {
  const auto file = run.in(0).data<uint8_t>();
  const std::string& format = run.Str("pixel_format");
  const int64_t channels = format == "Grayscale" ? 1 : 3;
  Result<Tensor> image =
      DecodePixels({reinterpret_cast<const char*>(file.data()), file.size()}, "the encoded stream");
  if (image.status().code() == Code::kInvalidModel) {
    // The standard: what cannot be decoded is an empty matrix. A format or a size that is beyond us
    // is another matter: its pixels are there, and none of them would be a wrong answer.
    run.Out(0, DType::kU8, {0, 0, channels});
    return {};
  }
  if (!image.ok()) return image.status();
  if (image->dim(2) == channels && format != "BGR") {
    run.Set(0, *std::move(image));
    return {};
  }
  Tensor& out = run.Out(0, DType::kU8, {image->dim(0), image->dim(1), channels});
  Convert(image->data<uint8_t>(), image->dim(2), format, out.mutable_data<uint8_t>());
  return {};
}

}  // namespace

std::span<const OpDef> ImageDecoderOps() {
  static const OpDef ops[] = {{
      .name = "ImageDecoder",
      .doc = "The pixels of a PNG, JPEG, BMP or PNM file; of a broken one an empty matrix.",
      .traits = Trait::kText,
      .since = 20,
      .versions = {20},
      .inputs = {{"encoded_stream", "T1"}},
      .outputs = {{"image", "T2"}},
      .attrs = {{"pixel_format", AttrKind::kString, std::string("RGB")}},
      .constraints = {{"T1", TypeSet(DType::kU8)}, {"T2", TypeSet(DType::kU8)}},
      .tolerance = 0,
      .infer = InferImageDecoder,
      .reference = RunImageDecoder,
      // "P2 2 1 9 0 9": black and white.
      .example = R"(graph g() -> (y) {
        x = const u8[12] {80, 50, 32, 50, 32, 49, 32, 57, 32, 48, 32, 57}
        y = ImageDecoder(x) {pixel_format="BGR"} })",
  }};
  return ops;
}

}  // namespace infer
