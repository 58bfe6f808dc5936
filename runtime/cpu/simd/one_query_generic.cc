/// One query's attention for the baseline; compile flags are set in runtime/CMakeLists.txt.
#define INFER_ONE_QUERY_NAME "generic"
#define INFER_ONE_QUERY_TABLE GenericOneQuery
#include "runtime/cpu/simd/one_query.inc"
