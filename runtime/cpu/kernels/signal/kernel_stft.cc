/// STFT of f32, in f64: as many frames side by side as a vector has lanes, the window multiplied
/// where a frame is read. Real frames of an even length are transformed as half as many complex
/// numbers (H. Sorensen et al., "Real-valued fast Fourier transform algorithms", 1987). No frame
/// touches another one's numbers. Gain: docs/performance.md#files-that-nobody-picked.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "lib/support/strings.h"
#include "runtime/cpu/kernels/common/kernels.h"
#include "runtime/cpu/kernels/signal/fourier.h"
#include "runtime/cpu/launch/launch.h"

namespace infer {
namespace {

constexpr int64_t kLongestFrame = int64_t{1} << 24;
constexpr int kMostFrameLanes = 8;

/// Transforms of frames of one length.
class FrameFourier {
 public:
  FrameFourier(int64_t n, int64_t parts, const simd::Fourier& loops)
      : n_(n),
        parts_(parts),
        halved_(parts == 1 && n % 2 == 0),
        loops_(loops),
        fourier_(halved_ ? n / 2 : n, loops) {
    for (int64_t k = 0; halved_ && k < n / 2; ++k) {
      const double angle = 2 * std::numbers::pi * static_cast<double>(k) / static_cast<double>(n);
      factors_.push_back(-0.5 * std::sin(angle));
      factors_.push_back(-0.5 * std::cos(angle));
    }
  }

  int64_t n() const { return n_; }
  /// The window as read_frames takes it.
  int64_t window_numbers() const { return 2 * fourier_.n(); }
  int64_t buffer_numbers() const { return fourier_.rows() * 2 * loops_.lanes; }

  /// `window` may be nullptr: ones.
  void Widen(const float* window, double* to) const {
    const int64_t each = halved_ ? 1 : 2;
    for (int64_t i = 0; i < window_numbers(); ++i)
      to[i] = window ? static_cast<double>(window[i / each]) : 1.0;
  }

  /// `from`, `to`: of each lane; `shown` results of each go to `to`. Two buffers.
  void Run(const float* const* from, const double* window, int64_t shown, double* a, double* b,
           float* const* to) const {
    if (halved_ || parts_ == 2)
      loops_.read_frames(from, window, fourier_.n(), a);
    else
      ReadOdd(from, window, a);
    const double* const z = fourier_.Run(a, b);
    if (!halved_) return Write(z, shown, to);
    loops_.write_halves(z, factors_.data(), fourier_.n(), to);
    for (int l = 0; shown > n_ / 2 + 1 && l < loops_.lanes; ++l) Mirror(to[l]);
  }

 private:
  void ReadOdd(const float* const* from, const double* window, double* to) const {
    const int lanes = loops_.lanes;
    for (int64_t i = 0; i < n_; ++i, to += int64_t{2} * lanes)
      for (int l = 0; l < lanes; ++l) {
        to[l] = static_cast<double>(from[l][i]) * window[2 * i];
        to[lanes + l] = 0;
      }
  }

  void Write(const double* z, int64_t shown, float* const* to) const {
    const int lanes = loops_.lanes;
    for (int64_t k = 0; k < shown; ++k, z += int64_t{2} * lanes)
      for (int l = 0; l < lanes; ++l) {
        to[l][2 * k] = static_cast<float>(z[l]);
        to[l][2 * k + 1] = static_cast<float>(z[lanes + l]);
      }
  }

  void Mirror(float* y) const {
    for (int64_t k = n_ / 2 + 1; k < n_; ++k) {
      y[2 * k] = y[2 * (n_ - k)];
      y[2 * k + 1] = -y[2 * (n_ - k) + 1];
    }
  }

  int64_t n_, parts_;
  bool halved_;
  const simd::Fourier& loops_;
  LineFourier fourier_;
  std::vector<double> factors_;
};

/// A number that is known, or comes with the run.
struct FrameNumber {
  int64_t known = 0;
  int at = -1;  ///< the argument that holds it; -1: known
  DType dtype = DType::kI64;

