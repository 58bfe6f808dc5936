#include "quant/weight_only/round.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "lib/support/parallel.h"
#include "lib/support/strings.h"

namespace infer {
namespace {

/// Rounds halves to even by adding and taking away 1.5 * 2^23, which vectorises everywhere. Pre:
/// |x| < 2^22.
inline float RoundSmall(float x) {
  constexpr float kMagic = 12582912.0f;
  return (x + kMagic) - kMagic;
}

/// Code minus zero point; `inverse` is 1 / scale.
inline float Steps(float x, float inverse, float low, float high) {
  return RoundSmall(std::clamp(x * inverse, low - 0.5f, high + 0.5f));
}

/// A block as it is searched: codes lie in [low, high] around the zero point.
struct Candidate {
  float scale = 1;
  int zero = 0;
  double error = 0;
};

double Error(std::span<const float> x, std::span<const float> by, const BlockGrid& grid,
             float scale, int zero) {
  const float low = static_cast<float>(-zero), high = static_cast<float>(grid.max_code() - zero);
  const float inverse = 1 / scale;
  float sum = 0;  // of at most a few thousand similar numbers
  double all = 0;
  constexpr size_t kChunk = 64;
  for (size_t from = 0; from < x.size(); from += kChunk, all += static_cast<double>(sum), sum = 0) {
    const size_t to = std::min(x.size(), from + kChunk);
    for (size_t i = from; i < to; ++i) {
      const float q = std::clamp(Steps(x[i], inverse, low, high), low, high);
      const float d = (x[i] - q * scale) * inverse;  // in steps: no underflow of tiny weights
      sum += by.empty() ? d * d : by[i] * d * d;
    }
  }
  return all * static_cast<double>(scale) * static_cast<double>(scale);
}

/// The scale of least weighted squared error for the codes that `c` gives.
float FitScale(std::span<const float> x, std::span<const float> by, const BlockGrid& grid,
               const Candidate& c) {
  const float low = static_cast<float>(-c.zero),
              high = static_cast<float>(grid.max_code() - c.zero);
  const float inverse = 1 / c.scale;
  double products = 0, squares = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const float q = std::clamp(Steps(x[i], inverse, low, high), low, high);
    const double w = by.empty() ? 1 : static_cast<double>(by[i]);
    products += w * static_cast<double>(q) * static_cast<double>(x[i]);
    squares += w * static_cast<double>(q) * static_cast<double>(q);
  }
  const auto s = static_cast<float>(products / squares);
  return squares > 0 && std::isnormal(s) ? s : c.scale;
}

/// How far and in what steps ranges shrink: fewer codes gain from clipping more.
struct Shrink {
  int count;
  float step;
};
Shrink ShrinkOf(int bits) {
  switch (bits) {
    case 2: return {20, 0.035f};
    case 4: return {20, 0.022f};
    default: return {8, 0.008f};
  }
}

/// Calls try_one(scale, zero point) for ranges from a little wider than the block's to much
/// narrower ones.
template <typename F>
void ForCandidates(std::span<const float> x, const BlockGrid& grid, const F& try_one) {
  const Shrink shrink = ShrinkOf(grid.bits);
  const BlockParams full = ChooseBlockParams(x, grid);
  if (grid.symmetric) {
    // From where the side of one code less holds the largest, too.
    const auto middle = static_cast<float>(grid.middle());
    const float widest = grid.positive ? full.scale : full.scale * middle / (middle - 1);
    for (int i = 0; i < shrink.count; ++i) {
      const float s = widest * (1 - static_cast<float>(i) * shrink.step);
      try_one(s, grid.middle());
      if (!grid.positive) try_one(-s, grid.middle());
    }
    return;
  }
  for (int i = 0; i < shrink.count; ++i) {
    const float s = full.scale * (1.04f - static_cast<float>(i) * shrink.step);
    // The zero point moves with the scale: around where the full range's codes were centred.
    const float center =
        (static_cast<float>(grid.max_code()) / 2 - static_cast<float>(full.zero_point)) *
        full.scale;
    const float zero = static_cast<float>(grid.max_code()) / 2 - center / s;
    for (const float z : {std::floor(zero), std::ceil(zero)})
      try_one(s, static_cast<int>(std::clamp(z, 0.0f, static_cast<float>(grid.max_code()))));
  }
}

/// |e|^0.7 for e in steps; a table up to 1, which rounding seldom leaves.
double PowerOfError(double e) {
  constexpr int kEntries = 1024;
  static const auto table = [] {
    std::array<float, kEntries + 1> t{};
    for (int i = 0; i <= kEntries; ++i)
      t[static_cast<size_t>(i)] =
          static_cast<float>(std::pow(static_cast<double>(i) / kEntries, 0.7));
    return t;
  }();
  if (!(e < 1)) return std::pow(e, 0.7);
  const double at = e * kEntries;
  const auto i = static_cast<size_t>(at);
  const double low = static_cast<double>(table[i]), high = static_cast<double>(table[i + 1]);
  return low + (at - static_cast<double>(i)) * (high - low);
}

/// sum |w - q|^0.7 in steps of `unit`.
double LpError(std::span<const float> x, const BlockGrid& grid, const BlockParams& p, float unit) {
  double sum = 0;
  for (const float v : x) {
    const float d = v - DecodeWeight(EncodeWeight(v, p, grid), p);
    sum += PowerOfError(std::fabs(static_cast<double>(d) / static_cast<double>(unit)));
  }
  return sum;
}

/// Half-quadratic splitting: e takes what is outlying of the error, then scale and zero point are
/// solved for on w - e; beta grows as in the original.
BlockParams HqqParams(std::span<const float> x, const BlockGrid& grid, double& error,
                      double& nearest) {
  constexpr int kRounds = 20;
  constexpr double kKappa = 1.01;
  const BlockParams start = ChooseBlockParams(x, grid);
  const float unit = std::fabs(start.scale);
  nearest = error = LpError(x, grid, start, unit);
  BlockParams best = start, now = start;
  double beta = 10;
  int idle = 0;
  for (int round = 0; round < kRounds && idle < 4; ++round, beta *= kKappa) {
    double sqq = 0, sqx = 0, offset = 0;
    for (const float v : x) {
      const auto code = static_cast<double>(EncodeWeight(v, now, grid));
      const double q = code - now.zero_point, s = static_cast<double>(now.scale);
      const double e = (static_cast<double>(v) - q * s) / static_cast<double>(unit);
      const double size = std::fabs(e);
      const double kept =
          size > 0 ? std::copysign(std::max(0.0, size - PowerOfError(size) / size / beta), e) : 0;
      const double target = static_cast<double>(v) - kept * static_cast<double>(unit);
      sqq += q * q;
      sqx += q * target;
      offset += code - target / s;
    }
    BlockParams next = now;
    if (!grid.symmetric)
      next.zero_point =
          static_cast<int>(std::clamp(std::nearbyint(offset / static_cast<double>(x.size())), 0.0,
                                      static_cast<double>(grid.max_code())));
    if (grid.symmetric || next.zero_point == now.zero_point) {
      const auto s = static_cast<float>(sqx / sqq);
      if (sqq > 0 && std::isnormal(s) && !(grid.positive && s < 0)) next.scale = s;
    }
    if (next.scale == now.scale && next.zero_point == now.zero_point) break;
    now = next;
    const double e = LpError(x, grid, now, unit);
    ++idle;
    if (e < error) error = e, best = now, idle = 0;
  }
  return best;
}

/// Fills q block by block; `choose` returns parameters and adds its measure of both to sums.
template <typename Choose>
RoundedWeights RoundBlocks(const RoundRequest& r, std::string_view method, const Choose& choose) {
  RoundedWeights out;
  out.q = EmptyBlocks(r.w.rows, r.w.depth, r.grid);
  const int64_t blocks = out.q.blocks(), size = r.grid.BlockSize(r.w.depth);
  std::vector<double> errors(static_cast<size_t>(r.w.rows)), nearest(errors.size());
  ParallelFor(r.w.rows, 1, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row)
      for (int64_t b = 0; b < blocks; ++b) {
        const int64_t from = b * size, count = std::min(size, r.w.depth - from);
        const auto x = r.w.row(row).subspan(static_cast<size_t>(from), static_cast<size_t>(count));
        double e = 0, n = 0;
        const BlockParams p = choose(x, e, n);
        errors[static_cast<size_t>(row)] += e;
        nearest[static_cast<size_t>(row)] += n;
        out.q.scales[static_cast<size_t>(row * blocks + b)] = p.scale;
        out.q.zero_points[static_cast<size_t>(row * blocks + b)] =
            static_cast<uint8_t>(p.zero_point);
        uint8_t* const codes = out.q.codes.data() + row * r.w.depth + from;
        for (size_t i = 0; i < x.size(); ++i) codes[i] = EncodeWeight(x[i], p, r.grid);
      }
  });
  for (size_t i = 0; i < errors.size(); ++i) {
    out.error += errors[i];
    out.nearest_error += nearest[i];
  }
  out.method = out.error < out.nearest_error ? std::string(method) : "nearest";
  return out;
}

