#include "tools/common/open_extents.h"

#include <algorithm>
#include <array>
#include <optional>
#include <set>

#include "lib/ir/inference.h"
#include "lib/support/strings.h"
#include "tools/common/solve_extents.h"

namespace infer {
namespace {

constexpr std::array<int64_t, 6> kUniform = {4, 16, 64, 512, 2, 1};
/// With the leading dimensions: many runs of a large model cost much, so large ones come last.
constexpr std::array<int64_t, 6> kWithLeading = {2, 1, 4, 16, 64, 512};
constexpr int64_t kLargeUniform = 64;
/// For dimensions that depend on each other, as total = past + new: every combination.
constexpr std::array<int64_t, 4> kCombined = {2, 4, 3, 1};
constexpr size_t kMaxCombined = 3;
/// For one that is long while the others are 1, as samples of sound beside a batch.
constexpr std::array<int64_t, 4> kLong = {16, 64, 256, 512};
constexpr size_t kMaxSingled = 16;
/// Height and width of an image that is measured, and of one that is checked: a network of
/// convolutions computes little but padding on four pixels.
constexpr int64_t kMeasuredImage = 224, kCheckedImage = 64;
/// Of a network that has a table for one size, as vision transformers have for their patches.
constexpr std::array<int64_t, 12> kTableImages = {32,  224, 64,  384, 256, 128,
                                                  512, 96,  336, 448, 518, 28};
/// Kernels rarely refuse for the extents what they do not do; a run of a large model costs much.
constexpr int kMaxUnsupportedRuns = 4;
/// An output that is empty at each length is so by design, as the caches of a merged decoder whose
/// branch does not compute them.
constexpr int kMaxEmptyRuns = 6;
constexpr double kMaxElements = 1 << 24;    ///< of one input
constexpr double kLargeElements = 1 << 15;  ///< of one sample, above which one is enough

struct OpenDims {
  std::set<std::string> leading;  ///< axis 0 of some input with more axes
  std::set<std::string> others;
};

OpenDims OpenDimsOf(const Graph& g) {
  OpenDims open;
  for (const Value* v : g.inputs()) {
    if (!v->type().is_tensor() || !v->shape().has_rank()) continue;
    for (int axis = 0; axis < v->shape().rank(); ++axis)
      if (!v->shape()[axis].is_static())
        (axis == 0 && v->shape().rank() > 1 ? open.leading : open.others)
            .insert(OpenDimName(*v, axis));
  }
  for (const std::string& name : open.leading) open.others.erase(name);
  return open;
}

/// Elements of the largest input.
double MaxElements(const Graph& g, const OpenExtents& extents) {
  double most = 0;
  for (const Value* v : g.inputs()) {
    if (!v->type().is_tensor() || !v->shape().has_rank()) continue;
    double count = 1;
    for (int axis = 0; axis < v->shape().rank(); ++axis) {
      const Dim& d = v->shape()[axis];
      count *= static_cast<double>(d.is_static() ? d.value() : extents.at(OpenDimName(*v, axis)));
    }
    most = std::max(most, count);
  }
  return most;
}

/// What is tried, the best first: names that nothing determines take numbers, the others follow.
class CandidateList {
 public:
  CandidateList(const Graph& g, const ExtentSearch& search) : g_(g), search_(search) {}

  /// `open`: the names that are up for choice.
  std::vector<OpenExtents> Make(const OpenDims& open) {
    if (open.leading.empty() && open.others.empty()) return {search_.fixed};
    std::set<std::string> names = open.leading;
    names.insert(open.others.begin(), open.others.end());
    const std::vector<ExtentEquation> equations = EquationsOf(g_);
    for (const Strictness strictness : {Strictness::kBroadcast, Strictness::kEqual})
      Add(open, SolveExtents(equations, strictness, names, open.leading, search_.fixed));
    Add(open, {});  // statements of one of several forms may have misled
    Add(open, SolveExtents(equations, Strictness::kLarge, names, open.leading, search_.fixed));
    return std::move(all_);
  }

