#include "tools/infer_bench/tune/variants.h"

#include <algorithm>
#include <filesystem>

#include "lib/support/file.h"
#include "lib/support/strings.h"
#include "tools/common/parse_json.h"

namespace infer::bench {
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
  for (const char* name : {"path", "quantization", "sha256", "model_sha256"})
    if (!j.is_object() || !is_text(name)) return false;
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

}  // namespace

Result<std::vector<VariantFile>> ReadVariants(const std::string& path, const std::string& model) {
  INFER_ASSIGN(const std::string text, ReadFile(path, kMostBytes));
  const auto list = ParseJson(text);
  const bool whole =
      list.ok() && list->is_array() && std::all_of(list->begin(), list->end(), IsVariant);
  if (!whole) return InvalidModel(Cat(path, ": no variants.json of `infer-opt sweep`"));
  const auto golden = std::find_if(list->begin(), list->end(), IsAsItCame);
  if (golden == list->end())
    return InvalidModel(Cat(path, ": no variant is the model as it came (quantization \"none\")"));
  INFER_TRY(CheckIs(model, {golden->at("model_sha256"), golden->at("sha256")},
                    "not the model whose variants are listed"));
  const std::optional<double> whole_score = ScoreOf(*golden);
  std::vector<VariantFile> out;
  for (const Json& variant : *list) {
    if (IsAsItCame(variant)) continue;
    VariantFile file{.path = FileOf(path, variant.at("path").get<std::string>()),
                     .accuracy_loss = {}};
    INFER_TRY(CheckIs(file.path, {variant.at("sha256")}, "not the file that was measured"));
    if (const auto score = ScoreOf(variant); score && whole_score)
      file.accuracy_loss = *whole_score - *score;
    out.push_back(std::move(file));
  }
  return out;
}

}  // namespace infer::bench
