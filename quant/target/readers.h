#pragma once
/// The oldest runtimes that read a file.
#include <string>

#include "quant/target/check.h"

namespace infer {

struct Readers {
  std::string onnxruntime;   ///< "1.8"; "": none of the table
  bool by_versions = false;  ///< from the file's opset and IR version alone, older than the table
  std::string openvino;      ///< "2026.4"; "": not the one of the table
};

/// `g` as read back from the file. ONNX Runtime: the oldest version of Targets() that takes it;
/// where that is the oldest of all and the file holds operators of ai.onnx alone, the version that
/// first read such an opset and IR version (ONNX Runtime's table "ONNX opset support").
Readers ReadersOf(const Graph& g, const FileVersions& file);

/// Why the graph is no standard ONNX, naming the first operator of another domain; "": it is.
/// Operators of our own count as standard: files hold their nodes.
std::string StandardRefusal(const Graph& g);

}  // namespace infer