 private:
  void Add(OpenDims open, const ExtentSolution& solution) {
    for (const auto& [name, value] : solution) {
      open.leading.erase(name);
      open.others.erase(name);
    }
    AddImages(open, solution, search_.first_batch == 1 ? kMeasuredImage : kCheckedImage);
    auto with_leading = kWithLeading;
    if (OneSample(open, solution)) std::swap(with_leading[0], with_leading[1]);
    const auto add_uniform = [&](const std::function<bool(int64_t)>& wanted) {
      if (!open.others.empty() || open.leading.empty())
        for (const int64_t n : kUniform)
          if (wanted(n)) Add(Extents(open, 1, n), solution);
      if (!open.leading.empty())
        for (const int64_t n : with_leading)
          if (wanted(n)) Add(Extents(open, n, n), solution);
    };
    add_uniform([](int64_t n) { return n < kLargeUniform; });
    AddCombined(open, solution);  // before runs that cost much
    add_uniform([](int64_t n) { return n >= kLargeUniform; });
    for (const int64_t side : kTableImages) AddImages(open, solution, side);
  }

  /// One is asked for, or enough: its inputs are large.
  bool OneSample(const OpenDims& open, const ExtentSolution& solution) const {
    const auto one = Completed(Extents(open, 1, 1), solution);
    return search_.first_batch == 1 || (one && MaxElements(g_, *one) > kLargeElements);
  }

  void AddImages(const OpenDims& open, const ExtentSolution& solution, int64_t side) {
    OpenExtents e = Extents(open, OneSample(open, solution) ? 1 : 2, kUniform[0]);
    bool images = false;
    for (const std::string& name : ImageAxes(solution)) {
      if (!open.others.contains(name)) continue;
      e[name] = side;
      images = true;
    }
    if (images) Add(std::move(e), solution);
  }

  /// The open names of height and width: of inputs with four axes, and 1, 3 or 4 channels before or
  /// behind those two. Names that another input has as well are of masks and caches.
  std::set<std::string> ImageAxes(const ExtentSolution& solution) const {
    std::set<std::string> names;
    for (const Value* v : g_.inputs()) {
      if (!v->type().is_tensor() || !v->shape().has_rank() || v->shape().rank() != 4) continue;
      const int height = IsChannels(*v, 1, solution) ? 2 : IsChannels(*v, 3, solution) ? 1 : 0;
      if (height == 0) continue;
      for (const int axis : {height, height + 1}) {
        if (v->shape()[axis].is_static()) continue;
        if (std::string name = OpenDimName(*v, axis); InputsWith(name) == 1)
          names.insert(std::move(name));
      }
    }
    return names;
  }

  static bool IsChannels(const Value& input, int axis, const ExtentSolution& solution) {
    Dim d = input.shape()[axis];
    if (!d.is_static())
      if (const auto it = solution.find(OpenDimName(input, axis)); it != solution.end())
        d = it->second;
    return d.is_static() && (d.value() == 1 || d.value() == 3 || d.value() == 4);
  }

  int64_t InputsWith(std::string_view name) const {
    return std::count_if(g_.inputs().begin(), g_.inputs().end(), [&](const Value* v) {
      if (!v->type().is_tensor() || !v->shape().has_rank()) return false;
      for (int axis = 0; axis < v->shape().rank(); ++axis)
        if (!v->shape()[axis].is_static() && OpenDimName(*v, axis) == name) return true;
      return false;
    });
  }

