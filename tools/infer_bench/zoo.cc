/// infer-bench zoo: writes a standard architecture with seeded random weights.
#include "tools/zoo/zoo.h"

#include <algorithm>

#include "lib/support/strings.h"
#include "tools/common/export_options.h"
#include "tools/infer_bench/commands.h"

namespace infer {
namespace {

class ZooCommand : public Command {
 public:
  std::string_view name() const override { return "zoo"; }
  std::string_view help() const override {
    return "Write a standard architecture with random weights, as exporters write it";
  }
  std::string_view examples() const override {
    return "Examples:\n"
           "  infer-bench zoo                      (lists them)\n"
           "  infer-bench zoo resnet50 -o resnet50.onnx\n"
           "  infer-bench zoo bert-base -o bert.onnx --batch 1 --sequence 128\n"
           "  infer-bench zoo vit-b16 -o vit.onnx --style tf\n";
  }
  void Declare(Options& o) override {
    o.Positional("name", &name_, "The architecture; without it all are listed", false);
    std::vector<std::string> names;
    for (const ZooModel& m : ZooModels()) names.emplace_back(m.name);
    o.Offer(std::move(names));
    o.Value("-o,--output", &output_, "The ONNX file to write", PathUse::kWrite);
    o.Value("--batch", &options_.batch, "Batch; 0: symbolic, where the model allows it");
    o.Value("--resolution", &options_.resolution, "Height and width of images; 0: the model's own");
    o.Value("--sequence", &options_.sequence, "Tokens; 0: the model's own");
    o.Value("--past", &options_.past,
            "Cached tokens of gpt2-small-kv... (0 with -int4: any), length of the caches of "
            "...-gqa-..., tinyllama and qwen2");
    o.Value("--accuracy-level", &options_.accuracy_level,
            "Of ...-int4: 4 lets activations be quantized, too");
    o.Choice("--style", &style_, {kZooStyles.begin(), kZooStyles.end()},
             "Whose spelling: the same network and weights as other exporters write them");
    o.Value("--num-layers", &options_.layers, "Layers of transformers; 0: as published");
    o.Value("--seed", &options_.seed, "Seed of the weights");
  }

  Result<ExitCode> Run(Context& context) override {
    Json report = NewReport(context, "infer-bench/zoo@1");
    report["models"] = Json::array();
    if (name_.empty()) {
      std::vector<std::vector<std::string>> rows = {{"name", "what it is"}};
      for (const ZooModel& m : ZooModels()) {
        rows.push_back({std::string(m.name), std::string(m.doc)});
        report["models"].push_back({{"name", m.name}, {"doc", m.doc}});
      }
      context.Print(TextTable(rows));
    } else {
      if (output_.empty()) return InvalidArgument("-o FILE is missing");
      options_.style = static_cast<ZooStyle>(
          std::find(kZooStyles.begin(), kZooStyles.end(), style_) - kZooStyles.begin());
      INFER_ASSIGN(Model model, MakeZooModel(name_, options_, context.ops()));
      INFER_ASSIGN(const ExportReport written, ExportModel(model, output_));
      context.PrintLine(Cat("wrote ", output_, ": ", model.graph.total_nodes(), " nodes, ",
                            HumanBytes(written.file_bytes + written.external_bytes), ", opset ",
                            written.opset));
      report["models"].push_back({{"name", name_},
                                  {"path", output_},
                                  {"seed", options_.seed},
                                  {"nodes", model.graph.total_nodes()},
                                  {"bytes", written.file_bytes + written.external_bytes},
                                  {"opset", written.opset}});
    }
    INFER_TRY(WriteReport(context, std::move(report)));
    return kExitOk;
  }

 private:
  std::string name_, output_, style_ = kZooStyles.front();
  ZooOptions options_;
};

}  // namespace

std::unique_ptr<Command> MakeZooCommand() { return std::make_unique<ZooCommand>(); }

}  // namespace infer
