#include "tools/infer_opt/quantize/cost_table_file.h"

#include <cmath>

#include "lib/support/file.h"
#include "lib/support/strings.h"

namespace infer {
namespace {

constexpr const char* kCostSchema = "infer-opt/cost-table@1";
constexpr double kMostPrice = 1e9;
constexpr std::string_view kOurs = "infer", kOnnxRuntime = "onnxruntime";

Result<double> PriceIn(const Json& family, const char* column) {
  const auto it = family.find(column);
  const double price = it != family.end() && it->is_number() ? it->get<double>() : std::nan("");
  if (!(price >= 0 && price <= kMostPrice))
    return InvalidModel(Cat("'", column, "' is no price of 0 or more"));
  return price;
}

Result<StepPrice> PricesOf(const Json& family) {
  if (!family.is_object()) return InvalidModel("its prices are missing");
  StepPrice p;
  INFER_ASSIGN(p.launch_us, PriceIn(family, "launch_us"));
  INFER_ASSIGN(p.mflop_us, PriceIn(family, "mflop_us"));
  INFER_ASSIGN(p.kb_us, PriceIn(family, "kb_us"));
  return p;
}

/// Whose kernels they are, and what they may be off by.
Status ReadHead(const Json& json, CostTable& table) {
  if (const auto it = json.find("name"); it != json.end() && it->is_string())
    table.name = it->get<std::string>();
  const Json runtime = json.value("runtime", Json(kOurs)), sure = json.value("sure", Json(1));
  if (runtime != kOurs && runtime != kOnnxRuntime)
    return InvalidModel(Cat("'runtime' is neither ", kOurs, " nor ", kOnnxRuntime));
  table.runtime = runtime == kOurs ? CostsOf::kOurs : CostsOf::kOnnxRuntime;
  table.sure = sure.is_number() ? sure.get<double>() : 0;
  return table.sure > 0 && table.sure <= 1
             ? Status()
             : InvalidModel("'sure' is no number above 0 and up to 1");
}

}  // namespace

Result<CostTable> ReadCostTable(const std::string& path) {
  INFER_ASSIGN(const std::string text, ReadFile(path));
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || json.value("schema", Json()) != kCostSchema ||
      !json.contains("prices") || !json["prices"].is_object())
    return InvalidModel(Cat(path, ": no cost table (", kCostSchema, ")"));
  CostTable table{path, {}};
  INFER_TRY(ReadHead(json, table).In(path));
  const Json& prices = json["prices"];
  for (const std::string_view family : CostFamilies(table.runtime)) {
    const auto it = prices.find(std::string(family));
    auto price = PricesOf(it == prices.end() ? Json() : *it);
    if (!price.ok()) return Status(price.status()).In(Cat(path, ": family '", family, "'"));
    table.prices.emplace(family, *price);
  }
  return table;
}

Json ToJson(const CostTable& table) {
  Json prices = Json::object();
  for (const auto& [family, p] : table.prices)
    prices[family] = {{"launch_us", p.launch_us}, {"mflop_us", p.mflop_us}, {"kb_us", p.kb_us}};
  return {{"schema", kCostSchema},
          {"name", table.name},
          {"runtime", table.runtime == CostsOf::kOurs ? kOurs : kOnnxRuntime},
          {"sure", table.sure},
          {"prices", std::move(prices)}};
}

}  // namespace infer