  void AddCombined(const OpenDims& open, const ExtentSolution& solution) {
    const std::vector<std::string> names(open.others.begin(), open.others.end());
    if (names.size() < 2) return;
    if (names.size() > kMaxCombined) {
      // One that differs: what depends on the others through values that inference does not see.
      for (size_t i = 0; i < std::min(names.size(), kMaxSingled); ++i)
        for (const auto& [all, one] : {std::pair<int64_t, int64_t>(2, 4), {1, 2}, {4, 8}}) {
          OpenExtents e = Extents(open, 1, all);
          e[names[i]] = one;
          Add(std::move(e), solution);
        }
      return;
    }
    size_t count = 1;
    for (size_t i = 0; i < names.size(); ++i) count *= kCombined.size();
    for (const bool has_one : {false, true})  // one query hides what a causal mask does wrong
      for (size_t k = 0; k < count; ++k) {
        OpenExtents e = Extents(open, 1, 1);
        size_t rest = k;
        bool is_one = false;
        for (const std::string& name : names) {
          e[name] = kCombined[rest % kCombined.size()];
          is_one |= e[name] == 1;
          rest /= kCombined.size();
        }
        if (is_one == has_one) Add(std::move(e), solution);
      }
    for (const int64_t n : kLong)
      for (const std::string& name : names) {
        OpenExtents e = Extents(open, 1, 1);
        e[name] = n;
        Add(std::move(e), solution);
      }
  }

  OpenExtents Extents(const OpenDims& open, int64_t leading, int64_t others) const {
    OpenExtents e = search_.fixed;
    for (const std::string& name : open.leading) e[name] = leading;
    for (const std::string& name : open.others) e[name] = others;
    return e;
  }

  /// With what follows from the numbers; nullopt when that is no extent.
  std::optional<OpenExtents> Completed(OpenExtents e, const ExtentSolution& solution) const {
    std::map<std::string, Dim> numbers;
    for (const auto& [name, n] : e) numbers.emplace(name, Dim(n));
    for (const auto& [name, value] : solution) {
      const Dim n = value.Replaced(numbers);
      if (!n.is_static() || n.value() < 0) return std::nullopt;
      e.emplace(name, n.value());
    }
    return e;
  }

  void Add(OpenExtents chosen, const ExtentSolution& solution) {
    auto e = Completed(std::move(chosen), solution);
    if (e && seen_.insert(*e).second) all_.push_back(*std::move(e));
  }

