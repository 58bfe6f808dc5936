/// libFuzzer target: every reader of data files. The first byte picks the reader, the rest is the
/// file. Whatever comes, the answer is a tensor or a Status; limits are small so that runs are
/// fast.
#include <cstddef>
#include <cstdint>

#include "datasets/preprocess.h"
#include "datasets/readers/image.h"
#include "datasets/readers/labels.h"
#include "datasets/readers/npz.h"
#include "datasets/readers/records.h"

namespace infer {
namespace {

void Load(const Result<StoredArray>& a) {
  if (!a.ok()) return;
  const Result<Tensor> whole = a->Load();
  INFER_CHECK(whole.ok() && whole->dims() == a->dims);
  if (a->streams() && a->rows() > 0) INFER_CHECK(a->LoadRow(a->rows() - 1).ok());
}

void RoundTrip(std::string_view text) {
  const Result<Preprocess> p = ParsePreprocess(text);
  if (!p.ok()) return;
  const Result<Preprocess> again = ParsePreprocess(p->ToString());
  INFER_CHECK(again.ok() && again->ToString() == p->ToString());
}

}  // namespace
}  // namespace infer

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace infer;
  if (size == 0) return 0;
  ReadLimits limits;
  limits.max_unpacked_bytes = 1 << 22;
  limits.max_pixels = 1 << 16;
  const std::string bytes(reinterpret_cast<const char*>(data + 1), size - 1);
  const auto length = static_cast<int64_t>(bytes.size());
  const DataBytesPtr source = DataBytes::OfMemory(bytes, "fuzz");
  switch (data[0] % 6) {
    case 0: Load(ParseNpy(source, 0, length, limits)); break;
    case 1:
      if (const auto arrays = ParseNpz(source, limits); arrays.ok())
        for (const StoredArray& a : *arrays) Load(a);
      break;
    case 2: Load(ParseIdx(source, limits)); break;
    case 3: (void)DecodeImage(bytes, "fuzz", limits).ok(); break;
    case 4: (void)ParseLabelCsv(bytes, "fuzz").ok(); break;
    default: RoundTrip(bytes);
  }
  return 0;
}
