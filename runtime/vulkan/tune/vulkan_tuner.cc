#include "runtime/vulkan/tune/vulkan_tuner.h"

#include <algorithm>
#include <limits>

#include "lib/support/strings.h"
#include "runtime/plan_ir/plan_program.h"

namespace infer::vulkan {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kEnoughMs = 300;  // of one candidate
/// So many runs stand between two marks, as far as they take no longer than kLongMs: of a short one
/// alone the marks would be the larger part.
constexpr double kMostRuns = 16, kLongMs = 2;

std::string Machine(const Gpu& gpu) {
  std::string text = Cat(gpu.info().name, "|", gpu.info().driver, "|");
  for (const std::string& feature : gpu.info().features)
    if (gpu.Has(feature)) text += Cat("+", feature);
  return Cat(text, "|", gpu.options().busy_groups);
}

/// Memory of the step's operands and results, which all candidates share.
class Arguments {
 public:
  Status Add(Device& device, Encoder& encoder, const Operand& o, Random& random) {
    INFER_TRY(Reserve(device, o.plain_bytes()));
    if (o.constant) return encoder.Upload(views_.back(), o.constant->raw());
    const auto bytes = static_cast<size_t>(o.plain_bytes());
    const auto filled = Buffer::Allocate(bytes);
    Tuner::FillRandom(o.dtype, {filled->mutable_data(), bytes}, random);
    return encoder.Upload(views_.back(), filled->data());
  }
  Status Reserve(Device& device, int64_t bytes) {
    // Loads of words may go beyond the last byte.
    INFER_ASSIGN(memory_.emplace_back(),
                 device.Allocate((std::max<int64_t>(bytes, 1) + 15) / 16 * 16));
    views_.push_back({memory_.back().get(), 0, bytes});
    return {};
  }
  std::vector<BufferView> With(const BufferView& scratch) const {
    std::vector<BufferView> all = views_;
    all.push_back(scratch);
    return all;
  }
  const BufferView& last() const { return views_.back(); }

 private:
  std::vector<std::shared_ptr<DeviceMemory>> memory_;
  std::vector<BufferView> views_;
};

/// A candidate on an encoder of its own, so that a failure is its alone.
class Trial {
 public:
  static Result<Trial> Make(Device& device, const Prepared& p, const Arguments& arguments) {
    Trial t(p);
    INFER_ASSIGN(t.encoder_, device.NewEncoder());
    INFER_TRY(t.scratch_.Reserve(device, p.scratch_bytes));
    t.views_ = arguments.With(t.scratch_.last());
    // The driver compiles at the first run.
    INFER_TRY(t.Time(1).status());
    INFER_ASSIGN(const double once, t.Time(1));
    t.runs_ = static_cast<int>(std::clamp(kLongMs / std::max(once, 1e-6), 1.0, kMostRuns));
    return t;
  }
  double Run() {
    const auto ms = Time(runs_);
    return ms.ok() ? *ms : kInfinity;
  }

 private:
  explicit Trial(const Prepared& p) : launch_(p.launch), state_(p.launch->NewState()) {}
  /// Milliseconds of a run, by the host's clock where the device has none.
  Result<double> Time(int runs) {
    const double begin = NowMs();
    const auto mark = encoder_->Mark();
    for (int i = 0; i < runs; ++i) INFER_TRY(launch_->Record(*encoder_, views_, state_.get()));
    if (mark.ok()) INFER_TRY(encoder_->Mark().status());
    INFER_ASSIGN(const auto ended, encoder_->Submit());
    INFER_TRY(ended->Wait());
    if (!mark.ok()) return (NowMs() - begin) / runs;
    INFER_ASSIGN(const auto times, encoder_->TakeMarks());
    return (times.at(1) - times.at(0)) / runs;
  }

  std::shared_ptr<const Launch> launch_;
  std::unique_ptr<LaunchState> state_;
  std::unique_ptr<Encoder> encoder_;
  Arguments scratch_;
  std::vector<BufferView> views_;
  int runs_ = 1;
};

}  // namespace

Result<std::shared_ptr<KernelChooser>> VulkanTuner::For(const CompileOptions& options,
                                                        const Gpu& gpu, Device& device) {
  if (!options.tune && options.tune_cache.empty()) return std::shared_ptr<KernelChooser>();
  std::shared_ptr<VulkanTuner> tuner(new VulkanTuner(options, gpu, device));
  INFER_TRY(tuner->Read());
  return std::shared_ptr<KernelChooser>(std::move(tuner));
}

VulkanTuner::VulkanTuner(const CompileOptions& options, const Gpu& gpu, Device& device)
    : Tuner(options.tune_cache, options.tune, Machine(gpu)), device_(device) {}

std::vector<double> VulkanTuner::Time(std::span<const Operand> in, std::span<const Operand> out,
                                      std::span<const Prepared* const> kernels) {
  const auto is_on_host = [](const Prepared* p) { return !p->on_host.empty() || !p->launch; };
  if (std::any_of(kernels.begin(), kernels.end(), is_on_host)) return {};
  const auto encoder = device_.NewEncoder();
  if (!encoder.ok()) return {};
  Random random(1);
  Arguments arguments;
  for (size_t i = 0; i < in.size(); ++i) {
    const auto reads = [&](const Prepared* p) { return i >= p->unused.size() || !p->unused[i]; };
    const bool is_read = std::any_of(kernels.begin(), kernels.end(), reads);
    const Status added =
        is_read ? arguments.Add(device_, **encoder, in[i], random) : arguments.Reserve(device_, 1);
    if (!added.ok()) return {};
  }
  for (const Operand& o : out)
    if (!arguments.Reserve(device_, o.plain_bytes()).ok()) return {};
  const auto uploaded = (*encoder)->Submit();
  if (!uploaded.ok() || !(*uploaded)->Wait().ok()) return {};
  std::vector<std::optional<Trial>> trials;
  for (const Prepared* p : kernels) {
    auto trial = Trial::Make(device_, *p, arguments);
    trials.push_back(trial.ok() ? std::optional(*std::move(trial)) : std::nullopt);
  }
  std::vector<double> times = Medians(
      trials.size(), kEnoughMs, [&](size_t i) { return trials[i] ? trials[i]->Run() : kEnoughMs; });
  for (size_t i = 0; i < trials.size(); ++i)
    if (!trials[i]) times[i] = kInfinity;
  if (std::all_of(times.begin(), times.end(), [](double t) { return t == kInfinity; })) return {};
  return times;
}

}  // namespace infer::vulkan
