#include "quant/train/checkpoint.h"

#include <cstring>
#include <filesystem>

#include "lib/support/file.h"
#include "lib/support/hash.h"
#include "lib/support/strings.h"
#include "quant/calibrate/state.h"

namespace infer {
namespace {

constexpr std::string_view kMagic = "infer-opt training 1\n";
constexpr uint64_t kMostBytes = uint64_t{1} << 40;

void PutFloats(std::string& out, std::span<const float> v) {
  out.append(reinterpret_cast<const char*>(v.data()), v.size_bytes());
}
bool TakeFloats(std::string_view& in, std::span<float> v) {
  if (in.size() < v.size_bytes()) return false;
  std::memcpy(v.data(), in.data(), v.size_bytes());
  in.remove_prefix(v.size_bytes());
  return true;
}

void PutPoint(std::string& out, const TrainingPoint& p) {
  PutNumber(out, static_cast<uint64_t>(p.step));
  PutDouble(out, p.loss);
  PutNumber(out, static_cast<uint64_t>(p.best_step));
  PutDouble(out, p.best_loss);
  PutNumber(out, p.seen.size());
  for (const double d : p.seen) PutDouble(out, d);
}
bool TakePoint(std::string_view& in, TrainingPoint& p) {
  uint64_t step = 0, best = 0, seen = 0;
  if (!TakeNumber(in, step) || !TakeDouble(in, p.loss) || !TakeNumber(in, best) ||
      !TakeDouble(in, p.best_loss) || !TakeNumber(in, seen) || seen > in.size())
    return false;
  p.step = static_cast<int64_t>(step);
  p.best_step = static_cast<int64_t>(best);
  p.seen.resize(seen);
  for (double& d : p.seen)
    if (!TakeDouble(in, d)) return false;
  return true;
}

bool Parse(std::string_view in, TrainingState& s) {
  if (!TakePoint(in, s.at)) return false;
  for (size_t i = 0; i < s.weights.size(); ++i)
    if (!TakeFloats(in, s.weights[i].mutable_data<float>()) ||
        !TakeFloats(in, s.best[i].mutable_data<float>()) || !TakeFloats(in, s.adam[i].mean) ||
        !TakeFloats(in, s.adam[i].square))
      return false;
  return in.empty();
}

}  // namespace

Result<bool> ReadCheckpoint(const std::string& path, const std::string& key, TrainingState& state) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return false;
  INFER_ASSIGN(const std::string bytes, ReadFile(path, kMostBytes));
  std::string_view in(bytes);
  const auto no_checkpoint = [&](std::string_view why) {
    return InvalidArgument(Cat(path, ": ", why, "; delete it, or name another file"));
  };
  if (in.substr(0, kMagic.size()) != kMagic)
    return no_checkpoint("this is no checkpoint of a training run of this version");
  if (in.size() < kMagic.size() + 8) return no_checkpoint("the checkpoint is damaged");
  double sum = 0;
  std::string_view tail = in.substr(in.size() - 8);
  TakeDouble(tail, sum);
  in.remove_suffix(8);
  std::string of;
  if (HashBytes(in.data(), in.size()) != std::bit_cast<uint64_t>(sum))
    return no_checkpoint("the checkpoint is damaged");
  in.remove_prefix(kMagic.size());
  if (!TakeText(in, of)) return no_checkpoint("the checkpoint is damaged");
  if (of != key) return false;
  if (!Parse(in, state)) return no_checkpoint("the checkpoint is damaged");
  return true;
}

Status WriteCheckpoint(const std::string& path, const std::string& key,
                       const TrainingState& state) {
  std::string out(kMagic);
  PutText(out, key);
  PutPoint(out, state.at);
  for (size_t i = 0; i < state.weights.size(); ++i) {
    PutFloats(out, state.weights[i].data<float>());
    PutFloats(out, state.best[i].data<float>());
    PutFloats(out, state.adam[i].mean);
    PutFloats(out, state.adam[i].square);
  }
  PutDouble(out, std::bit_cast<double>(HashBytes(out.data(), out.size())));
  return WriteFileAtomically(path, out);
}

}  // namespace infer