  int64_t In(std::byte* const* args) const {
    if (at < 0) return known;
    const std::byte* const from = args[at];
    return dtype == DType::kI32 ? *As<int32_t>(from) : *As<int64_t>(from);
  }
};

/// Frames of x [batch, length, parts] to y [batch, frames, shown, 2].
struct Frames {
  int64_t batch = 1, length = 1, parts = 1, frames = 1, shown = 1;
  bool one_sided = true;
  int window = -1;  ///< its argument
  int64_t window_length = 0;
  FrameNumber step, n;
  /// Where the length of a frame comes with the run, both whose one-sided spectra have the extent.
  std::vector<std::shared_ptr<const FrameFourier>> fouriers;
  int lanes = 1;
  int64_t slots = 1, window_numbers = 0, buffer_numbers = 0;
  size_t y = 0;

  int64_t slot_numbers() const { return 2 * buffer_numbers + 2 * shown * lanes; }
  int64_t scratch_bytes() const { return (window_numbers + slots * slot_numbers()) * 8; }

  const FrameFourier* FourierOf(int64_t n_now) const {
    for (const auto& f : fouriers)
      if (f->n() == n_now) return f.get();
    return nullptr;
  }

  Status Run(std::byte* const* args) const {
    const int64_t step_now = step.In(args), n_now = n.In(args);
    const FrameFourier* const fourier = FourierOf(n_now);
    const int64_t come = n_now > length || step_now < 1 ? 0 : (length - n_now) / step_now + 1;
    if (!fourier || come != frames)
      return InvalidModel(Cat("frame_length ", n_now, " and frame_step ", step_now, " give ", come,
                              " frames, the result has ", frames, " of another extent"));
    auto* const ones = As<double>(args[y + 1]);
    fourier->Widen(window < 0 ? nullptr : As<float>(static_cast<const std::byte*>(args[window])),
                   ones);
    ForRange(slots, 1, [&](int64_t begin, int64_t end) {
      for (int64_t slot = begin; slot < end; ++slot) {
        double* const own = ones + window_numbers + slot * slot_numbers();
        for (int64_t first = slot * lanes; first < batch * frames; first += slots * lanes)
          Unit(*fourier, args, first, step_now, ones, own);
      }
    });
    return {};
  }

 private:
  /// Frames `first` on; lanes that are left over repeat the last, and write beside the result.
  void Unit(const FrameFourier& fourier, std::byte* const* args, int64_t first, int64_t step_now,
            const double* ones, double* own) const {
    const float* const x = As<float>(static_cast<const std::byte*>(args[0]));
    float* const results = As<float>(args[y]);
    float* const beside = reinterpret_cast<float*>(own + 2 * buffer_numbers);
    const float* from[kMostFrameLanes];
    float* to[kMostFrameLanes];
    for (int64_t l = 0; l < lanes; ++l) {
      const int64_t f = std::min(first + l, batch * frames - 1);
      from[l] = x + (f / frames * length + f % frames * step_now) * parts;
      to[l] = first + l > f ? beside + l * 2 * shown : results + f * shown * 2;
    }
    fourier.Run(from, ones, shown, own, own + buffer_numbers, to);
  }
};

class FramesLaunch final : public Launch {
 public:
  explicit FramesLaunch(Frames frames) : frames_(std::move(frames)) {}
  Status Run(std::byte* const* args, LaunchState*) const override { return frames_.Run(args); }

 private:
  Frames frames_;
};

std::string RefuseStft(const StepCall& call) {
  const Node& n = call.main();
  if (call.step.nodes.size() > 1) return "it has no epilogue";
  if (ElementTypeOf(n.input(0)) != DType::kF32) return "not f32";
  return call.operand(n.input(0)) == 0 ? "" : "the operand is not the first";
}

class StftKernel final : public Kernel {
 public:
  explicit StftKernel(const StepCall& call)
      : threads_(call.options.threads > 0 ? call.options.threads : LaneBudget()) {
    const Node& n = call.main();
    one_sided_ = n.Attr<int64_t>("onesided") != 0;
    for (size_t i = 0; i < 4; ++i) at_[i] = n.input(i) ? call.operand(n.input(i)) : -1;
    has_length_ = n.input(3) != nullptr;
  }

