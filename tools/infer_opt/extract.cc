/// infer-opt extract: a part of a model, between values, as a model of its own.
#include "lib/support/strings.h"
#include "tools/infer_opt/commands.h"
#include "tools/infer_opt/surgery/surgery.h"

namespace infer {
namespace {

class ExtractCommand : public Command {
 public:
  std::string_view name() const override { return "extract"; }
  std::string_view help() const override {
    return "Cut a part out of a model, from values to values";
  }
  std::string_view examples() const override {
    return "Examples:\n"
           "  infer-opt extract model.onnx -o head.onnx --from /backbone/out --to scores,boxes\n"
           "  infer-opt extract model.onnx -o backbone.onnx --to /backbone/out\n"
           "  infer-opt extract model.onnx -o tail.onnx --from /backbone/out\n";
  }
  void Declare(Options& o) override {
    surgery_.Declare(o);
    o.Section("The part");
    o.Texts("--from VALUES", &from_,
            "Values that become the inputs (a,b or given several times); default: the inputs that "
            "--to needs");
    o.Texts("--to VALUES", &to_, "Values that become the outputs; default: all outputs");
  }

  Result<ExitCode> Run(Context& context) override {
    INFER_TRY(surgery_.Check(context));
    if (from_.empty() && to_.empty())
      return InvalidArgument("the part has no end: --from VALUES, --to VALUES or both");
    context.Step("read");
    INFER_ASSIGN(ModelFile file, surgery_.Load(context));
    const std::vector<std::string> known = file.ValueNames();
    const std::vector<std::string> from = NamesIn(from_, known), to = NamesIn(to_, known);
    Status why;
    std::map<std::string, ValueType> types;
    if (LacksTypes(file, from) || LacksTypes(file, to)) types = surgery_.Types(context, &why);
    context.Step("extract");
    INFER_ASSIGN(const Extracted done, file.Extract(from, to, types));
    for (const std::string& name : done.unread)
      context.Warn(Cat("input '", name, "' is read by nothing that leads to the outputs"));
    for (const std::string& name : done.untyped)
      context.Warn(Cat("the type of '", name, "' is not known", why.ok() ? "" : ": ",
                       why.ok() ? "" : why.message()));
    context.Step("check");
    INFER_ASSIGN(const auto read_back, surgery_.ReadBack(context, file));
    context.PrintLine(Cat("nodes   ", done.nodes_before, " -> ", done.nodes));
    context.Step("write");
    Json report = NewReport(context, "infer-opt/extract@1");
    report["input"] = surgery_.path;
    report["nodes_before"] = done.nodes_before;
    report["unread"] = done.unread;
    report["untyped"] = done.untyped;
    INFER_TRY(surgery_.Write(context, file, read_back, report));
    INFER_TRY(WriteReport(context, std::move(report)));
    return kExitOk;
  }

 private:
  static bool LacksTypes(const ModelFile& file, const std::vector<std::string>& names) {
    for (const std::string& name : names)
      if (!file.KnowsType(name)) return true;
    return false;
  }

  Surgery surgery_;
  std::vector<std::string> from_, to_;
};

}  // namespace

std::unique_ptr<Command> MakeExtractCommand() { return std::make_unique<ExtractCommand>(); }

}  // namespace infer
