#include "tools/common/paths.h"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include "lib/support/folder.h"
#include "lib/support/path_parts.h"
#include "lib/support/strings.h"

namespace infer {
namespace {

namespace fs = std::filesystem;

std::optional<FileId> IdOf(const std::string& path) {
  struct stat s;
  if (::stat(path.c_str(), &s) != 0) return std::nullopt;
  return FileId{static_cast<uint64_t>(s.st_dev), static_cast<uint64_t>(s.st_ino)};
}

/// "a/b/" is "a/b".
std::string WithoutSlashes(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

/// The same file, or where neither is there yet, the same name in the same folder.
bool SameFile(const std::string& a, const std::string& b) {
  const auto x = IdOf(a), y = IdOf(b);
  if (x || y) return x == y;
  const auto to = OutputPath(WithoutSlashes(a)), also = OutputPath(WithoutSlashes(b));
  if (!to.ok() || !also.ok()) return false;  // whoever opens it says so
  const std::string p = WithoutSlashes(*to), q = WithoutSlashes(*also);
  if (BaseName(p) != BaseName(q)) return false;
  const std::string in = FolderOf(p), beside = FolderOf(q);
  const auto folder = IdOf(in), other = IdOf(beside);
  return folder || other ? folder == other : in == beside;
}

Status CheckFolder(const NamedPath& written) {
  // The first part that is there: folders can be made in it.
  std::string at = WithoutSlashes(written.path);
  std::error_code error;
  while (fs::symlink_status(at, error).type() == fs::file_type::not_found && at != "." && at != "/")
    at = FolderOf(at);
  if (!fs::is_directory(at, error))
    return IoError(Cat(written.option, " ", written.path, ": '", at, "' is no folder"));
  return AtomicFile::Create(Cat(at, "/output")).status().In(Cat(written.option, " ", written.path));
}

}  // namespace

std::vector<NamedPath> PathsOf(const std::vector<PathOption>& options) {
  std::vector<NamedPath> paths;
  for (const PathOption& o : options) {
    if (o.use == PathUse::kNone) continue;
    const auto is_stream = [&](const std::string& text) { return o.takes_stream && text == "-"; };
    if (o.one && !o.one->empty() && !is_stream(*o.one)) paths.push_back({o.name, *o.one, o.use});
    for (const std::string& text : o.many ? *o.many : std::vector<std::string>()) {
      if (is_stream(text)) continue;
      paths.push_back({o.name, text, o.use});
      const size_t equals = text.find('=');
      if (equals != std::string::npos) paths.push_back({o.name, text.substr(equals + 1), o.use});
    }
  }
  return paths;
}

Status CheckWrite(const NamedPath& written, const std::vector<NamedPath>& others) {
  if (written.path == "-")
    return InvalidArgument(Cat(written.option,
                               " -: is a file's name here; only --json - and the models of fuse, "
                               "quantize and prune go to stdout (./- is a file of that name)"));
  for (const NamedPath& other : others) {
    // What is written into a folder is checked file by file.
    if (other.use == PathUse::kRead && written.use == PathUse::kWriteFolder) continue;
    if (!SameFile(written.path, other.path)) continue;
    return InvalidArgument(Cat(written.option, " ", written.path, ": ", other.option, " ",
                               other.path == written.path ? "" : Cat(other.path, " "),
                               other.use == PathUse::kRead ? "reads" : "writes", " the same file"));
  }
  return {};
}

Status CheckWrites(const std::vector<NamedPath>& paths) {
  for (size_t i = 0; i < paths.size(); ++i) {
    if (paths[i].use == PathUse::kRead) continue;
    std::vector<NamedPath> others;
    for (size_t k = 0; k < paths.size(); ++k)
      if (paths[k].use == PathUse::kRead || k > i) others.push_back(paths[k]);
    INFER_TRY(CheckWrite(paths[i], others));
  }
  for (const NamedPath& p : paths) {
    if (p.use == PathUse::kWrite) INFER_TRY(AtomicFile::Create(p.path).status().In(p.option));
    if (p.use == PathUse::kWriteFolder) INFER_TRY(CheckFolder(p));
  }
  return {};
}

Status CheckInputs(const std::vector<NamedPath>& paths, const std::vector<FileId>& inputs) {
  for (const NamedPath& p : paths) {
    if (p.use != PathUse::kWrite) continue;
    const auto id = IdOf(p.path);
    if (id && std::find(inputs.begin(), inputs.end(), *id) != inputs.end())
      return InvalidArgument(
          Cat(p.option, " ", p.path, ": the model is read from this file; write to another one"));
  }
  return {};
}

}  // namespace infer
