#include "runtime/c_api/samples.h"

#include <cstdint>
#include <utility>

namespace infer::c_api {
namespace {

constexpr size_t kMostSamples = size_t{1} << 40;
constexpr size_t kMostLabels = size_t{1} << 20;  // of a sample

Result<std::vector<Datum>> DataOf(const infer_tensor* inputs, size_t count, Borrow borrow) {
  std::vector<Datum> data;
  data.reserve(count);
  for (size_t k = 0; k < count; ++k) {
    INFER_ASSIGN(Tensor t, TensorOf(inputs[k], k, borrow));
    data.emplace_back(std::move(t));
  }
  return data;
}

}  // namespace

Result<Samples> SamplesOf(const infer_samples* given, const Graph& g) {
  Samples samples;
  if (!given) return samples;
  constexpr size_t kLeast = offsetof(infer_samples, user) + sizeof(given->user);
  INFER_ASSIGN(const infer_samples s, OptionsOf(given, kLeast, "infer_samples"));
  if (s.count == 0) return samples;
  if (s.count > kMostSamples || s.labels_per_sample > kMostLabels)
    return InvalidArgument(Cat("infer_samples: ", s.count, " samples"));
  if (!s.inputs && !s.read) return InvalidArgument("infer_samples has neither inputs nor read");
  const size_t width = g.inputs().size();
  samples.count = static_cast<int64_t>(s.count);
  samples.get = [s, width](int64_t i) -> Result<std::vector<Datum>> {
    const auto index = static_cast<size_t>(i);
    if (s.inputs) return DataOf(s.inputs + index * width, width, Borrow::kWhereAligned);
    std::vector<infer_tensor> inputs(width);
    if (const int code = s.read(s.user, index, inputs.data()); code != INFER_OK)
      return Status(CodeOfCallback(code), Cat("sample ", i, ": its callback failed"));
    return DataOf(inputs.data(), width, Borrow::kNever);
  };
  if (!s.labels) return samples;
  samples.labels = [labels = s.labels, each = std::max<size_t>(s.labels_per_sample, 1)](int64_t i) {
    const int64_t* first = labels + static_cast<size_t>(i) * each;
    return Result<std::vector<int64_t>>(std::vector<int64_t>(first, first + each));
  };
  return samples;
}

Status Told::Check() const {
  return stop_.stop_requested() ? Cancelled("stopped by the progress callback") : Status();
}

std::vector<NodePattern> PatternsOf(const char* const* texts) {
  std::vector<NodePattern> patterns;
  for (; texts && *texts; ++texts) patterns.push_back(ParseNodePattern(*texts));
  return patterns;
}

}  // namespace infer::c_api
