#include <algorithm>
#include <filesystem>

#include "datasets/dataset.h"
#include "datasets/readers/image.h"
#include "datasets/readers/labels.h"
#include "datasets/readers/npz.h"
#include "datasets/readers/records.h"
#include "lib/support/folder.h"
#include "lib/support/strings.h"

namespace infer {
namespace {

namespace fs = std::filesystem;

/// Arrays whose axis 0 counts the samples.
class ArraySource : public SampleSource {
 public:
  static Result<std::unique_ptr<SampleSource>> Make(std::vector<StoredArray> arrays) {
    auto source = std::make_unique<ArraySource>();
    for (StoredArray& a : arrays) {
      const std::string& file = a.source->name();
      if (a.dims.empty())
        return InvalidModel(Cat(file, ": array '", a.name,
                                "' is a scalar; axis 0 must count the "
                                "samples"));
      if (a.rows() != arrays.front().rows())
        return InvalidModel(Cat(file, ": array '", a.name, "' has ", a.rows(), " samples, '",
                                arrays.front().name, "' has ", arrays.front().rows(),
                                ": axis 0 of every array counts the samples, also where the ",
                                "model's input has no axis for them"));
      if (!a.streams()) {
        INFER_ASSIGN(const Tensor whole, a.Load());
        std::string bytes(reinterpret_cast<const char*>(whole.raw()),
                          static_cast<size_t>(whole.byte_size()));
        a.source = DataBytes::OfMemory(std::move(bytes), file);
        a.offset = 0;
        a.fortran_order = a.big_endian = false;
      }
    }
    if (arrays.empty()) return InvalidModel("no arrays");
    if (arrays.front().rows() == 0)
      return InvalidModel(Cat(arrays.front().source->name(), ": no samples"));
    source->arrays_ = std::move(arrays);
    return std::unique_ptr<SampleSource>(std::move(source));
  }
  int64_t size() const override { return arrays_.front().rows(); }
  std::vector<std::string> names() const override {
    std::vector<std::string> names;
    for (const StoredArray& a : arrays_) names.push_back(a.name);
    return names;
  }
  Result<std::vector<Tensor>> Read(int64_t i) const override {
    std::vector<Tensor> sample;
    for (const StoredArray& a : arrays_) {
      INFER_ASSIGN(Tensor t, a.LoadRow(i));
      sample.push_back(std::move(t));
    }
    return sample;
  }

 private:
  std::vector<StoredArray> arrays_;
};

class ImageSource : public SampleSource {
 public:
  ImageSource(std::vector<std::string> paths, ReadLimits limits)
      : paths_(std::move(paths)), limits_(limits) {}
  int64_t size() const override { return static_cast<int64_t>(paths_.size()); }
  Result<std::vector<Tensor>> Read(int64_t i) const override {
    INFER_ASSIGN(Tensor t, ReadImage(paths_[static_cast<size_t>(i)], limits_));
    return std::vector<Tensor>{std::move(t)};
  }

