#include "runtime/plan_ir/tuner.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "lib/support/file.h"
#include "lib/support/folder.h"
#include "lib/support/hash.h"
#include "lib/support/path_parts.h"
#include "lib/support/readable.h"
#include "lib/support/strings.h"
#include "runtime/api/build_identity.h"
#include "runtime/plan_ir/plan_program.h"

namespace infer {
namespace {

constexpr int kTimedRounds = 7;
constexpr uint64_t kMostFileBytes = 16 << 20;

/// Whether any bytes are right for it. An index must not point anywhere.
bool MayBeRandom(const Operand& o) {
  return o.constant || o.dtype == DType::kF32 || o.dtype == DType::kU8 || o.dtype == DType::kI8;
}

}  // namespace

Tuner::Tuner(std::string path, bool measures, std::string_view machine)
    : path_(std::move(path)), machine_(Cat(BuildIdentity(), "|", machine)), measures_(measures) {}

Status Tuner::Read() {
  INFER_ASSIGN(choices_, InFile());
  return {};
}

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
                 o.layout.plain() ? "" : NameOf(o.layout), ";");
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
  std::vector<const Prepared*> kernels;
  for (size_t k = 0; k < prepared.size(); ++k)
    if (prepared[k]) {
      which.push_back(k);
      kernels.push_back(&*prepared[k]);
    }
  if (!std::all_of(in.begin(), in.end(), MayBeRandom)) return std::nullopt;
  const std::vector<double> times = Time(in, out, kernels);
  if (times.empty()) return std::nullopt;
  const auto best =
      static_cast<size_t>(std::min_element(times.begin(), times.end()) - times.begin());
  std::lock_guard lock(mutex_);
  const std::string key = KeyOf(step, in, out, candidates);
  choices_[key] = {which[best], candidates.names[which[best]], times[best]};
  measured_.insert(key);
  return which[best];
}

std::vector<double> Tuner::Medians(size_t count, double most_ms,
                                   const std::function<double(size_t)>& time) {
  std::vector<std::vector<double>> times(count);
  double spent = 0;
  for (int round = 0; round < kTimedRounds && spent < most_ms; ++round)
    for (size_t i = 0; i < count; ++i) {
      times[i].push_back(time(i));
      spent += times[i].back() / static_cast<double>(count);
    }
  std::vector<double> medians;
  for (auto& t : times) {
    std::nth_element(t.begin(), t.begin() + static_cast<int64_t>(t.size() / 2), t.end());
    medians.push_back(t[t.size() / 2]);
  }
  return medians;
}

void Tuner::FillRandom(DType dtype, std::span<std::byte> bytes, Random& random) {
  if (dtype == DType::kF32)
    for (size_t i = 0; i < bytes.size() / 4; ++i)
      reinterpret_cast<float*>(bytes.data())[i] =
          static_cast<float>(random.NextU32() >> 8) * 0x1p-24f;
  else
    for (std::byte& b : bytes) b = static_cast<std::byte>(random.NextU32() >> 24);
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
