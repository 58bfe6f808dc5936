#include "tools/common/input_values.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "datasets/dataset.h"
#include "lib/onnx/import.h"
#include "lib/support/random.h"
#include "lib/support/strings.h"

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
int64_t IndexBound(const Value& v, std::set<const Value*>& seen, int64_t bound) {
  if (!seen.insert(&v).second) return bound;
  for (const Use& use : v.uses()) {
    const Node& n = *use.user;
    const bool gathers = n.Is("Gather") || n.Is("GatherElements") || n.Is("GatherND");
    if (gathers && use.operand == 1 && n.input(0)->shape().has_rank() &&
        n.input(0)->shape().rank() > 0) {
      const auto it = n.attrs().find("axis");
      const int64_t axis = it == n.attrs().end() ? 0 : std::get<int64_t>(it->second);
      const auto at = NormalizeAxis(n.Is("GatherND") ? 0 : axis, n.input(0)->shape().rank());
      if (at.ok() && n.input(0)->shape()[*at].is_static())
        bound = std::min(bound, n.input(0)->shape()[*at].value());
      continue;
    }
    const bool moves = n.Is("Cast") || n.Is("Identity") || n.Is("Reshape") || n.Is("Unsqueeze") ||
                       n.Is("Squeeze") || n.Is("Flatten") || n.Is("Transpose") || n.Is("Slice") ||
                       n.Is("Concat") || n.Is("Expand");
    if (moves && n.output(0)) bound = IndexBound(*n.output(0), seen, bound);
    for (const auto& [name, sub] : n.subgraphs()) {
      const size_t captures_begin = n.inputs().size() - n.num_captures();
      if (use.operand < captures_begin) continue;
      const size_t k = sub->inputs().size() - n.num_captures() + (use.operand - captures_begin);
      bound = IndexBound(*sub->inputs()[k], seen, bound);
    }
  }
  return bound;
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

Tensor RandomTensor(const Value& v, const OpenExtents& extents, Random& random) {
  const DType dtype = v.dtype() == DType::kUndefined ? DType::kF32 : v.dtype();
  Tensor t(dtype, ConcreteDims(v, extents));
  if (dtype == DType::kString) return t;
  if (!IsInteger(dtype)) {
    for (int64_t i = 0; i < t.num_elements(); ++i)
      t.Set(i, dtype == DType::kBool ? static_cast<double>(random.Below(2)) : random.Normal());
    return t;
  }
  constexpr int64_t kUnbounded = int64_t{1} << 31;
  std::set<const Value*> seen;
  int64_t bound = IndexBound(v, seen, kUnbounded);
  if (bound == kUnbounded) bound = BitWidth(dtype) == 8 ? 128 : 2;
  for (int64_t i = 0; i < t.num_elements(); ++i)
    t.SetInt(i, random.Below(static_cast<uint32_t>(std::max<int64_t>(bound, 1))));
  return t;
}

}  // namespace

void InputOptions::Declare(Options& options) {
  options.Values("-i,--input", &input, "NAME=FILE (.npy, .npz, .pb, .png, .jpg), or FILE");
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
    out.emplace_back(RandomTensor(*v, extents, random));
  }
  return out;
}

Result<std::vector<Datum>> MakeInputs(const Graph& g, const InputOptions& options,
                                      std::vector<std::string>* random_inputs) {
  std::map<std::string, std::string> files;
  for (const std::string& text : options.input) {
    const size_t at = text.find('=');
    if (at != std::string::npos && g.FindValue(text.substr(0, at))) {
      files[text.substr(0, at)] = text.substr(at + 1);
    } else if (g.inputs().size() == 1 && at == std::string::npos) {
      files[g.inputs()[0]->name()] = text;
    } else {
      std::vector<std::string> names;
      for (const Value* v : g.inputs()) names.push_back(v->name());
      return InvalidArgument(
          Cat("--input ", text, ": write NAME=FILE; the inputs are: ", Join(names, ", ")));
    }
  }
  std::vector<Datum> out;
  if (files.size() < g.inputs().size()) {
    INFER_ASSIGN(out, RandomModelInputs(g, options.seed));
  } else {
    out.resize(g.inputs().size());
  }
  for (size_t i = 0; i < g.inputs().size(); ++i) {
    const Value* v = g.inputs()[i];
    auto it = files.find(v->name());
    if (it == files.end()) {
      if (random_inputs) random_inputs->push_back(v->name());
      continue;
    }
    INFER_ASSIGN(out[i], ReadValueFile(it->second, v->type()));
  }
  return out;
}

Result<std::vector<std::string>> FindTestSets(const std::string& dir) {
  std::error_code error;
  std::vector<std::string> sets;
  if (!fs::is_directory(dir, error)) return IoError(Cat(dir, ": not a folder"));
  for (const auto& entry : fs::directory_iterator(dir, error))
    if (entry.is_directory() && entry.path().filename().string().rfind("test_data_set_", 0) == 0)
      sets.push_back(entry.path().string());
  if (error) return IoError(Cat(dir, ": ", error.message()));
  if (sets.empty() && fs::exists(dir + "/output_0.pb")) sets.push_back(dir);
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
