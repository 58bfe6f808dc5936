#include "tests/conformance/cases.h"

#include <onnx/onnx_pb.h>

#include <algorithm>
#include <filesystem>

#include "lib/support/file.h"
#include "lib/support/strings.h"

namespace infer::conformance {
namespace {

namespace fs = std::filesystem;

std::string OperatorOf(const std::string& path) {
  auto bytes = ReadFile(path);
  onnx::ModelProto model;
  if (!bytes.ok() || !model.ParseFromString(*bytes)) return "(unreadable)";
  if (model.graph().node_size() != 1) return "(model)";
  const onnx::NodeProto& node = model.graph().node(0);
  const bool standard = node.domain().empty() || node.domain() == "ai.onnx";
  return standard ? node.op_type() : Cat(node.domain(), "::", node.op_type());
}

}  // namespace

Result<std::vector<Case>> FindCases(const std::string& dir) {
  std::error_code error;
  std::vector<Case> cases;
  for (fs::recursive_directory_iterator it(dir, error), end; !error && it != end;
       it.increment(error)) {
    const fs::path path = it->path();
    const std::string name = fs::relative(path, dir).string();
    if (it->is_directory() && fs::exists(path / "model.onnx")) {
      if (fs::exists(path / "test_data_set_0"))
        cases.push_back({name, path / "model.onnx", OperatorOf(path / "model.onnx"), ""});
      it.disable_recursion_pending();
    } else if (path.extension() == ".onnx" && path.stem().string().starts_with("light_")) {
      const std::string output = path.parent_path() / (path.stem().string() + "_output_0.pb");
      if (fs::exists(output)) cases.push_back({name, path, "(model)", output});
    }
  }
  if (error) return IoError(Cat(dir, ": ", error.message()));
  std::sort(cases.begin(), cases.end(),
            [](const Case& a, const Case& b) { return a.name < b.name; });
  return cases;
}

Result<std::vector<Skip>> ReadSkips(const std::string& path) {
  INFER_ASSIGN(const std::string text, ReadFile(path));
  std::vector<Skip> skips;
  for (const std::string& line : Split(text, '\n')) {
    if (Trim(line).empty() || line[0] == '#') continue;
    std::vector<std::string> parts = Split(line, '|');
    for (std::string& p : parts) p = std::string(Trim(p));
    if (parts.size() != 3 || parts[2].empty())
      return InvalidArgument(Cat(path, ": wants 'glob | backend | reason': ", line));
    const size_t at = std::min(parts[0].find('@'), parts[0].size());
    skips.push_back({parts[0].substr(0, at), parts[0].substr(std::min(at + 1, parts[0].size())),
                     parts[1], parts[2]});
  }
  return skips;
}

bool Applies(const Skip& skip, const Case& c, const std::string& backend) {
  if (!GlobMatch(skip.glob, c.name) || (skip.backend != "*" && skip.backend != backend))
    return false;
  if (skip.digest.empty()) return true;
  const auto output =
      InputFile::Open(fs::path(c.model).parent_path() / "test_data_set_0/output_0.pb");
  if (!output.ok()) return false;
  const auto digest = Sha256Of(**output);
  return digest.ok() && digest->starts_with(skip.digest);
}

}  // namespace infer::conformance
