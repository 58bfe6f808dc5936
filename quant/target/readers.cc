#include "quant/target/readers.h"

#include "quant/target/checks.h"

namespace infer {
namespace {

/// What ONNX Runtime's documentation says that a version reads at most.
struct OrtVersion {
  int minor;
  int64_t opset, ir_version;
};
constexpr OrtVersion kOrtVersions[] = {{0, 11, 6},  {2, 12, 7},  {6, 13, 7},  {8, 14, 7},
                                       {9, 15, 8},  {11, 16, 8}, {12, 17, 8}, {14, 18, 8},
                                       {15, 19, 9}, {17, 20, 9}};

/// Also measured: 2024.6 read every file of operators of ai.onnx up to this opset that the newest
/// does, of 48 models.
constexpr std::string_view kOlderOpenVino = "2024.6";
constexpr int64_t kOlderOpenVinoOpset = 20;

bool IsStandard(const Node& n) { return n.def().domain.empty(); }

bool AllStandard(const Graph& g) {
  bool all = true;
  target::ForEachNode(g, [&](const Node& n) { all = all && IsStandard(n); });
  return all;
}

/// The errors of a check that needs no backend.
bool Takes(const Graph& g, const FileVersions& file, const Target& t) {
  TargetReport r;
  if (t.runtime == TargetRuntime::kOpenVino) {
    target::CheckOpenVino(g, r);
  } else {
    if (file.opset > t.opset || file.ir_version > t.ir_version) return false;
    target::CheckOrtKernels(g, file, t, r);
  }
  return r.errors() == 0;
}

}  // namespace

Readers ReadersOf(const Graph& g, const FileVersions& file) {
  Readers r;
  bool is_oldest = true;
  for (const Target& t : Targets()) {
    if (t.runtime == TargetRuntime::kOpenVino && Takes(g, file, t)) r.openvino = kOpenVinoVersion;
    if (t.runtime != TargetRuntime::kOnnxRuntime || !r.onnxruntime.empty()) continue;
    if (Takes(g, file, t))
      r.onnxruntime = Cat("1.", t.minor);
    else
      is_oldest = false;
  }
  if (!AllStandard(g)) return r;
  if (!r.openvino.empty() && file.opset <= kOlderOpenVinoOpset) r.openvino = kOlderOpenVino;
  if (r.onnxruntime.empty() || !is_oldest) return r;
  for (const OrtVersion& v : kOrtVersions) {
    if (file.opset > v.opset || file.ir_version > v.ir_version) continue;
    r.onnxruntime = Cat("1.", v.minor);
    r.by_versions = true;
    break;
  }
  return r;
}

std::string StandardRefusal(const Graph& g) {
  constexpr std::string_view kMl = "ai.onnx.ml", kOwn = "infer";
  std::string refusal;
  target::ForEachNode(g, [&](const Node& n) {
    const std::string_view domain = n.def().domain;
    if (!refusal.empty() || IsStandard(n) || domain == kMl || domain == kOwn) return;
    refusal = Cat(Describe(n), ": ", domain, "::", n.op(),
                  " is no operator of ONNX; try --target ort, or another --format");
  });
  return refusal;
}

}  // namespace infer
