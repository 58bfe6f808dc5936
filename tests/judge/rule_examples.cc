/// rule_examples FOLDER: the examples that each fusion rule fires on, in f32 and with other element
/// types in its place, as FOLDER/RULE.NUMBER.TYPE.onnx, at opset 13 where that expresses it, for
/// which ONNX Runtime has fewer kernels than for later ones. What a type does not allow is left
/// out.
#include <cstdio>
#include <filesystem>

#include "lib/ir/text.h"
#include "lib/onnx/export.h"
#include "lib/ops/registry.h"
#include "lib/support/strings.h"
#include "passes/pass/pipeline.h"

namespace {

using namespace infer;

/// `text` with element type `type` wherever f32 stands as a word of its own.
std::string WithType(std::string text, std::string_view type) {
  constexpr std::string_view kF32 = "f32";
  for (size_t at = 0; (at = text.find(kF32, at)) != std::string::npos; at += type.size())
    text.replace(at, kF32.size(), type);
  return text;
}

/// The opsets to write examples of `type` at; 0: the default.
std::vector<int> OpsetsFor(std::string_view type) {
  return type == "f32" || type == "f16" ? std::vector<int>{0} : std::vector<int>{0, 13};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  constexpr std::string_view kTypes[] = {"f32", "f64", "f16", "i64", "i32", "u8"};
  const OpRegistry ops = AllOps();
  int written = 0;
  for (const ListedRule& listed : AllRules()) {
    if (listed.ort_only) continue;  // what they read and write is ONNX Runtime's by name
    int number = 0;
    for (const std::string& text : listed.rule.fires_on) {
      ++number;
      for (const std::string_view type : kTypes) {
        Result<Graph> g = ParseGraph(WithType(text, type), ops);
        if (!g.ok()) continue;
        const Model model(*std::move(g));
        for (const int opset : OpsetsFor(type)) {
          const std::string name = Cat(listed.rule.name, ".", number, ".", type, ".",
                                       opset ? Cat(opset) : "new", ".onnx");
          const std::string path = (std::filesystem::path(argv[1]) / name).string();
          if (ExportModel(model, path, {.opset = opset}).ok()) ++written;
        }
      }
    }
  }
  std::printf("%d files\n", written);
  return written > 0 ? 0 : 1;
}
