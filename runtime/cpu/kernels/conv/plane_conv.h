#pragma once
/// Convolution and transposed convolution of one or two dimensions on plain operands ([N, C, i...]
/// in rows), the points of a row side by side in vectors: for few results, which blocks of 16
/// channels would multiply with padding, for 1x1 windows with a stride, of whose operand most
/// is never read, and for one channel of one dimension, whose many results need not be turned then.
/// Groups have planes of their own and are computed like images. Strips of results: what a strip
/// reads of some channels is copied to where taps are plain offsets (strides apart, zeros around),
/// multiplied, and added up.
#include "runtime/cpu/kernels/common/appended.h"
#include "runtime/cpu/kernels/common/spatial.h"
#include "runtime/cpu/simd/skinny.h"

namespace infer {

class PlaneConv {
 public:
  /// Extents `src` [N, C, i...] and `dst` [N, M, o...]. Unsupported says what does not fit.
  static Result<PlaneConv> Of(const Spatial& s, bool transposed, int64_t groups, const Dims& src,
                              const Dims& dst, const Appended& appended);

  /// `w`: [M, C / groups, k...], transposed [C, M / groups, k...].
  std::shared_ptr<const Buffer> Pack(const Tensor& w) const;
  /// `w` from Pack(), `bias` [M] or nullptr. y holds the residual on entry, if there is one.
  void Run(const float* x, const float* w, const float* bias, float* y) const;
  /// As many results of a group as are computed from one copy of the operand; more only for windows
  /// of one point, and of one channel of one dimension. The few channels of one of several groups
  /// fill no blocks elsewhere.
  static int64_t MostOutputs(int64_t groups) {
    return groups > 1 ? kMostOfGroup : simd::TheSkinny().together;
  }
  const char* isa() const { return loop_->isa; }

 private:
  /// One channel of one dimension.
  bool IsOneLine() const;
  /// The place that tap `k` of an axis reads for results of phase `to`: `shift` beyond the result's
  /// place, in the operand's phase `from`.
  struct Tap {
    int64_t k, from, to, shift;
  };
  /// Results and operands along an axis in steps of the stride: result q of phase `to` is
  /// q * to_step + to - crop, operand q of phase `from` is q * from_step + from.
  struct Axis {
    int64_t kernel = 1, in = 1, out = 1, from_step = 1, to_step = 1, crop = 0;
    std::vector<Tap> taps = {{0, 0, 0, 0}};
    std::vector<int64_t> froms = {0};  ///< phases that some tap reads
    int64_t least = 0, span = 0;       ///< shifts: the least, and from it to the largest
    int64_t first = 0, count = 1;      ///< places q of results
    int64_t size = 1;                  ///< of a strip

    static Axis Of(bool transposed, int64_t kernel, int64_t stride, int64_t dilation, int64_t pad,
                   int64_t in, int64_t out);
    int64_t strips() const { return BlocksOf(count, size); }
    /// Strips of at most `most` places, as equal as can be.
    void Cut(int64_t most) { size = BlocksOf(count, BlocksOf(count, most)); }
    int64_t from_index(int64_t from) const;
    double inside() const;
  };
  /// Results of some phases of rows and columns that read the same: their outputs side by side.
  struct Phases {
    std::vector<std::vector<int64_t>> w_taps;  ///< of each: taps, as places of the kernel
    std::vector<int64_t> x_at;                 ///< of a whole chunk of channels
    int64_t w_at = 0;                          ///< floats from the first weight

    int64_t count() const { return std::ssize(w_taps); }
    int64_t taps() const { return std::ssize(w_taps[0]); }
  };
  struct Strip;

  Status Cut();
  void MakePhases();
  void Gather(const float* x, const Strip& s, int64_t channel, float* to) const;
  void Copy(const float* x, const Strip& s, int64_t first, int64_t channels, float* to) const;
  void Few(const float* x, const float* w, const float* bias, float* y, const Strip& s) const;
  void Many(const float* x, const float* w, const float* bias, float* y, const Strip& s,
            int64_t first_bundle, int64_t end_bundle) const;
  void Deliver(const float* tile, float* y, const Strip& s) const;
  int64_t bundles() const { return BlocksOf(outputs_, loop_->together); }
  /// Where the numbers of an image of one group begin, with so many floats of each group.
  int64_t of_group(int64_t image, int64_t floats) const { return image % groups_ * floats; }

  static constexpr int64_t kMostOfGroup = 32;

  const simd::Skinny* loop_ = nullptr;
  Appended appended_;
  bool transposed_ = false;
  int64_t groups_ = 1;
  int64_t images_ = 1;                ///< of one group each
  int64_t inputs_ = 1, outputs_ = 1;  ///< of a group
  Axis rows_, columns_;
  int64_t pitch_ = 1, plane_ = 1;  ///< of the copy: floats of a row, of one phase of a channel
  int64_t chunk_ = 1;              ///< channels that are copied at once
  bool direct_ = false;            ///< the operand is read where it lies
  bool into_result_ = false;       ///< sums are kept in the result itself
  std::vector<Phases> phases_;
  std::vector<int64_t> place_;  ///< of a phase among those of phases_; by row, then column
};

}  // namespace infer
