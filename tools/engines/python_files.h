#pragma once
/// The Python workers, which travel inside the programs, and how they are started.
#include <span>
#include <string>
#include <vector>

#include "lib/support/status.h"

namespace infer::peers {

struct PythonFile {
  const char* name;
  const char* text;
};
std::span<const PythonFile> PythonFiles();
Status WritePythonFiles(const std::string& folder);

/// $INFER_PEERS_PYTHON, else "python3".
std::string DefaultPython();
/// For a worker whose files stand in `folder`: NAME=VALUE.
std::vector<std::string> PythonEnvironment(const std::string& folder);

}  // namespace infer::peers
