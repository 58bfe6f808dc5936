#include "runtime/cpu/tune/tune.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>
#include <system_error>

#include "lib/support/file.h"
#include "lib/support/folder.h"
#include "lib/support/hash.h"
#include "lib/support/parallel.h"
#include "lib/support/path_parts.h"
#include "lib/support/random.h"
#include "lib/support/readable.h"
#include "lib/support/strings.h"
#include "runtime/api/build_identity.h"
#include "runtime/cpu/onednn/onednn.h"
#include "runtime/cpu/simd/loops.h"
#include "runtime/plan_ir/plan_program.h"
#include "runtime/plan_ir/wanted_layout.h"

namespace infer {
namespace {

constexpr int kTimedRounds = 7;
constexpr double kEnoughMs = 200;  // of one candidate
/// Read between two runs: in a model, weights come from further away than L2.
constexpr int64_t kEvictedBytes = 8 << 20;
constexpr uint64_t kMostFileBytes = 16 << 20;

std::string Machine(int lanes) {
  std::string model = "?", line;
  std::ifstream info("/proc/cpuinfo");
  while (std::getline(info, line))
    if (line.starts_with("model name")) {
      model = line.substr(line.find(':') + 1);
      break;
    }
  return Cat(BuildIdentity(), "|", model, "|", simd::TheLoops().isa,
             onednn::HasExactInt8() ? "+vnni" : "", "|", lanes);
}

/// Data of a layout's size: floats in [0, 1), or any bytes.
std::shared_ptr<Buffer> RandomData(DType dtype, int64_t bytes, Random& random) {
  auto buffer = Buffer::Allocate(static_cast<size_t>(bytes));
  std::byte* p = buffer->mutable_data();
  if (dtype == DType::kF32)
    for (int64_t i = 0; i < bytes / 4; ++i)
      reinterpret_cast<float*>(p)[i] = static_cast<float>(random.NextU32() >> 8) * 0x1p-24f;
  else
    for (int64_t i = 0; i < bytes; ++i) p[i] = static_cast<std::byte>(random.NextU32() >> 24);
  return buffer;
}

/// What any bytes are right for. An index must not point anywhere.
bool MayBeRandom(const Operand& o) {
  return o.constant || o.dtype == DType::kF32 || o.dtype == DType::kU8 || o.dtype == DType::kI8;
}

/// A prepared kernel on memory of its own, with the reorders that its operands would need.
class Trial {
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
    buffers_.push_back(RandomData(dtype, bytes, random));
    return buffers_.back()->mutable_data();
  }
  std::shared_ptr<const Launch> launch_;
  std::unique_ptr<LaunchState> state_;
  std::vector<std::byte*> args_;
  std::vector<std::shared_ptr<Buffer>> buffers_;
  std::vector<Before> before_;
};

/// The median time of each; interleaved, so that what disturbs the machine disturbs all.
std::vector<double> Measure(std::span<std::unique_ptr<Trial>> trials, const Buffer& evicting) {
  std::vector<std::vector<double>> times(trials.size());
  for (auto& t : trials) (void)t->Run();  // first touch
  double spent = 0;
  for (int round = 0; round < kTimedRounds && spent < kEnoughMs; ++round)
    for (size_t i = 0; i < trials.size(); ++i) {
      uint64_t sum = 0;
      for (size_t b = 0; b < evicting.size(); b += 64)
        sum += static_cast<uint64_t>(evicting.data()[b]);
      asm volatile("" : : "r"(sum));
      times[i].push_back(trials[i]->Run());
      spent += times[i].back() / static_cast<double>(trials.size());
    }
  std::vector<double> medians;
  for (auto& t : times) {
    std::nth_element(t.begin(), t.begin() + static_cast<int64_t>(t.size() / 2), t.end());
    medians.push_back(t[t.size() / 2]);
  }
  return medians;
}

}  // namespace

Result<std::shared_ptr<Tuner>> Tuner::For(const CompileOptions& options, int lanes) {
  if (!options.tune && options.tune_cache.empty()) return std::shared_ptr<Tuner>();
  std::shared_ptr<Tuner> tuner(new Tuner(options.tune_cache, options.tune, lanes));
  INFER_ASSIGN(tuner->choices_, tuner->InFile());
  return tuner;
}

