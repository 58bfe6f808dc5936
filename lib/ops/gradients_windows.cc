/// Gradients of convolutions and pooling, as products, convolutions and moves.
///
/// Of the data: Conv with the kernel turned round and its channels exchanged, over the result's
/// gradient with zeros between its elements where the stride is above 1. Of the weights: the
/// product of the result's gradient, [M, positions], with the operand's elements under each tap,
/// [positions, C x taps], by sample, summed over the samples. Both run on the kernels of products
/// and convolutions of every backend.
#include "lib/ops/conv_geometry.h"
#include "lib/ops/decompositions.h"
#include "lib/ops/gradient_text.h"
#include "lib/ops/gradients_families.h"

namespace infer {
namespace {

/// A window over all spatial axes: operand extents i, result extents o.
struct Windows {
  Window window;  ///< resolved
  Dims i, o;
  size_t rank() const { return i.size(); }
  const WindowAxis& axis(size_t d) const { return window.axes[d]; }
  /// How far the windows reach behind the operand's end; below 0: elements that none reaches.
  int64_t beyond(size_t d) const {
    const WindowAxis& a = axis(d);
    return (o[d] - 1) * a.stride + a.extent() - a.pad_begin - i[d];
  }
  int64_t taps() const {
    int64_t n = 1;
    for (size_t d = 0; d < rank(); ++d) n *= axis(d).kernel;
    return n;
  }
  bool all(bool (*holds)(const WindowAxis&)) const {
    return std::all_of(window.axes.begin(), window.axes.end(), holds);
  }
  Dims attr(int64_t WindowAxis::*field) const {
    Dims values;
    for (const WindowAxis& a : window.axes) values.push_back(a.*field);
    return values;
  }
};

Dims Tail(const Dims& dims, size_t from) {
  return Dims(dims.begin() + static_cast<int64_t>(from), dims.end());
}

Dims Joined(Dims front, const Dims& back) {
  front.insert(front.end(), back.begin(), back.end());
  return front;
}

std::string Bracketed(const Dims& values) { return Cat("[", Join(values, ", "), "]"); }

/// `from` [outer.., spatial..] with zeros before and behind its spatial axes.
std::string PaddedSpatial(GradientText& t, std::string from, const Dims& begin, const Dims& end,
                          size_t outer) {
  const auto zero = [](int64_t v) { return v == 0; };
  if (std::all_of(begin.begin(), begin.end(), zero) && std::all_of(end.begin(), end.end(), zero))
    return from;
  const Dims none(outer, 0);
  return t.Set("Pad(", from, ", ", t.List(Joined(Joined(none, begin), Joined(none, end))), ")");
}

/// The operand's elements under each tap: [B, C * taps, positions] of `x` [B * C.., i..].
std::string Patches(GradientText& t, const std::string& x, const Windows& w, int64_t batch,
                    int64_t channels) {
  const int64_t positions = NumElements(w.o);
  const auto unit = [](const WindowAxis& a) {
    return a.kernel == 1 && a.stride == 1 && a.pad_begin == 0 && a.pad_end == 0;
  };
  if (w.all(unit)) return t.View(x, {batch, channels, positions});
  Dims begin, end;
  for (size_t d = 0; d < w.rank(); ++d) {
    begin.push_back(w.axis(d).pad_begin);
    end.push_back(std::max<int64_t>(0, w.beyond(d)));
  }
  const std::string padded =
      PaddedSpatial(t, t.View(x, Joined({batch, channels}, w.i)), begin, end, 2);
  Dims axes, at(w.rank(), 0);
  for (size_t d = 0; d < w.rank(); ++d) axes.push_back(static_cast<int64_t>(d) + 2);
  const std::string axis_list = t.List(axes), steps = t.List(w.attr(&WindowAxis::stride));
  std::vector<std::string> parts;
  for (int64_t tap = 0; tap < w.taps(); ++tap) {
    Dims first, last;
    for (size_t d = 0; d < w.rank(); ++d) {
      first.push_back(at[d] * w.axis(d).dilation);
      last.push_back(first.back() + (w.o[d] - 1) * w.axis(d).stride + 1);
    }
    const std::string part = t.Set("Slice(", padded, ", ", t.List(first), ", ", t.List(last), ", ",
                                   axis_list, ", ", steps, ")");
    parts.push_back(t.View(part, {batch, channels, 1, positions}));
    for (size_t d = w.rank(); d-- > 0 && ++at[d] == w.axis(d).kernel;) at[d] = 0;
  }
  std::string all = parts[0];
  if (parts.size() > 1) all = t.Set("Concat(", Join(parts, ", "), ") {axis=2}");
  return t.View(all, {batch, channels * w.taps(), positions});
}

/// Windows that stand side by side, as of a patch embedding: no elements are copied twice.
bool AreTiles(const Windows& w) {
  for (size_t d = 0; d < w.rank(); ++d) {
    const WindowAxis& a = w.axis(d);
    if (a.kernel != a.stride || a.dilation != 1 || a.pad_begin != 0 || a.pad_end != 0 ||
        w.o[d] * a.kernel != w.i[d])
      return false;
  }
  return true;
}

/// As Patches, of tiles: [B, C, o, k, o, k] with the axes of taps before those of positions.
std::string Tiles(GradientText& t, const std::string& x, const Windows& w, int64_t batch,
                  int64_t channels) {
  Dims split = {batch, channels};
  std::vector<int64_t> perm = {0, 1};
  for (size_t d = 0; d < w.rank(); ++d) {
    split.push_back(w.o[d]);
    split.push_back(w.axis(d).kernel);
    perm.push_back(static_cast<int64_t>(2 * d) + 3);
  }
  for (size_t d = 0; d < w.rank(); ++d) perm.push_back(static_cast<int64_t>(2 * d) + 2);
  const std::string tiles = t.Permuted(t.View(x, split), perm);
  return t.View(tiles, {batch, channels * w.taps(), NumElements(w.o)});
}

/// The gradient of the weights of the convolution from `x` to what `g` is the gradient of.
std::string OfWeights(GradientText& t, std::string_view x, std::string_view g, const Windows& w,
                      int64_t groups) {
  return t.Set("infer::ConvWeightGradient(", x, ", ", g, ") {group=", groups,
               ", kernel_shape=", Bracketed(w.attr(&WindowAxis::kernel)),
               ", dilations=", Bracketed(w.attr(&WindowAxis::dilation)),
               ", strides=", Bracketed(w.attr(&WindowAxis::stride)), ", pads=",
               Bracketed(Joined(w.attr(&WindowAxis::pad_begin), w.attr(&WindowAxis::pad_end))),
               "}");
}

/// `g` [N, C, o..] with stride - 1 zeros behind each element.
std::string Spread(GradientText& t, const std::string& g, const Windows& w, const Dims& outer) {
  if (w.all([](const WindowAxis& a) { return a.stride == 1; })) return g;
  Dims apart = outer, wide = outer, none(outer.size() + 2 * w.rank(), 0), behind = none;
  for (size_t d = 0; d < w.rank(); ++d) {
    apart.push_back(w.o[d]);
    apart.push_back(1);
    behind[outer.size() + 2 * d + 1] = w.axis(d).stride - 1;
    wide.push_back(w.o[d] * w.axis(d).stride);
  }
  const std::string padded =
      t.Set("Pad(", t.View(g, apart), ", ", t.List(Joined(none, behind)), ")");
  return t.View(padded, wide);
}

/// [M, C / groups, k..] as the weights of the convolution backwards: [C, M / groups, k..], turned
/// round.
std::string Turned(GradientText& t, const Windows& w, int64_t m, int64_t c, int64_t groups) {
  const Dims kernel = w.attr(&WindowAxis::kernel);
  std::vector<int64_t> perm = {0, 2, 1};
  for (size_t d = 0; d < w.rank(); ++d) perm.push_back(static_cast<int64_t>(d) + 3);
  const std::string grouped = t.View("x1", Joined({groups, m / groups, c / groups}, kernel));
  std::string turned = t.View(t.Permuted(grouped, perm), Joined({c, m / groups}, kernel));
  Dims axes;
  for (size_t d = 0; d < w.rank(); ++d)
    if (kernel[d] > 1) axes.push_back(static_cast<int64_t>(d) + 2);
  if (axes.empty()) return turned;
  const Dims last(axes.size(), -1), end(axes.size(), kBeforeFirst);
  return t.Set("Slice(", turned, ", ", t.List(last), ", ", t.List(end), ", ", t.List(axes), ", ",
               t.List(last), ")");
}

/// Strides up to it are cheaper as zeros in a plain convolution than as a transposed one.
constexpr int64_t kMostSpread = 2;

/// The gradient of data [N, C, i..] with g [N, M, o..].
std::string OfData(GradientText& t, const Windows& w, int64_t n, int64_t m, int64_t c,
                   int64_t groups) {
  const std::string dilations = Bracketed(w.attr(&WindowAxis::dilation));
  Dims begin, end, crop;
  bool plain = true;
  for (size_t d = 0; d < w.rank(); ++d) {
    const WindowAxis& a = w.axis(d);
    begin.push_back(a.extent() - 1 - a.pad_begin);
    end.push_back(a.extent() - 1 - w.beyond(d) - (a.stride - 1));
    plain = plain && begin[d] >= 0 && end[d] >= 0 && a.stride <= kMostSpread;
  }
  if (plain) {
    const std::string turned = Turned(t, w, m, c, groups);
    // A kernel of one tap first: its product needs no zeros.
    if (w.taps() == 1 && w.all([](const WindowAxis& a) { return a.pad_begin == 0; })) {
      const std::string product = t.Set("Conv(g0, ", turned, ") {group=", groups, "}");
      const std::string wide = Spread(t, product, w, {n, c});
      return PaddedSpatial(t, wide, begin, end, 2);
    }
    return t.Set("Conv(", Spread(t, "g0", w, {n, m}), ", ", turned, ") {group=", groups,
                 ", dilations=", dilations, ", pads=", Bracketed(Joined(begin, end)), "}");
  }
  Dims pads = w.attr(&WindowAxis::pad_begin), more(w.rank(), 0);
  for (size_t d = 0; d < w.rank(); ++d) {
    pads.push_back(std::max<int64_t>(0, w.beyond(d)));
    more[d] = std::max<int64_t>(0, -w.beyond(d));
  }
  return t.Set("ConvTranspose(g0, x1) {group=", groups, ", dilations=", dilations,
               ", strides=", Bracketed(w.attr(&WindowAxis::stride)), ", pads=", Bracketed(pads),
               ", output_padding=", Bracketed(more), "}");
}

Result<Windows> PoolWindows(const OpCall& call) {
  const Dims x = call.shape(0).static_dims();
  INFER_ASSIGN(Window w, ReadWindow(call.def(), call.attrs(), static_cast<int>(x.size()) - 2));
  const Dims i = Tail(x, 2);
  return Windows{ResolvePads(std::move(w), i), i, Tail(call.out(0).shape.static_dims(), 2)};
}

}  // namespace

Result<std::string> GradientOfConv(const OpCall& call, std::span<const size_t> wanted) {
  GradientText t(call, wanted);
  INFER_ASSIGN(const ConvGeometry g,
               ReadConvGeometry(call.def(), call.attrs(), t.X(0), t.X(1), false));
  const Windows w{g.window, g.input, g.output};
  if (NumElements(t.Y(0)) == 0 || NumElements(t.X(0)) == 0)
    return Unsupported("an operand is empty");
  if (t.Wants(0)) t.Give(0, OfData(t, w, g.batch, g.out_channels, g.in_channels, g.groups));
  if (t.Wants(1)) t.Give(1, OfWeights(t, "x0", "g0", w, g.groups));
  if (t.Wants(2)) t.Give(2, t.TotalOfChannels("g0", t.Y(0).size()));
  return t.Finish();
}

Result<std::string> DecomposeConvWeightGradient(const OpCall& call) {
  for (const size_t i : {size_t{0}, size_t{1}})
    if (!call.shape(i).is_static()) return Unsupported("extents are not known");
  GradientText t(call, {});
  const Dims x = t.X(0), y = t.X(1), weights = t.Y(0);
  INFER_ASSIGN(const ConvGeometry g, ReadConvGeometry(call.def(), call.attrs(), x, weights));
  const Windows w{g.window, g.input, g.output};
  if (NumElements(x) == 0 || NumElements(y) == 0) return Unsupported("an operand is empty");
  const int64_t batch = x[0] * g.groups, channels = weights[1];
  const std::string patches = AreTiles(w) && w.taps() > 1 ? Tiles(t, "x0", w, batch, channels)
                                                          : Patches(t, "x0", w, batch, channels);
  const std::string rows = t.View("x1", {batch, y[1] / g.groups, NumElements(w.o)});
  const std::string product = t.Set("MatMul(", rows, ", ", t.Permuted(patches, {0, 2, 1}), ")");
  const std::string by_sample = t.View(product, Joined({x[0]}, weights));
  return t.Graph(t.Total(by_sample, {0}, false));
}

/// Conv with the roles of operand and result exchanged.
Result<std::string> GradientOfConvTranspose(const OpCall& call, std::span<const size_t> wanted) {
  GradientText t(call, wanted);
  INFER_ASSIGN(const ConvGeometry g,
               ReadConvGeometry(call.def(), call.attrs(), t.X(0), t.X(1), true));
  const Windows w{g.window, g.output, g.input};
  if (NumElements(t.Y(0)) == 0 || NumElements(t.X(0)) == 0)
    return Unsupported("an operand is empty");
  if (t.Wants(0)) {
    Dims pads = w.attr(&WindowAxis::pad_begin);
    for (size_t d = 0; d < w.rank(); ++d) pads.push_back(std::max<int64_t>(0, w.beyond(d)));
    t.Give(0, t.Set("Conv(g0, x1) {group=", g.groups,
                    ", dilations=", Bracketed(w.attr(&WindowAxis::dilation)), ", strides=",
                    Bracketed(w.attr(&WindowAxis::stride)), ", pads=", Bracketed(pads), "}"));
  }
  if (t.Wants(1)) t.Give(1, OfWeights(t, "g0", "x0", w, g.groups));
  if (t.Wants(2)) t.Give(2, t.TotalOfChannels("g0", t.Y(0).size()));
  return t.Finish();
}

/// The first of equal elements gets the gradient.
Result<std::string> GradientOfMaxPool(const OpCall& call, std::span<const size_t> wanted) {
  if (call.Int("storage_order") != 0) return Unsupported("storage_order is not 0");
  GradientText t(call, wanted);
  const int64_t all = NumElements(t.X(0)), picked = NumElements(t.Y(0));
  t.Line(Cat("largest, places = MaxPool(x0)", AttributesText(call, "")));
  const std::string flat =
      t.Set("ScatterElements(", t.Zeros({all}), ", ", t.View("places", {picked}), ", ",
            t.View("g0", {picked}), ") {reduction=\"add\"}");
  t.Give(0, t.View(flat, t.X(0)));
  return t.Finish();
}

Result<std::string> GradientOfAveragePool(const OpCall& call, std::span<const size_t> wanted) {
  GradientText t(call, wanted);
  INFER_ASSIGN(const Windows w, PoolWindows(call));
  const Dims x = t.X(0);
  const bool with_pads = call.Int("count_include_pad") != 0;
  // How many elements each mean is of, axis by axis.
  std::string g = "g0";
  for (size_t d = 0; d < w.rank(); ++d) {
    const WindowAxis& a = w.axis(d);
    Dims extents(w.rank(), 1);
    extents[d] = w.o[d];
    std::vector<std::string> shares;
    for (int64_t o = 0; o < w.o[d]; ++o) {
      int64_t count = 0;
      for (int64_t k = 0; k < a.kernel; ++k) {
        const int64_t at = o * a.stride + k * a.dilation - a.pad_begin;
        count += with_pads ? at < w.i[d] + a.pad_end : at >= 0 && at < w.i[d];
      }
      shares.push_back(FormatDouble(1 / static_cast<double>(std::max<int64_t>(count, 1))));
    }
    t.Line(Cat("share", d, " = const ", Name(t.dtype()), "[", Join(extents, ","), "] {",
               Join(shares, ", "), "}"));
    g = t.Set("Mul(", g, ", share", d, ")");
  }
  // Every channel by itself, through a kernel of ones.
  const Dims kernel = w.attr(&WindowAxis::kernel);
  const std::string ones = t.Set("Expand(", t.Number(1), ", ", t.List(Joined({1, 1}, kernel)), ")");
  Dims pads = w.attr(&WindowAxis::pad_begin), more(w.rank(), 0);
  for (size_t d = 0; d < w.rank(); ++d) {
    pads.push_back(std::max<int64_t>(0, w.beyond(d)));
    more[d] = std::max<int64_t>(0, -w.beyond(d));
  }
  const std::string back =
      t.Set("ConvTranspose(", t.View(g, Joined({x[0] * x[1], 1}, w.o)), ", ", ones,
            ") {dilations=", Bracketed(w.attr(&WindowAxis::dilation)),
            ", strides=", Bracketed(w.attr(&WindowAxis::stride)), ", pads=", Bracketed(pads),
            ", output_padding=", Bracketed(more), "}");
  t.Give(0, t.View(back, x));
  return t.Finish();
}

Result<std::string> GradientOfGlobalPool(const OpCall& call, std::span<const size_t> wanted) {
  GradientText t(call, wanted);
  const Dims x = t.X(0);
  if (call.def().name == "GlobalAveragePool") {
    const int64_t count = NumElements(Tail(x, 2));
    const std::string each =
        t.Set("Mul(g0, ", t.Number(1 / static_cast<double>(std::max<int64_t>(count, 1))), ")");
    t.Give(0, t.Set("Expand(", each, ", ", t.List(x), ")"));
  } else {  // every element that is the largest gets the whole gradient
    t.Give(0, t.Set("Where(", t.Set("Equal(x0, y0)"), ", g0, ", t.Number(0), ")"));
  }
  return t.Finish();
}

}  // namespace infer
