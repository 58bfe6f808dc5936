#pragma once
/// A path as text, taken apart. Asks no file system.
#include <string>

namespace infer {

/// What stands before the last slash: "." for "a", "/" for "/a".
std::string FolderOf(const std::string& path);
/// What stands behind the last slash; "" for "a/".
std::string BaseName(const std::string& path);

}  // namespace infer
