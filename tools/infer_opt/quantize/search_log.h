#pragma once
/// The log of a search: one JSON object a line, only ever appended to. A line is on the disk
/// before the next measurement starts, so a search that is killed loses the one it was at.
///
///   {"schema": "infer-opt/search-log@1", "of": "..."}
///   {"key": "layer int8 conv1", "numbers": {"kl": 0.01, ...}, "check": "..."}
///
/// A last line that is cut off (the machine lost power) is dropped; any other broken line is an
/// error.
#include <memory>

#include "quant/search/store.h"

namespace infer {

class SearchLog : public MeasurementStore {
 public:
  /// `of` says what the numbers are of: model, data, settings, machine. InvalidArgument: the log
  /// is of something else, or another process has it open. InvalidModel: it is no log. Io.
  static Result<std::unique_ptr<SearchLog>> Open(const std::string& path, const std::string& of);
  ~SearchLog() override;
  SearchLog(const SearchLog&) = delete;
  SearchLog& operator=(const SearchLog&) = delete;
  const Numbers* Find(const std::string& key) const override { return all_.Find(key); }
  Status Add(const std::string& key, Numbers numbers) override;

 private:
  SearchLog(int fd, std::string path) : fd_(fd), path_(std::move(path)) {}
  Status Load(const std::string& of);
  Status Append(const std::string& line);
  int fd_;
  std::string path_;
  MemoryStore all_;
};

}  // namespace infer
