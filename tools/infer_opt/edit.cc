/// infer-opt edit: names, shapes, versions and metadata of a model, all else as it is.
#include <optional>

#include "lib/support/strings.h"
#include "tools/infer_opt/commands.h"
#include "tools/infer_opt/surgery/surgery.h"

namespace infer {
namespace {

class EditCommand : public Command {
 public:
  std::string_view name() const override { return "edit"; }
  std::string_view help() const override {
    return "Change names, input shapes, opset, metadata and where the weights lie";
  }
  std::string_view examples() const override {
    return "Examples:\n"
           "  infer-opt edit model.onnx -o named.onnx --rename input.1=image --rename 495=scores\n"
           "  infer-opt edit model.onnx -o fixed.onnx --set-shape image=1,3,224,224\n"
           "  infer-opt edit model.onnx -o open.onnx --set-shape image=batch,3,224,224\n"
           "  infer-opt edit model.onnx -o new.onnx --opset 17 --metadata author=me\n"
           "  infer-opt edit model.onnx -o split.onnx --external-data\n";
  }
  void Declare(Options& o) override {
    surgery_.Declare(o);
    o.Section("Names");
    o.Texts("--rename OLD=NEW,...", &renames_,
            "Rename a value: an input, an output or an inner one");
    o.Texts("--rename-node OLD=NEW,...", &node_renames_,
            "Rename a node; one without a name is called by its first output");
    o.Section("Shapes");
    o.Texts("--set-shape NAME=D,D,...", &shapes_,
            "Declare the shape of an input: per axis a number, a name of an open dimension, or ?; "
            "NAME=scalar: no axes");
    o.Values("--set NAME=N", &set_, "Give a symbolic dimension a number, in all inputs");
    o.Section("Versions and metadata");
    o.Value("--opset", &opset_,
            "Write the operators in the form of this opset; 0: leave every node as it is");
    o.Value("--ir-version", &ir_version_, "IR version of the file; 0: as it came");
    o.Texts("--metadata KEY=VALUE", &metadata_,
            "Set an entry of the model's metadata; KEY= removes it");
  }

  Result<ExitCode> Run(Context& context) override {
    INFER_TRY(surgery_.Check(context));
    INFER_TRY(CheckOpset(opset_).In("--opset"));
    context.Step("read");
    INFER_ASSIGN(ModelFile file, surgery_.Load(context));
    context.Step("edit");
    Json report = NewReport(context, "infer-opt/edit@1");
    report["input"] = surgery_.path;
    report["changes"] = Json::array();
    changes_ = &report["changes"];
    if (opset_ > 0) INFER_TRY(ConvertOpset(context, file));
    INFER_TRY(SetShapes(context, file));
    INFER_TRY(Rename(context, file));
    INFER_TRY(SetRest(context, file));
    context.Step("check");
    INFER_ASSIGN(auto read_back, surgery_.ReadBack(context, file));
    if (has_new_shapes()) INFER_TRY(DeclareShapes(context, file, read_back));
    context.Step("write");
    INFER_TRY(surgery_.Write(context, file, read_back, report));
    INFER_TRY(WriteReport(context, std::move(report)));
    return kExitOk;
  }

 private:
  bool has_new_shapes() const { return !shapes_.empty() || !set_.empty(); }

  void Tell(Context& context, const char* what, const std::string& from, const std::string& to) {
    context.PrintLine(Cat(what, "  ", from, from.empty() ? "" : " -> ", to));
    changes_->push_back({{"what", what}, {"from", from}, {"to", to}});
  }

  /// The only change that needs to know the operators.
  Status ConvertOpset(Context& context, ModelFile& file) {
    const auto versions = file.opsets();
    const auto it = versions.find("");
    const int64_t before = it == versions.end() ? 0 : it->second;
    if (before == opset_) return {};
    INFER_ASSIGN(const Model model, surgery_.Import(context));
    if (surgery_.lenient)
      for (const std::string& w : model.info.warnings) context.Warn(w);
    ExportOptions options;
    options.opset = opset_;
    options.target = ExportTarget::kPlain;
    INFER_ASSIGN(const ExportReport plan, PlanExport(model, options));
    INFER_ASSIGN(file, ModelFile::Of(model, options));
    for (const auto& [op, count] : plan.decomposed)
      context.Note(Cat("opset ", opset_, " has no ", op, ": ", count, " written as other nodes"));
    Tell(context, "opset", Cat(before), Cat(opset_));
    return {};
  }

