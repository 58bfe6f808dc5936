#pragma once
/// Weights of MatMulNBits: N rows of K columns, each row cut into blocks with one scale (and zero
/// point), codes of 2, 4 or 8 bits packed into bytes, the lowest bits of a byte first.
#include "lib/ops/op_def.h"

namespace infer {

struct NBits {
  int64_t n, k, bits, block;
  int64_t blocks() const { return (k + block - 1) / block; }
  int64_t block_bytes() const { return block * bits / 8; }
  int64_t zero_bytes() const { return (blocks() * bits + 7) / 8; }  // per row
};

/// From the attributes of a call. InvalidModel, Unsupported: no such weights.
Result<NBits> ReadNBits(const OpCall& call);

/// Their tensors; all but the codes may be nullptr.
struct NBitsTensors {
  const Tensor* codes = nullptr;
  const Tensor* scales = nullptr;
  const Tensor* zeros = nullptr;   ///< packed like codes, or one number per block
  const Tensor* groups = nullptr;  ///< g_idx: the block of each column
};

/// (code - zero point) times scale, [N, K]; without scales the codes less their zero points.
/// InvalidModel: g_idx does not fit.
Result<Tensor> UnpackNBits(const NBits& w, const NBitsTensors& in);
/// `count` rows of it, from row `first` on.
Result<Tensor> UnpackNBits(const NBits& w, const NBitsTensors& in, int64_t first, int64_t count);

}  // namespace infer
