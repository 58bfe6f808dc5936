#pragma once
/// What the build knows of itself. The revision is looked up whenever something is built.
#include <map>
#include <string>

namespace infer::bench {

/// "a1b2c3d4e5f6" or, with uncommitted changes, "a1b2c3d4e5f6-dirty"; "" outside a git repository.
std::string BuildRevision();
/// Name to version: the tool and the C library.
std::map<std::string, std::string> BuildLibraries();

}  // namespace infer::bench
