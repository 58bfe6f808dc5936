#include "tools/common/report.h"

#include <algorithm>
#include <cmath>

#include "lib/support/file.h"
#include "lib/support/strings.h"
#include "tools/common/host.h"
#include "tools/common/streams.h"
#include "tools/common/version.h"

namespace infer {
namespace {

Json ValuesJson(const std::vector<Value*>& values) {
  Json out = Json::array();
  for (const Value* v : values) out.push_back({{"name", v->name()}, {"type", ToString(v->type())}});
  return out;
}

}  // namespace

Json JsonNumber(double v) {
  if (std::isnan(v)) return "nan";
  if (std::isinf(v)) return v < 0 ? "-inf" : "inf";
  return v;
}

Json HostJson() {
  const HostFacts h = GetHostFacts();
  return {{"cpu", h.cpu_model},
          {"isa", h.isa},
          {"logical_cpus", h.logical_cpus},
          {"usable_cores", h.usable_cores},
          {"memory_bytes", h.memory_bytes},
          {"os", h.os},
          {"compiler", h.compiler},
          {"build_type", h.build_type},
          {"governor", h.governor.empty() ? Json() : Json(h.governor)},
          {"load_1min", h.load_1min}};
}

Json NewReport(const Context& context, std::string_view schema) {
  // An object from the start: where [] makes one of null and memory ends, json 3.11 destroys what
  // is not there.
  Json r = Json::object();
  r["schema"] = schema;
  r["tool"] = {{"name", context.tool()}, {"version", kVersion}};
  r["command"] = context.argv();
  r["host"] = HostJson();
  return r;
}

std::string JsonText(const Json& j, int indent) {
  return j.dump(indent, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string ReportText(const Context& context, Json report) {
  report["warnings"] = context.warnings();
  Json timings = Json::array();
  for (const auto& [step, ms] : context.step_times())
    timings.push_back({{"step", step}, {"ms", ms}});
  report["timings"] = std::move(timings);
  return JsonText(report, 2);
}

Status WriteReport(Context& context, Json report) {
  if (context.json_path.empty()) return {};
  context.Step("");
  const std::string text = ReportText(context, std::move(report));
  if (context.json_path != "-") return WriteFileAtomically(context.json_path, text);
  return WriteStream(stdout, text);
}

Json ToJson(const Summary& s) {
  return {
      {"runs", s.count},       {"median", s.median}, {"median_ci95", {s.median_low, s.median_high}},
      {"mean", s.mean},        {"min", s.min},       {"max", s.max},
      {"stddev", s.stddev},    {"mad", s.mad},       {"cv", s.cv},
      {"outliers", s.outliers}};
}

Json ToJson(const MemoryInfo& m) {
  return {{"arena_bytes", m.arena_bytes},
          {"lower_bound_bytes", m.lower_bound_bytes},
          {"weight_bytes", m.weight_bytes}};
}

Json ToJson(const Cost& c) {
  return {{"flops", c.flops}, {"bytes_read", c.bytes_read}, {"bytes_written", c.bytes_written}};
}

Json ToJson(const Model& m, const std::string& path) {
  const auto opset = m.info.opsets.find("");
  return {{"path", path},
          {"sha256", m.info.sha256},
          {"bytes", m.info.file_bytes},
          {"opset", opset == m.info.opsets.end() ? Json() : Json(opset->second)},
          {"nodes", m.graph.total_nodes()},
          {"inputs", ValuesJson(m.graph.inputs())},
          {"outputs", ValuesJson(m.graph.outputs())}};
}

std::string ShownOperators(std::string_view op) {
  std::vector<std::string> shown = Split(op, '+');
  const size_t all = shown.size();
  std::erase_if(
      shown, [](const std::string& o) { return o == "DequantizeLinear" || o == "QuantizeLinear"; });
  if (shown.empty() || shown.size() == all) return std::string(op);
  return Cat("QDQ ", Join(shown, "+"));
}

}  // namespace infer
