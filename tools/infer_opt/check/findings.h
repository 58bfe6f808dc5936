#pragma once
/// What can be said against a model: findings, each with where, why and the way out.
#include <string>
#include <vector>

#include "lib/onnx/model_file.h"
#include "tools/common/report.h"

namespace infer::lint {

enum class Level : uint8_t { kError, kWarning, kNote };
const char* Name(Level level);

struct Finding {
  std::string rule;  ///< "unread-initializer"
  Level level = Level::kNote;
  std::string node, value;  ///< "": none in particular
  std::string what, remedy;
  std::string reader = {};  ///< of rule "reader": "ort-1.30"
};
using Findings = std::vector<Finding>;

/// Every rule, with what it finds.
struct ListedFinding {
  const char *rule, *what;
};
std::span<const ListedFinding> ListedFindings();

/// Of an import that failed: one per thing that is unsupported, else one.
void AddImportFailure(const Status& s, Findings& out);
/// What import left out or did not believe, as it warned.
void AddImportWarnings(const Model& model, Findings& out);
/// Of the file itself.
void AddFileFacts(const FileFacts& facts, Findings& out);
/// Numbers in weights, element types, types and shapes that inference does not know.
void AddGraphFacts(const Graph& g, Findings& out);
/// What fuse would do, and almost. Status: of the optimizer.
Status AddFusions(const Graph& g, Findings& out);

/// One line per kind, with its first place and how many there are.
std::string ToText(const Findings& findings);
Json ToJson(const Findings& findings);

}  // namespace infer::lint
