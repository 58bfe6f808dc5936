#pragma once
/// Where long work keeps its parts, so that a run that was killed goes on where it was. As
/// MeasurementStore (store.h), of bytes: the weights of a layer, for instance.
#include <optional>
#include <string>
#include <string_view>

#include "lib/support/status.h"

namespace infer {

class RecordStore {
 public:
  virtual ~RecordStore() = default;
  /// nullopt: not done yet. Io: what was there cannot be read any more.
  virtual Result<std::optional<std::string>> Find(const std::string& key) const = 0;
  /// Durable when it returns. Of one key the last record counts. Io: nothing was added.
  virtual Status Add(const std::string& key, std::string_view bytes) = 0;
};

}  // namespace infer
