#pragma once
/// A log of what was measured, one JSON object a line, only ever appended to. A line is on the disk
/// before the next measurement starts, so a program that is killed loses the one it was at.
///
///   {"schema": "infer-opt/search-log@2", "of": "..."}
///   {"key": "layer int8 conv1", "value": {"kl": 0.01, ...}, "check": "..."}
///
/// A last line that is cut off (the machine lost power, the disk was full) is dropped; any other
/// broken line is an error.
#include <map>
#include <memory>
#include <string>

#include "tools/common/report.h"

namespace infer {

/// Of which log this is, and how to name it to people.
struct LogIdentity {
  std::string schema;  ///< "infer-opt/search-log@2"
  std::string of;      ///< what the values are of: model, data, settings, machine
  std::string advice;  ///< what to do about a log of something else
};

class AppendLog {
 public:
  /// InvalidArgument: the log is of something else, another process has it open, or it is no file.
  /// InvalidModel: it is no such log. Io.
  static Result<std::unique_ptr<AppendLog>> Open(const std::string& path,
                                                 const LogIdentity& identity);
  ~AppendLog();
  AppendLog(const AppendLog&) = delete;
  AppendLog& operator=(const AppendLog&) = delete;
  /// nullptr: nothing yet. Valid until the next Add.
  const Json* Find(const std::string& key) const;
  /// By JsonName of the key.
  const std::map<std::string, Json>& all() const { return all_; }
  /// Durable when it returns. Of one key the last value counts. Io: nothing was added.
  Status Add(const std::string& key, const Json& value);

 private:
  AppendLog(int fd, std::string path) : fd_(fd), path_(std::move(path)) {}
  Status Load(const LogIdentity& identity);
  Status Append(const std::string& line);
  Status CutAt(size_t bytes);
  Status Failed() const;  ///< of errno
  int fd_;
  std::string path_;
  size_t bytes_ = 0;  ///< of whole lines
  std::map<std::string, Json> all_;
};

}  // namespace infer
