/// Reductions whose value no number of the type has.
#include "tests/lib/ops/graph_values.h"

namespace infer {
namespace {

TEST(Reduce, LogarithmOfNoPositiveSumIsTheLowestInteger) {
  CheckValues(
      {{"x = const i64[2] {0, 0} y = ReduceLogSum(x) {keepdims=0}", "i64[] {-9223372036854775808}"},
       {"x = const i64[2] {-1, 0} y = ReduceLogSum(x) {keepdims=0}",
        "i64[] {-9223372036854775808}"},
       {"x = const i64[2] {1, 2} y = ReduceLogSum(x) {keepdims=0}", "i64[] {1}"}});
}

TEST(Reduce, IntegersAtTheEndsOfTheirType) {
  CheckValues({{"x = const i64[2] {9223372036854775807, 9223372036854775807} "
                "y = ReduceLogSumExp(x) {keepdims=0}",
                "i64[] {9223372036854775807}"},
               {"x = const i64[2] {9223372036854775807, -9223372036854775808} "
                "y = ReduceLogSumExp(x) {keepdims=0}",
                "i64[] {9223372036854775807}"},
               {"x = const i64[1] {-9223372036854775808} y = ReduceL1(x) {keepdims=0}",
                "i64[] {-9223372036854775808}"},
               {"x = const i64[1] {3037000500} y = ReduceL2(x) {keepdims=0}",
                "i64[] {-9223372036854775808}"}});
}

}  // namespace
}  // namespace infer
