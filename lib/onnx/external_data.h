#pragma once
/// Where tensors outside the model file lie, and the rules that keep a model from reading any other
/// file: a location is relative, without "..", and is opened beneath the model's folder without
/// following a link; a file with several hard links is refused. Two ways out: a Hugging Face cache
/// (the model is a link into `blobs`; its data may be one into the same folder), and one further
/// folder that the user names. No protobuf here.
/// (Known attacks: CVE-2022-25882, CVE-2024-27318, CVE-2025-51480, CVE-2026-27489, CVE-2026-34445.)
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "lib/support/file.h"
#include "lib/tensor/tensor.h"

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
  /// Opens the file at a location, if it is not open. InvalidModel when the rules above refuse it.
  /// The pointer is valid until the next call: of any number of files a few are open at a time.
  Result<const InputFile*> Open(const std::string& location);
  std::vector<FileId> ids() const;
  uint64_t bytes() const { return bytes_; }  ///< of the files that were opened

 private:
  struct Known {
    FileId id;
    uint64_t size = 0;
    std::unique_ptr<InputFile> file;  // nullptr: closed again
  };
  Result<std::unique_ptr<InputFile>> OpenAllowed(const std::string& location) const;

  std::vector<std::string> folders_;  // real paths
  std::optional<FileId> model_;
  std::string blobs_;  // of a Hugging Face cache, real path; "" = none
  std::string external_root_;
  std::map<std::string, Known> known_;
  std::deque<Known*> open_;                        // oldest first
  std::set<std::pair<uint64_t, uint64_t>> files_;  // device and inode
  uint64_t bytes_ = 0;
};

/// The bytes of regions that were read, so that tensors on one region share a buffer, and what they
/// may come to in all: regions may overlap, but not so that files grow in memory without bound.
class ExternalRegions {
 public:
  struct Region {
    FileId file;
    uint64_t offset = 0, bytes = 0;
    bool is_bool = false;  ///< its bytes are made 0 and 1
    auto operator<=>(const Region& o) const {
      return std::tie(file.device, file.inode, offset, bytes, is_bool) <=>
             std::tie(o.file.device, o.file.inode, o.offset, o.bytes, o.is_bool);
    }
    bool operator==(const Region&) const = default;
  };
  /// nullptr: not read yet.
  std::shared_ptr<Buffer> Find(const Region& region) const;
  /// Counts a region that is about to be read from files of `file_bytes` in all. InvalidModel when
  /// the regions so far are more than several times the files.
  Status Reserve(const Region& region, uint64_t file_bytes);
  void Add(const Region& region, std::shared_ptr<Buffer> buffer);

 private:
  std::map<Region, std::shared_ptr<Buffer>> read_;
  uint64_t reserved_ = 0;
};

}  // namespace infer::onnx_io
