#include "tools/infer_opt/run/top_classes.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "datasets/readers/image.h"
#include "lib/support/file.h"
#include "lib/support/folder.h"
#include "lib/support/readable.h"
#include "lib/support/strings.h"
#include "quant/accuracy/metrics.h"
#include "tools/common/data_options.h"

namespace infer {
namespace {

constexpr int64_t kUsualTop = 5;

/// The row as probabilities: as it is where it is a distribution, else its softmax.
std::vector<double> Probabilities(std::span<const float> row) {
  std::vector<double> p = LogProbabilities(row, IsDistribution(row));
  for (double& v : p) v = std::exp(v);
  return p;
}

}  // namespace

void ClassFlags::Declare(Options& o) {
  o.Section("Classes");
  o.Value("--preprocess KEY=VALUE,...", &preprocess,
          "From photo to input, as of eval: resize=256,crop=224,scale=1/255,layout=nchw; --input "
          "then names photos or folders of them");
  o.Value("--classes", &classes, "Names of the classes, one a line", PathUse::kRead);
  o.Value("--top", &top, "Show so many best classes; 0: 5 where photos or classes are given");
}

Result<std::vector<std::string>> ReadClasses(const ClassFlags& flags) {
  if (flags.classes.empty()) return std::vector<std::string>();
  INFER_ASSIGN(const std::string text, ReadFile(flags.classes));
  std::vector<std::string> names;
  for (const std::string& line : Split(text, '\n')) names.emplace_back(Trim(line));
  while (!names.empty() && names.back().empty()) names.pop_back();
  if (names.empty()) return InvalidModel(Cat(flags.classes, ": holds no names"));
  return names;
}

Result<Json> ShowTop(Context& context, const Tensor& scores,
                     const std::vector<std::string>& classes, const ClassFlags& flags) {
  const Rows rows = RowsIn(scores.dims());
  if (rows.width < 1)
    return InvalidModel(Cat("the output is ", ToString(scores.type()), ": no row of scores"));
  if (!classes.empty() && rows.width != static_cast<int64_t>(classes.size()))
    return InvalidModel(Cat(flags.classes, ": ", classes.size(), " names, but the output has ",
                            rows.width, " scores"));
  const std::vector<float> values = scores.ToFloats();
  const int64_t k = std::min(flags.top > 0 ? flags.top : kUsualTop, rows.width);
  Json all = Json::array();
  for (int64_t r = 0; r < rows.count; ++r) {
    const auto row = std::span<const float>(values).subspan(static_cast<size_t>(r * rows.width),
                                                            static_cast<size_t>(rows.width));
    const std::vector<double> p = Probabilities(row);
    Json best = Json::array();
    for (const int64_t c : TopK(row, k)) {
      const auto at = static_cast<size_t>(c);
      const std::string name = classes.empty() ? Cat("class ", c) : classes[at];
      std::string percent = Fixed(100 * p[at], 2);
      percent.insert(0, percent.size() < 8 ? 8 - percent.size() : 0, ' ');
      context.PrintLine(Cat(percent, " %  ", Printable(name)));
      best.push_back({{"class", c},
                      {"name", name},
                      {"score", JsonNumber(row[at])},
                      {"probability", JsonNumber(p[at])}});
    }
    all.push_back(std::move(best));
  }
  return all;
}

std::vector<std::string> PhotosOf(const std::vector<std::string>& inputs) {
  std::vector<std::string> photos;
  for (const std::string& path : inputs) {
    std::error_code error;
    if (!std::filesystem::is_directory(path, error)) {
      if (!IsImagePath(path)) return {};
      photos.push_back(path);
      continue;
    }
    const auto entries = EntriesOf(path);
    std::vector<std::string> inside;
    if (entries.ok())
      for (const std::string& name : *entries)
        if (IsImagePath(name)) inside.push_back(Cat(path, path.ends_with('/') ? "" : "/", name));
    if (inside.empty()) return {};
    std::sort(inside.begin(), inside.end());
    photos.insert(photos.end(), inside.begin(), inside.end());
  }
  return photos;
}

Result<Json> RunOnPhotos(Context& context, const Graph& g, const Program& program,
                         const std::vector<std::string>& photos, const ClassFlags& flags) {
  INFER_ASSIGN(const std::vector<std::string> classes, ReadClasses(flags));
  INFER_ASSIGN(const auto run, program.NewContext());
  Json all = Json::array();
  for (const std::string& photo : photos) {
    INFER_ASSIGN(const auto data, OpenData({.data = photo, .preprocess = flags.preprocess}));
    INFER_ASSIGN(const Samples samples, MakeSamples(data, g, {0}));
    INFER_ASSIGN(const std::vector<Datum> inputs, samples.get(0));
    for (size_t i = 0; i < inputs.size(); ++i) INFER_TRY(run->BindInput(i, inputs[i]));
    INFER_TRY(run->Run({.stop = context.stop()}));
    const Datum& output = run->output(0);
    if (!output.is_tensor()) return InvalidModel("the first output is no tensor of scores");
    context.PrintLine(Printable(photo));
    INFER_ASSIGN(Json top, ShowTop(context, output.tensor(), classes, flags));
    all.push_back({{"file", photo}, {"top", std::move(top)}});
    context.Progress("photos", static_cast<int64_t>(all.size()),
                     static_cast<int64_t>(photos.size()));
  }
  return all;
}

}  // namespace infer
