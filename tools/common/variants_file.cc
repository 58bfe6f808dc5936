#include "tools/common/variants_file.h"

#include <algorithm>
#include <filesystem>

#include "lib/support/file.h"
#include "lib/support/strings.h"
#include "tools/common/parse_json.h"

namespace infer {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMostBytes = uint64_t{1} << 24;

std::string FileOf(const std::string& list, const std::string& path) {
  const fs::path beside = fs::path(list).parent_path() / fs::path(path).filename();
  std::error_code ignored;
  return fs::exists(beside, ignored) ? beside.string() : path;
}

/// Accuracy on labelled data. Nothing: nobody measured it; a cosine of outputs is none.
std::optional<double> ScoreOf(const Json& variant) {
  const auto score = variant.find("accuracy_score"), metric = variant.find("accuracy_metric");
  if (score == variant.end() || !score->is_number()) return std::nullopt;
  if (metric == variant.end() || *metric != "top-1") return std::nullopt;
  return score->get<double>();
}

bool IsVariant(const Json& j) {
  const auto is_text = [&](const char* name) { return j.contains(name) && j.at(name).is_string(); };
  for (const char* name : {"id", "path", "quantization", "sha256", "model_sha256"})
    if (!j.is_object() || !is_text(name)) return false;
  if (j.contains("device") && !is_text("device")) return false;
  if (!j.contains("latency_ms") || !j.at("latency_ms").is_number()) return false;
  const std::optional<double> score = ScoreOf(j);
  return !score || (*score >= 0 && *score <= 1);
}

/// What was measured is of the bytes with one of these digests.
Status CheckIs(const std::string& path, std::initializer_list<Json> digests, const char* what) {
  INFER_ASSIGN(const auto file, InputFile::Open(path));
  INFER_ASSIGN(const Json found, Sha256Of(*file));
  const bool known = std::find(digests.begin(), digests.end(), found) != digests.end();
  return known ? Status() : InvalidModel(Cat(path, ": ", what));
}

bool IsAsItCame(const Json& variant) { return variant.at("quantization") == "none"; }

/// The whole list, and where in it the model as it came is.
Result<std::pair<Json, size_t>> ReadList(const std::string& path) {
  INFER_ASSIGN(const std::string text, ReadFile(path, kMostBytes));
  auto list = ParseJson(text);
  const bool whole =
      list.ok() && list->is_array() && std::all_of(list->begin(), list->end(), IsVariant);
  if (!whole) return InvalidModel(Cat(path, ": no variants.json of `infer-opt sweep`"));
  const auto golden = std::find_if(list->begin(), list->end(), IsAsItCame);
  if (golden == list->end())
    return InvalidModel(Cat(path, ": no variant is the model as it came (quantization \"none\")"));
  const auto at = static_cast<size_t>(golden - list->begin());
  return std::pair(*std::move(list), at);
}

Result<VariantFile> FileFrom(const std::string& list, const Json& variant, const Json& golden) {
  VariantFile file{.id = variant.at("id").get<std::string>(),
                   .path = FileOf(list, variant.at("path").get<std::string>()),
                   .as_it_came = IsAsItCame(variant),
                   .accuracy = ScoreOf(variant),
                   .latency_ms = variant.at("latency_ms").get<double>()};
  if (variant.contains("device")) file.device = variant.at("device").get<std::string>();
  INFER_TRY(CheckIs(file.path, {variant.at("sha256")}, "not the file that was measured"));
  if (const auto whole = ScoreOf(golden); file.accuracy && whole)
    file.accuracy_loss = *whole - *file.accuracy;
  return file;
}

}  // namespace

Result<std::vector<VariantFile>> ReadVariants(const std::string& path) {
  INFER_ASSIGN(const auto read, ReadList(path));
  const auto& [list, golden] = read;
  std::vector<VariantFile> out;
  for (const Json& variant : list) {
    INFER_ASSIGN(VariantFile file, FileFrom(path, variant, list[golden]));
    out.push_back(std::move(file));
  }
  return out;
}

Result<std::vector<VariantFile>> ReadVariantsOf(const std::string& path, const std::string& model) {
  INFER_ASSIGN(const auto read, ReadList(path));
  const auto& [list, golden] = read;
  INFER_TRY(CheckIs(model, {list[golden].at("model_sha256"), list[golden].at("sha256")},
                    "not the model whose variants are listed"));
  std::vector<VariantFile> out;
  for (const Json& variant : list) {
    if (IsAsItCame(variant)) continue;
    INFER_ASSIGN(VariantFile file, FileFrom(path, variant, list[golden]));
    out.push_back(std::move(file));
  }
  return out;
}

}  // namespace infer
