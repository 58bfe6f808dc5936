#pragma once
/// Traits: what is true of an operator in every call. Passes, quantization and backends ask for a
/// trait instead of the operator's name. Each trait is a promise that tests/lib/ops/traits_test.cc
/// checks on the operator's example.
#include <cstdint>

namespace infer {

enum class Trait : uint32_t {
  // Where elements of a result come from.

  /// Result 0 has the elements of input 0 in their order; extents may be others.
  kView = 1u << 0,
  /// Elements of results are elements of inputs of their type, or a constant that fills.
  kMove = 1u << 1,
  /// Every result is a part of input 0, read with a start and a step per axis of its own.
  kStrided = 1u << 2,
  /// An element of result 0 depends on that of input 0 in its place; further inputs hold for all.
  kUnary = 1u << 3,
  /// The same of several inputs, which broadcast.
  kElementwise = 1u << 4,
  /// Axes of input 0 become one number each: sums, extremes, their indices.
  kReduction = 1u << 5,
  /// Result 0 has the extents of input 0; its elements are scaled by statistics of it.
  kNormalization = 1u << 6,
  /// Exponentials of rows along attribute `axis`, as shares of their sum; or the logarithm or the
  /// greatest of them.
  kSoftmax = 1u << 7,
  /// Sums of products of inputs 0 and 1: linear in input 0.
  kContraction = 1u << 8,
  /// Windows of spatial axes become one number each, or come from one.
  kPooling = 1u << 9,
  /// Input 0 is read at positions between elements: resizing, grids, regions.
  kSampling = 1u << 10,
  /// Input 1 holds positions along an axis of input 0, which is read there.
  kLookup = 1u << 11,
  /// Orders, picks or counts elements by their values.
  kSelection = 1u << 12,
  /// A pattern is made from few numbers: ranges, windows, masks.
  kGenerator = 1u << 13,
  /// Result 0 depends on the extents of inputs, not on their elements.
  kShapeMath = 1u << 14,

  // Layers and more than layers.

  /// Rows weighted by scores of queries and keys, and what prepares these.
  kAttention = 1u << 15,
  /// A layer of gates whose state is carried along the steps: RNN, GRU, LSTM.
  kRecurrent = 1u << 16,
  /// A sum, product or state is carried along an axis.
  kScan = 1u << 17,
  /// Several layers as one.
  kBlock = 1u << 18,
  /// A loss of training.
  kLoss = 1u << 19,
  /// A classical model as a whole: trees, support vectors, encoders.
  kModel = 1u << 20,
  /// Transforms of whole axes: Fourier, determinants.
  kSignal = 1u << 21,

  // Values that are no plain numbers, and how the operator runs.

  /// Between numbers and codes with scale and zero point, or computes on codes.
  kQuantization = 1u << 22,
  /// The elements of input 0 as another type, or as codes for them.
  kConversion = 1u << 23,
  /// Makes or reads sequences, optionals, maps.
  kContainer = 1u << 24,
  /// Reads or makes strings, or encoded bytes.
  kText = 1u << 25,
  /// Runs subgraphs.
  kControlFlow = 1u << 26,
  /// Another result in each run.
  kRandom = 1u << 27,

  // Arithmetic: how results depend on the values of operands.

  /// f(s x) = s f(x) of input 0, for every s > 0.
  kHomogeneous = 1u << 28,
  /// Linear in all floating-point inputs together: f(s x, s y) = s f(x, y) for every s.
  kAdditive = 1u << 29,
  /// No element of result 0 is below 0.
  kNonNegative = 1u << 30,
  /// Result 0 may have many more elements than the inputs.
  kEnlarging = 1u << 31,
};

/// A set of traits.
class Traits {
 public:
  constexpr Traits() = default;
  constexpr Traits(Trait t) : bits_(static_cast<uint32_t>(t)) {}  // NOLINT: implicit on purpose
  constexpr Traits operator|(Traits o) const {
    o.bits_ |= bits_;
    return o;
  }
  constexpr bool Has(Trait t) const { return (bits_ & static_cast<uint32_t>(t)) != 0; }
  /// One of `o` holds.
  constexpr bool HasAny(Traits o) const { return (bits_ & o.bits_) != 0; }
  constexpr bool empty() const { return bits_ == 0; }

 private:
  uint32_t bits_ = 0;
};
constexpr Traits operator|(Trait a, Trait b) { return Traits(a) | Traits(b); }

}  // namespace infer
