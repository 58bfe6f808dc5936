#pragma once
/// A cost table (quant/recipe/cost_table.h) as JSON: what --cost-table reads and reports hold.
#include <string>

#include "quant/recipe/cost_table.h"
#include "tools/common/report.h"

namespace infer {

/// {"schema": "infer-opt/cost-table@1", "name", "runtime": "infer" or "onnxruntime", "sure",
/// "prices": {family: {"launch_us", "mflop_us", "kb_us"}}}: what tools/infer_opt/recipe_costs.py
/// prints for our kernels and tests/judge/ort_costs.py for those of ONNX Runtime. The file's name
/// stands for a name that it lacks, "infer" and 1 for "runtime" and "sure". Io: it cannot be read;
/// InvalidModel: it is none, lacks a family of its runtime, or has a price that is no number of 0
/// or more.
Result<CostTable> ReadCostTable(const std::string& path);
Json ToJson(const CostTable& table);

}  // namespace infer