double ExactError(std::span<const float> x, const BlockGrid& grid, const BlockParams& p,
                  std::span<const float> by) {
  double sum = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double d = static_cast<double>(x[i]) -
                     static_cast<double>(DecodeWeight(EncodeWeight(x[i], p, grid), p));
    sum += (by.empty() ? 1 : static_cast<double>(by[i])) * d * d;
  }
  return sum;
}

BlockParams Search(std::span<const float> x, const BlockGrid& grid, std::span<const float> by,
                   double& error, double& nearest) {
  const BlockParams start = ChooseBlockParams(x, grid);
  nearest = error = ExactError(x, grid, start, by);
  if (error == 0) return start;
  Candidate best{start.scale, start.zero_point, error};
  const auto try_one = [&](float scale, int zero) {
    if (!std::isnormal(scale) || (grid.positive && scale < 0)) return;
    const double e = Error(x, by, grid, scale, zero);
    if (e < best.error) best = {scale, zero, e};
  };
  ForCandidates(x, grid, try_one);
  for (int round = 0; round < 3; ++round) {
    const float before = best.scale;
    try_one(FitScale(x, by, grid, best), best.zero);
    if (best.scale == before) break;
  }
  // The search multiplies by 1 / scale, the codes are divided: judged by what is written.
  const BlockParams found{best.scale, best.zero};
  const double exact = ExactError(x, grid, found, by);
  if (exact >= nearest) return start;
  error = exact;
  return found;
}

}  // namespace

