#include "tools/common/data_options.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "lib/support/strings.h"
#include "tools/common/preprocess_hint.h"

namespace infer {
namespace {

/// The sample tensor [1, ...] as the input wants it: the data's extents where they fit, else the
/// input's static ones when the number of elements is the same.
Result<Tensor> Fit(Tensor t, const Value& input, const std::string& path) {
  const TensorType& want = input.tensor_type();
  if (want.dtype != DType::kUndefined && t.dtype() != want.dtype) t = t.Cast(want.dtype);
  if (Meet(Shape(t.dims()), want.shape).ok()) return t;
  if (t.rank() > 0 && t.dim(0) == 1) {
    Dims without(t.dims().begin() + 1, t.dims().end());
    if (Meet(Shape(without), want.shape).ok()) return t.Reshaped(without);
  }
  return InvalidModel(Cat(path, ": the data are ", ToString(t.type()), ", input '", input.name(),
                          "' wants ", ToString(want)));
}

/// The same; where it does not fit, with what would make it.
Result<Tensor> FitOrHint(Tensor t, const Value& input, const Dataset& data) {
  auto fitted = Fit(std::move(t), input, data.path());
  if (fitted.ok()) return fitted;
  const std::string hint = PreprocessThatFits(data, input);
  return Status(fitted.status().code(),
                Cat(fitted.status().message(),
                    hint.empty() ? " (see --preprocess)"
                                 : Cat("; --preprocess ", hint,
                                       " fits, with the scale, mean and std of its training")));
}

/// Samples [1, ...] that the model takes in one run: more than one where it fixes the extent of its
/// batch, each input the same, and so many samples one behind the other are what each wants.
int64_t SamplesOfARun(const std::vector<Tensor>& sample, const std::vector<const Value*>& inputs) {
  const Shape& first = inputs[0]->shape();
  if (!first.has_rank() || first.rank() == 0 || !first[0].is_static()) return 1;
  const int64_t rows = first[0].value();
  for (size_t k = 0; k < inputs.size(); ++k) {
    Dims dims = sample[k].dims();
    if (dims.empty() || dims[0] != 1) return 1;
    dims[0] = rows;
    if (!Meet(Shape(dims), inputs[k]->shape()).ok()) return 1;
  }
  return std::max<int64_t>(rows, 1);
}

/// Samples [1, ...] behind each other. InvalidModel: they differ in their extents.
Result<Tensor> Stacked(const std::vector<Tensor>& parts, const std::string& path) {
  if (parts.size() == 1) return parts[0];
  for (const Tensor& t : parts)
    if (t.type() != parts[0].type())
      return InvalidModel(Cat(path, ": samples of ", ToString(parts[0].type()), " and ",
                              ToString(t.type()), " cannot share a batch (see --preprocess)"));
  Dims dims = parts[0].dims();
  dims[0] = static_cast<int64_t>(parts.size());
  Tensor all(parts[0].dtype(), dims);
  std::byte* to = all.mutable_raw();
  for (const Tensor& t : parts) {
    std::memcpy(to, t.raw(), static_cast<size_t>(t.byte_size()));
    to += t.byte_size();
  }
  return all;
}

/// The arrays of one sample, by graph input.
Result<std::vector<Tensor>> SampleOf(const Dataset& data, int64_t which,
                                     const std::vector<size_t>& match) {
  INFER_ASSIGN(Batch batch, data.ReadRange(which, 1));
  std::vector<Tensor> sample;
  for (const size_t k : match) sample.push_back(batch.inputs[k].second);
  return sample;
}

/// Which array of the data feeds each graph input.
Result<std::vector<size_t>> MatchInputs(const Dataset& data, const Graph& g) {
  const auto names = data.input_names();
  if (names.size() == 1 && g.inputs().size() == 1) return std::vector<size_t>{0};
  std::vector<size_t> match;
  std::vector<std::string> inputs;
  for (const Value* v : g.inputs()) inputs.push_back(v->name());
  if (names.size() == 1 && names[0].empty())
    return InvalidArgument(Cat(data.path(), " has one array without a name, the model has ",
                               inputs.size(), " inputs (", Join(inputs, ", "),
                               "): write a .npz with an array for each, by its name"));
  for (const Value* v : g.inputs()) {
    size_t k = 0;
    while (k < names.size() && names[k] != v->name()) ++k;
    if (k == names.size())
      return InvalidModel(
          Cat(data.path(), ": no array for input '", v->name(), "'; it has: ", Join(names, ", ")));
    match.push_back(k);
  }
  return match;
}

/// Image files are grey or RGB as each is stored; a model wants one of them. Nullptr: the data as
/// they are.
std::shared_ptr<const Dataset> InChannelsOf(const Dataset& data, const Graph& g) {
  constexpr int kBatchedImage = 4;  // its rank
  Preprocess p = data.preprocess();
  if (!data.stores_images() || p.order != Preprocess::Order::kAsStored || g.inputs().size() != 1)
    return nullptr;
  const Value& input = *g.inputs()[0];
  if (!input.type().is_tensor() || !input.shape().has_rank() ||
      input.shape().rank() != kBatchedImage)
    return nullptr;
  const Dim& channels = input.shape()[p.layout == Preprocess::Layout::kChw ? 1 : 3];
  const bool grey = channels.is_static() && channels.value() == 1;
  p.order = grey ? Preprocess::Order::kGrey : Preprocess::Order::kRgb;
  return std::make_shared<const Dataset>(data.With(std::move(p)));
}

}  // namespace

void DataFlags::Declare(Options& options, const std::string& role, const std::string& what) {
  const std::string name = role.empty() ? "data" : role;
  const std::string prefix = role.empty() ? "--" : Cat("--", role, "-");
  if (role.empty()) options.Section("Data");
  options.Value(Cat("--", name), &data, Cat(what, ": .npy, .npz, IDX, CIFAR, a folder of images"),
                PathUse::kRead);
  options.Value(Cat(prefix, "labels"), &labels, "Class indices: .npy, IDX or CSV", PathUse::kRead);
  options.Value(Cat(prefix, "samples"), &max_samples, "Use at most so many samples; 0: all");
  if (role.empty()) {
    options.Value("--preprocess KEY=VALUE,...", &preprocess,
                  "From sample to input (--help-all lists the keys)");
    options.ExplainRarely("Keys of --preprocess, in the order in which the steps run:\n" +
                          PreprocessHelp());
    options.Rarely();
    options.Value("--raw-type TYPE", &raw_type, "Type of one sample of a raw file: f32[3,32,32]");
  }
}

Result<std::shared_ptr<const Dataset>> OpenData(const DataFlags& flags) {
  INFER_ASSIGN(Dataset d, OpenDataset({.data = flags.data,
                                       .labels = flags.labels,
                                       .preprocess = flags.preprocess,
                                       .raw_type = flags.raw_type}));
  return std::make_shared<const Dataset>(std::move(d));
}

std::vector<int64_t> FirstSamples(const Dataset& data, int64_t max_samples) {
  std::vector<int64_t> which(
      static_cast<size_t>(max_samples > 0 ? std::min(max_samples, data.size()) : data.size()));
  std::iota(which.begin(), which.end(), 0);
  return which;
}

Result<Samples> MakeSamples(const std::shared_ptr<const Dataset>& stored, const Graph& g,
                            const std::vector<int64_t>& which) {
  const auto in_channels = InChannelsOf(*stored, g);
  const std::shared_ptr<const Dataset> data = in_channels ? in_channels : stored;
  INFER_ASSIGN(std::vector<size_t> match, MatchInputs(*data, g));
  std::vector<const Value*> inputs(g.inputs().begin(), g.inputs().end());
  Samples s;
  int64_t rows = 1;
  if (!which.empty() && !inputs.empty() && inputs[0]->type().is_tensor()) {
    INFER_ASSIGN(const std::vector<Tensor> first, SampleOf(*data, which[0], match));
    if (!Fit(first[0], *inputs[0], data->path()).ok()) rows = SamplesOfARun(first, inputs);
  }
  s.count = static_cast<int64_t>(which.size()) / rows;
  if (s.count == 0 && rows > 1)
    return InvalidArgument(Cat(data->path(), ": ", which.size(), " samples do not fill a batch of ",
                               rows, ", which the model fixes"));
  s.get = [data, which, match, inputs, rows](int64_t i) -> Result<std::vector<Datum>> {
    std::vector<std::vector<Tensor>> parts(inputs.size());
    for (int64_t r = 0; r < rows; ++r) {
      INFER_ASSIGN(std::vector<Tensor> sample,
                   SampleOf(*data, which[static_cast<size_t>(i * rows + r)], match));
      for (size_t k = 0; k < inputs.size(); ++k) parts[k].push_back(std::move(sample[k]));
    }
    std::vector<Datum> out;
    for (size_t k = 0; k < inputs.size(); ++k) {
      INFER_ASSIGN(Tensor stacked, Stacked(parts[k], data->path()));
      INFER_ASSIGN(Tensor t, FitOrHint(std::move(stacked), *inputs[k], *data));
      out.emplace_back(std::move(t));
    }
    return out;
  };
  if (data->has_labels())
    s.labels = [data, which, rows](int64_t i) -> Result<std::vector<int64_t>> {
      std::vector<int64_t> labels;
      for (int64_t r = 0; r < rows; ++r)
        labels.push_back(
            data->labels()[static_cast<size_t>(which[static_cast<size_t>(i * rows + r)])]);
      return labels;
    };
  return s;
}

}  // namespace infer