  const Graph& g_;
  const ExtentSearch& search_;
  std::vector<OpenExtents> all_;
  std::set<OpenExtents> seen_;
};

/// Whether an axis is padded by more of its reflection than it has, as windows of sound longer than
/// the sound are: we go on and on, ONNX Runtime and PyTorch refuse.
bool ReflectsBeyond(const Graph& known) {
  bool beyond = false;
  for (const auto& n : known.nodes()) {
    if (!n->Is("Pad") || n->Attr<std::string>("mode") != "reflect" || n->input(3)) continue;
    const Value *x = n->input(0), *pads = n->input(1);
    if (!pads->is_constant() || !x->shape().is_static()) continue;
    const std::vector<int64_t> all = pads->constant()->ToInts();
    const Dims dims = x->shape().static_dims();
    for (size_t i = 0; i < all.size() && all.size() == 2 * dims.size(); ++i)
      beyond |= all[i] >= dims[i % dims.size()];
  }
  return beyond;
}

struct Inferred {
  bool empty = false;   ///< an output
  bool beyond = false;  ///< ReflectsBeyond
};
/// The verdict of inference, which knows the extents.
Result<Inferred> Infers(const Graph& g, const OpenExtents& extents) {
  INFER_ASSIGN(const Graph known, WithExtents(g, extents));
  const auto& outputs = known.outputs();
  Inferred inferred{.beyond = ReflectsBeyond(known)};
  inferred.empty = std::any_of(outputs.begin(), outputs.end(), [](const Value* v) {
    return v->type().is_tensor() && v->tensor_type().is_static() &&
           NumElements(v->shape().static_dims()) == 0;
  });
  return inferred;
}

/// No extent is below that of `large`.
bool IsAsLarge(const OpenExtents& extents, const OpenExtents& large) {
  return std::all_of(large.begin(), large.end(), [&](const auto& l) {
    const auto it = extents.find(l.first);
    return it != extents.end() && it->second >= l.second;
  });
}

/// Others say that the machine or the user ends the search.
bool DependsOnExtents(const Status& s) {
  return s.code() == Code::kInvalidModel || s.code() == Code::kInvalidArgument ||
         s.code() == Code::kUnsupported;
}

}  // namespace

std::string OpenDimName(const Value& input, int axis) {
  const Dim& d = input.shape()[axis];
  return d.is_unknown() ? Cat(input.name(), "[", axis, "]") : d.ToString();
}

bool HasOpenDims(const Graph& g) {
  const OpenDims open = OpenDimsOf(g);
  return !open.leading.empty() || !open.others.empty();
}

bool AnyEmpty(const std::vector<Datum>& outputs) {
  return std::any_of(outputs.begin(), outputs.end(), [](const Datum& d) {
    return d.is_tensor() && d.tensor().num_elements() == 0;
  });
}

Result<Graph> WithExtents(const Graph& g, const OpenExtents& extents) {
  std::map<std::string, Dims> shapes;
  for (const Value* v : g.inputs()) {
    if (!v->type().is_tensor() || !v->shape().has_rank() || v->shape().is_static()) continue;
    Dims& dims = shapes[v->name()];
    for (int axis = 0; axis < v->shape().rank(); ++axis) {
      const Dim& d = v->shape()[axis];
      dims.push_back(d.is_static() ? d.value() : extents.at(OpenDimName(*v, axis)));
    }
  }
  Graph copy = g.Clone();
  if (!shapes.empty()) INFER_TRY(SpecializeInputs(copy, shapes));
  return copy;
}

Result<OpenExtents> FindExtents(const Graph& g, const ExtentSearch& search) {
  OpenDims open = OpenDimsOf(g);
  for (const auto& [name, extent] : search.fixed) {
    open.leading.erase(name);
    open.others.erase(name);
  }
  std::vector<OpenExtents> candidates = CandidateList(g, search).Make(open);
  const size_t kinds = candidates.size();
  std::optional<OpenExtents> with_empty_output;
  Status last, too_large;
  std::vector<OpenExtents> large;  // that were too large for the memory
  bool unsupported = true;         // every refusal was of what we cannot do
  int unsupported_runs = 0, empty_runs = 0;
  for (size_t i = 0; i < candidates.size(); ++i) {
    const OpenExtents extents = candidates[i];
    if (MaxElements(g, extents) > kMaxElements && extents.size() > search.fixed.size()) continue;
    if (std::any_of(large.begin(), large.end(),
                    [&](const OpenExtents& l) { return IsAsLarge(extents, l); }))
      continue;
    const auto inferred = Infers(g, extents);
    if (inferred.ok() && inferred->beyond && i < kinds) {
      candidates.push_back(extents);  // behind all others
      continue;
    }
    Result<bool> empty = inferred.ok() ? Result<bool>(inferred->empty) : inferred.status();
    const bool ran = empty.ok() && search.run;
    if (ran) empty = search.run(extents);
    if (!empty.ok()) {
      if (empty.status().code() == Code::kResource) {
        too_large = empty.status();
        large.push_back(extents);
        continue;
      }
      last = empty.status();
      if (!DependsOnExtents(last)) return last;
      const bool lacks = last.code() == Code::kUnsupported;
      unsupported &= lacks;
      if (ran && lacks && ++unsupported_runs == kMaxUnsupportedRuns) break;
      continue;
    }
    if (!*empty) return extents;
    if (!with_empty_output) with_empty_output = extents;
    if (ran && ++empty_runs == kMaxEmptyRuns) break;
  }
  if (with_empty_output) return *with_empty_output;
  if (last.ok() && !too_large.ok()) return too_large;
  if (unsupported && !last.ok()) return last;
  return InvalidArgument(Cat("the model runs on none of ", kinds,
                             " kinds of random inputs (the last: ", last.message(),
                             "): give its shapes (--shape, --set) or real inputs"));
}

std::string ToString(const OpenExtents& extents) {
  std::vector<std::string> parts;
  for (const auto& [name, n] : extents) parts.push_back(Cat(name, " = ", n));
  return Join(parts, ", ");
}

}  // namespace infer
