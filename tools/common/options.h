#pragma once
/// Options: how a command declares its command line. The parser behind it (CLI11) is seen by
/// options.cc alone.
/// What --help says of it is ours, too (tools/common/help_text.h).
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tools/common/help_text.h"

namespace CLI {
class App;
}

namespace infer {

/// An option or argument that names files. Its values are known once the command line is parsed.
struct PathOption {
  std::string name;  ///< "--json"
  PathUse use = PathUse::kNone;
  const std::string* one = nullptr;
  const std::vector<std::string>* many = nullptr;  ///< FILE or NAME=FILE
  bool takes_stream = false;                       ///< "-" is standard input or output
};

/// Names are "--long" or "-s,--long"; behind a space may stand what the option takes ("--data
/// FILE"), else the type says it: N, X, FILE, DIR, TEXT.
class Options {
 public:
  Options(CLI::App& app, std::vector<PathOption>& paths) : app_(app), paths_(paths) {}
  /// What is declared from here on stands under this heading in --help, or, after Rarely, in
  /// --help-all alone.
  void Section(std::string title) {
    section_ = std::move(title);
    rare_ = false;
  }
  void Rarely() { rare_ = true; }
  /// Positional arguments, in the order of declaration. `target` keeps its value as default.
  void Positional(const std::string& name, std::string* target, const std::string& help,
                  bool required = true, PathUse use = PathUse::kNone);
  void Positional(const std::string& name, std::vector<std::string>* target,
                  const std::string& help, bool required = true, PathUse use = PathUse::kNone);
  void Flag(const std::string& names, bool* target, const std::string& help);
  /// "--long" alone gives `target` the value `alone`; "--long=X" gives it X.
  void OptionalValue(const std::string& name, std::string* target, const std::string& alone,
                     const std::string& help);
  void Value(const std::string& names, std::string* target, const std::string& help,
             PathUse use = PathUse::kNone);
  /// A file, or "-" for standard output.
  void FileOrStdout(const std::string& names, std::string* target, const std::string& help);
  /// Numbers below `least`, or that the type does not hold, are usage errors.
  void Value(const std::string& names, int* target, const std::string& help, int least = 0);
  void Value(const std::string& names, int64_t* target, const std::string& help, int64_t least = 0);
  void Value(const std::string& names, uint64_t* target, const std::string& help);
  void Value(const std::string& names, double* target, const std::string& help, double least = 0);
  /// May be repeated, and takes comma-separated lists.
  void Values(const std::string& names, std::vector<std::string>* target, const std::string& help,
              PathUse use = PathUse::kNone);
  /// May be repeated; a comma is part of the text.
  void Texts(const std::string& names, std::vector<std::string>* target, const std::string& help);
  /// One of `choices`; anything else is a usage error that lists them.
  void Choice(const std::string& names, std::string* target,
              const std::vector<std::string>& choices, const std::string& help);
  /// Words that completion offers for what was declared last, which takes others, too.
  void Offer(std::vector<std::string> words) { shown_.back().choices = std::move(words); }
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
  void Explain(const std::string& text) { explained_ += (explained_.empty() ? "" : "\n") + text; }
  /// The same for --help-all.
  void ExplainRarely(const std::string& text) {
    explained_rarely_ += (explained_rarely_.empty() ? "" : "\n") + text;
  }
  /// All but command, about and examples.
  HelpPage help() const { return {"", "", shown_, "", explained_, explained_rarely_}; }

 private:
  /// The names, without what the option takes; that, or `value`, is kept for --help.
  std::string Note(const std::string& names, const std::string& value, const std::string& help,
                   std::string standard = "", bool several = false);
  void NoteArgument(const std::string& name, const std::string& help, bool required, bool several,
                    PathUse use);

  CLI::App& app_;
  std::string section_ = "Options", explained_, explained_rarely_;
  bool rare_ = false;
  std::vector<OptionHelp> shown_;
  std::vector<PathOption>& paths_;
};

}  // namespace infer