BlockParams SearchBlockParams(std::span<const float> block, const BlockGrid& grid,
                              std::span<const float> importance) {
  double error = 0, nearest = 0;
  return Search(block, grid, importance, error, nearest);
}

BlockRounder NearestRounder() {
  return [](const RoundRequest& r) -> Result<RoundedWeights> {
    RoundedWeights out;
    out.q = QuantizeNearest(r.w, r.grid);
    out.method = "nearest";
    out.error = out.nearest_error = SquaredError(r.w, out.q);
    return out;
  };
}

BlockRounder MseRounder() {
  return [](const RoundRequest& r) -> Result<RoundedWeights> {
    return RoundBlocks(r, "mse", [&](std::span<const float> x, double& error, double& nearest) {
      return Search(x, r.grid, {}, error, nearest);
    });
  };
}

BlockRounder HqqRounder() {
  return [](const RoundRequest& r) -> Result<RoundedWeights> {
    return RoundBlocks(r, "hqq", [&](std::span<const float> x, double& error, double& nearest) {
      return HqqParams(x, r.grid, error, nearest);
    });
  };
}

namespace {

struct NamedRounder {
  std::string_view name;
  BlockRounder (*make)();
};
constexpr NamedRounder kRounders[] = {
    {"mse", MseRounder}, {"nearest", NearestRounder}, {"hqq", HqqRounder}};

}  // namespace

Result<BlockRounder> RounderNamed(std::string_view name) {
  for (const NamedRounder& r : kRounders)
    if (r.name == name) return r.make();
  return InvalidArgument(Cat("rounding '", name, "'; known: ", Join(RounderNames(), ", ")));
}

std::vector<std::string> RounderNames() {
  std::vector<std::string> names;
  for (const NamedRounder& r : kRounders) names.emplace_back(r.name);
  return names;
}

}  // namespace infer
