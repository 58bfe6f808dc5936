#include "datasets/preprocess.h"

#include <algorithm>
#include <cmath>

#include "datasets/resize.h"
#include "lib/image/decode.h"
#include "lib/support/strings.h"

namespace infer {
namespace {

using P = Preprocess;

/// An image as stored: where element (y, x, c) lies.
struct ImageView {
  int64_t height, width, channels;
  bool chw;
};

Status BadSample(const Tensor& t, std::string_view why) {
  return InvalidModel(Cat("a sample of type ", ToString(t.type()), " ", why));
}

Result<ImageView> ViewOf(const P& p, const Tensor& t) {
  if (t.rank() == 2) return ImageView{t.dim(0), t.dim(1), 1, p.source == P::Layout::kChw};
  if (t.rank() != 3) return BadSample(t, "is no image (rank 2 or 3), which preprocess declares");
  const auto colours = [](int64_t d) { return d == 1 || d == 3; };
  const bool guess = colours(t.dim(0)) && !colours(t.dim(2));
  const bool chw = p.source == P::Layout::kAsStored ? guess : p.source == P::Layout::kChw;
  if (chw) return ImageView{t.dim(1), t.dim(2), t.dim(0), true};
  return ImageView{t.dim(0), t.dim(1), t.dim(2), false};
}

/// [a, b, c] (planes or pixels) -> the other of the two. Elements of any width.
Tensor Transposed(const Tensor& t, int64_t outer, int64_t inner, Dims dims) {
  Tensor out(t.dtype(), std::move(dims));
  const size_t size = static_cast<size_t>(BitWidth(t.dtype())) / 8;
  const std::byte* from = t.raw();
  for (int64_t i = 0; i < outer; ++i)
    for (int64_t j = 0; j < inner; ++j, from += size)
      std::copy(from, from + size, out.mutable_raw() + static_cast<size_t>(j * outer + i) * size);
  return out;
}

Tensor ToHwc(const Tensor& t, const ImageView& v) {
  if (!v.chw || v.channels == 1) return t.Reshaped({v.height, v.width, v.channels});
  return Transposed(t, v.channels, v.height * v.width, {v.height, v.width, v.channels});
}

Tensor ToChw(const Tensor& t) {
  const Dims dims{t.dim(2), t.dim(0), t.dim(1)};
  if (t.dim(2) == 1) return t.Reshaped(dims);
  return Transposed(t, t.dim(0) * t.dim(1), t.dim(2), dims);
}

Result<Tensor> Resized(const P& p, const Tensor& t) {
  if (t.dtype() != DType::kU8) return BadSample(t, "cannot be resized: only u8 images can");
  const int64_t h = t.dim(0), w = t.dim(1), s = p.resize->height;
  if (h < 1 || w < 1) return BadSample(t, "has no pixels to resize");
  int64_t height = s, width = p.resize->width;
  if (width == 0) {
    const double ratio = static_cast<double>(s) / static_cast<double>(std::min(h, w));
    if (ratio * static_cast<double>(std::max(h, w)) > 1e6)
      return BadSample(t, "is too narrow to resize by its shorter side");
    height = h <= w ? s : s * h / w;
    width = h <= w ? s * w / h : s;
  }
  return ResizeImage(t, height, width, p.interp);
}

Result<Tensor> Cropped(const P& p, const Tensor& t) {
  const int64_t height = p.crop->height, width = p.crop->width ? p.crop->width : height;
  if (t.dim(0) < height || t.dim(1) < width)
    return BadSample(t, Cat("is smaller than crop=", height, "x", width, "; resize it first"));
  const int64_t top = (t.dim(0) - height) / 2, left = (t.dim(1) - width) / 2;
  Tensor out(t.dtype(), {height, width, t.dim(2)});
  const int64_t pixel = t.dim(2) * (BitWidth(t.dtype()) / 8);
  for (int64_t y = 0; y < height; ++y) {
    const std::byte* row = t.raw() + ((top + y) * t.dim(1) + left) * pixel;
    std::copy(row, row + width * pixel, out.mutable_raw() + y * width * pixel);
  }
  return out;
}

Result<Tensor> Ordered(const P& p, const Tensor& t) {
  const int64_t channels = t.dim(2), pixels = t.dim(0) * t.dim(1);
  const bool grey = p.order == P::Order::kGrey;
  if (channels != 1 && channels != 3)
    return BadSample(t, "has neither 1 nor 3 channels, so 'order' has no meaning");
  if (channels == 1 && grey) return t;
  if (channels == 3 && p.order == P::Order::kRgb) return t;
  if (grey && t.dtype() != DType::kU8) return BadSample(t, "cannot become grey: only u8 can");
  Tensor out(t.dtype(), {t.dim(0), t.dim(1), grey ? 1 : 3});
  if (grey) {
    const auto x = t.data<uint8_t>();
    const auto y = out.mutable_data<uint8_t>();
    for (size_t i = 0; i < y.size(); ++i) y[i] = Luma(x[3 * i], x[3 * i + 1], x[3 * i + 2]);
    return out;
  }
  const size_t size = static_cast<size_t>(BitWidth(t.dtype())) / 8;
  const std::byte* from = t.raw();
  std::byte* to = out.mutable_raw();
  for (int64_t i = 0; i < pixels; ++i)
    for (int64_t c = 0; c < 3; ++c, to += size) {
      const std::byte* x = from + static_cast<size_t>(channels == 1 ? i : 3 * i + 2 - c) * size;
      std::copy(x, x + size, to);
    }
  return out;
}

/// Element i of t belongs to channel i % channels (1 channel: all to channel 0).
Result<Tensor> Normalised(const P& p, const Tensor& t, int64_t channels) {
  for (const auto* v : {&p.mean, &p.std})
    if (v->size() > 1 && static_cast<int64_t>(v->size()) != channels)
      return BadSample(t, Cat("has ", channels, " channels, but mean or std has ", v->size()));
  const auto at = [](const std::vector<double>& v, size_t c, double none) {
    return v.empty() ? none : v[v.size() == 1 ? 0 : c];
  };
  const DType to = p.dtype == DType::kUndefined ? DType::kF32 : p.dtype;
  Tensor out(to, t.dims());
  const auto law = [&](double x, size_t c) {
    return (x * p.scale - at(p.mean, c, 0)) / at(p.std, c, 1);
  };
  const auto n = static_cast<size_t>(channels);
  if (t.dtype() == DType::kU8 && to == DType::kF32) {  // the common case: a table per channel
    std::vector<float> table(n * 256);
    for (size_t i = 0; i < table.size(); ++i)
      table[i] = static_cast<float>(law(static_cast<double>(i % 256), i / 256));
    const auto x = t.data<uint8_t>();
    const auto y = out.mutable_data<float>();
    for (size_t i = 0; i < y.size(); ++i) y[i] = table[i % n * 256 + x[i]];
    return out;
  }
  for (int64_t i = 0; i < t.num_elements(); ++i)
    out.Set(i, law(t.At(i), static_cast<size_t>(i) % n));
  return out;
}

bool HasImageStep(const P& p) {
  return p.source != P::Layout::kAsStored || p.resize || p.crop || p.order != P::Order::kAsStored ||
         p.layout != P::Layout::kAsStored || p.mean.size() > 1 || p.std.size() > 1;
}

Result<Tensor> Shaped(const P& p, Tensor t) {
  const Dims dims = p.flatten ? Dims{t.num_elements()} : p.shape;
  if (dims.empty()) return t;
  if (CheckedNumElements(dims) != t.num_elements())
    return BadSample(t, Cat("cannot take shape ", ToString(dims)));
  return t.Reshaped(dims);
}

}  // namespace

bool Preprocess::empty() const { return ToString().empty(); }

Result<Tensor> Apply(const Preprocess& p, const Tensor& sample) {
  Tensor t = sample;
  const bool as_number = !IsPacked(t.dtype()) && BitWidth(t.dtype()) > 0 &&
                         t.dtype() != DType::kC64 && t.dtype() != DType::kC128;
  if (!as_number && !p.empty()) return BadSample(t, "cannot be preprocessed: no real numbers");
  int64_t channels = 1;
  if (HasImageStep(p)) {
    INFER_ASSIGN(const ImageView view, ViewOf(p, t));
    t = ToHwc(t, view);
    if (p.resize) {
      INFER_ASSIGN(t, Resized(p, t));
    }
    if (p.crop) {
      INFER_ASSIGN(t, Cropped(p, t));
    }
    if (p.order != P::Order::kAsStored) {
      INFER_ASSIGN(t, Ordered(p, t));
    }
    channels = t.dim(2);
    if (p.normalise) {
      INFER_ASSIGN(t, Normalised(p, t, channels));
    }
    const bool chw = p.layout == P::Layout::kAsStored ? view.chw : p.layout == P::Layout::kChw;
    if (chw) t = ToChw(t);
  } else if (p.normalise) {
    INFER_ASSIGN(t, Normalised(p, t, channels));
  }
  if (p.dtype != DType::kUndefined && t.dtype() != p.dtype) t = t.Cast(p.dtype);
  return Shaped(p, std::move(t));
}

}  // namespace infer
