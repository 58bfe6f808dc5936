#pragma once
/// The work of a route under load, as JSON and as a table.
#include "runtime/engine/engine.h"
#include "tools/common/report.h"

namespace infer::bench {

/// "variants" have `names`, in their order.
Json ToJson(const engine::RouteStats& route, const std::vector<std::string>& names);
std::string RouteTable(const engine::RouteStats& route, const std::vector<std::string>& names);

/// {"count", "p50", ...}: ms of a histogram of nanoseconds.
Json TimesJson(const engine::Histogram& ns);
std::vector<std::string> TimesRow(std::string name, const engine::Histogram& ns);
/// The heads of a table's columns for TimesRow.
std::vector<std::string> TimesHeads(std::string first);
/// Requests by how they ended.
Json EndsJson(const std::array<int64_t, engine::kEnds>& ends);

}  // namespace infer::bench
