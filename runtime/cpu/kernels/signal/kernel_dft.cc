/// DFT of f32 along any axis, in f64: as many lines at once as a vector has lanes, or a line alone
/// where there are few (runtime/cpu/kernels/signal/fourier.h). An inverse transform is one with
/// real and imaginary parts exchanged. 0.08 of ONNX Runtime's time over 32 layers, one thread
/// (tools/infer_bench/layer_map.py --family sampling; docs/performance.md).
#include <algorithm>
#include <limits>

#include "lib/support/parallel.h"
#include "runtime/cpu/kernels/common/kernels.h"
#include "runtime/cpu/kernels/signal/fourier.h"
#include "runtime/cpu/launch/launch.h"

namespace infer {
namespace {

constexpr int64_t kLongestLine = int64_t{1} << 24;
constexpr int kMostLineLanes = 8;
/// Lines side by side that take more leave the cache.
constexpr int64_t kSideBySideBytes = 1 << 20;

/// Which numbers of operand and result belong to a line: x [outer, given, inner, parts], y
/// [outer, shown, inner, shown_parts].
struct DftLines {
  int64_t n = 1, given = 1, shown = 1;
  int64_t outer = 1, inner = 1, parts = 1, shown_parts = 2;
  bool inverse = false;
  bool from_half = false;  ///< x is the first half of a spectrum, the rest follows from it

  int64_t count() const { return outer * inner; }

  const float* StartOf(const float* x, int64_t line) const {
    return x + (line / inner * given * inner + line % inner) * parts;
  }
  /// Element i of the line that starts at `start`, to to[0] and to[lanes].
  void Load(const float* start, int64_t i, int64_t lanes, double* to) const {
    const bool mirrored = from_half && i > n / 2;
    const int64_t k = mirrored ? n - i : i;
    const float* const at = start + k * inner * parts;
    const double re = k < given ? at[0] : 0, im = k < given && parts == 2 ? at[1] : 0;
    to[inverse ? lanes : 0] = re;
    to[inverse ? 0 : lanes] = mirrored ? -im : im;
  }

  /// Results k, k + 1, ... of line `line`, `step` floats apart.
  void Store(const double* re, const double* im, int64_t step, int64_t line, int64_t k,
             int64_t many, float* y) const {
    const double factor = inverse ? 1.0 / static_cast<double>(n) : 1.0;
    if (inverse) std::swap(re, im);
    many = std::min(many, shown - k);
    float* at = y + ((line / inner * shown + k) * inner + line % inner) * shown_parts;
    for (int64_t i = 0; i < many; ++i, at += inner * shown_parts) {
      at[0] = static_cast<float>(re[i * step] * factor);
      if (shown_parts == 2) at[1] = static_cast<float>(im[i * step] * factor);
    }
  }
};

/// A part of the lines by one of the two transforms.
struct DftRun {
  DftLines lines;
  int lanes;
  std::shared_ptr<const LineFourier> side_by_side;  ///< one of the two
  std::shared_ptr<const SingleFourier> alone;

  int64_t units() const { return alone ? lines.count() : (lines.count() + lanes - 1) / lanes; }
  int64_t rows() const { return alone ? alone->rows() : side_by_side->rows(); }
  int64_t scratch_numbers() const { return 2 * rows() * 2 * lanes; }

  void Unit(int64_t unit, const float* x, float* y, double* scratch) const {
    double *const a = scratch, *const b = scratch + rows() * 2 * lanes;
    alone ? Alone(unit, x, y, a, b) : SideBySide(unit * lanes, x, y, a, b);
  }

 private:
  void SideBySide(int64_t first, const float* x, float* y, double* a, double* b) const {
    const int64_t count = std::min<int64_t>(lanes, lines.count() - first);
    const float* starts[kMostLineLanes];
    for (int64_t l = 0; l < count; ++l) starts[l] = lines.StartOf(x, first + l);
    for (int64_t i = 0; i < lines.n; ++i) {
      double* const row = a + i * 2 * lanes;
      if (count < lanes) std::fill_n(row, 2 * lanes, 0.0);
      for (int64_t l = 0; l < count; ++l) lines.Load(starts[l], i, lanes, row + l);
    }
    const double* const z = side_by_side->Run(a, b);
    for (int64_t l = 0; l < count; ++l)
      lines.Store(z + l, z + lanes + l, int64_t{2} * lanes, first + l, 0, lines.shown, y);
  }

