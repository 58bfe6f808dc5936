#pragma once
/// What calibration has seen, in a file: taken up again after an interruption, and used again
/// whenever model, data and observer are the same. Ranges are not stored but chosen anew, so one
/// file serves every grid.
#include <cstdint>
#include <map>
#include <optional>
#include <stop_token>
#include <string>

#include "lib/ir/graph.h"
#include "quant/calibrate/samples.h"

namespace infer {

/// All that observations depend on, beside roundoff.
struct CalibrationKey {
  uint64_t model = 0;  ///< structure, constants, and the names of values
  uint64_t data = 0;   ///< every input of every sample, in order
  std::string state;   ///< Observer::state()
  std::string build;   ///< BuildIdentity() of who observed
  bool operator==(const CalibrationKey&) const = default;
};
uint64_t ModelKey(const Graph& g);
/// Reads every sample once. Cancelled: the stop token fired.
Result<uint64_t> DataKey(const Samples& samples, const std::stop_token& stop);
/// The same, and the labels where there are some.
Result<uint64_t> LabelledDataKey(const Samples& samples, const std::stop_token& stop);
/// "model", "data", "observer" or "build": the first part in which the keys differ.
std::string WhatDiffers(const CalibrationKey& a, const CalibrationKey& b);

struct SavedCalibration {
  CalibrationKey key;
  int64_t done = 0;                           ///< samples that the states have seen
  std::map<std::string, std::string> states;  ///< Observer::Save, by value name
};

/// The file that `cache` means: a folder holds one per key, under a name made of it.
std::string CachePath(const std::string& cache, const CalibrationKey& key);
/// nullopt: no such file. InvalidArgument: the file is no calibration cache of this version, or is
/// damaged.
Result<std::optional<SavedCalibration>> ReadCalibration(const std::string& path);
/// The old file or the complete new one, whatever interrupts.
Status WriteCalibration(const std::string& path, const SavedCalibration& saved);

}  // namespace infer
