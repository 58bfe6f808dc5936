#pragma once
/// Declared preprocessing: what stands between a stored sample and a model's input, as one line of
/// text (`--preprocess resize=256,crop=224,order=bgr,mean=a:b:c,scale=1/255,layout=nchw`). The
/// order of the keys does not matter; the steps always run in this order:
///
///   source    how a stored image lies: hwc or chw. Default: hwc, or chw when axis 0 of three has
///             1 or 3 elements and the last axis has not. Rank 2 is a grey image.
///   resize    S: the shorter side becomes S, the longer floor(S * longer / shorter);
///             HxW: exactly that. Images must be u8 (as images are resized before scaling).
///   interp    bilinear (default), bicubic (a = -0.5), nearest: filters widened when shrinking
///             (antialiased), horizontal pass first, 22-bit weights, each pass rounded to u8: what
///             Pillow's Image.resize gives. nearest takes floor((i + 0.5) * in / out).
///   crop      S or HxW from the centre: rows from floor((h - H) / 2). Never pads.
///   order     rgb, bgr or grey (L = (19595 R + 38470 G + 7471 B + 2^15) / 2^16, u8 only); a grey
///             image becomes rgb or bgr by repetition.
///   scale, mean, std   y[c] = (x[c] * scale - mean[c]) / std[c], c after `order`; in double,
///             rounded once. One number, or one per channel joined by ':'; a/b is a fraction.
///   layout    nhwc or nchw (without the batch axis). Default: as stored.
///   dtype     f32, f16, u8, ... Default: f32 if scale, mean or std is given, else as stored.
///             Integer types round to nearest even and saturate.
///   shape     AxBxC of one sample (without the batch axis); `flatten` is shape=<all elements>.
#include <array>
#include <optional>
#include <string>
#include <vector>

#include "lib/tensor/tensor.h"

namespace infer {

struct Preprocess {
  enum class Layout : uint8_t { kAsStored, kHwc, kChw };
  enum class Interp : uint8_t { kBilinear, kBicubic, kNearest };
  enum class Order : uint8_t { kAsStored, kRgb, kBgr, kGrey };
  struct Size {
    int64_t height = 0, width = 0;  ///< width 0: `height` is the shorter side (resize) or a square
  };

  Layout source = Layout::kAsStored;
  std::optional<Size> resize, crop;
  Interp interp = Interp::kBilinear;
  Order order = Order::kAsStored;
  double scale = 1;
  std::vector<double> mean, std;  ///< empty (0 and 1), one number, or one per channel
  bool normalise = false;         ///< scale, mean or std was given
  Layout layout = Layout::kAsStored;
  DType dtype = DType::kUndefined;
  Dims shape;
  bool flatten = false;

  /// Nothing to do: samples pass as they are.
  bool empty() const;
  /// The text form, keys in the order above; Parse(ToString()) is the same.
  std::string ToString() const;
};

/// One line per key, for --help.
std::string PreprocessHelp();

/// InvalidArgument naming the bad key or value. "" is the empty preprocessing.
Result<Preprocess> ParsePreprocess(std::string_view text);

/// One stored sample -> one model input (without batch axis). InvalidModel when the sample does not
/// fit the declaration (not an image, smaller than the crop, other number of channels).
Result<Tensor> Apply(const Preprocess& p, const Tensor& sample);

}  // namespace infer
