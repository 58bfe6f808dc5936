#pragma once
/// A RecordStore in a file that is only ever appended to: a header that says what it is of, then
/// key, bytes and a check of both, one after the other. As AppendLog for numbers: one process at a
/// time; a last record that is cut off (a kill, a full disk) is dropped, any other broken one is an
/// error. Bytes stay in the file until they are asked for.
#include <cstdint>
#include <map>
#include <memory>
#include <utility>

#include "quant/search/record_store.h"
#include "tools/common/append_log.h"

namespace infer {

class RecordFile : public RecordStore {
 public:
  /// InvalidArgument: the file is of something else, another process has it open, or it is no plain
  /// file. InvalidModel: it is no such file, or is damaged. Io.
  static Result<std::unique_ptr<RecordFile>> Open(const std::string& path,
                                                  const LogIdentity& identity);
  ~RecordFile() override;
  RecordFile(const RecordFile&) = delete;
  RecordFile& operator=(const RecordFile&) = delete;
  Result<std::optional<std::string>> Find(const std::string& key) const override;
  Status Add(const std::string& key, std::string_view bytes) override;
  size_t size() const { return places_.size(); }

 private:
  RecordFile(int fd, std::string path) : fd_(fd), path_(std::move(path)) {}
  Status Load(const LogIdentity& identity);
  Result<bool> ReadAt(uint64_t offset, std::string& out) const;  ///< false: the file ends before
  Status Append(std::string_view bytes);
  int fd_;
  std::string path_;
  uint64_t bytes_ = 0;                                           ///< of whole records
  std::map<std::string, std::pair<uint64_t, uint64_t>> places_;  ///< offset and size of the bytes
};

}  // namespace infer
