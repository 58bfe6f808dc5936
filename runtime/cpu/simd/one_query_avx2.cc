/// One query's attention for AVX2; compile flags are set in runtime/CMakeLists.txt.
#define INFER_ONE_QUERY_NAME "avx2"
#define INFER_ONE_QUERY_TABLE Avx2OneQuery
#include "runtime/cpu/simd/one_query.inc"
