#pragma once
/// What `infer-bench kernels` found, as JSON and as text.
#include <string>

#include "tools/common/report.h"
#include "tools/infer_bench/kernels/kernel_bench.h"

namespace infer::bench {

/// Adds "models", "cases", "roofline" and "coverage". The machine's roofline is measured for
/// times, unless the report is "interrupted": then nobody waits.
void AddKernels(Json& report, const KernelBench& bench);

/// What is wrong, then the cases, those first that take the most of all models' runs; then which
/// kernels of the registry no step has reached. Reads the report alone.
std::string KernelsTable(const Json& report);

/// How many cases are wrong.
int64_t WrongCases(const KernelBench& bench);

}  // namespace infer::bench
