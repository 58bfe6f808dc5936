#pragma once
/// Dataset: labelled samples read by index, a few at a time, in constant memory (deflated .npz,
/// gzip IDX and column-major .npy excepted: those are unpacked once). Also how `--data` alone
/// becomes disjoint calibration and evaluation sets.
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "datasets/preprocess.h"
#include "datasets/readers/stored_array.h"

namespace infer {

/// What the user says about data. `--calib`, `--eval` and `--data` each make one.
struct DataOptions {
  std::string data;        ///< file or folder of images
  std::string labels;      ///< .npy, IDX or CSV; "" = those of the data, if it has any
  std::string preprocess;  ///< see preprocess.h
  std::string raw_type;    ///< of one sample, "f32[3,32,32]": declares `data` as raw
  ReadLimits limits;
};

struct Batch {
  /// Input name ("" when the data has one unnamed array) -> samples stacked along axis 0.
  std::vector<std::pair<std::string, Tensor>> inputs;
  std::vector<int64_t> labels;  ///< empty when the data has none
};

/// Where samples come from: one per format family. Thread-safe.
class SampleSource {
 public:
  virtual ~SampleSource() = default;
  virtual int64_t size() const = 0;
  virtual std::vector<std::string> names() const { return {""}; }
  /// Sample i of every input, before preprocessing. Pre: 0 <= i < size().
  virtual Result<std::vector<Tensor>> Read(int64_t i) const = 0;
};

class Dataset {
 public:
  /// `stores_images`: the samples are image files, each grey or RGB as it is stored.
  Dataset(std::string path, std::shared_ptr<const SampleSource> source, std::vector<int64_t> labels,
          Preprocess preprocess, bool stores_images = false);

  const std::string& path() const { return path_; }
  const Preprocess& preprocess() const { return preprocess_; }
  bool stores_images() const { return stores_images_; }
  /// The same samples, preprocessed otherwise.
  Dataset With(Preprocess preprocess) const;
  int64_t size() const { return source_->size(); }
  std::vector<std::string> input_names() const { return source_->names(); }
  bool has_labels() const { return !labels_.empty(); }
  const std::vector<int64_t>& labels() const { return labels_; }  ///< size(), or empty

  /// The samples `indices`, preprocessed and stacked. InvalidModel when their types differ, with
  /// the index. Pre: every index in range, at least one.
  Result<Batch> Read(std::span<const int64_t> indices) const;
  /// Samples [begin, begin + count).
  Result<Batch> ReadRange(int64_t begin, int64_t count) const;
  /// Hash of sample i's inputs as stored: equal samples hash equal.
  Result<uint64_t> SampleHash(int64_t i) const;

 private:
  std::string path_;
  std::shared_ptr<const SampleSource> source_;
  std::vector<int64_t> labels_;
  Preprocess preprocess_;
  bool stores_images_ = false;
};

/// By what the path is: a folder of image files (in byte order of their names, or those that the
/// labels CSV lists; labels.csv inside the folder is found), .npy, .npz (every array is an input;
/// arrays named "label" or "labels" are the labels), IDX (*-ubyte, .idx, with or without .gz), .bin
/// (CIFAR-10/100), or raw. InvalidModel when labels and samples differ in number.
Result<Dataset> OpenDataset(const DataOptions& options);

/// One whole file as a tensor, for `--input NAME=FILE`: .npy, .npz with one array, IDX, an image.
Result<Tensor> ReadTensorFile(const std::string& path, const ReadLimits& limits = {});

/// The arrays of an .npz by name, for `--input FILE`.
Result<std::vector<std::pair<std::string, Tensor>>> ReadNamedTensors(const std::string& path,
                                                                     const ReadLimits& limits = {});

/// Two disjoint sets of samples of one data set, as `--data` alone is split. Recorded in reports.
struct DataSplit {
  uint64_t seed = 0;
  std::vector<int64_t> calib, eval;  ///< each ascending
};
/// `calib_count` samples (0: half, at most 1000) for calibration, all others for evaluation, by a
/// seeded Fisher-Yates shuffle that is the same everywhere. InvalidArgument when one would be
/// empty.
Result<DataSplit> SplitSamples(int64_t size, int64_t calib_count, uint64_t seed);

/// How many samples of `b` occur in `a` bit for bit: `--calib` and `--eval` must share none.
Result<int64_t> CountShared(const Dataset& a, const Dataset& b);

}  // namespace infer
