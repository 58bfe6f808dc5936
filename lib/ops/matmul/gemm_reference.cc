#include "lib/ops/matmul/gemm_reference.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include "lib/support/isa.h"
#include "lib/support/parallel.h"

namespace infer {
namespace {

// Block sizes: an A block (kMC x kKC) and a B block (kKC x kNC) in double take 0.2 and 0.5 MB, so
// that both stay in a second-level cache.
constexpr int64_t kMC = 96, kNC = 240, kKC = 256;

/// One tile of MR rows and VN vectors: acc[i][j] += a[k][i] * b[k][j], k ascending. `c` holds the
/// sums so far, with rows `ldc` apart.
template <typename V, int MR, int VN>
inline __attribute__((always_inline)) void Tile(int64_t kc, const double* a, const double* b,
                                                double* c, int64_t ldc) {
  constexpr int64_t kLanes = sizeof(V) / sizeof(double);
  V acc[MR][VN];
  for (int i = 0; i < MR; ++i) std::memcpy(acc[i], c + i * ldc, sizeof(acc[i]));
  for (int64_t k = 0; k < kc; ++k, a += MR, b += VN * kLanes) {
    V bk[VN];
    std::memcpy(bk, b, sizeof(bk));
#pragma GCC unroll 16
    for (int i = 0; i < MR; ++i) {
#pragma GCC unroll 4
      for (int j = 0; j < VN; ++j) acc[i][j] += a[i] * bk[j];
    }
  }
  for (int i = 0; i < MR; ++i) std::memcpy(c + i * ldc, acc[i], sizeof(acc[i]));
}

using TileFn = void (*)(int64_t kc, const double* a, const double* b, double* c, int64_t ldc);
struct Kernel {
  int64_t mr, nr;  // tile extents in elements
  TileFn tile;
};

typedef double V2 __attribute__((vector_size(16)));
void TileGeneric(int64_t kc, const double* a, const double* b, double* c, int64_t ldc) {
  Tile<V2, 4, 2>(kc, a, b, c, ldc);
}
#if defined(__x86_64__)
typedef double V4 __attribute__((vector_size(32)));
typedef double V8 __attribute__((vector_size(64)));
__attribute__((target("avx2,fma"))) void TileAvx2(int64_t kc, const double* a, const double* b,
                                                  double* c, int64_t ldc) {
  Tile<V4, 6, 2>(kc, a, b, c, ldc);
}
__attribute__((target("avx512f"))) void TileAvx512(int64_t kc, const double* a, const double* b,
                                                   double* c, int64_t ldc) {
  Tile<V8, 8, 3>(kc, a, b, c, ldc);
}
#endif

Kernel ChooseKernel() {
#if defined(__x86_64__)
  if (HasIsa(Isa::kAvx512)) return {8, 24, TileAvx512};
  if (HasIsa(Isa::kAvx2)) return {6, 8, TileAvx2};
#endif
  return {4, 4, TileGeneric};
}

int64_t RoundUp(int64_t v, int64_t to) { return (v + to - 1) / to * to; }

/// Scratch memory of one thread, for blocks no larger than the problem.
struct Scratch {
  std::unique_ptr<double[]> a, b, c;
  int64_t ldc;
};

struct Problem {
  int64_t m, n, k;
  const PackPanel &pack_a, &pack_b;
  const StoreRow& store;
  Kernel kernel;
};

void ComputeBlock(const Problem& p, int64_t batch, int64_t m0, int64_t n0, Scratch& s) {
  const auto [mr, nr, tile] = p.kernel;
  const int64_t mc = std::min(kMC, p.m - m0), nc = std::min(kNC, p.n - n0);
  std::fill_n(s.c.get(), RoundUp(mc, mr) * s.ldc, 0.0);
  for (int64_t k0 = 0; k0 < p.k; k0 += kKC) {
    const int64_t kc = std::min(kKC, p.k - k0);
    for (int64_t i = 0; i < mc; i += mr)
      p.pack_a(batch, m0 + i, std::min(mr, mc - i), mr, k0, kc, s.a.get() + i * kc);
    for (int64_t j = 0; j < nc; j += nr)
      p.pack_b(batch, n0 + j, std::min(nr, nc - j), nr, k0, kc, s.b.get() + j * kc);
    for (int64_t j = 0; j < nc; j += nr)
      for (int64_t i = 0; i < mc; i += mr)
        tile(kc, s.a.get() + i * kc, s.b.get() + j * kc, s.c.get() + i * s.ldc + j, s.ldc);
  }
  for (int64_t i = 0; i < mc; ++i) p.store(batch, m0 + i, n0, nc, s.c.get() + i * s.ldc);
}

}  // namespace

void GemmReference(int64_t batch, int64_t m, int64_t n, int64_t k, const PackPanel& pack_a,
                   const PackPanel& pack_b, const StoreRow& store) {
  if (batch == 0 || m == 0 || n == 0) return;
  const Problem p{m, n, k, pack_a, pack_b, store, ChooseKernel()};
  const int64_t m_blocks = (m + kMC - 1) / kMC, n_blocks = (n + kNC - 1) / kNC;
  const int64_t ldc = RoundUp(std::min(kNC, n), p.kernel.nr);
  const int64_t rows = RoundUp(std::min(kMC, m), p.kernel.mr), depth = std::min(kKC, k);
  // Small blocks (depthwise convolutions) are taken several at a time.
  const int64_t block_work = rows * ldc * std::max<int64_t>(k, 1);
  const int64_t grain = std::max<int64_t>(1, (int64_t{1} << 18) / block_work);
  ParallelFor(batch * m_blocks * n_blocks, grain, [&](int64_t begin, int64_t end) {
    auto make = [](int64_t count) {
      return std::make_unique_for_overwrite<double[]>(static_cast<size_t>(count));
    };
    Scratch s{make(rows * depth), make(ldc * depth), make(rows * ldc), ldc};
    for (int64_t t = begin; t < end; ++t)
      ComputeBlock(p, t / (m_blocks * n_blocks), t / n_blocks % m_blocks * kMC, t % n_blocks * kNC,
                   s);
  });
}

}  // namespace infer
