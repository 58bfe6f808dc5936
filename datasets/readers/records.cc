#include "datasets/readers/records.h"

#include "datasets/readers/inflate.h"
#include "lib/support/strings.h"

namespace infer {

Result<StoredArray> ParseIdx(DataBytesPtr source, const ReadLimits& limits) {
  unsigned char head[4] = {};
  if (source->size() < 4) return InvalidModel(Cat(source->name(), ": no IDX file: too short"));
  INFER_TRY(source->Read(0, 4, head));
  if (head[0] == 0x1f && head[1] == 0x8b) {
    INFER_ASSIGN(const std::string packed, source->ReadString(0, source->size()));
    INFER_ASSIGN(std::string bytes, Gunzip(packed, source->name(), limits));
    source = DataBytes::OfMemory(std::move(bytes), source->name());
    if (source->size() < 4) return InvalidModel(Cat(source->name(), ": no IDX file: too short"));
    INFER_TRY(source->Read(0, 4, head));
  }
  StoredArray a{.source = source, .big_endian = true};
  switch (head[2]) {
    case 0x08: a.dtype = DType::kU8; break;
    case 0x09: a.dtype = DType::kI8; break;
    case 0x0B: a.dtype = DType::kI16; break;
    case 0x0C: a.dtype = DType::kI32; break;
    case 0x0D: a.dtype = DType::kF32; break;
    case 0x0E: a.dtype = DType::kF64; break;
    default: break;
  }
  const int rank = head[3];
  if (head[0] != 0 || head[1] != 0 || a.dtype == DType::kUndefined || rank < 1 ||
      rank > limits.max_rank)
    return InvalidModel(Cat(source->name(), ": no IDX file: magic ", int{head[0]}, " ",
                            int{head[1]}, " ", int{head[2]}, " ", rank));
  for (int i = 0; i < rank; ++i) {
    unsigned char d[4];
    INFER_TRY(source->Read(4 + 4 * i, 4, d));
    a.dims.push_back(int64_t{d[0]} << 24 | d[1] << 16 | d[2] << 8 | d[3]);
  }
  a.offset = 4 + 4 * int64_t{rank};
  INFER_TRY(a.Check(limits));
  return a;
}

Result<StoredArray> OpenIdx(const std::string& path, const ReadLimits& limits) {
  INFER_ASSIGN(DataBytesPtr source, DataBytes::Open(path));
  return ParseIdx(source, limits);
}

Result<CifarFile> OpenCifar(const std::string& path, int label_bytes) {
  constexpr int64_t kPixels = int64_t{3} * 32 * 32;
  INFER_ASSIGN(DataBytesPtr source, DataBytes::Open(path));
  const int64_t size = source->size();
  if (label_bytes == 0) label_bytes = size % (kPixels + 1) == 0 ? 1 : 2;
  const int64_t record = kPixels + label_bytes;
  if (size == 0 || size % record != 0)
    return InvalidModel(Cat(path, ": ", size, " bytes are no whole number of CIFAR records (",
                            kPixels + 1, " bytes for CIFAR-10, ", kPixels + 2, " for CIFAR-100)"));
  StoredArray images{.source = source,
                     .offset = label_bytes,
                     .dtype = DType::kU8,
                     .dims = {size / record, 3, 32, 32},
                     .row_stride_bytes = record};
  StoredArray labels{.source = source,
                     .offset = label_bytes - 1,
                     .dtype = DType::kU8,
                     .dims = {size / record},
                     .row_stride_bytes = record};
  INFER_TRY(images.Check());
  INFER_TRY(labels.Check());
  return CifarFile{std::move(images), std::move(labels)};
}

}  // namespace infer
