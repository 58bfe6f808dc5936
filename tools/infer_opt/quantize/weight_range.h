#pragma once
/// --reduce-range and --full-range: how many bits weights have that are multiplied as codes.
///
/// On x64 without VNNI ONNX Runtime adds products of uint8 and int8 in pairs of 16 bits, which
/// saturate; with weights of 7 bits no such sum can (docs/adr/0051).
#include "tools/common/command.h"
#include "tools/common/report.h"

namespace infer {

struct WeightRangeFlags {
  bool reduce = false, full = false;
  void Declare(Options& o);
  /// InvalidArgument: both.
  Status Check() const;
  /// Whether codes that saturate in ONNX Runtime have 7 bits. `for_ort`: it reads the file.
  bool Reduces(bool for_ort) const { return reduce || (for_ort && !full); }
  /// Whether the file holds such codes in 8 bits, for the report (ort_saturates) and, if so and
  /// unless it is `for_others` than ONNX Runtime, as a note.
  static void TellSaturation(const Context& context, bool saturates, bool for_others, Json& report);
};

}  // namespace infer
