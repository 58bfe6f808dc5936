#include "tools/infer_opt/quantize/weight_range.h"

namespace infer {

void WeightRangeFlags::Declare(Options& o) {
  o.Flag("--reduce-range", &reduce,
         "7-bit weights, for processors without VNNI; with --target ort the default of layers "
         "whose sums saturate there");
  o.Flag("--full-range", &full,
         "8-bit weights with --target ort, too: for processors with VNNI alone");
}

Status WeightRangeFlags::Check() const {
  if (!reduce || !full) return {};
  return InvalidArgument("--reduce-range and --full-range contradict each other");
}

void WeightRangeFlags::TellSaturation(const Context& context, bool saturates, bool for_others,
                                      Json& report) {
  report["ort_saturates"] = saturates;
  if (!saturates || for_others) return;
  context.Note(
      "on processors without VNNI, sums of ONNX Runtime saturate with these weights and it gives "
      "other results: --target ort (or --reduce-range) makes a file for all processors");
}

}  // namespace infer
