#pragma once
/// The log of a search (tools/common/append_log.h) as its store.
#include <memory>

#include "quant/search/store.h"
#include "tools/common/append_log.h"

namespace infer {

class SearchLog : public MeasurementStore {
 public:
  /// `of` says what the numbers are of: model, data, settings, machine. Errors: as AppendLog.
  static Result<std::unique_ptr<SearchLog>> Open(const std::string& path, const std::string& of);
  const Numbers* Find(const std::string& key) const override { return all_.Find(key); }
  Status Add(const std::string& key, Numbers numbers) override;

 private:
  explicit SearchLog(std::unique_ptr<AppendLog> log) : log_(std::move(log)) {}
  std::unique_ptr<AppendLog> log_;
  MemoryStore all_;
};

}  // namespace infer
