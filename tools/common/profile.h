#pragma once
/// Where the time of a model goes, step by step: measured beside runs without a profile, held
/// against the machine's roofline, shown as text, JSON and a trace.
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "tools/common/reference_share.h"
#include "tools/common/roofline.h"

namespace infer {

struct StepProfile {
  StepInfo info;            ///< with kernel and cost of the shapes that ran
  double ms = 0;            ///< medians over the runs
  double reference_ms = 0;  ///< of ms, in reference kernels
  double copy_ms = 0;       ///< of ms, copies into other layouts and between host and device
  double device_ms = 0;     ///< of ms, by the device's clock
  double floor_ms = 0;      ///< by the roofline; 0 without one, or where no cost is known
};

struct ModelProfile {
  std::string name;
  double wall_ms = 0;                ///< of a profiled run, median
  double unprofiled_ms = 0;          ///< of the runs between them, median
  double overhead = 0;               ///< profiled / unprofiled, median over neighbours
  double unexplained = 0;            ///< share of a profiled run that no step accounts for, median
  double device_ms = 0;              ///< that the device was busy, by its clock, median
  CommandInfo commands = {};         ///< of the last run without a profile, on a device
  int runs = 0;                      ///< of each kind
  int lanes = 1;                     ///< that a run had
  int64_t program_bytes = 0;         ///< weights and activations
  std::vector<StepProfile> steps;    ///< as Program::steps()
  std::vector<StepTiming> timeline;  ///< of the run of median length
  ReferenceShare reference;
  std::optional<Roofline> roofline;

  bool ran_on_device() const { return commands.submissions > 0; }

  /// Fills floor_ms. The roofline is of the processor: no limit of what ran on a device.
  void Compare(const Roofline& r);
  double floor_ms() const;
  /// "1.234 ms profiled, 1.003 x unprofiled, 0.4 % unexplained; ..." and the roofline's share.
  std::string Headline() const;
  /// Steps, longest first.
  std::string Table() const;
};

/// Profiled runs in turns with others: 5 to 51 of each, no more once `enough_ms` are over. Pre: the
/// inputs are bound, and the context has run.
Result<ModelProfile> ProfileRuns(const std::string& name, const Program& program, RunContext& run,
                                 const std::stop_token& stop, double enough_ms = 300);

/// Adds "profile", "layers" and "reference".
void AddTo(Json& report, const ModelProfile& p);

/// Chrome's trace format (chrome://tracing, Perfetto): one process per model.
std::string ChromeTrace(const std::vector<ModelProfile>& profiles);

/// --layers and --trace.
struct ProfileOptions {
  bool layers = false;
  std::string trace;
  void Declare(Options& options);
  bool wanted() const { return layers || !trace.empty(); }
};
/// Measures the roofline, adds it to the profiles, prints and writes what the options ask for.
/// `reports`: where each profile's JSON goes.
Status ShowProfiles(Context& context, const ProfileOptions& options,
                    std::vector<ModelProfile>& profiles, const std::vector<Json*>& reports);

}  // namespace infer
