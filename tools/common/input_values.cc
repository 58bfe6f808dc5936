#include "tools/common/input_values.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <set>

#include "datasets/dataset.h"
#include "lib/ir/eval.h"
#include "lib/ir/reached.h"
#include "lib/onnx/import.h"
#include "lib/support/folder.h"
#include "lib/support/random.h"
#include "lib/support/strings.h"
#include "tools/common/host.h"
#include "tools/common/input_fill.h"
#include "tools/common/length_inputs.h"

namespace infer {
namespace {

namespace fs = std::filesystem;

bool EndsWith(std::string_view text, std::string_view tail) {
  return text.size() >= tail.size() && text.substr(text.size() - tail.size()) == tail;
}

Result<Datum> ReadValueFile(const std::string& path, const ValueType& type) {
  if (EndsWith(path, ".pb")) return ReadDatumPb(path, type);
  INFER_ASSIGN(Tensor t, ReadTensorFile(path));
  return Datum(std::move(t));
}

/// Largest value + 1 that every reader of `v` accepts as an index, following operators that only
/// move or convert; 2 where nobody says more.
int64_t IndexBound(const Value& v, int64_t bound) {
  ReachedFrom(v, [&](const Use& use, auto add) {
    const Node& n = *use.user;
    if (n.Is(Trait::kLookup) && use.operand == 1 && n.input(0)->shape().has_rank() &&
        n.input(0)->shape().rank() > 0) {
      const auto at = NormalizeAxis(n.AttrOr<int64_t>("axis", 0), n.input(0)->shape().rank());
      if (at.ok() && n.input(0)->shape()[*at].is_static())
        bound = std::min(bound, n.input(0)->shape()[*at].value());
      return;
    }
    const bool moves =
        n.IsAny(Trait::kConversion | Trait::kView | Trait::kStrided | Trait::kConcatenation);
    if (moves && n.output(0)) add(*n.output(0));
    for (const auto& [name, sub] : n.subgraphs()) {
      const size_t captures_begin = n.inputs().size() - n.num_captures();
      if (use.operand < captures_begin) continue;
      const size_t k = sub->inputs().size() - n.num_captures() + (use.operand - captures_begin);
      add(*sub->inputs()[k]);
    }
  });
  return bound;
}

/// Numbers that a model compares the only element of `v` with, such as the sampling rates that it
/// knows: any other number would send it where it was not made to go.
std::set<int64_t> ComparedWith(const Value& v) {
  std::set<int64_t> numbers;
  ReachedFrom(v, [&](const Use& use, auto add) {
    const Node& n = *use.user;
    if (n.IsAny(Trait::kConversion | Trait::kView) && n.output(0)) {
      add(*n.output(0));
    } else if (n.Is("Equal")) {
      const Value* other = n.input(1 - use.operand);
      if (other->is_constant() && other->constant()->num_elements() == 1 &&
          IsInteger(other->dtype()))
        numbers.insert(other->constant()->IntAt(0));
    }
  });
  return numbers;
}

Dims ConcreteDims(const Value& v, const OpenExtents& extents) {
  Dims dims;
  if (!v.shape().has_rank()) return dims;
  for (int axis = 0; axis < v.shape().rank(); ++axis) {
    const Dim& d = v.shape()[axis];
    const auto it = d.is_static() ? extents.end() : extents.find(OpenDimName(v, axis));
    dims.push_back(d.is_static() ? d.value() : it == extents.end() ? 1 : it->second);
  }
  return dims;
}

Result<Tensor> RandomTensor(const Value& v, const OpenExtents& extents, Random& random) {
  const DType dtype = v.dtype() == DType::kUndefined ? DType::kF32 : v.dtype();
  const Dims dims = ConcreteDims(v, extents);
  // The system may promise more than it has, and then end us where we write.
  static const int64_t memory_bytes = GetHostFacts().memory_bytes;
  const auto count = CheckedNumElements(dims);
  if (!count || *count / 8 * std::max(BitWidth(dtype), 1) > memory_bytes)
    return ResourceExhausted(Cat("input '", v.name(), "': ", Name(dtype), ToString(dims),
                                 " is more than the ", HumanBytes(memory_bytes),
                                 " of memory here; choose smaller extents (--set, --shape)"));
  Tensor t(dtype, dims);
  if (dtype == DType::kString) return t;
  if (IsKeepMask(v)) {
    // A quarter is hidden, never the first key: a query that sees none has no meaning.
    const int64_t keys = dims.empty() ? 1 : dims.back();
    for (int64_t i = 0; i < t.num_elements(); ++i)
      t.Set(i, i % keys == 0 || random.Below(4) != 0 ? 1 : 0);
    return t;
  }
  if (!IsInteger(dtype)) {
    for (int64_t i = 0; i < t.num_elements(); ++i)
      t.Set(i, dtype == DType::kBool ? static_cast<double>(random.Below(2)) : random.Normal());
    return t;
  }
  if (const auto length = LengthFill(v, extents)) {
    for (int64_t i = 0; i < t.num_elements(); ++i) t.SetInt(i, *length);
    return t;
  }
  if (const auto most = MostLength(v, extents)) {
    for (int64_t i = 0; i < t.num_elements(); ++i)
      t.SetInt(i, 1 + random.Below(static_cast<uint32_t>(std::clamp<int64_t>(*most, 1, 1 << 30))));
    return t;
  }
  if (t.num_elements() == 1) {
    const std::set<int64_t> known = ComparedWith(v);
    if (!known.empty()) {
      t.SetInt(0, *std::next(known.begin(), random.Below(static_cast<uint32_t>(known.size()))));
      return t;
    }
  }
  constexpr int64_t kUnbounded = int64_t{1} << 31;
  int64_t bound = std::min(IndexBound(v, kUnbounded), PositionsOf(v, extents).value_or(kUnbounded));
  if (bound == kUnbounded) bound = BitWidth(dtype) == 8 ? 128 : 2;
  for (int64_t i = 0; i < t.num_elements(); ++i)
    t.SetInt(i, random.Below(static_cast<uint32_t>(std::max<int64_t>(bound, 1))));
  return t;
}

}  // namespace

void InputOptions::Declare(Options& options) {
  options.Section("Inputs");
  options.Values("-i,--input FILE", &input,
                 "NAME=FILE, or FILE of a model with one input (.npy, .npz, .pb, .png, .jpg, .bmp, "
                 ".pnm), or an .npz with an array of each input's name, or a folder "
                 "test_data_set_0 with input_0.pb, ...",
                 PathUse::kRead);
  options.Values("--fill KIND", &fill,
                 "NAME=KIND, or KIND for all inputs without a file: normal[:MEAN:SD], "
                 "uniform:LOW:HIGH (integers: both included), constant:V");
  options.Value("--seed", &seed, "Seed of random inputs");
}

Result<std::vector<Datum>> RandomModelInputs(const Graph& g, uint64_t seed,
                                             const OpenExtents& extents) {
  Random random(seed);
  std::vector<Datum> out;
  for (const Value* v : g.inputs()) {
    if (!v->type().is_tensor())
      return Unsupported(Cat("input '", v->name(), "' is a ", ToString(v->type()),
                             ": give it with --input ", v->name(), "=FILE.pb"));
    INFER_ASSIGN(Tensor t, RandomTensor(*v, extents, random));
    out.emplace_back(std::move(t));
  }
  return out;
}

namespace {

bool IsTestSet(const std::string& folder) {
  std::error_code error;
  return fs::exists(folder + "/input_0.pb", error);
}

/// Where the value of an input comes from.
struct GivenFile {
  std::string path;
  std::optional<Tensor> array = {};  ///< of an .npz whose arrays have the names of inputs
};
using FileOfInput = std::map<std::string, GivenFile>;

std::string InputNames(const Graph& g) {
  std::vector<std::string> names;
  for (const Value* v : g.inputs()) names.push_back(v->name());
  return Cat("the inputs are: ", Join(names, ", "));
}

/// An .npz of one array for each input that it names.
Status TakeArrays(const Graph& g, const std::string& path, FileOfInput& files) {
  INFER_ASSIGN(auto arrays, ReadNamedTensors(path));
  if (g.inputs().size() == 1 && arrays.size() == 1) {
    files[g.inputs()[0]->name()] = {path, std::move(arrays[0].second)};
    return {};
  }
  for (auto& [name, array] : arrays) {
    const Value* v = g.FindValue(name);
    if (!v || !v->is_input())
      return InvalidModel(Cat(path, ": array '", name, "' is no input; ", InputNames(g)));
    files[name] = {path, std::move(array)};
  }
  return {};
}

Result<FileOfInput> FilesOf(const Graph& g, const InputOptions& options) {
  FileOfInput files;
  for (const std::string& text : options.input) {
    if (IsTestSet(text)) {
      for (size_t i = 0; i < g.inputs().size(); ++i)
        files[g.inputs()[i]->name()] = {Cat(text, "/input_", i, ".pb")};
      continue;
    }
    const size_t at = text.find('=');
    const Value* named = at == std::string::npos ? nullptr : g.FindValue(text.substr(0, at));
    if (named && named->is_input()) {
      files[named->name()] = {text.substr(at + 1)};
    } else if (at == std::string::npos && EndsWith(text, ".npz")) {
      INFER_TRY(TakeArrays(g, text, files));
    } else if (g.inputs().size() == 1 && at == std::string::npos) {
      files[g.inputs()[0]->name()] = {text};
    } else {
      return InvalidArgument(Cat("--input ", text,
                                 ": write NAME=FILE, or give an .npz with an array of each "
                                 "input's name; ",
                                 InputNames(g)));
    }
  }
  return files;
}

/// Takes the extents of a value that was given for the open dimensions of its input.
Status FixExtents(const Value& v, const Tensor& t, OpenExtents& fixed) {
  if (!v.type().is_tensor() || !v.shape().has_rank()) return {};
  for (int axis = 0; axis < v.shape().rank(); ++axis) {
    if (v.shape()[axis].is_static()) continue;
    const std::string name = OpenDimName(v, axis);
    const auto [it, fresh] = fixed.try_emplace(name, t.dim(axis));
    if (!fresh && it->second != t.dim(axis))
      return InvalidModel(Cat("input '", v.name(), "' has ", name, " = ", t.dim(axis),
                              ", another input ", it->second));
  }
  return {};
}

}  // namespace

std::string ModelInputs::ToString(uint64_t seed) const {
  if (random.empty()) return "";
  return Cat("random values (seed ", seed, ") for: ", Join(random, ", "),
             extents.empty() ? "" : ", with ", infer::ToString(extents),
             extents.empty() ? "" : " (--set, --shape)");
}

Result<ModelInputs> MakeInputs(const Graph& g, const InputOptions& options, const RunGraph& run) {
  INFER_ASSIGN(const FileOfInput files, FilesOf(g, options));
  ModelInputs inputs;
  std::vector<Datum> given(g.inputs().size());
  for (size_t i = 0; i < g.inputs().size(); ++i) {
    const Value& v = *g.inputs()[i];
    const auto it = files.find(v.name());
    if (it == files.end()) {
      inputs.random.push_back(v.name());
      continue;
    }
    const auto& [path, array] = it->second;
    if (array) {
      given[i] = *array;
    } else {
      INFER_ASSIGN(given[i], ReadValueFile(path, v.type()));
    }
    if (Status s = CheckDatum(given[i], v.type(), v.name()); !s.ok())
      return InvalidModel(Cat(path, ": ", s.message()));
    if (given[i].is_tensor()) INFER_TRY(FixExtents(v, given[i].tensor(), inputs.extents));
  }
  const auto values = [&](const OpenExtents& extents) -> Result<std::vector<Datum>> {
    if (inputs.random.empty()) return given;
    INFER_ASSIGN(auto all, RandomModelInputs(g, options.seed, extents));
    INFER_TRY(FillInputs(g, options.fill, options.seed, all));
    for (size_t i = 0; i < all.size(); ++i)
      if (files.contains(g.inputs()[i]->name())) all[i] = given[i];
    return all;
  };
  for (const auto& [name, extent] : options.known_extents) inputs.extents.emplace(name, extent);
  if (!inputs.random.empty() && HasOpenDims(g) && options.known_extents.empty()) {
    ExtentSearch search{.fixed = inputs.extents};
    search.run = [&](const OpenExtents& extents) -> Result<bool> {
      INFER_ASSIGN(const auto all, values(extents));
      INFER_ASSIGN(const auto outputs, run(all));
      return AnyEmpty(outputs);
    };
    INFER_ASSIGN(inputs.extents, FindExtents(g, search));
  }
  INFER_ASSIGN(inputs.values, values(inputs.extents));
  return inputs;
}

Result<std::vector<std::string>> FindTestSets(const std::string& dir) {
  std::error_code error;
  std::vector<std::string> sets;
  if (!fs::is_directory(dir, error)) return IoError(Cat(dir, ": not a folder"));
  INFER_ASSIGN(const auto entries, EntriesOf(dir));
  for (const std::string& name : entries) {
    const std::string path = (fs::path(dir) / name).string();
    if (name.starts_with("test_data_set_") && fs::is_directory(path, error)) sets.push_back(path);
  }
  if (sets.empty() && fs::exists(dir + "/output_0.pb", error)) sets.push_back(dir);
  if (sets.empty()) return InvalidModel(Cat(dir, ": holds no test_data_set_k folder"));
  std::sort(sets.begin(), sets.end(), [](const std::string& a, const std::string& b) {
    return a.size() != b.size() ? a.size() < b.size() : a < b;
  });
  return sets;
}

Result<TestSet> ReadTestSet(const std::string& path, const Graph& g) {
  TestSet set;
  set.path = path;
  for (size_t i = 0; i < g.inputs().size(); ++i) {
    INFER_ASSIGN(Datum d, ReadDatumPb(Cat(path, "/input_", i, ".pb"), g.inputs()[i]->type()));
    set.inputs.push_back(std::move(d));
  }
  for (size_t i = 0; i < g.outputs().size(); ++i) {
    INFER_ASSIGN(Datum d, ReadDatumPb(Cat(path, "/output_", i, ".pb"), g.outputs()[i]->type()));
    set.outputs.push_back(std::move(d));
  }
  return set;
}

}  // namespace infer
