#pragma once
/// Model -> ONNX file. Written to a temporary file in the same folder, synced and renamed; external
/// data first, the .onnx last.
#include <map>

#include "lib/onnx/model.h"

namespace infer {

enum class ExportTarget {
  kOnnx,   ///< standard operators; our own fused ones leave as model-local functions
  kOrt,    ///< also ONNX Runtime's own, where they are faster or spare a newer opset
  kInfer,  ///< everything as it stands
  kPlain,  ///< standard operators; our own fused ones as the nodes that define them
};

struct ExportOptions {
  ExportTarget target = ExportTarget::kOnnx;
  int ort_minor = 0;  ///< with kOrt: ONNX Runtime 1.x reads the file; 0: the newest
  /// 0: max(the input's opset, the lowest in which every node is expressible). Else what this opset
  /// lacks is written in its older form, or as the nodes that the standard defines it by.
  int opset = 0;
  std::string opset_reason = "asked for";  ///< why `opset` is set, for the report
  /// What the reader takes at most; 0: no limit. A newer input is written at this opset, with what
  /// it lacks in older forms, as above.
  int max_opset = 0;
  int64_t max_ir_version = 0;
  /// The file asks for no newer opset and IR version than the input did: what those lack is written
  /// in its older form, or as the nodes that define it. Without effect where `opset` is given.
  bool keep_versions = false;
  /// Tensors of at least this many bytes go to NAME.HASH.data beside the model once the whole would
  /// exceed `max_inline_bytes`. HASH is that of the data, so that writing never damages a model
  /// that is already there.
  int64_t external_threshold_bytes = 1024;
  int64_t max_inline_bytes = (int64_t{1} << 31) - (int64_t{16} << 20);
  bool force_external = false;
  /// Constants most of which is zero are written as sparse_initializer where that is smaller: at
  /// 67 % zeros of f32, 89 % of 8 bits. The file gets IR version 5 at least. ONNX Runtime reads it,
  /// OpenVINO 2026.4 does not.
  bool sparse_constants = false;
};

/// With ExportOptions::sparse_constants.
struct SparseConstants {
  int64_t sparse = 0;       ///< written as values and their places
  int64_t dense = 0;        ///< half zeros or more, not all, and smaller whole
  int64_t saved_bytes = 0;  ///< by the sparse ones
};

/// InvalidArgument when ExportOptions::opset cannot be this number.
Status CheckOpset(int opset);

struct ExportReport {
  int opset = 0;
  /// "input's", "default", "the target's newest", ExportOptions::opset_reason, or the node that
  /// needs it.
  std::string opset_reason;
  int64_t nodes = 0;  ///< of the graph and of the bodies in it
  int64_t file_bytes = 0;
  int64_t external_bytes = 0;
  std::vector<std::string> functions;  ///< model-local functions written
  int64_t ir_version = 0;
  /// Operators that the opset asked for lacks, written as the nodes that define them: how often.
  std::map<std::string, int64_t> decomposed;
  int64_t whole_opset = 0;  ///< the lowest that has all of them; 0: none is decomposed
  std::map<std::string, int64_t> expanded;  ///< operators of our own, written as nodes: how often
  /// Data files of models that stood under this name before: NAME.HASH.data that the new file does
  /// not read. They are left, since a copy of such a model may read them from elsewhere.
  std::vector<std::string> stale_data;
  SparseConstants sparse;
};

/// Unsupported when `opset`, or that of the input where `keep_versions` is set, cannot express a
/// node (all of them are listed). InvalidArgument when
/// there is no such opset, or `path` is a file that the model was read from.
Result<ExportReport> ExportModel(const Model& model, const std::string& path,
                                 const ExportOptions& options = {});
/// The same into memory (no external data).
Result<std::string> ExportModelBytes(const Model& model, const ExportOptions& options = {});
/// What ExportModel would report, but for sizes; nothing is written. Its errors.
Result<ExportReport> PlanExport(const Model& model, const ExportOptions& options = {});

}  // namespace infer
