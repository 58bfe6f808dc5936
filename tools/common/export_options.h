#pragma once
/// -o, --target, --opset, --functions, --sparse-file: where and how a model is written.
#include "lib/onnx/export.h"
#include "passes/pass/pipeline.h"
#include "quant/accuracy/gate.h"
#include "quant/target/readers.h"
#include "tools/common/command.h"
#include "tools/common/report.h"

namespace infer {

struct ExportFlags {
  std::string output;
  std::string target;           ///< "": nobody in particular
  std::string opset = "input";  ///< "input", "max" or a number
  bool functions = false, external_data = false, sparse_file = false;
  void Declare(Options& options);
  void DeclareTarget(Options& options);  ///< --target alone, which Declare declares, too
  /// What can be wrong before there is a model to write. Texts go to stderr where the model goes to
  /// stdout.
  Status Check(Context& context) const;
  /// Facts of the target that rewriting depends on.
  RewriteFor Reader() const;
  /// Whether the file can be written with these nodes. Unsupported names the nodes and the way out.
  Status CheckExpressible(const Model& model) const;
  /// The same of the model as it came, before the work: what simplifying does not mend, nothing
  /// does.
  Status CheckBefore(const Model& model) const;
  /// The newest opset that the file may have: the input's, or that of --opset; 0: any.
  int64_t OpsetLimit(const Model& model) const;
  /// Whether a file that nobody asked an opset of (--opset) may be raised to `wanted`: the target
  /// reads it, and the model can be written so.
  bool MayRaiseTo(int64_t wanted, const Model& model) const;
  /// The file gets this opset, and `reason` is told with it.
  void RaiseTo(int64_t wanted, std::string reason);
  /// Why the target would refuse the file; "" where it takes it or is not checked. Unsupported: it
  /// cannot be written at this opset.
  Result<std::string> Refusal(Context& context, const Model& model) const;
  /// Whether the target takes the file that Write will make: prints and reports what it refuses,
  /// and what it will compute in f32. Where the target reads no file of the opset that the nodes
  /// ask for, tries older ones, which Write then uses.
  Result<bool> Fits(Context& context, const Model& model, Json& report);
  /// Of files for nobody in particular: warns of what the newest ONNX Runtime would refuse.
  Status TellOtherReaders(Context& context, const Model& model) const;
  /// Writes the model ("-": to standard output), tells the user, and returns what was written.
  Result<ExportReport> Write(Context& context, const Model& model);
  /// The same file elsewhere, without a word.
  Result<ExportReport> WriteTo(const Model& model, const std::string& path) const;
  /// The end of a command whose gates say `verdict`: Fits, TellOtherReaders, then Write if all is
  /// well or `keep_failed`. `report` gets "passed", "verdict" and, of a written file, "output".
  Result<ExitCode> WriteJudged(Context& context, const Model& model, GateVerdict verdict,
                               bool keep_failed, Json& report);
  /// The file as it would be written, weights included.
  Result<std::string> Bytes(const Model& model) const;
  /// Bytes that the model would take when it was written.
  Result<int64_t> Size(const Model& model) const;
  Json Report(const ExportReport& written) const;

 private:
  Options::Given opset_given_;  ///< set by Declare
  int OpsetNumber() const;      ///< 0: none was asked for
  ExportOptions Chosen() const;
  /// `model` with what the target computes otherwise than meant in another form (ToFormsOf);
  /// nullopt: it stays as it is.
  Result<std::optional<Model>> InFormsOfTarget(const Model& model) const;
  /// `model` as it reads back from the file; nullopt where that is over 2 GiB or cannot be written.
  Result<std::optional<Model>> ReadBack(Context& context, const Model& model) const;
  Result<TargetReport> CheckAs(Context& context, const Model& model, const Target& t) const;
  static std::string SparseText(const SparseConstants& done);
  static std::string CostsText(const ExportReport& planned);
  /// In `readers_`, and as a line. has_sparse: the file has sparse constants.
  std::string FindReaders(Context& context, const Model& model, bool has_sparse);
  std::string raised_because_;      ///< the reason of RaiseTo
  int fitting_opset_ = 0;           ///< what Fits found; 0: the writer's own choice
  std::optional<Readers> readers_;  ///< of the file that was written; none: not known
};

}  // namespace infer