  Status SetShapes(Context& context, ModelFile& file) {
    for (const std::string& text : set_) {
      const size_t at = text.rfind('=');
      const auto extent = at == std::string::npos ? std::nullopt : ParseInt(text.substr(at + 1));
      if (!extent || *extent < 0 || at == 0)
        return InvalidArgument(Cat("--set ", text, ": write NAME=N"));
      INFER_TRY(file.SetSymbol(text.substr(0, at), *extent).In(Cat("--set ", text)));
      Tell(context, "dimension", text.substr(0, at), Cat(*extent));
    }
    for (const std::string& text : shapes_) {
      const size_t at = text.rfind('=');
      if (at == std::string::npos || at == 0 || at + 1 == text.size())
        return InvalidArgument(Cat("--set-shape ", text, ": write NAME=1,3,224,224"));
      const std::string dims = text.substr(at + 1);
      const auto list = dims == "scalar" ? std::vector<std::string>() : Split(dims, ',');
      INFER_TRY(file.SetInputShape(text.substr(0, at), list).In(Cat("--set-shape ", text)));
      Tell(context, "shape", text.substr(0, at), Cat("[", Join(list, ","), "]"));
    }
    return {};
  }

  Status Rename(Context& context, ModelFile& file) {
    // Nodes first, since one without a name is called by a value.
    INFER_ASSIGN(const auto nodes, RenamesIn(node_renames_, file.NodeNames(), "--rename-node"));
    INFER_TRY(file.RenameNodes(nodes).In("--rename-node"));
    for (const auto& [from, to] : nodes) Tell(context, "node", from, to);
    INFER_ASSIGN(const auto values, RenamesIn(renames_, file.ValueNames(), "--rename"));
    INFER_TRY(file.RenameValues(values).In("--rename"));
    for (const auto& [from, to] : values) Tell(context, "value", from, to);
    return {};
  }

  Status SetRest(Context& context, ModelFile& file) {
    for (const std::string& text : metadata_) {
      const size_t at = text.find('=');
      if (at == std::string::npos || at == 0)
        return InvalidArgument(Cat("--metadata ", text, ": write KEY=VALUE"));
      const std::string key = text.substr(0, at), value = text.substr(at + 1);
      if (!file.SetMetadata(key, value))
        return InvalidArgument(Cat("--metadata ", text, ": the model has no entry '", key, "'"));
      Tell(context, "metadata", key, value.empty() ? "(removed)" : value);
    }
    if (ir_version_ > 0 && ir_version_ != file.ir_version()) {
      const int64_t before = file.ir_version();
      INFER_TRY(file.SetIrVersion(ir_version_).In("--ir-version"));
      Tell(context, "IR version", Cat(before), Cat(ir_version_));
    }
    return {};
  }

  /// What inference makes of the new shapes, for outputs and inner values.
  Status DeclareShapes(Context& context, ModelFile& file, std::optional<Model>& read_back) {
    if (!read_back) {
      context.Warn("the extents of outputs are not known: they are left open");
      return {};
    }
    file.SetTypes(TypesOf(read_back->graph));
    INFER_ASSIGN(read_back, surgery_.ReadBack(context, file));
    return {};
  }

  Surgery surgery_;
  std::vector<std::string> renames_, node_renames_, shapes_, set_, metadata_;
  int opset_ = 0;
  int64_t ir_version_ = 0;
  Json* changes_ = nullptr;
};

}  // namespace

std::unique_ptr<Command> MakeEditCommand() { return std::make_unique<EditCommand>(); }

}  // namespace infer
