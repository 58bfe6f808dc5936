/// Col2Im of f32: every row of the image sums the rows of columns that meet it, which are
/// contiguous in both where blocks stand side by side. 0.45 of ONNX Runtime's time over 40 layers,
/// one thread (tools/infer_bench/layer_map.py --family sampling; docs/performance.md).
#include <algorithm>

#include "lib/ops/common.h"
#include "lib/ops/move/image_columns.h"
#include "runtime/cpu/kernels/common/kernels.h"
#include "runtime/cpu/kernels/move/pixel_sums.h"
#include "runtime/cpu/launch/launch.h"
#include "runtime/cpu/simd/loops.h"

namespace infer {
namespace {

/// From so many elements on a call pays.
constexpr int64_t kLongRow = 48;

/// Which entry of which block reads a pixel of an axis.
struct EntryOfBlock {
  int64_t entry, block;
};
struct OuterAxis {
  int64_t image = 1, block = 1, blocks = 1;
  std::vector<std::vector<EntryOfBlock>> readers;  ///< by pixel
};
/// Entry i of the blocks [low, high) of a row of blocks reads pixel first + block * stride.
struct InnerSpan {
  int64_t first, low, high;
};

/// The sums of a row of the image.
struct ColumnSums {
  std::vector<OuterAxis> outer;   ///< all axes but the last
  std::vector<InnerSpan> spans;   ///< by entry along the last axis
  int64_t width = 1, stride = 1;  ///< of the image, of blocks along it
  int64_t blocks = 1;             ///< along it
  int64_t rows = 1, columns = 1;  ///< of a plane of the image, of x
  int64_t outer_entries = 1;      ///< of a block, along the outer axes
  bool disjoint = false;          ///< every pixel has one reader: blocks tile the image
  simd::Loops::BinaryFn add = nullptr;

  int64_t entries() const { return outer_entries * static_cast<int64_t>(spans.size()); }

  /// Row `row` of the plane whose columns are x [entries, columns].
  void Row(const float* x, int64_t row, float* y) const {
    if (!disjoint) std::fill_n(y, width, 0.0f);
    Visit(0, rows, row, 0, 0, x, y);
  }

 private:
  /// All readers of the row along the axes from `axis` on, `plane` rows; `entry` and `block` of the
  /// axes before.
  void Visit(size_t axis, int64_t plane, int64_t row, int64_t entry, int64_t block, const float* x,
             float* y) const {
    if (axis == outer.size()) {
      const float* const from = x + entry * Inner() * columns + block * blocks;
      return disjoint ? Lay(from, y) : Add(from, y);
    }
    const OuterAxis& a = outer[axis];
    const bool last = axis + 1 == outer.size();
    if (!last) plane /= a.image;
    const int64_t at = last ? row : row / plane, left = last ? 0 : row % plane;
    for (const EntryOfBlock& r : a.readers[static_cast<size_t>(at)])
      Visit(axis + 1, plane, left, entry * a.block + r.entry, block * a.blocks + r.block, x, y);
  }

  int64_t Inner() const { return static_cast<int64_t>(spans.size()); }

  /// The blocks of a row of blocks, from their first entry in it on.
  void Add(const float* from, float* y) const {
    switch (stride) {
      case 1:
        return AddSpans(from, y, [this](const float* x, int64_t n, float* to) {
          n < kLongRow ? AddApart<1>(x, n, to) : add(to, x, to, n);
        });
      case 2: return AddSpans(from, y, AddToEverySecond);
      case 3: return AddSpans(from, y, AddApart<3>);
      case 4: return AddSpans(from, y, AddApart<4>);
      default:
        return AddSpans(from, y, [s = stride](const float* x, int64_t n, float* to) {
          for (int64_t b = 0; b < n; ++b) to[b * s] += x[b];
        });
    }
  }

  /// f(from, n, to) for every entry along the row: to[b * stride] += from[b] for b < n.
  template <typename F>
  void AddSpans(const float* from, float* y, const F& f) const {
    for (const InnerSpan& s : spans) {
      f(from + s.low, s.high - s.low, y + s.first + s.low * stride);
      from += columns;
    }
  }

  template <int kStride>
  static void AddApart(const float* __restrict from, int64_t n, float* __restrict to) {
    for (int64_t b = 0; b < n; ++b) to[b * kStride] += from[b];
  }

  /// By vectors, which add 0 to what lies between; not to what follows the last, which is another
  /// row's.
  static void AddToEverySecond(const float* __restrict from, int64_t n, float* __restrict to) {
    typedef float Four __attribute__((vector_size(16)));
    typedef float Anywhere __attribute__((vector_size(16), aligned(4), may_alias));
    int64_t b = 0;
    for (; b + 4 < n; b += 4) {
      const Four x = *reinterpret_cast<const Anywhere*>(from + b), zero = {};
      Anywhere* const at = reinterpret_cast<Anywhere*>(to + 2 * b);
      at[0] += __builtin_shufflevector(x, zero, 0, 4, 1, 4);
      at[1] += __builtin_shufflevector(x, zero, 2, 4, 3, 4);
    }
    for (; b < n; ++b) to[2 * b] += from[b];
  }

  /// The same where nothing else is in the row.
  void Lay(const float* from, float* y) const {
    switch (stride) {
      case 2: return LaySideBySide<2>(from, y);
      case 3: return LaySideBySide<3>(from, y);
      case 4: return LaySideBySide<4>(from, y);
      default:
        for (int64_t entry = 0; entry < stride; ++entry, from += columns)
          for (int64_t b = 0; b < blocks; ++b) y[b * stride + entry] = from[b];
    }
  }

