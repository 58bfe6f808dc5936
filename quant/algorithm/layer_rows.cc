#include "quant/algorithm/layer_rows.h"

#include <algorithm>

#include "lib/ops/conv/conv_geometry.h"
#include "lib/support/strings.h"

namespace infer {
namespace {

/// Copies the window at output position `out` of channels [first, first + channels) into `row`.
void CopyWindow(const ConvGeometry& g, const float* image, int64_t first, int64_t channels,
                const Dims& out, float* row) {
  const size_t rank = g.input.size();
  int64_t plane = 1;
  for (const int64_t i : g.input) plane *= i;
  const int64_t taps = g.kernel_size();
  for (int64_t t = 0; t < taps; ++t) {
    int64_t rest = t, offset = 0, pitch = 1;
    bool inside = true;
    for (size_t a = rank; a-- > 0;) {
      const WindowAxis& w = g.window.axes[a];
      const int64_t i = out[a] * w.stride - w.pad_begin + rest % w.kernel * w.dilation;
      rest /= w.kernel;
      inside &= i >= 0 && i < g.input[a];
      offset += i * pitch;
      pitch *= g.input[a];
    }
    for (int64_t c = 0; c < channels; ++c)
      row[c * taps + t] = inside ? image[(first + c) * plane + offset] : 0.0f;
  }
}

Status ForWindows(const RowSource& source, const Tensor& x, int64_t run, int64_t most,
                  SeeRows see) {
  const Node& n = *source.conv;
  INFER_ASSIGN(const ConvGeometry g,
               ReadConvGeometry(n.def(), n.attrs(), x.dims(), n.input(1)->constant()->dims()));
  int64_t positions = 1, image_size = g.in_channels;
  for (const int64_t o : g.output) positions *= o;
  for (const int64_t i : g.input) image_size *= i;
  if (positions == 0) return {};
  const int64_t taken = std::min(most, positions), channels = g.in_channels / g.groups;
  std::vector<float> rows(static_cast<size_t>(taken * source.depth));
  for (int64_t b = 0; b < g.batch; ++b) {
    for (int64_t group = 0; group < g.groups; ++group) {
      for (int64_t k = 0; k < taken; ++k) {
        int64_t p = (k * positions / taken + run) % positions;
        Dims out(g.output.size());
        for (size_t a = out.size(); a-- > 0; p /= g.output[a]) out[a] = p % g.output[a];
        CopyWindow(g, x.data<float>().data() + b * image_size, group * channels, channels, out,
                   rows.data() + k * source.depth);
      }
      see(rows.data(), taken, group);
    }
  }
  return {};
}

/// The channels of evenly spaced positions of [batch, channels, ...].
Status ForPositions(const RowSource& source, const Tensor& x, int64_t run, int64_t most,
                    SeeRows see) {
  if (x.rank() < 3 || x.dim(1) != source.depth)
    return InvalidModel(Cat("value '", source.value, "' has no ", source.depth, " channels"));
  if (x.num_elements() == 0) return {};
  const int64_t plane = x.num_elements() / (x.dim(0) * source.depth), taken = std::min(most, plane);
  std::vector<float> rows(static_cast<size_t>(taken * source.depth));
  for (int64_t b = 0; b < x.dim(0); ++b) {
    const float* const image = x.data<float>().data() + b * source.depth * plane;
    for (int64_t k = 0; k < taken; ++k) {
      const int64_t at = (k * plane / taken + run) % plane;
      for (int64_t c = 0; c < source.depth; ++c)
        rows[static_cast<size_t>(k * source.depth + c)] = image[c * plane + at];
    }
    see(rows.data(), taken, 0);
  }
  return {};
}

}  // namespace

Status ForRows(const RowSource& source, const Tensor& x, int64_t run, int64_t most, SeeRows see) {
  if (source.conv) return ForWindows(source, x, run, most, see);
  if (source.positions) return ForPositions(source, x, run, most, see);
  if (x.rank() == 0 || x.dim(-1) != source.depth)
    return InvalidModel(Cat("value '", source.value, "' has no rows of ", source.depth));
  if (x.num_elements() > 0) see(x.data<float>().data(), x.num_elements() / source.depth, 0);
  return {};
}

}  // namespace infer
