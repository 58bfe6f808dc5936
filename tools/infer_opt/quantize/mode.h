#pragma once
/// The ways of quantizing that `infer-opt quantize --mode` offers, each in the file of its name.
/// The command reads the data, compares with the FP32 model, checks the gates and writes the file;
/// a mode only rewrites the graph.
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "quant/accuracy/gate.h"
#include "quant/calibrate/samples.h"
#include "quant/scheme/node_filter.h"
#include "quant/scheme/report.h"
#include "runtime/api/program.h"
#include "tools/common/command.h"
#include "tools/common/report.h"
#include "tools/common/worth_rule.h"
#include "tools/infer_opt/quantize/weight_range.h"

namespace infer {

struct CalibrationFlags;
struct FineTuneFlags;
struct Target;
class JointPruning;

/// What the command hands to a mode.
struct QuantizeJob {
  Context& context;
  const Samples& calibration;  ///< count 0: no data was given
  const Samples& evaluation;   ///< disjoint from calibration; count 0: none
  const Backend& backend;
  const CalibrationFlags& flags;
  int threads = 0;  ///< 0: all
  std::vector<NodePattern> include, exclude;
  std::string format;  ///< one of the mode's formats()
  /// What the gates will ask of the result: a mode that searches aims for it.
  GateLimits limits = {};
  std::optional<int64_t> max_bytes = {};  ///< of all constants
  bool microsoft = false;                 ///< the target takes operators of com.microsoft
  int64_t compared_after = 0;             ///< samples that the command compares the result on
  bool format_given = false;              ///< the user asked for the format
  bool standard_only = false;             ///< the file holds operators of ONNX alone
  int64_t opset_limit = 0;                ///< the newest opset that the file may have; 0: any
  const Target* target = nullptr;         ///< who reads the file; nullptr: nobody in particular
  bool for_ort = false;                   ///< it is a version of ONNX Runtime
  /// Whether the file may be raised to an opset, where that pays: nobody gave --opset, and the
  /// model can be written so.
  std::function<bool(int64_t)> may_raise_to = nullptr;
  /// Of a mode that can_fine_tune; nullptr: no training is wanted.
  const FineTuneFlags* fine_tune = nullptr;
  uint64_t seed = 0;  ///< of what is random in training
  WeightRangeFlags weight_range = {};
  /// Of a mode that can_prune; nullptr: nothing becomes zero.
  JointPruning* pruning = nullptr;
};

/// Whether the file is for a runtime that is not ONNX Runtime.
inline bool IsForOthers(const QuantizeJob& job) { return job.target && !job.for_ort; }

/// One form of a mode's file.
struct QuantizeWay {
  std::string format;
  std::set<std::string> settings;  ///< the mode's own words
  std::string told;                ///< how it differs from what was wanted; "": it does not
};

class QuantizeMode {
 public:
  virtual ~QuantizeMode() = default;
  virtual std::string_view name() const = 0;  ///< as --mode spells it
  virtual std::string_view help() const = 0;  ///< half a line
  /// The mode's own options.
  virtual void Declare(Options& o) = 0;
  /// The mode that declares them, where two share them.
  virtual std::string_view declared_by() const { return name(); }
  /// What --format may say; the first is the default.
  virtual std::vector<std::string_view> formats() const { return {"qdq"}; }
  /// Whether a model of f16 or bf16 is widened before.
  virtual bool wants_f32() const { return true; }
  /// Whether Quantize cannot work without calibration data.
  virtual bool needs_data() const = 0;
  /// Whether the result is timed beside the fused FP32 model at the end (worth.h), and whether one
  /// that is slower or larger fails.
  enum class Worth : uint8_t { kNotAsked, kTold, kGated };
  virtual Worth worth() const { return Worth::kNotAsked; }
  /// What the result takes by a table of the runtime that the file is for, where that is another
  /// than ours: this decides what `worth` asks, not what is measured here.
  virtual std::optional<ToldTime> told_time() const { return std::nullopt; }
  /// The same file in other forms, the wanted one first, for readers that do not take that. A form
  /// that the user asked for by an option stands in all of them.
  virtual std::vector<QuantizeWay> Ways(const QuantizeJob& job) const {
    return {{job.format, {}, ""}};
  }
  /// Chooses one of them for Draft and Quantize.
  virtual void Take(const QuantizeWay& way) { (void)way; }
  /// Whether Draft shows what the file will hold.
  virtual bool has_draft() const { return false; }
  /// Rewrites `g` as Quantize will, but for the numbers: quickly, without data and without a word.
  virtual Status Draft(const QuantizeJob& job, Graph& g) {
    (void)job, (void)g;
    return {};
  }
  /// What to try where no reader takes the file; "": nothing in particular.
  virtual std::string_view way_out() const { return ""; }
  /// Unsupported, with the way out: what opset_limit cannot say. For modes without a draft.
  virtual Status CheckOpset(const QuantizeJob& job) {
    (void)job;
    return {};
  }
  /// The opset that brought what the mode always writes; 0: any will do.
  virtual int64_t least_opset() const { return 0; }
  /// The opset that what Quantize made asks for, beyond opset_limit; 0: none.
  virtual int64_t raised_opset() const { return 0; }
  /// Whether Quantize trains what it made (QuantizeJob::fine_tune).
  virtual bool can_fine_tune() const { return false; }
  /// Whether Quantize prunes what it rounds (QuantizeJob::pruning).
  virtual bool can_prune() const { return false; }
  /// Whether the mode asks QuantizeJob::weight_range.
  virtual bool has_weight_range() const { return false; }
  /// Rewrites `g`. What the mode has to tell beside the common report goes to `report`.
  virtual Result<QuantizeReport> Quantize(const QuantizeJob& job, Graph& g, Json& report) = 0;
};

std::unique_ptr<QuantizeMode> MakeMixedMode();
std::unique_ptr<QuantizeMode> MakeStaticMode();
std::unique_ptr<QuantizeMode> MakeWeightOnlyMode();
std::vector<std::unique_ptr<QuantizeMode>> MakeNarrowModes();  ///< fp16 and bf16
std::unique_ptr<QuantizeMode> MakeDynamicMode();

/// Widens a model that is stored in 16 bits, where the mode wants f32; whether it did.
Result<bool> WidenFor(const QuantizeMode& mode, Graph& g);

/// Every mode; the first is the default.
std::vector<std::unique_ptr<QuantizeMode>> QuantizeModes();

}  // namespace infer
