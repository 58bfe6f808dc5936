#include <cstdlib>

#include "lib/support/file.h"
#include "lib/support/strings.h"
#include "tools/engines/python_files.h"

namespace infer::peers {

Status WritePythonFiles(const std::string& folder) {
  for (const PythonFile& f : PythonFiles())
    INFER_TRY(WriteFileAtomically(Cat(folder, "/", f.name), f.text));
  return {};
}

std::string DefaultPython() {
  const char* given = std::getenv("INFER_PEERS_PYTHON");
  return given && *given ? given : "python3";
}

std::vector<std::string> PythonEnvironment(const std::string& folder) {
  std::string path = "PYTHONPATH=" + folder;
  if (const char* given = std::getenv("PYTHONPATH"); given && *given) path += Cat(":", given);
  return {path, "PYTHONDONTWRITEBYTECODE=1"};
}

}  // namespace infer::peers
