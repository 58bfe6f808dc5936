#pragma once
/// The Python workers, which travel inside infer-bench.
#include <span>

namespace infer::peers {

struct PythonFile {
  const char* name;
  const char* text;
};
std::span<const PythonFile> PythonFiles();

}  // namespace infer::peers
