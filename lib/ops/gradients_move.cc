/// Gradients of operators that move elements: what was read is added to where it was read from.
#include <numeric>

#include "lib/ops/gradient_text.h"
#include "lib/ops/gradients_families.h"
#include "lib/ops/move.h"

namespace infer {
namespace {

std::vector<int64_t> Ascending(size_t n) {
  std::vector<int64_t> v(n);
  std::iota(v.begin(), v.end(), 0);
  return v;
}

/// Numbers of an operand. Unsupported: they come with the run.
Result<std::vector<int64_t>> Known(const OpCall& call, size_t i) {
  if (auto known = KnownInts(call, i)) return *std::move(known);
  return Unsupported(Cat("'", call.def().inputs[i].name, "' is not known"));
}

/// `from`, with `begin` and `end` zeros around each axis.
std::string Padded(GradientText& t, std::string_view from, Dims begin, const Dims& end) {
  begin.insert(begin.end(), end.begin(), end.end());
  return t.Set("Pad(", from, ", ", t.List(begin), ")");
}

/// Axis `axis` first.
std::vector<int64_t> ToFront(size_t rank, int axis) {
  std::vector<int64_t> perm = Ascending(rank);
  perm.erase(perm.begin() + axis);
  perm.insert(perm.begin(), axis);
  return perm;
}

std::vector<int64_t> Inverse(const std::vector<int64_t>& perm) {
  std::vector<int64_t> inverse(perm.size());
  for (size_t i = 0; i < perm.size(); ++i)
    inverse[static_cast<size_t>(perm[i])] = static_cast<int64_t>(i);
  return inverse;
}

Dims Permute(const Dims& dims, const std::vector<int64_t>& perm) {
  Dims out;
  for (const int64_t p : perm) out.push_back(dims[static_cast<size_t>(p)]);
  return out;
}

}  // namespace

Result<std::string> GradientOfView(const OpCall& call, std::span<const size_t> wanted) {
  GradientText t(call, wanted);
  if (t.Wants(0)) t.Give(0, t.View("g0", t.X(0)));
  return t.Finish();
}

Result<std::string> GradientOfTranspose(const OpCall& call, std::span<const size_t> wanted) {
  GradientText t(call, wanted);
  std::vector<int64_t> perm = Ascending(t.X(0).size());
  std::reverse(perm.begin(), perm.end());
  if (call.HasAttr("perm")) perm = call.Ints("perm");
  t.Give(0, t.Permuted("g0", Inverse(perm)));
  return t.Finish();
}

/// The sum over the broadcast axes is the caller's.
Result<std::string> GradientOfExpand(const OpCall& call, std::span<const size_t> wanted) {
  GradientText t(call, wanted);
  t.Give(0, "g0");
  return t.Finish();
}

Result<std::string> GradientOfTile(const OpCall& call, std::span<const size_t> wanted) {
  GradientText t(call, wanted);
  const Dims x = t.X(0), y = t.Y(0);
  Dims split;
  std::vector<int64_t> repeats;
  for (size_t a = 0; a < x.size(); ++a) {
    if (x[a] == 0) return Unsupported("an operand is empty");
    repeats.push_back(static_cast<int64_t>(split.size()));
    split.push_back(y[a] / x[a]);
    split.push_back(x[a]);
  }
  if (split.empty())
    t.Give(0, "g0");
  else
    t.Give(0, t.Total(t.View("g0", split), repeats, false));
  return t.Finish();
}

Result<std::string> GradientOfConcat(const OpCall& call, std::span<const size_t> wanted) {
  GradientText t(call, wanted);
  INFER_ASSIGN(const int axis, NormalizeAxis(call.Int("axis"), static_cast<int>(t.Y(0).size())));
  int64_t begin = 0;
  for (size_t i = 0; i < call.num_inputs(); ++i) {
    const int64_t end = begin + t.X(i)[static_cast<size_t>(axis)];
    if (t.Wants(i))
      t.Give(i,
             t.Set("Slice(g0, ", t.List({begin}), ", ", t.List({end}), ", ", t.List({axis}), ")"));
    begin = end;
  }
  return t.Finish();
}

Result<std::string> GradientOfSplit(const OpCall& call, std::span<const size_t> wanted) {
  GradientText t(call, wanted);
  std::vector<std::string> parts;
  for (size_t i = 0; i < call.num_outputs(); ++i) {
    if (!GradientText::HasGradient(call, i)) return Unsupported(Cat("part ", i, " is left out"));
    parts.push_back(Cat("g", i));
  }
  t.Give(0, t.Set("Concat(", Join(parts, ", "), ") {axis=", call.Int("axis"), "}"));
  return t.Finish();
}

/// Steps put zeros between the elements; negative ones turn the axis round.
Result<std::string> GradientOfSlice(const OpCall& call, std::span<const size_t> wanted) {
  GradientText t(call, wanted);
  const Dims x = t.X(0), y = t.Y(0);
  const auto rank = static_cast<int>(x.size());
  INFER_ASSIGN(const auto starts, Known(call, 1));
  std::vector<int64_t> axes = Ascending(starts.size()), steps(starts.size(), 1);
  if (call.has_input(3)) {
    INFER_ASSIGN(axes, Known(call, 3));
  }
  if (call.has_input(4)) {
    INFER_ASSIGN(steps, Known(call, 4));
  }
  INFER_ASSIGN(const auto at, NormalizeAxes(axes, rank));
  if (NumElements(y) == 0) return Unsupported("nothing is left of the operand");
  std::string g = "g0";
  Dims begin(x.size(), 0), end = x, now = y;
  for (size_t a = 0; a < x.size(); ++a) end[a] -= y[a];
  for (size_t i = 0; i < at.size(); ++i) {
    const auto a = static_cast<size_t>(at[i]);
    const int64_t n = x[a], highest = steps[i] > 0 ? n : n - 1;
    int64_t first = starts[i] < 0 ? std::max<int64_t>(starts[i] + n, 0) : starts[i];
    first = std::min(first, highest);
    const int64_t step = std::abs(steps[i]);
    if (steps[i] < 0) {
      g = t.Set("Slice(", g, ", ", t.List({-1}), ", ", t.List({kBeforeFirst}), ", ",
                t.List({at[i]}), ", ", t.List({-1}), ")");
      first -= (y[a] - 1) * step;
    }
    if (step > 1) {  // [n] -> [n, 1] -> [n, step] -> [n * step]
      Dims apart = now, none(now.size() + 1, 0), more = none;
      apart.insert(apart.begin() + static_cast<int64_t>(a) + 1, 1);
      more[a + 1] = step - 1;
      g = Padded(t, t.View(g, apart), none, more);
      now[a] *= step;
      g = t.View(g, now);
    }
    begin[a] = first;
    end[a] = n - first - now[a];  // below 0: zeros that go again
  }
  t.Give(0, Padded(t, g, begin, end));
  return t.Finish();
}

Result<std::string> GradientOfPad(const OpCall& call, std::span<const size_t> wanted) {
  if (call.Str("mode") != "constant")
    return Unsupported(Cat("mode '", call.Str("mode"), "' has no gradient"));
  GradientText t(call, wanted);
  const Dims x = t.X(0);
  INFER_ASSIGN(const auto pads, Known(call, 1));
  std::vector<int64_t> axes = Ascending(x.size());
  if (call.has_input(3)) {
    INFER_ASSIGN(axes, Known(call, 3));
  }
  INFER_ASSIGN(const auto at, NormalizeAxes(axes, static_cast<int>(x.size())));
  Dims begin(x.size(), 0), end = begin;
  for (size_t i = 0; i < at.size(); ++i) {
    begin[static_cast<size_t>(at[i])] = -pads[i];
    end[static_cast<size_t>(at[i])] = -pads[i + at.size()];
  }
  t.Give(0, Padded(t, "g0", begin, end));
  return t.Finish();
}

Result<std::string> GradientOfGather(const OpCall& call, std::span<const size_t> wanted) {
  GradientText t(call, wanted);
  const Dims x = t.X(0), index = t.X(1);
  INFER_ASSIGN(const int axis, NormalizeAxis(call.Int("axis"), static_cast<int>(x.size())));
  // [before, index.., after] as [index, before and after], then rows of it to rows of data.
  const auto front = ToFront(x.size(), axis);
  const Dims data = Permute(x, front);
  Dims merged = x;
  merged[static_cast<size_t>(axis)] = NumElements(index);
  std::string g = t.View("g0", merged);
  if (axis != 0) g = t.Permuted(g, front);
  std::string rows = t.View("x1", {NumElements(index), 1});
  if (call.dtype(1) != DType::kI64) rows = t.Set("Cast(", rows, ") {to=7}");
  std::string d = t.Set("ScatterND(", t.Zeros(data), ", ", rows, ", ", g, ") {reduction=\"add\"}");
  if (axis != 0) d = t.Permuted(d, Inverse(front));
  t.Give(0, d);
  return t.Finish();
}

Result<std::string> GradientOfGatherElements(const OpCall& call, std::span<const size_t> wanted) {
  GradientText t(call, wanted);
  t.Give(0, t.Set("ScatterElements(", t.Zeros(t.X(0)), ", x1, g0) {axis=", call.Int("axis"),
                  ", reduction=\"add\"}"));
  return t.Finish();
}

}  // namespace infer
