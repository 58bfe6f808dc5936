#pragma once
/// A model as its file says it, for changes that leave all else as it is: nodes, attributes,
/// functions and symbols stay in the form they came in, whether we know the operators or not.
/// (Model, lib/onnx/import.h, is the same lifted to canonical forms, for everything that computes.)
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "lib/onnx/export.h"
#include "lib/onnx/import.h"

namespace infer {

/// What Extract left behind or could not tell.
struct Extracted {
  std::vector<std::string> unread;   ///< of `from`: nothing reads them
  std::vector<std::string> untyped;  ///< new inputs and outputs of unknown type
  int64_t nodes = 0, nodes_before = 0;
};

/// What readers of files stumble over or carry about for nothing.
struct FileFacts {
  struct Unread {
    std::string name;
    int64_t bytes = 0;
  };
  std::vector<Unread> unread_initializers;  ///< no node, output or annotation names them
  std::vector<std::string> unread_inputs;
  std::vector<std::string> input_initializers;   ///< both, in a file that need not have it so
  std::vector<std::string> repeated_node_names;  ///< each once
  std::vector<std::string> early_nodes;          ///< read a value that a later node makes
  std::vector<std::string> uncalled_functions;
  int64_t unnamed_nodes = 0;
};

class ModelFile {
 public:
  /// Errors of ImportModel, but for operators: any will do. All tensor data is read.
  static Result<ModelFile> Read(const std::string& path, const ImportOptions& options = {});
  static Result<ModelFile> ReadBytes(std::string_view bytes, const ImportOptions& options = {});
  /// The file that ExportModel would write. Its errors.
  static Result<ModelFile> Of(const Model& model, const ExportOptions& options);
  ModelFile(ModelFile&&) noexcept;
  ModelFile& operator=(ModelFile&&) noexcept;
  ~ModelFile();

  std::vector<std::string> InputNames() const;  ///< without those that have an initializer
  std::vector<std::string> OutputNames() const;
  /// Of the main graph, inputs and initializers too, in the order of definition.
  std::vector<std::string> ValueNames() const;
  /// Of the main graph; a node without a name by its first output.
  std::vector<std::string> NodeNames() const;
  /// Whether the file says of which type a value of the main graph is, and how many axes it has.
  bool KnowsType(const std::string& value) const;
  int64_t num_nodes() const;  ///< of the main graph and of the bodies in it
  FileFacts Facts() const;
  int64_t ir_version() const;
  std::map<std::string, int64_t> opsets() const;  ///< "" is ai.onnx

  /// Keeps what leads from the values `from` to the values `to`, with the initializers, functions
  /// and annotations that it needs. Empty `from`: the inputs that `to` needs; empty `to`: all
  /// outputs. `types`: of values whose type the file does not say. InvalidArgument: an unknown name
  /// (with similar ones), a value in both lists, an input that `to` needs and `from` does not cut
  /// off (all of them, each with a reader).
  Result<Extracted> Extract(const std::vector<std::string>& from,
                            const std::vector<std::string>& to,
                            const std::map<std::string, ValueType>& types);

  /// All at once, so that names may change places. Names also within bodies and annotations.
  /// InvalidArgument: unknown, or taken.
  Status RenameValues(const std::map<std::string, std::string>& names);
  /// A node without a name is called by its first output. InvalidArgument as above.
  Status RenameNodes(const std::map<std::string, std::string>& names);
  /// The declared shape of an input: per axis a number, a symbol, or "?". What the file says of the
  /// extents of other values is dropped, since it may no longer hold; SetTypes puts it back.
  /// InvalidArgument: no such input, a rank other than declared, an extent that is none.
  Status SetInputShape(const std::string& input, const std::vector<std::string>& dims);
  /// Replaces a symbol in all inputs. Drops extents as above. InvalidArgument: no input has it.
  Status SetSymbol(const std::string& symbol, int64_t extent);
  /// Declares the types of outputs, and of those values that had a shape until it was dropped.
  void SetTypes(const std::map<std::string, ValueType>& types);
  /// "" erases. False: there was nothing to erase.
  bool SetMetadata(const std::string& key, const std::string& value);
  /// InvalidArgument where the file's functions, or its form before version 4, need another.
  Status SetIrVersion(int64_t version);

  Result<ExportReport> Write(const std::string& path, const ExportOptions& options) const;
  Result<std::string> Bytes() const;

  struct State;

 private:
  explicit ModelFile(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace infer