  Result<Prepared> Prepare(std::span<const Operand> in,
                           std::span<const Operand> out) const override {
    if (!NoneEmpty(in, out)) return Unsupported("an operand is empty");
    Frames f;
    INFER_TRY(ReadExtents(in, out, f));
    INFER_TRY(ReadNumbers(in, f));
    const simd::Fourier& loops = simd::TheFourier();
    INFER_TRY(AddFouriers(f, loops));
    f.slots = std::min<int64_t>(threads_, (f.batch * f.frames + f.lanes - 1) / f.lanes);
    f.y = in.size();
    Prepared p;
    p.name = std::string("own:stft:") + loops.isa;
    p.unused.assign(in.size(), true);
    p.unused[0] = false;
    for (const int at : {f.window, f.step.at, f.n.at})
      if (at >= 0) p.unused[static_cast<size_t>(at)] = false;
    p.scratch_bytes = f.scratch_bytes();
    p.launch = std::make_shared<const FramesLaunch>(std::move(f));
    return p;
  }

  /// The number of frames may hang on numbers of the run, which Frames::Run looks at.
  bool checks_extents() const override { return true; }

 private:
  Status ReadExtents(std::span<const Operand> in, std::span<const Operand> out, Frames& f) const {
    const Dims &x = in[0].dims, &y = out[0].dims;
    f.batch = x[0];
    f.length = x[1];
    f.parts = x.size() > 2 ? x[2] : 1;
    f.one_sided = one_sided_;
    f.window = at_[2];
    if (y.size() != 4 || y[0] != f.batch || y[3] != 2) return Unsupported("extents do not fit");
    if (f.parts == 2 && one_sided_) return Unsupported("a complex signal, one-sided");
    f.frames = y[1];
    f.shown = y[2];
    return {};
  }

  Result<FrameNumber> NumberOf(std::span<const Operand> in, size_t input) const {
    if (at_[input] < 0) return Unsupported("a number is no operand");
    const Operand& operand = in[static_cast<size_t>(at_[input])];
    if (NumElements(operand.dims) != 1) return Unsupported("more than a number");
    FrameNumber number;
    if (operand.constant)
      number.known = operand.constant->IntAt(0);
    else
      number.at = at_[input];
    number.dtype = operand.dtype;
    return number;
  }

  Status ReadNumbers(std::span<const Operand> in, Frames& f) const {
    INFER_ASSIGN(f.step, NumberOf(in, 1));
    f.n.known = f.length;
    if (has_length_) {
      INFER_ASSIGN(f.n, NumberOf(in, 3));
    }
    if (f.window < 0) return {};
    const int64_t n = in[static_cast<size_t>(f.window)].dims[0];
    if (has_length_ && f.n.at < 0 && f.n.known != n) return Unsupported("extents do not fit");
    f.window_length = n;
    if (!has_length_) f.n.known = n;
    return {};
  }

  Status AddFouriers(Frames& f, const simd::Fourier& loops) const {
    f.lanes = loops.lanes;
    std::vector<int64_t> lengths = {f.shown};
    if (one_sided_) lengths = {2 * f.shown - 1, 2 * (f.shown - 1)};
    for (const int64_t n : lengths) {
      if (n < 1 || n > kLongestFrame || (f.n.at < 0 && n != f.n.known)) continue;
      // A length that comes with the run must be the window's, which is read to that end.
      if (f.window >= 0 && n != f.window_length) continue;
      f.fouriers.push_back(std::make_shared<const FrameFourier>(n, f.parts, loops));
      f.window_numbers = std::max(f.window_numbers, f.fouriers.back()->window_numbers());
      f.buffer_numbers = std::max(f.buffer_numbers, f.fouriers.back()->buffer_numbers());
    }
    return f.fouriers.empty() ? Unsupported("the length of its frames") : Status();
  }

  int threads_;
  bool one_sided_ = true, has_length_ = false;
  int at_[4] = {};
};

std::unique_ptr<Kernel> MakeStft(const StepCall& call) {
  return std::make_unique<StftKernel>(call);
}

}  // namespace

KernelList StftKernels() { return {{"STFT", "", "own", RefuseStft, MakeStft}}; }

}  // namespace infer