  void Alone(int64_t line, const float* x, float* y, double* a, double* b) const {
    const int64_t columns = alone->columns();
    const float* const start = lines.StartOf(x, line);
    for (int64_t i = 0; i < lines.n; i += columns) {
      double* const row = a + i / columns * 2 * lanes;
      if (columns < lanes) std::fill_n(row, 2 * lanes, 0.0);
      for (int64_t l = 0; l < columns; ++l) lines.Load(start, i + l, lanes, row + l);
    }
    alone->Run(a, b, [&](int64_t k, const double* re, const double* im, int64_t count) {
      lines.Store(re, im, 1, line, k, count, y);
    });
  }
};

std::string RefuseDft(const StepCall& call) {
  const Node& n = call.main();
  if (call.step.nodes.size() > 1) return "it has no epilogue";
  if (ElementTypeOf(n.input(0)) != DType::kF32) return "not f32";
  for (size_t i = 1; i < 3; ++i)
    if (n.input(i) &&
        (!call.constant(n.input(i)) || call.constant(n.input(i))->num_elements() != 1))
      return "length or axis is not a constant number";
  return call.operand(n.input(0)) == 0 ? "" : "the operand is not the first";
}

class DftKernel final : public Kernel {
 public:
  explicit DftKernel(const StepCall& call)
      : threads_(call.options.threads > 0 ? call.options.threads : LaneBudget()) {
    const Node& n = call.main();
    inverse_ = n.Attr<int64_t>("inverse") != 0;
    one_sided_ = n.Attr<int64_t>("onesided") != 0;
    if (n.input(1)) length_ = call.constant(n.input(1))->IntAt(0);
    if (n.input(2)) axis_ = call.constant(n.input(2))->IntAt(0);
  }

  Result<Prepared> Prepare(std::span<const Operand> in,
                           std::span<const Operand> out) const override {
    if (!NoneEmpty(in, out)) return Unsupported("an operand is empty");
    INFER_ASSIGN(const DftLines lines, LinesOf(in[0].dims, out[0].dims));
    const simd::Fourier& loops = simd::TheFourier();
    DftRun run{lines, loops.lanes, nullptr, nullptr};
    const bool fits = lines.n * loops.lanes * 32 <= kSideBySideBytes;
    const bool few = lines.count() < loops.lanes || !fits;
    if (few && 2 * SingleFourier::ColumnsOf(lines.n, loops.lanes) >= loops.lanes)
      run.alone = std::make_shared<const SingleFourier>(lines.n, loops);
    else
      run.side_by_side = std::make_shared<const LineFourier>(lines.n, loops);
    const int64_t slots = std::min<int64_t>(threads_, run.units());
    Prepared p;
    p.name = std::string("own:dft:") + loops.isa;
    p.unused.assign(in.size(), true);
    p.unused[0] = false;
    p.scratch_bytes = slots * run.scratch_numbers() * 8;
    const size_t y = in.size();
    p.launch = LaunchOf([run, slots, y](std::byte* const* args) {
      const float* const from = As<float>(static_cast<const std::byte*>(args[0]));
      float* const to = As<float>(args[y]);
      double* const scratch = As<double>(args[y + 1]);
      ForRange(slots, 1, [&](int64_t begin, int64_t end) {
        for (int64_t slot = begin; slot < end; ++slot)
          for (int64_t unit = slot; unit < run.units(); unit += slots)
            run.Unit(unit, from, to, scratch + slot * run.scratch_numbers());
      });
    });
    return p;
  }

 private:
  Result<DftLines> LinesOf(const Dims& x, const Dims& y) const {
    const auto rank = static_cast<int64_t>(x.size());
    const int64_t axis = axis_ < 0 ? axis_ + rank : axis_;
    if (rank < 2 || axis < 0 || axis >= rank - 1) return Unsupported("no such axis");
    const auto at = static_cast<size_t>(axis);
    DftLines l;
    l.given = x[at];
    l.parts = x.back();
    l.inverse = inverse_;
    l.from_half = inverse_ && one_sided_;
    l.n = length_ ? *length_ : l.from_half ? 2 * (l.given - 1) : l.given;
    if (l.n < 1 || l.n > kLongestLine || l.parts > 2) return Unsupported("its length");
    l.shown = one_sided_ && !inverse_ ? l.n / 2 + 1 : l.n;
    l.shown_parts = l.from_half ? 1 : 2;
    for (size_t d = 0; d < at; ++d) l.outer *= x[d];
    for (size_t d = at + 1; d + 1 < x.size(); ++d) l.inner *= x[d];
    Dims want = x;
    want[at] = l.shown;
    want.back() = l.shown_parts;
    if (want != y) return Unsupported("extents do not fit");
    return l;
  }

  int threads_;
  bool inverse_ = false, one_sided_ = false;
  std::optional<int64_t> length_;
  int64_t axis_ = -2;
};

std::unique_ptr<Kernel> MakeDft(const StepCall& call) { return std::make_unique<DftKernel>(call); }

}  // namespace

KernelList DftKernels() { return {{"DFT", "", "own", RefuseDft, MakeDft}}; }

}  // namespace infer