  template <int kStride>
  void LaySideBySide(const float* __restrict from, float* __restrict to) const {
    const int64_t n = blocks, apart = columns;
    for (int64_t b = 0; b < n; ++b)
      for (int entry = 0; entry < kStride; ++entry)
        to[b * kStride + entry] = from[entry * apart + b];
  }
};

std::string RefuseCol2Im(const StepCall& call) {
  const Node& n = call.main();
  if (call.step.nodes.size() > 1) return "it has no epilogue";
  if (ElementTypeOf(n.input(0)) != DType::kF32) return "not f32";
  for (size_t i = 1; i < 3; ++i)
    if (!call.constant(n.input(i))) return "the extents of image or block are not constant";
  return call.operand(n.input(0)) == 0 ? "" : "the operand is not the first";
}

OuterAxis OuterAxisOf(const ImageColumns& c, size_t k) {
  OuterAxis a{c.image[k], c.block[k], c.blocks[k], {}};
  a.readers.resize(static_cast<size_t>(a.image));
  for (int64_t entry = 0; entry < a.block; ++entry)
    for (int64_t block = 0; block < a.blocks; ++block) {
      const int64_t at = block * c.strides[k] + entry * c.dilations[k] - c.pads[k];
      if (at >= 0 && at < a.image) a.readers[static_cast<size_t>(at)].push_back({entry, block});
    }
  return a;
}

/// Blocks side by side, without a gap, cover the image.
bool AreTiles(const ImageColumns& c) {
  for (size_t k = 0; k < c.image.size(); ++k)
    if (c.dilations[k] != 1 || c.pads[k] != 0 || c.strides[k] != c.block[k] ||
        c.blocks[k] * c.block[k] != c.image[k])
      return false;
  return true;
}

ColumnSums SumsOf(const ImageColumns& c, int64_t columns) {
  const size_t last = c.image.size() - 1;
  ColumnSums sums;
  for (size_t k = 0; k < last; ++k) {
    sums.outer.push_back(OuterAxisOf(c, k));
    sums.rows *= c.image[k];
    sums.outer_entries *= c.block[k];
  }
  sums.width = c.image[last];
  sums.stride = c.strides[last];
  sums.blocks = c.blocks[last];
  for (int64_t entry = 0; entry < c.block[last]; ++entry) {
    const int64_t first = entry * c.dilations[last] - c.pads[last], s = sums.stride;
    const int64_t end = sums.width - first;  // the first block that reads beyond is ceil(end / s)
    sums.spans.push_back({first, std::min(first < 0 ? (s - 1 - first) / s : 0, sums.blocks),
                          end <= 0 ? 0 : std::min(sums.blocks, (end + s - 1) / s)});
  }
  sums.columns = columns;
  sums.disjoint = AreTiles(c);
  sums.add = simd::TheLoops().binary[static_cast<int>(simd::Binary::kAdd)];
  return sums;
}

std::shared_ptr<const Launch> ByRows(ColumnSums sums, int64_t planes, int64_t grain, size_t y) {
  return LaunchOf([=, sums = std::move(sums)](std::byte* const* args) {
    const float* const from = As<float>(static_cast<const std::byte*>(args[0]));
    float* const to = As<float>(args[y]);
    ForRange(planes * sums.rows, grain, [&](int64_t begin, int64_t end) {
      int64_t plane = begin / sums.rows, row = begin % sums.rows;
      for (int64_t r = begin; r < end; ++r) {
        sums.Row(from + plane * sums.entries() * sums.columns, row, to + r * sums.width);
        if (++row < sums.rows) continue;
        row = 0;
        ++plane;
      }
    });
  });
}

std::shared_ptr<const Launch> ByPlanes(const ImageColumns& c, int64_t planes, size_t y) {
  const int64_t columns = c.entries * NumElements(c.blocks), pixels = NumElements(c.image);
  return LaunchOf([=, sums = PixelSums(c)](std::byte* const* args) {
    const float* const from = As<float>(static_cast<const std::byte*>(args[0]));
    float* const to = As<float>(args[y]);
    ForRange(planes, std::max<int64_t>(1, kElementGrain / columns),
             [&](int64_t begin, int64_t end) {
               for (int64_t p = begin; p < end; ++p)
                 sums.Plane(from + p * columns, to + p * pixels);
             });
  });
}

std::unique_ptr<Kernel> MakeCol2Im(const StepCall& call) {
  const Node& n = call.main();
  const Dims image = call.constant(n.input(1))->ToInts(),
             block = call.constant(n.input(2))->ToInts();
  return KernelOf([&n, image, block](std::span<const Operand> in,
                                     std::span<const Operand>) -> Result<Prepared> {
    const Dims& x = in[0].dims;
    const auto lie = ImageColumns::Of(OpCall(n.def(), n.attrs(), 0, 0), x, image, block);
    if (!lie.ok()) return Unsupported(lie.status().message());
    Prepared p;
    p.name = "own:col2im";
    p.unused.assign(in.size(), true);
    p.unused[0] = false;
    const int64_t planes = x[0] * x[1] / lie->entries;
    if (!AreTiles(*lie) && PixelSums::Pays(*lie)) {
      p.launch = ByPlanes(*lie, planes, in.size());
      return p;
    }
    ColumnSums sums = SumsOf(*lie, x[2]);
    const int64_t grain = kElementGrain * planes * sums.rows / NumElements(x);
    p.launch = ByRows(std::move(sums), planes, std::max<int64_t>(1, grain), in.size());
    return p;
  });
}

}  // namespace

KernelList Col2ImKernels() { return {{"Col2Im", "", "own", RefuseCol2Im, MakeCol2Im}}; }

}  // namespace infer
