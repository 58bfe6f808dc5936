#pragma once
/// The files that a command line names: none that is written may be one that is read or one that is
/// written besides, and all can be written. Checked before the work that would be lost.
#include <string>
#include <vector>

#include "lib/support/file.h"
#include "tools/common/options.h"

namespace infer {

struct NamedPath {
  std::string option;  ///< "--json", or the name of an argument
  std::string path;
  PathUse use = PathUse::kNone;
};

/// What the options hold now; without empty ones and standard streams: `--json -`, `-o -` of a
/// command that writes a model, and a model `-`.
std::vector<NamedPath> PathsOf(const std::vector<PathOption>& options);

/// Checks every path that is written: CheckWrite against the others, and that its folder takes a
/// new file (a folder: that it can be made). InvalidArgument, Io.
Status CheckWrites(const std::vector<NamedPath>& paths);

/// InvalidArgument when `written` is one of `others` that is read or written, under whatever name.
Status CheckWrite(const NamedPath& written, const std::vector<NamedPath>& others);

/// InvalidArgument when a path that is written is one of these files.
Status CheckInputs(const std::vector<NamedPath>& paths, const std::vector<FileId>& inputs);

}  // namespace infer
