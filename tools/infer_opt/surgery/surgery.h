#pragma once
/// What extract and edit share: the file as it is, its types where they are needed, the result that
/// is read back before anything is written.
#include <optional>

#include "lib/onnx/model_file.h"
#include "tools/common/command.h"
#include "tools/common/report.h"

namespace infer {

class Surgery {
 public:
  void Declare(Options& options);
  /// -o is there, and does not meet --json or --external-data on standard output.
  Status Check(Context& context) const;
  /// Reads the model ("-": standard input).
  Result<ModelFile> Load(Context& context);
  /// The same, lifted. ImportModel's errors.
  Result<Model> Import(Context& context) const;
  /// What inference and the file tell of values of the main graph; empty where the model cannot be
  /// imported (`why` then tells).
  std::map<std::string, ValueType> Types(Context& context, Status* why) const;
  /// The result as it reads back: nullopt where it has operators that we lack or is over 2 GiB.
  /// InvalidArgument: it is no valid model any more.
  Result<std::optional<Model>> ReadBack(Context& context, const ModelFile& file) const;
  /// Writes, prints what was written and fills report["output"].
  Status Write(Context& context, const ModelFile& file, const std::optional<Model>& read_back,
               Json& report) const;

  std::string path;
  std::string output;
  bool lenient = false;  ///< attributes that an operator does not have are no error

 private:
  std::string external_root_, bytes_;
  bool external_data_ = false;
};

std::map<std::string, ValueType> TypesOf(const Graph& g);

/// The names in values of an option: each a name as it stands, or a list with commas.
std::vector<std::string> NamesIn(const std::vector<std::string>& texts,
                                 const std::vector<std::string>& known);
/// "OLD=NEW" of an option, at the first "=" behind a known name, else at the last one. A list with
/// commas where each part has a "=", so that other commas may stand in names.
/// InvalidArgument: there is none, or OLD stands twice.
Result<std::map<std::string, std::string>> RenamesIn(const std::vector<std::string>& texts,
                                                     const std::vector<std::string>& known,
                                                     std::string_view option);

}  // namespace infer
