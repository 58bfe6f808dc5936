#pragma once
/// Traits: what is true of an operator in every call. Passes, quantization and backends ask for a
/// trait instead of the operator's name. Each trait is a promise that tests/lib/ops/traits_test.cc
/// checks on the operator's example.
#include <cstdint>

namespace infer {

enum class Trait : uint64_t {
  // Where elements of a result come from.

  /// Result 0 has the elements of input 0 in their order; extents may be others.
  kView = uint64_t{1} << 0,
  /// Elements of results are elements of inputs of their type, or a constant that fills.
  kMove = uint64_t{1} << 1,
  /// Every result is a part of input 0, read with a start and a step per axis of its own.
  kStrided = uint64_t{1} << 2,
  /// An element of result 0 depends on that of input 0 in its place; further inputs hold for all.
  kUnary = uint64_t{1} << 3,
  /// The same of several inputs, which broadcast.
  kElementwise = uint64_t{1} << 4,
  /// Axes of input 0 become one number each: sums, extremes, their indices.
  kReduction = uint64_t{1} << 5,
  /// Result 0 has the extents of input 0; its elements are scaled by statistics of it.
  kNormalization = uint64_t{1} << 6,
  /// Exponentials of rows along attribute `axis`, as shares of their sum; or the logarithm or the
  /// greatest of them.
  kSoftmax = uint64_t{1} << 7,
  /// Sums of products of inputs 0 and 1: linear in input 0.
  kContraction = uint64_t{1} << 8,
  /// Windows of spatial axes become one number each, or come from one.
  kPooling = uint64_t{1} << 9,
  /// Input 0 is read at positions between elements: resizing, grids, regions.
  kSampling = uint64_t{1} << 10,
  /// Input 1 holds positions along an axis of input 0, which is read there.
  kLookup = uint64_t{1} << 11,
  /// Orders, picks or counts elements by their values.
  kSelection = uint64_t{1} << 12,
  /// A pattern is made from few numbers: ranges, windows, masks.
  kGenerator = uint64_t{1} << 13,
  /// Result 0 depends on the extents of inputs, not on their elements.
  kShapeMath = uint64_t{1} << 14,

  // Layers and more than layers.

  /// Rows weighted by scores of queries and keys, and what prepares these.
  kAttention = uint64_t{1} << 15,
  /// A layer of gates whose state is carried along the steps: RNN, GRU, LSTM.
  kRecurrent = uint64_t{1} << 16,
  /// A sum, product or state is carried along an axis.
  kScan = uint64_t{1} << 17,
  /// Several layers as one.
  kBlock = uint64_t{1} << 18,
  /// A loss of training.
  kLoss = uint64_t{1} << 19,
  /// A classical model as a whole: trees, support vectors, encoders.
  kModel = uint64_t{1} << 20,
  /// Transforms of whole axes: Fourier, determinants.
  kSignal = uint64_t{1} << 21,

  // Values that are no plain numbers, and how the operator runs.

  /// Between numbers and codes with scale and zero point, or computes on codes.
  kQuantization = uint64_t{1} << 22,
  /// The elements of input 0 as another type, or as codes for them.
  kConversion = uint64_t{1} << 23,
  /// Makes or reads sequences, optionals, maps.
  kContainer = uint64_t{1} << 24,
  /// Reads or makes strings, or encoded bytes.
  kText = uint64_t{1} << 25,
  /// Runs subgraphs.
  kControlFlow = uint64_t{1} << 26,
  /// Another result in each run.
  kRandom = uint64_t{1} << 27,

  // Arithmetic: how results depend on the values of operands.

  /// f(s x) = s f(x) of input 0, for every s > 0.
  kHomogeneous = uint64_t{1} << 28,
  /// Linear in all floating-point inputs together: f(s x, s y) = s f(x, y) for every s.
  kAdditive = uint64_t{1} << 29,
  /// No element of result 0 is below 0.
  kNonNegative = uint64_t{1} << 30,
  /// Result 0 may have many more elements than the inputs.
  kEnlarging = uint64_t{1} << 31,

  // Roles: what a call does to operands of fixed positions. Where they are asked for, the positions
  // are relied on.

  /// Result 0 is input 0 + input 1, element by element; both broadcast.
  kSum = uint64_t{1} << 32,
  /// Result 0 is input 0 * input 1, element by element; both broadcast.
  kProduct = uint64_t{1} << 33,
  /// Result 0 is input 0 with its axes in the order of attribute `perm`; without it, reversed.
  kPermutation = uint64_t{1} << 34,
  /// Result 0 is the inputs one behind the other along attribute `axis`.
  kConcatenation = uint64_t{1} << 35,
  /// Result 0 is whole slices of input 0 along attribute `axis`, one for each index in input 1.
  kSliceLookup = uint64_t{1} << 36,
  /// Result 0 is the code of input 0 by scale input 1 and zero point input 2, which may be absent:
  /// x / scale + zero point, rounded and saturated.
  kQuantize = uint64_t{1} << 37,
  /// Result 0 is the number that code input 0 stands for by scale input 1 and zero point input 2,
  /// which may be absent: (x - zero point) * scale.
  kDequantize = uint64_t{1} << 38,
  /// Rows of input 0, all axes from attribute `axis` on, are normalized by statistics of their own,
  /// then multiplied by input 1; input 2, which may be absent, is added.
  kRowNormalization = uint64_t{1} << 39,
};

/// A set of traits.
class Traits {
 public:
  constexpr Traits() = default;
  constexpr Traits(Trait t) : bits_(static_cast<uint64_t>(t)) {}  // NOLINT: implicit on purpose
  constexpr Traits operator|(Traits o) const {
    o.bits_ |= bits_;
    return o;
  }
  constexpr bool Has(Trait t) const { return (bits_ & static_cast<uint64_t>(t)) != 0; }
  /// One of `o` holds.
  constexpr bool HasAny(Traits o) const { return (bits_ & o.bits_) != 0; }
  constexpr bool empty() const { return bits_ == 0; }

 private:
  uint64_t bits_ = 0;
};
constexpr Traits operator|(Trait a, Trait b) { return Traits(a) | Traits(b); }

}  // namespace infer