Tuner::Tuner(std::string path, bool measures, int lanes)
    : path_(std::move(path)), machine_(Machine(lanes)), measures_(measures) {}

Result<Tuner::Choices> Tuner::InFile() const {
  Choices choices;
  std::error_code absent;
  if (path_.empty() || !std::filesystem::exists(path_, absent)) return choices;
  INFER_ASSIGN(const std::string text, ReadFile(path_, kMostFileBytes));
  for (const std::string& line : Split(text, '\n')) {
    const std::vector<std::string> parts = Split(line, '\t');
    if (parts.size() != 4) continue;
    const auto index = ParseInt(parts[1]);
    const auto ms = ParseDouble(parts[3]);
    if (index && *index >= 0 && ms)
      choices[parts[0]] = {static_cast<size_t>(*index), parts[2], *ms};
  }
  return choices;
}

std::string Tuner::KeyOf(const PlanStep& step, std::span<const Operand> in,
                         std::span<const Operand> out, const StepKernels& candidates) const {
  std::string key = Cat(machine_, "|", OperatorOf(step), "|");
  Hasher attrs;
  for (const Node* n : step.nodes) attrs.Add(HashOf(n->attrs()));
  key += Cat(attrs.value(), "|", Join(candidates.names, ","));
  for (const auto& operands : {in, out}) {
    key += "|";
    for (const Operand& o : operands)
      key += Cat(ToString(TensorType{o.dtype, Shape(o.dims)}), o.constant ? "const" : "",
                 o.layout.plain() ? "" : onednn::NameOf(o.layout), ";");
  }
  return Printable(key);
}

std::optional<size_t> Tuner::Known(const PlanStep& step, std::span<const Operand> in,
                                   std::span<const Operand> out, const StepKernels& candidates) {
  std::lock_guard lock(mutex_);
  const auto found = choices_.find(KeyOf(step, in, out, candidates));
  if (found == choices_.end()) return std::nullopt;
  const Choice& c = found->second;
  if (c.index >= candidates.names.size() || candidates.names[c.index] != c.name)
    return std::nullopt;
  return c.index;
}

std::optional<size_t> Tuner::Fastest(const PlanStep& step, std::span<const Operand> in,
                                     std::span<const Operand> out, const StepKernels& candidates,
                                     std::span<const std::optional<Prepared>> prepared) {
  std::vector<size_t> which;
  for (size_t k = 0; k < prepared.size(); ++k)
    if (prepared[k]) which.push_back(k);
  if (!std::all_of(in.begin(), in.end(), MayBeRandom)) return std::nullopt;
  Random random(1);
  std::vector<std::unique_ptr<Trial>> trials;
  for (size_t k : which) trials.push_back(std::make_unique<Trial>(*prepared[k], in, out, random));
  const auto evicting = RandomData(DType::kU8, kEvictedBytes, random);
  const std::vector<double> times = Measure(trials, *evicting);
  const auto best =
      static_cast<size_t>(std::min_element(times.begin(), times.end()) - times.begin());
  std::lock_guard lock(mutex_);
  const std::string key = KeyOf(step, in, out, candidates);
  choices_[key] = {which[best], candidates.names[which[best]], times[best]};
  measured_.insert(key);
  return which[best];
}

Status Tuner::Save() {
  std::lock_guard lock(mutex_);
  measures_ = false;
  if (measured_.empty() || path_.empty()) return {};
  const std::string folder = FolderOf(path_);
  std::error_code ignored;  // the write says it
  std::filesystem::create_directories(folder, ignored);
  // Others may have written since it was read: theirs stay.
  const FolderLock lock_of_file(folder);
  INFER_ASSIGN(Choices all, InFile());
  for (const std::string& key : measured_) all[key] = choices_.at(key);
  std::string text;
  for (const bool of_all_builds : {true, false}) {
    text = "# infer-opt: which kernel is fastest; docs/cli.md\n";
    for (const auto& [key, c] : all)
      if (of_all_builds || key.starts_with(BuildIdentity()))
        text += Cat(key, "\t", c.index, "\t", c.name, "\t", Rounded(c.ms, 4), "\n");
    if (text.size() < kMostFileBytes / 2) break;
  }
  INFER_TRY(WriteFileAtomically(path_, text));
  choices_ = std::move(all);
  measured_.clear();
  return {};
}

}  // namespace infer
