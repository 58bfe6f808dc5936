#include "tools/common/drift_file.h"

#include <cmath>
#include <limits>

#include "lib/ir/inference.h"
#include "lib/support/file.h"
#include "lib/support/strings.h"
#include "tools/common/parse_json.h"

namespace infer {
namespace {

using engine::DriftReference;
using engine::DriftRows;
using engine::RowParts;

constexpr const char* kDriftSchema = "infer/drift-reference@1";
constexpr float kInfinity = std::numeric_limits<float>::infinity();

Json FigureJson(float v) {
  if (std::isfinite(v)) return v;
  return v > 0 ? "inf" : "-inf";
}

Result<float> FigureFrom(const Json& j) {
  if (j.is_number()) return j.get<float>();
  if (j == "inf") return kInfinity;
  if (j == "-inf") return -kInfinity;
  return InvalidModel("a figure that is no number");
}

Json TensorJson(const DriftRows& t) {
  Json json = {{"name", t.name}};
  if (!t.parts) return json;
  const RowParts& p = *t.parts;
  json["parts"] = {{"dtype", Name(p.dtype)},
                   {"axis", p.axis},
                   {"channels", p.channels},
                   {"groups", p.groups},
                   {"has_contrast", p.has_contrast}};
  json["rows"] = Json::array();
  for (const auto& row : t.rows) {
    Json figures = Json::array();
    for (const float v : row) figures.push_back(FigureJson(v));
    json["rows"].push_back(std::move(figures));
  }
  return json;
}

Result<int64_t> WholeIn(const Json& parts, const char* key) {
  const auto it = parts.find(key);
  if (it == parts.end() || !it->is_number_integer())
    return InvalidModel(Cat("'", key, "' is no whole number"));
  return it->get<int64_t>();
}

Result<RowParts> PartsFrom(const Json& json) {
  if (!json.is_object()) return InvalidModel("'parts' is no object");
  RowParts parts;
  const auto dtype = json.find("dtype");
  const auto known = dtype != json.end() && dtype->is_string()
                         ? ParseDType(dtype->get<std::string>())
                         : std::nullopt;
  if (!known) return InvalidModel("'dtype' is no type of elements");
  parts.dtype = *known;
  INFER_ASSIGN(const int64_t axis, WholeIn(json, "axis"));
  if (axis < -1 || axis >= kMaxRank) return InvalidModel(Cat("axis ", axis));
  parts.axis = static_cast<int>(axis);
  INFER_ASSIGN(parts.channels, WholeIn(json, "channels"));
  INFER_ASSIGN(parts.groups, WholeIn(json, "groups"));
  const auto contrast = json.find("has_contrast");
  if (contrast == json.end() || !contrast->is_boolean())
    return InvalidModel("'has_contrast' is neither true nor false");
  parts.has_contrast = contrast->get<bool>();
  return parts;
}

Status ReadRows(const Json& json, std::deque<std::vector<float>>& rows) {
  if (!json.is_array()) return InvalidModel("'rows' is no list");
  for (const Json& row : json) {
    if (!row.is_array()) return InvalidModel("a row is no list");
    auto& figures = rows.emplace_back();
    for (const Json& v : row) {
      INFER_ASSIGN(figures.emplace_back(), FigureFrom(v));
    }
  }
  return {};
}

Result<DriftRows> TensorFrom(const Json& json) {
  DriftRows t;
  const auto name = json.is_object() ? json.find("name") : json.end();
  if (name == json.end() || !name->is_string()) return InvalidModel("a tensor has no name");
  t.name = name->get<std::string>();
  const auto parts = json.find("parts"), rows = json.find("rows");
  if (parts == json.end()) return t;
  INFER_ASSIGN(t.parts, PartsFrom(*parts));
  if (rows != json.end()) INFER_TRY(ReadRows(*rows, t.rows));
  return t;
}

Result<DriftReference> ReferenceFrom(const Json& json) {
  if (!json.is_object() || json.value("schema", Json()) != kDriftSchema ||
      !json.contains("tensors") || !json["tensors"].is_array())
    return InvalidModel(Cat("no drift reference (", kDriftSchema, ")"));
  std::vector<DriftRows> tensors;
  for (const Json& j : json["tensors"]) {
    INFER_ASSIGN(tensors.emplace_back(), TensorFrom(j));
  }
  auto made = DriftReference::Of(std::move(tensors));
  if (!made.ok()) return InvalidModel(made.status().message());
  return made;
}

}  // namespace

bool IsDriftFile(const std::string& path) { return path.ends_with(".json"); }

Status WriteDriftReference(const DriftReference& reference, const std::string& path) {
  Json tensors = Json::array();
  for (const DriftRows& t : reference.tensors()) tensors.push_back(TensorJson(t));
  return WriteFileAtomically(
      path, JsonText({{"schema", kDriftSchema}, {"tensors", std::move(tensors)}}, -1));
}

Result<DriftReference> ReadDriftReference(const std::string& path) {
  INFER_ASSIGN(const std::string text, ReadFile(path));
  auto json = ParseJson(text);
  if (!json.ok()) return InvalidModel(Cat(path, ": ", json.status().message()));
  auto reference = ReferenceFrom(*json);
  if (!reference.ok()) return Status(reference.status()).In(path);
  return reference;
}

}  // namespace infer
