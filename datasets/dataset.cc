#include "datasets/dataset.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <unordered_set>

#include "lib/support/hash.h"
#include "lib/support/random.h"
#include "lib/support/strings.h"

namespace infer {

Dataset::Dataset(std::string path, std::shared_ptr<const SampleSource> source,
                 std::vector<int64_t> labels, Preprocess preprocess, bool stores_images)
    : path_(std::move(path)),
      source_(std::move(source)),
      labels_(std::move(labels)),
      preprocess_(std::move(preprocess)),
      stores_images_(stores_images) {
  INFER_CHECK(labels_.empty() || static_cast<int64_t>(labels_.size()) == source_->size());
}

Dataset Dataset::With(Preprocess preprocess) const {
  return Dataset(path_, source_, labels_, std::move(preprocess), stores_images_);
}

Result<Batch> Dataset::Read(std::span<const int64_t> indices) const {
  INFER_CHECK(!indices.empty());
  const std::vector<std::string> names = source_->names();
  const auto count = static_cast<int64_t>(indices.size());
  Batch batch;
  for (int64_t b = 0; b < count; ++b) {
    const int64_t i = indices[static_cast<size_t>(b)];
    INFER_CHECK(i >= 0 && i < size());
    const std::string where = Cat(path_, ": sample ", i);
    Result<std::vector<Tensor>> sample = source_->Read(i);
    if (!sample.ok()) return sample.status();
    for (size_t k = 0; k < names.size(); ++k) {
      Result<Tensor> x = Apply(preprocess_, (*sample)[k]);
      if (!x.ok()) return x.status().In(where);
      if (b == 0) {
        Dims dims = x->dims();
        dims.insert(dims.begin(), count);
        if (!CheckedNumElements(dims)) return ResourceExhausted(Cat(where, ": batch too large"));
        batch.inputs.emplace_back(names[k], Tensor(x->dtype(), std::move(dims)));
      }
      Tensor& stacked = batch.inputs[k].second;
      if (x->dtype() != stacked.dtype() ||
          !std::equal(x->dims().begin(), x->dims().end(), stacked.dims().begin() + 1,
                      stacked.dims().end()))
        return InvalidModel(Cat(where, " is ", ToString(x->type()), ", the batch is ",
                                ToString(stacked.type()),
                                "; --preprocess resize=..,crop=.. makes images equal"));
      if (x->byte_size() > 0)
        std::memcpy(stacked.mutable_raw() + b * x->byte_size(), x->raw(),
                    static_cast<size_t>(x->byte_size()));
    }
    if (has_labels()) batch.labels.push_back(labels_[static_cast<size_t>(i)]);
  }
  return batch;
}

Result<Batch> Dataset::ReadRange(int64_t begin, int64_t count) const {
  std::vector<int64_t> indices(static_cast<size_t>(count));
  std::iota(indices.begin(), indices.end(), begin);
  return Read(indices);
}

Result<uint64_t> Dataset::SampleHash(int64_t i) const {
  INFER_ASSIGN(const std::vector<Tensor> sample, source_->Read(i));
  Hasher h;
  for (const Tensor& t : sample) h.Add(HashOf(t));
  return h.value();
}

Result<DataSplit> SplitSamples(int64_t size, int64_t calib_count, uint64_t seed) {
  if (calib_count <= 0) calib_count = std::min<int64_t>(size / 2, 1000);
  if (calib_count < 1 || calib_count >= size)
    return InvalidArgument(Cat("cannot split ", size, " samples into ", calib_count,
                               " for calibration and the rest for evaluation"));
  std::vector<int64_t> order(static_cast<size_t>(size));
  std::iota(order.begin(), order.end(), int64_t{0});
  Random random(seed);
  for (size_t i = order.size() - 1; i > 0; --i)
    std::swap(order[i], order[random.NextU64() % (i + 1)]);
  const auto middle = order.begin() + calib_count;
  DataSplit split{seed, {order.begin(), middle}, {middle, order.end()}};
  std::sort(split.calib.begin(), split.calib.end());
  std::sort(split.eval.begin(), split.eval.end());
  return split;
}

Result<int64_t> CountShared(const Dataset& a, const Dataset& b) {
  std::unordered_set<uint64_t> seen;
  for (int64_t i = 0; i < a.size(); ++i) {
    INFER_ASSIGN(const uint64_t h, a.SampleHash(i));
    seen.insert(h);
  }
  int64_t shared = 0;
  for (int64_t i = 0; i < b.size(); ++i) {
    INFER_ASSIGN(const uint64_t h, b.SampleHash(i));
    shared += static_cast<int64_t>(seen.count(h));
  }
  return shared;
}

}  // namespace infer
