#pragma once
/// What an operator is, whatever the call: the questions that passes, quantization and backends ask
/// of operators without naming them. Each trait is a promise that tests/lib/ops/traits_test.cc
/// checks on the operator's example.
#include <cstdint>

namespace infer {

enum class Trait : uint32_t {
  kView = 1u << 0,  ///< result 0 has the elements of input 0 in their order; extents may be others
  kMove =
      1u
      << 1,  ///< elements of results are elements of inputs of their type, or a constant that fills
  kUnary = 1u << 2,  ///< an element of result 0 depends on that of input 0 in its place; further
                     ///< inputs hold for all
  kElementwise = 1u << 3,  ///< the same of several inputs, which broadcast
  kReduction = 1u << 4,  ///< axes of input 0 become one number each: sums, extremes, their indices
  kNormalization =
      1u
      << 5,  ///< result 0 has the extents of input 0; its elements are scaled by statistics of it
  kContraction = 1u << 6,  ///< sums of products of inputs 0 and 1: linear in input 0
  kPooling = 1u << 7,      ///< windows of spatial axes become one number each, or come from one
  kAttention = 1u << 8,    ///< rows weighted by scores of queries and keys, and what prepares these
  kRecurrent = 1u << 9,    ///< a state is carried along an axis
  kQuantization =
      1u << 10,  ///< between numbers and codes with scale and zero point, or computes on codes
  kShapeMath = 1u << 11,  ///< result 0 depends on the extents of inputs, not on their elements
  kGenerator = 1u << 12,  ///< a pattern is made from few numbers: ranges, windows, masks
  kSampling =
      1u << 13,  ///< input 0 is read at positions between elements: resizing, grids, regions
  kSelection = 1u << 14,    ///< orders, picks or counts elements by their values
  kControlFlow = 1u << 15,  ///< runs subgraphs
  kRandom = 1u << 16,       ///< another result in each run
  kContainer = 1u << 17,    ///< makes or reads sequences, optionals, maps
  kText = 1u << 18,         ///< reads or makes strings, or encoded bytes
  kModel = 1u << 19,        ///< a classical model as a whole: trees, support vectors, encoders
  kSignal = 1u << 20,       ///< transforms of whole axes: Fourier, determinants
  kLoss = 1u << 21,         ///< of training
  kBlock = 1u << 22,        ///< several layers as one
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
