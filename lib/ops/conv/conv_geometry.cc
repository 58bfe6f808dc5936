#include "lib/ops/conv/conv_geometry.h"

#include <algorithm>

#include "lib/support/strings.h"

namespace infer {
namespace {

// No real window comes near; the bound keeps every product of two extents inside int64.
constexpr int64_t kMaxExtent = int64_t{1} << 31;

const std::vector<int64_t>* FindInts(const AttrMap& attrs, std::string_view name) {
  auto it = attrs.find(name);
  return it == attrs.end() ? nullptr : std::get_if<std::vector<int64_t>>(&it->second);
}

/// A list attribute with one value per axis (two for pads), each in [low, kMaxExtent].
Result<std::optional<std::vector<int64_t>>> ReadInts(const OpDef& def, const AttrMap& attrs,
                                                     std::string_view name, size_t size,
                                                     int64_t low) {
  const std::vector<int64_t>* v = FindInts(attrs, name);
  if (!v) return std::optional<std::vector<int64_t>>();
  if (v->size() != size)
    return InvalidModel(Cat(def.name, ": ", name, " has ", v->size(), " values, wants ", size));
  for (int64_t x : *v)
    if (x < low || x > kMaxExtent)
      return InvalidModel(Cat(def.name, ": ", name, " [", Join(*v, ","), "] is out of range"));
  return std::optional(*v);
}

Result<AutoPad> ReadAutoPad(const OpDef& def, const AttrMap& attrs) {
  auto it = attrs.find(std::string_view("auto_pad"));
  const std::string* s = it == attrs.end() ? nullptr : std::get_if<std::string>(&it->second);
  if (!s || *s == "NOTSET" || s->empty()) return AutoPad::kNotSet;
  if (*s == "SAME_UPPER") return AutoPad::kSameUpper;
  if (*s == "SAME_LOWER") return AutoPad::kSameLower;
  if (*s == "VALID") return AutoPad::kValid;
  return InvalidModel(Cat(def.name, ": auto_pad '", *s, "' is not known"));
}

bool IsSame(AutoPad a) { return a == AutoPad::kSameUpper || a == AutoPad::kSameLower; }

Status DoesNotFit(const WindowAxis& a, int64_t input) {
  return InvalidModel(Cat("a window of ", a.extent(), " (kernel ", a.kernel, ", dilation ",
                          a.dilation, ") does not fit an extent of ", input, " with pads ",
                          a.pad_begin, ",", a.pad_end));
}

/// o of ConvTranspose without pads: s (i - 1) + output_padding + extent.
Dim UnpaddedTransposed(const WindowAxis& a, const Dim& input) {
  return Dim(a.stride) * (input - Dim(1)) + Dim(a.output_padding + a.extent());
}

Dim KernelExtent(const Shape& w, int axis) { return w.has_rank() ? w[axis] : Dim(); }

Status Disagree(const OpDef& def, std::string_view what, const Shape& x, const Shape& w) {
  return InvalidModel(Cat(def.name, ": ", what, ": x is ", x.ToString(), ", w is ", w.ToString()));
}

}  // namespace

Result<Window> ReadWindow(const OpDef& def, const AttrMap& attrs, int spatial_rank,
                          const Dims& kernel) {
  const auto rank = static_cast<size_t>(spatial_rank);
  Window w{std::vector<WindowAxis>(rank)};
  INFER_ASSIGN(const auto kernel_shape, ReadInts(def, attrs, "kernel_shape", rank, 1));
  INFER_ASSIGN(const auto strides, ReadInts(def, attrs, "strides", rank, 1));
  INFER_ASSIGN(const auto dilations, ReadInts(def, attrs, "dilations", rank, 1));
  INFER_ASSIGN(const auto pads, ReadInts(def, attrs, "pads", 2 * rank, 0));
  INFER_ASSIGN(const auto output_padding, ReadInts(def, attrs, "output_padding", rank, 0));
  INFER_ASSIGN(w.auto_pad, ReadAutoPad(def, attrs));
  const std::vector<int64_t>* output_shape = nullptr;
  if (def.FindAttr("output_shape")) output_shape = FindInts(attrs, "output_shape");
  // Some exporters write the whole output shape; its last values are the spatial ones.
  if (output_shape && output_shape->size() != rank && output_shape->size() != rank + 2)
    return InvalidModel(
        Cat(def.name, ": output_shape has ", output_shape->size(), " values, wants ", rank));
  if (def.FindAttr("ceil_mode"))
    if (auto it = attrs.find(std::string_view("ceil_mode")); it != attrs.end())
      w.ceil_mode = std::get<int64_t>(it->second) != 0;
  for (size_t i = 0; i < rank; ++i) {
    WindowAxis& a = w.axes[i];
    if (kernel_shape && !kernel.empty() && kernel[i] >= 0 && kernel[i] != (*kernel_shape)[i])
      return InvalidModel(Cat(def.name, ": kernel_shape [", Join(*kernel_shape, ","),
                              "] is not that of the weight, ", ToString(kernel)));
    if (!kernel_shape && kernel.empty())
      return InvalidModel(Cat(def.name, ": kernel_shape is missing"));
    a.kernel = kernel_shape ? (*kernel_shape)[i] : kernel[i];
    if (strides) a.stride = (*strides)[i];
    if (dilations) a.dilation = (*dilations)[i];
    if (a.kernel > kMaxExtent || (a.kernel - 1) > kMaxExtent / a.dilation)
      return InvalidModel(Cat(def.name, ": the dilated kernel is too large"));
    if (pads && w.auto_pad == AutoPad::kNotSet) {
      a.pad_begin = (*pads)[i];
      a.pad_end = (*pads)[rank + i];
    }
    if (output_padding) a.output_padding = (*output_padding)[i];
    if (output_shape) a.output_shape = (*output_shape)[output_shape->size() - rank + i];
    if (a.output_shape && (*a.output_shape < 0 || *a.output_shape > kMaxExtent))
      return InvalidModel(Cat(def.name, ": output_shape is out of range"));
  }
  return w;
}

Result<Dim> WindowOutput(const Window& w, int axis, const Dim& input) {
  const WindowAxis& a = w.axes[static_cast<size_t>(axis)];
  if (IsSame(w.auto_pad)) return input.CeilDiv(a.stride);
  if (input.is_unknown() || a.kernel < 0) return Dim();
  const Dim room = input + Dim(a.pad_begin + a.pad_end - a.extent());
  if (input.is_static() && (a.kernel == 0 || room.value() < 0)) return DoesNotFit(a, input.value());
  const bool ceil = w.ceil_mode && w.auto_pad == AutoPad::kNotSet;
  Dim out = (ceil ? room.CeilDiv(a.stride) : room.FloorDiv(a.stride)) + Dim(1);
  // A window that would start in the end padding does not count.
  if (ceil && input.is_static() && (out.value() - 1) * a.stride >= input.value() + a.pad_begin)
    out = out - Dim(1);
  // ... which cannot happen where the kernel covers a stride and the end padding.
  if (ceil && !input.is_static() && a.pad_end + a.stride > a.extent()) return Dim();
  return out;
}

WindowSpan WindowSpan::Of(const WindowAxis& a, int64_t input, int64_t o) {
  const int64_t start = o * a.stride - a.pad_begin, d = a.dilation;
  const int64_t skipped = start < 0 ? (-start + d - 1) / d : 0;
  // The number of k with start + k d < limit.
  auto below = [&](int64_t limit) {
    return std::clamp<int64_t>((limit - start + d - 1) / d, 0, a.kernel);
  };
  return {start + skipped * d, d, std::max<int64_t>(below(input) - skipped, 0),
          below(input + a.pad_end)};
}

Result<Dim> TransposedOutput(const Window& w, int axis, const Dim& input) {
  const WindowAxis& a = w.axes[static_cast<size_t>(axis)];
  if (a.output_shape) return Dim(*a.output_shape);
  if (IsSame(w.auto_pad)) return Dim(a.stride) * input;
  if (input.is_unknown() || a.kernel < 0) return Dim();
  const Dim out = UnpaddedTransposed(a, input) - Dim(a.pad_begin + a.pad_end);
  if (out.is_static() && out.value() < 0) return DoesNotFit(a, input.value());
  return out;
}

Window ResolvePads(Window w, const Dims& input, bool transposed) {
  for (size_t i = 0; i < w.axes.size(); ++i) {
    WindowAxis& a = w.axes[i];
    int64_t total = 0;
    if (transposed && (a.output_shape || IsSame(w.auto_pad))) {
      const int64_t out = a.output_shape ? *a.output_shape : input[i] * a.stride;
      total = UnpaddedTransposed(a, Dim(input[i])).value() - out;
      a.output_shape = out;
    } else if (IsSame(w.auto_pad)) {
      const int64_t out = Dim(input[i]).CeilDiv(a.stride).value();
      total = (out - 1) * a.stride + a.extent() - input[i];
    } else {
      continue;
    }
    total = std::max<int64_t>(total, 0);
    // The odd one goes to the end for SAME_UPPER, and to the beginning else (for a transposed
    // convolution with output_shape also without auto_pad).
    a.pad_begin = w.auto_pad == AutoPad::kSameUpper ? total / 2 : total - total / 2;
    a.pad_end = total - a.pad_begin;
  }
  w.auto_pad = AutoPad::kNotSet;
  return w;
}

int64_t ConvGeometry::kernel_size() const {
  int64_t n = 1;
  for (const WindowAxis& a : window.axes) n *= a.kernel;
  return n;
}

int64_t ConvGeometry::macs() const {
  // A transposed convolution spreads every input over the kernel, a plain one gathers every output.
  const int64_t positions = NumElements(transposed ? input : output);
  return batch * positions * kernel_size() * in_channels * (out_channels / groups);
}

Dims ConvGeometry::output_dims() const {
  Dims d = {batch, out_channels};
  d.insert(d.end(), output.begin(), output.end());
  return d;
}

Result<Shape> ConvOutputShape(const OpDef& def, const AttrMap& attrs, const Shape& x,
                              const Shape& w, bool transposed) {
  if (!x.has_rank() && !w.has_rank()) return Shape();
  const int rank = x.has_rank() ? x.rank() : w.rank();
  if (rank < 3) return Disagree(def, "wants batch, channels and spatial axes", x, w);
  if (x.has_rank() && w.has_rank() && x.rank() != w.rank())
    return Disagree(def, "ranks differ", x, w);
  auto group_attr = attrs.find(std::string_view("group"));
  const int64_t groups = group_attr == attrs.end() ? 1 : std::get<int64_t>(group_attr->second);
  if (groups < 1) return InvalidModel(Cat(def.name, ": group is ", groups));
  // W is [M, C/G, k...]; transposed [C, M/G, k...].
  const Dim g(groups), w0 = KernelExtent(w, 0), w1 = KernelExtent(w, 1);
  const Dim channels = transposed ? w0 : w1.is_unknown() ? Dim() : w1 * g;
  const Dim out_channels = !transposed ? w0 : w1.is_unknown() ? Dim() : w1 * g;
  if (x.has_rank() && !Meet(channels, x[1]).ok())
    return Disagree(def, Cat("channels do not fit (group ", groups, ")"), x, w);
  if (w0.is_static() && w0.value() % groups != 0)
    return Disagree(def, Cat("group ", groups, " does not divide the channels"), x, w);
  Dims kernel;
  for (int i = 2; i < rank; ++i) {
    const Dim k = KernelExtent(w, i);
    kernel.push_back(k.is_static() ? k.value() : -1);
  }
  INFER_ASSIGN(const Window window, ReadWindow(def, attrs, rank - 2, kernel));
  std::vector<Dim> out = {x.has_rank() ? x[0] : Dim(), out_channels};
  for (int i = 0; i < rank - 2; ++i) {
    const Dim in = x.has_rank() ? x[i + 2] : Dim();
    INFER_ASSIGN(Dim o, transposed ? TransposedOutput(window, i, in) : WindowOutput(window, i, in));
    out.push_back(std::move(o));
  }
  return Shape(std::move(out));
}

Result<ConvGeometry> ReadConvGeometry(const OpDef& def, const AttrMap& attrs, const Dims& x,
                                      const Dims& w, bool transposed) {
  INFER_ASSIGN(const Shape y, ConvOutputShape(def, attrs, Shape(x), Shape(w), transposed));
  const Dims out = y.static_dims();
  ConvGeometry g;
  auto group_attr = attrs.find(std::string_view("group"));
  g.groups = group_attr == attrs.end() ? 1 : std::get<int64_t>(group_attr->second);
  g.batch = x[0];
  g.in_channels = x[1];
  g.out_channels = out[1];
  g.transposed = transposed;
  g.input = Dims(x.begin() + 2, x.end());
  g.output = Dims(out.begin() + 2, out.end());
  INFER_ASSIGN(const Window window, ReadWindow(def, attrs, static_cast<int>(x.size()) - 2,
                                               Dims(w.begin() + 2, w.end())));
  g.window = ResolvePads(window, g.input, transposed);
  return g;
}

}  // namespace infer
