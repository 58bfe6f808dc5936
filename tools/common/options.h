#pragma once
/// Options: how a command declares its command line. The parser behind it (CLI11) is seen by
/// options.cc alone.
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace CLI {
class App;
}

namespace infer {

/// What a command does with the file or folder that an option names (tools/common/paths.h).
enum class PathUse {
  kNone,  ///< names no file
  kRead,
  kWrite,
  kWriteFolder,  ///< made where it is missing; files are written into it
};

/// An option or argument that names files. Its values are known once the command line is parsed.
struct PathOption {
  std::string name;  ///< "--json"
  PathUse use = PathUse::kNone;
  const std::string* one = nullptr;
  const std::vector<std::string>* many = nullptr;  ///< FILE or NAME=FILE
};

class Options {
 public:
  Options(CLI::App& app, std::vector<PathOption>& paths) : app_(app), paths_(paths) {}
  /// Positional arguments, in the order of declaration. `target` keeps its value as default.
  void Positional(const std::string& name, std::string* target, const std::string& help,
                  bool required = true, PathUse use = PathUse::kNone);
  void Positional(const std::string& name, std::vector<std::string>* target,
                  const std::string& help, bool required = true, PathUse use = PathUse::kNone);
  /// "--long" or "-s,--long".
  void Flag(const std::string& names, bool* target, const std::string& help);
  /// "--long" alone gives `target` the value `alone`; "--long=X" gives it X.
  void OptionalValue(const std::string& name, std::string* target, const std::string& alone,
                     const std::string& help);
  void Value(const std::string& names, std::string* target, const std::string& help,
             PathUse use = PathUse::kNone);
  /// Numbers below `least`, or that the type does not hold, are usage errors.
  void Value(const std::string& names, int* target, const std::string& help, int least = 0);
  void Value(const std::string& names, int64_t* target, const std::string& help, int64_t least = 0);
  void Value(const std::string& names, uint64_t* target, const std::string& help);
  void Value(const std::string& names, double* target, const std::string& help, double least = 0);
  /// May be repeated, and takes comma-separated lists.
  void Values(const std::string& names, std::vector<std::string>* target, const std::string& help,
              PathUse use = PathUse::kNone);
  /// One of `choices`; anything else is a usage error that lists them.
  void Choice(const std::string& names, std::string* target,
              const std::vector<std::string>& choices, const std::string& help);
  /// A text for which `refuse` gives "", else why it is none. `kind` stands in --help.
  void Checked(const std::string& names, std::string* target, const std::string& kind,
               std::function<std::string(const std::string&)> refuse, const std::string& help);
  /// "0.5%", "0.5 %" or "0.005": a share, 0 or more. `target` gets 0.005.
  void Share(const std::string& names, double* target, const std::string& help);
  /// What `declare` declares is a group; tells, once the command line is parsed, which options of
  /// it were given ("--bits").
  using Given = std::function<std::vector<std::string>()>;
  Given Group(const std::function<void(Options&)>& declare);
  /// Text of several lines for the end of --help.
  void Explain(std::string text) { explained_ += "\n" + std::move(text); }
  const std::string& explained() const { return explained_; }

 private:
  CLI::App& app_;
  std::string explained_;
  std::vector<PathOption>& paths_;
};

}  // namespace infer
