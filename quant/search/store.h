#pragma once
/// Where a search keeps what it measured, so that one that was killed goes on where it was.
#include <map>
#include <string>

#include "lib/support/status.h"

namespace infer {

using Numbers = std::map<std::string, double>;

class MeasurementStore {
 public:
  virtual ~MeasurementStore() = default;
  /// nullptr: not measured yet. Valid until the store dies.
  virtual const Numbers* Find(const std::string& key) const = 0;
  /// Durable when it returns. Pre: `key` is new.
  virtual Status Add(const std::string& key, Numbers numbers) = 0;
};

/// Forgets with the process.
class MemoryStore : public MeasurementStore {
 public:
  const Numbers* Find(const std::string& key) const override {
    const auto it = all_.find(key);
    return it == all_.end() ? nullptr : &it->second;
  }
  Status Add(const std::string& key, Numbers numbers) override {
    all_.emplace(key, std::move(numbers));
    return {};
  }
  size_t size() const { return all_.size(); }

 private:
  std::map<std::string, Numbers> all_;
};

}  // namespace infer
