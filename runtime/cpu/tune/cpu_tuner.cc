#include "runtime/cpu/tune/cpu_tuner.h"

#include <fstream>
#include <limits>

#include "lib/support/strings.h"
#include "runtime/cpu/onednn/onednn.h"
#include "runtime/cpu/simd/loops.h"
#include "runtime/plan_ir/plan_program.h"
#include "runtime/plan_ir/wanted_layout.h"

namespace infer {
namespace {

constexpr double kEnoughMs = 200;  // of one candidate
/// Read between two runs: in a model, weights come from further away than L2.
constexpr int64_t kEvictedBytes = 8 << 20;

std::string Machine(int lanes) {
  std::string model = "?", line;
  std::ifstream info("/proc/cpuinfo");
  while (std::getline(info, line))
    if (line.starts_with("model name")) {
      model = line.substr(line.find(':') + 1);
      break;
    }
  return Cat(model, "|", simd::TheLoops().isa, onednn::HasExactInt8() ? "+vnni" : "", "|", lanes);
}

}  // namespace

/// A prepared kernel on memory of its own, with the reorders that its operands would need.
class CpuTuner::Trial {
 public:
  Trial(const Prepared& p, std::span<const Operand> in, std::span<const Operand> out,
        Random& random)
      : launch_(p.launch) {
    for (size_t i = 0; i < in.size(); ++i) {
      const Layout layout = LayoutAt(p.in_layouts, i);
      if (i < p.unused.size() && p.unused[i])
        args_.push_back(nullptr);
      else if (in[i].constant && layout.plain())
        args_.push_back(const_cast<std::byte*>(in[i].constant->raw()));
      else
        args_.push_back(New(in[i].dtype, BytesIn(layout, in[i]), random));
      if (!args_.back() || in[i].constant || layout == in[i].layout) continue;
      auto reorder = onednn::MakeReorder(in[i].dtype, in[i].dims, in[i].layout, layout);
      if (!reorder.ok() || !reorder->launch) continue;
      Before& b = before_.emplace_back();
      b.args = {New(in[i].dtype, BytesIn(in[i].layout, in[i]), random), args_.back(),
                New(DType::kU8, reorder->scratch_bytes, random)};
      b.state = reorder->launch->NewState();
      b.launch = reorder->launch;
    }
    for (size_t o = 0; o < out.size(); ++o)
      args_.push_back(New(out[o].dtype, BytesIn(LayoutAt(p.out_layouts, o), out[o]), random));
    args_.push_back(New(DType::kU8, p.scratch_bytes, random));
    if (launch_) state_ = launch_->NewState();
  }

  /// Milliseconds of one run; infinity when it fails.
  double Run() {
    const double begin = NowMs();
    for (Before& b : before_)
      if (!b.launch->Run(b.args.data(), b.state.get()).ok()) return kInfinity;
    if (launch_ && !launch_->Run(args_.data(), state_.get()).ok()) return kInfinity;
    return NowMs() - begin;
  }

 private:
  static constexpr double kInfinity = std::numeric_limits<double>::infinity();
  struct Before {
    std::shared_ptr<const Launch> launch;
    std::unique_ptr<LaunchState> state;
    std::vector<std::byte*> args;
  };
  std::byte* New(DType dtype, int64_t bytes, Random& random) {
    buffers_.push_back(Buffer::Allocate(static_cast<size_t>(bytes)));
    std::byte* const p = buffers_.back()->mutable_data();
    FillRandom(dtype, {p, static_cast<size_t>(bytes)}, random);
    return p;
  }
  std::shared_ptr<const Launch> launch_;
  std::unique_ptr<LaunchState> state_;
  std::vector<std::byte*> args_;
  std::vector<std::shared_ptr<Buffer>> buffers_;
  std::vector<Before> before_;
};

Result<std::shared_ptr<CpuTuner>> CpuTuner::For(const CompileOptions& options, int lanes) {
  if (!options.tune && options.tune_cache.empty()) return std::shared_ptr<CpuTuner>();
  std::shared_ptr<CpuTuner> tuner(new CpuTuner(options, lanes));
  INFER_TRY(tuner->Read());
  return tuner;
}

CpuTuner::CpuTuner(const CompileOptions& options, int lanes)
    : Tuner(options.tune_cache, options.tune, Machine(lanes)) {}

std::string CpuTuner::NameOf(const Layout& layout) const { return onednn::NameOf(layout); }

std::vector<double> CpuTuner::Time(std::span<const Operand> in, std::span<const Operand> out,
                                   std::span<const Prepared* const> kernels) {
  Random random(1);
  std::vector<std::unique_ptr<Trial>> trials;
  for (const Prepared* p : kernels) trials.push_back(std::make_unique<Trial>(*p, in, out, random));
  const auto evicting = Buffer::Allocate(static_cast<size_t>(kEvictedBytes));
  FillRandom(DType::kU8, {evicting->mutable_data(), evicting->size()}, random);
  for (auto& t : trials) (void)t->Run();  // first touch
  return Medians(trials.size(), kEnoughMs, [&](size_t i) {
    uint64_t sum = 0;
    for (size_t b = 0; b < evicting->size(); b += 64)
      sum += static_cast<uint64_t>(evicting->data()[b]);
    asm volatile("" : : "r"(sum));
    return trials[i]->Run();
  });
}

}  // namespace infer