 private:
  std::vector<std::string> paths_;
  ReadLimits limits_;
};

struct Opened {
  std::unique_ptr<SampleSource> source;
  std::vector<int64_t> labels;
  bool images = false;
};

/// Names in a CSV must stay inside the folder.
bool StaysInside(const std::string& file) {
  if (file.empty() || file.front() == '/' || file.find('\0') != file.npos) return false;
  const std::vector<std::string> parts = Split(file, '/');
  return std::find(parts.begin(), parts.end(), "..") == parts.end();
}

Result<Opened> OpenFolder(const DataOptions& o) {
  std::error_code ec;
  std::string labels = o.labels;
  if (labels.empty() && fs::exists(fs::path(o.data) / "labels.csv", ec))
    labels = (fs::path(o.data) / "labels.csv").string();
  LabelTable table;
  if (!labels.empty()) {
    INFER_ASSIGN(table, ReadLabels(labels, o.limits));
  }
  std::vector<std::string> paths;
  for (const std::string& file : table.files) {
    const fs::path path = fs::path(o.data) / file;
    if (!StaysInside(file)) return InvalidModel(Cat(labels, ": '", file, "' leaves the folder"));
    if (!fs::is_regular_file(path, ec))
      return InvalidModel(Cat(labels, ": '", file, "' is not in ", o.data));
    paths.push_back(path.string());
  }
  if (paths.empty()) {
    INFER_ASSIGN(const auto names, EntriesOf(o.data));
    for (const std::string& name : names)
      if (IsImagePath(name)) paths.push_back((fs::path(o.data) / name).string());
  }
  if (paths.empty())
    return InvalidModel(Cat(o.data,
                            ": no .png, .jpg, .jpeg, .bmp or .pnm file inside; other data, and "
                            "those of several inputs, are an .npz of one array per input name"));
  return Opened{std::make_unique<ImageSource>(std::move(paths), o.limits), std::move(table.labels),
                true};
}

Result<Opened> OfArrays(std::vector<StoredArray> arrays, const std::vector<StoredArray>& labels) {
  Opened opened;
  for (const StoredArray& a : labels) {
    INFER_ASSIGN(const Tensor t, a.Load());
    if (!IsInteger(t.dtype()) || t.rank() < 1 || t.num_elements() != t.dim(0))
      return InvalidModel(Cat(a.source->name(), ": labels must be integers of shape [n]"));
    opened.labels = t.ToInts();
  }
  INFER_ASSIGN(opened.source, ArraySource::Make(std::move(arrays)));
  return opened;
}

/// "train-images-idx3-ubyte.gz", "x.idx".
bool IsIdxPath(std::string_view path) {
  if (path.ends_with(".gz")) path.remove_suffix(3);
  return path.ends_with("-ubyte") || path.ends_with(".idx");
}

Result<Opened> OpenFile(const DataOptions& o) {
  if (!o.raw_type.empty()) {
    INFER_ASSIGN(const auto type, ParseRawType(o.raw_type));
    INFER_ASSIGN(StoredArray a, OpenRaw(o.data, type.first, type.second));
    return OfArrays({std::move(a)}, {});
  }
  if (o.data.ends_with(".npy")) {
    INFER_ASSIGN(StoredArray a, OpenNpy(o.data, o.limits));
    return OfArrays({std::move(a)}, {});
  }
  if (o.data.ends_with(".npz")) {
    INFER_ASSIGN(std::vector<StoredArray> all, OpenNpz(o.data, o.limits));
    const auto middle = std::stable_partition(all.begin(), all.end(), [](const StoredArray& a) {
      return a.name != "label" && a.name != "labels";
    });
    std::vector<StoredArray> labels(middle, all.end());
    if (labels.size() > 1) return InvalidModel(Cat(o.data, ": both 'label' and 'labels'"));
    all.erase(middle, all.end());
    return OfArrays(std::move(all), labels);
  }
  if (IsIdxPath(o.data)) {
    INFER_ASSIGN(StoredArray a, OpenIdx(o.data, o.limits));
    return OfArrays({std::move(a)}, {});
  }
  if (o.data.ends_with(".bin")) {
    INFER_ASSIGN(CifarFile f, OpenCifar(o.data));
    return OfArrays({std::move(f.images)}, {std::move(f.labels)});
  }
  if (IsImagePath(o.data)) {
    return Opened{
        std::make_unique<ImageSource>(std::vector<std::string>{o.data}, o.limits), {}, true};
  }
  std::error_code ec;
  if (!fs::exists(o.data, ec)) return IoError(Cat(o.data, ": no such file or folder"));
  return InvalidArgument(
      Cat(o.data,
          ": unknown kind of data; .npy, .npz, IDX (*-ubyte, .idx), .bin "
          "(CIFAR), .png, .jpg, .bmp, .pnm, a folder of images, or raw with its type"));
}

}  // namespace

Result<Dataset> OpenDataset(const DataOptions& o) {
  INFER_ASSIGN(Preprocess preprocess, ParsePreprocess(o.preprocess));
  std::error_code ec;
  Opened opened;
  if (fs::is_directory(o.data, ec)) {
    INFER_ASSIGN(opened, OpenFolder(o));
  } else {
    INFER_ASSIGN(opened, OpenFile(o));
    if (!o.labels.empty()) {
      INFER_ASSIGN(LabelTable table, ReadLabels(o.labels, o.limits));
      if (!table.files.empty())
        return InvalidModel(Cat(o.labels, ": names files, but ", o.data, " is one file"));
      opened.labels = std::move(table.labels);
    }
  }
  const auto count = static_cast<int64_t>(opened.labels.size());
  if (count != 0 && count != opened.source->size())
    return InvalidModel(Cat(o.labels.empty() ? o.data : o.labels, ": ", count, " labels for ",
                            opened.source->size(), " samples"));
  for (const int64_t label : opened.labels)
    if (label < 0) return InvalidModel(Cat(o.data, ": negative label ", label));
  return Dataset(o.data, std::move(opened.source), std::move(opened.labels), std::move(preprocess),
                 opened.images);
}

Result<std::vector<std::pair<std::string, Tensor>>> ReadNamedTensors(const std::string& path,
                                                                     const ReadLimits& limits) {
  INFER_ASSIGN(const std::vector<StoredArray> all, OpenNpz(path, limits));
  std::vector<std::pair<std::string, Tensor>> named;
  for (const StoredArray& a : all) {
    INFER_ASSIGN(Tensor t, a.Load());
    named.emplace_back(a.name, std::move(t));
  }
  return named;
}

Result<Tensor> ReadTensorFile(const std::string& path, const ReadLimits& limits) {
  if (path.ends_with(".npy")) return ReadNpy(path, limits);
  if (IsImagePath(path)) return ReadImage(path, limits);
  if (IsIdxPath(path)) {
    INFER_ASSIGN(const StoredArray a, OpenIdx(path, limits));
    return a.Load();
  }
  if (path.ends_with(".npz")) {
    INFER_ASSIGN(const std::vector<StoredArray> all, OpenNpz(path, limits));
    if (all.size() != 1)
      return InvalidModel(Cat(path, ": ", all.size(), " arrays where one is needed"));
    return all.front().Load();
  }
  return InvalidArgument(
      Cat(path, ": unknown kind of tensor file (.npy, .npz, IDX, .png, .jpg, .bmp, .pnm)"));
}

}  // namespace infer
