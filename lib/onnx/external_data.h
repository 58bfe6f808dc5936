#pragma once
/// Where tensors outside the model file lie, and the rules that keep a model from reading any other
/// file: a location is relative, without "..", and is opened beneath the model's folder without
/// following a link; a file with several hard links is refused. Two ways out: a Hugging Face cache
/// (the model is a link into `blobs`; its data may be one into the same folder), and one further
/// folder that the user names. No protobuf here.
/// (Known attacks: CVE-2022-25882, CVE-2024-27318, CVE-2025-51480, CVE-2026-27489, CVE-2026-34445.)
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lib/support/file.h"

namespace infer::onnx_io {

/// The checked content of TensorProto.external_data.
struct ExternalLocation {
  std::string location;
  uint64_t offset = 0;
  bool has_length = false;
  uint64_t length = 0;
};
/// InvalidModel for a missing location, a repeated key, or a number that is none. Other keys
/// (checksum, ...) are not read.
Result<ExternalLocation> ParseExternal(
    const std::vector<std::pair<std::string, std::string>>& entries);

class ExternalData {
 public:
  ExternalData() = default;  ///< a model in memory: every location is refused
  /// Folders for a model file.
  static ExternalData ForModel(const std::string& model_path, const std::string& external_root);
  /// One folder, for a model in memory.
  static ExternalData ForFolder(const std::string& folder, const std::string& external_root);

  /// The model's own bytes are no tensor's data, under whatever name.
  void RefuseModel(FileId model) { model_ = model; }
  /// Opens (once) the file at a location. InvalidModel when the rules above refuse it.
  Result<const InputFile*> Open(const std::string& location);
  std::vector<FileId> ids() const;
  uint64_t bytes() const;  ///< of the files opened

 private:
  std::vector<std::string> folders_;  // real paths
  std::optional<FileId> model_;
  std::string blobs_;  // of a Hugging Face cache, real path; "" = none
  std::string external_root_;
  std::map<std::string, std::unique_ptr<InputFile>> open_;
};

}  // namespace infer::onnx_io
