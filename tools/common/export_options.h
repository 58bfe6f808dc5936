#pragma once
/// -o, --target, --opset: where and how a model is written.
#include "lib/onnx/export.h"
#include "passes/pass/pipeline.h"
#include "quant/target/check.h"
#include "tools/common/command.h"
#include "tools/common/report.h"

namespace infer {

struct ExportFlags {
  std::string output;
  std::string target = "onnx";
  int opset = 0;
  bool external_data = false;
  void Declare(Options& options);
  /// What can be wrong before there is a model to write.
  Status Check() const { return CheckOpset(opset).In("--opset"); }
  /// Facts of the target that rewriting depends on.
  RewriteFor Reader() const;
  /// Whether the target takes the file that Write will make: prints and reports what it refuses,
  /// and what it will compute in f32. Where the target reads no file of the opset that the nodes
  /// ask for, tries older ones, which Write then uses.
  Result<bool> Fits(Context& context, const Model& model, Json& report);
  /// Of --target onnx, which is checked against nothing: warns of what the newest ONNX Runtime
  /// would refuse.
  Status TellOtherReaders(Context& context, const Model& model) const;
  /// Writes the model, tells the user, and returns what was written.
  Result<ExportReport> Write(Context& context, const Model& model) const;
  /// The end of a command whose gates have `passed` or not: Fits, TellOtherReaders, then Write if
  /// all is well or `keep_failed`. `report` gets "passed" and, of a written file, "output".
  Result<ExitCode> WriteJudged(Context& context, const Model& model, bool passed, bool keep_failed,
                               Json& report);
  /// The file as it would be written, weights included.
  Result<std::string> Bytes(const Model& model) const;
  /// Bytes that the model would take when it was written.
  Result<int64_t> Size(const Model& model) const;
  Json Report(const ExportReport& written) const;

 private:
  ExportOptions Chosen() const;
  Result<TargetReport> CheckAs(Context& context, const Model& model, const Target& t) const;
  int fitting_opset_ = 0;  ///< what Fits found; 0: the writer's own choice
};

}  // namespace infer
