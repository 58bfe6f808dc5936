#include "quant/prune/check_same.h"

#include <algorithm>

#include "lib/support/readable.h"
#include "lib/support/strings.h"
#include "quant/recipe/held_out.h"

namespace infer {
namespace {

/// Relative noise that rounding leaves between the graphs: in f32, and where anything is computed
/// in 16 bits.
constexpr double kSameNoise = 1e-7, kSameNoise16 = 1e-4;
constexpr int64_t kSameSamples = 2;

}  // namespace

Status CheckSame(const Graph& before, const Graph& after, const Samples& samples,
                 const Backend& backend, int threads, std::string_view what) {
  if (samples.count == 0) return {};
  for (const Value* v : before.outputs())
    if (!v->type().is_tensor() || !IsFloat(v->dtype())) return {};
  HeldOut::Options o;
  o.threads = threads;
  o.max_samples = kSameSamples;
  INFER_ASSIGN(const HeldOut held_out, HeldOut::Make(before, samples, backend, o));
  INFER_ASSIGN(const HeldOutError e, held_out.Measure(after));
  const bool has_16_bits =
      std::any_of(before.values().begin(), before.values().end(), [](const auto& v) {
        return v->type().is_tensor() && IsFloat(v->dtype()) && BitWidth(v->dtype()) <= 16;
      });
  if (e.worst_of_all <= (has_16_bits ? kSameNoise16 : kSameNoise)) return {};
  return Internal(Cat(what, ", by ", Rounded(e.worst_of_all, 3), " of its outputs' energy"));
}

}  // namespace infer
