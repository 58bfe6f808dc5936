#pragma once
/// Whether a runtime takes a file, and which of its nodes it computes in integers. Tables of
/// measured facts, by version; what the tables do not know counts as taken.
#include <map>
#include <string>
#include <vector>

#include "lib/ir/graph.h"
#include "quant/target/target.h"
#include "runtime/api/program.h"

namespace infer {

enum class Severity : uint8_t {
  kError,    ///< the runtime refuses the file
  kDiffers,  ///< it computes other numbers than the standard says
  kSlow,     ///< it computes the node in f32, or dequantizes weights in every run
};

struct TargetFinding {
  std::string node;  ///< "" for the file as a whole
  Severity severity = Severity::kError;
  std::string what, remedy;
  /// Feature of those processors on which it is so, as Linux names it ("amx_int8"); "": of all.
  std::string processors = {};
};

struct TargetReport {
  std::vector<TargetFinding> findings;
  /// Integer kernels that the runtime will run, by their name there, and how often.
  std::map<std::string, int64_t> kernels;
  int64_t errors() const;
  const TargetFinding* first_error() const;  ///< nullptr: none
};

/// What a file says beside its graph.
struct FileVersions {
  int64_t opset = 0;       ///< of ai.onnx
  int64_t ir_version = 0;  ///< 0: not known
};

/// `g` as read back from the file. `ours`: the backend that "infer" stands for, which compiles the
/// graph; its failure is returned.
Result<TargetReport> CheckTarget(const Graph& g, const FileVersions& file, const Target& target,
                                 const Backend& ours);

}  // namespace infer
