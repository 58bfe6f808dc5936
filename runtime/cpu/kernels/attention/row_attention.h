#pragma once
/// Attention of a few queries, as a step of decoding has it: keys and values are read once, where
/// they lie, instead of being packed for a product of many rows.
#include "runtime/cpu/kernels/attention/attention.h"

namespace infer {

class RowAttention {
 public:
  /// nullopt: there are more queries, or keys and values do not lie as floats side by side.
  static std::optional<RowAttention> Of(const Attention& attention);
  int64_t scratch_bytes() const { return a_.leads * lead_floats() * 4; }
  /// The same bits for any number of threads.
  void Run(std::byte* const* args, std::byte* scratch) const;

 private:
  explicit RowAttention(const Attention& attention) : a_(attention) {}
  /// A query, a result, and scores with room for whole vectors.
  int64_t lead_floats() const { return (a_.depth + a_.values + a_.keys + 79) / 16 * 16; }
  void Lead(int64_t lead, std::byte* const* args, float* scratch) const;

  Attention a_;
};

}  // namespace infer
