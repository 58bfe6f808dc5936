#pragma once
/// Policies as JSON (docs/schemas/infer-opt-policy.schema.json), and what a search found as JSON
/// and as tables.
#include "quant/search/search.h"
#include "tools/common/report.h"

namespace infer {

/// `model` knows the layers' nodes; layers that the policy does not name are written as f32.
Json PolicyJson(const Policy& policy, const MixedModel& model);
/// InvalidModel: not a policy. Whether the layers exist is asked when it is applied.
Result<Policy> ReadPolicy(const std::string& path);

Json ToJson(const SearchResult& r, const SearchOptions& options);
std::string ToText(const SearchResult& r, const SearchOptions& options);

}  // namespace infer
