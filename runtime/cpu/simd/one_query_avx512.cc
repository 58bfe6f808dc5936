/// One query's attention for AVX-512; compile flags are set in runtime/CMakeLists.txt.
#define INFER_ONE_QUERY_NAME "avx512"
#define INFER_ONE_QUERY_TABLE Avx512OneQuery
#include "runtime/cpu/simd/one_query.inc"
