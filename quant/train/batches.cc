#include "quant/train/batches.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "lib/ir/editor.h"
#include "lib/ir/inference.h"
#include "lib/support/strings.h"

namespace infer {
namespace {

constexpr int64_t kLeastSide = 8, kShare = 8, kUnits = 1000;

bool IsImage(const Tensor& t) {
  return t.rank() == 4 && (t.dim(1) == 1 || t.dim(1) == 3) && t.dim(2) >= kLeastSide &&
         t.dim(3) >= kLeastSide && (t.dtype() == DType::kF32 || t.dtype() == DType::kU8);
}

/// Planes of [height, width] from `from` to `to`, pixel (y, x) read at (y - down, x - right).
template <typename T>
void MovePlanes(const T* from, T* to, int64_t planes, int64_t height, int64_t width,
                const DrawnSample& s) {
  const auto pixels = [](int64_t units, int64_t side) { return units * (side / kShare) / kUnits; };
  const int64_t down = pixels(s.down, height), right = pixels(s.right, width);
  for (int64_t p = 0; p < planes; ++p)
    for (int64_t y = 0; y < height; ++y) {
      const T* row = from + (p * height + std::clamp<int64_t>(y - down, 0, height - 1)) * width;
      for (int64_t x = 0; x < width; ++x) {
        const int64_t at = std::clamp<int64_t>(x - right, 0, width - 1);
        *to++ = row[s.mirrored ? width - 1 - at : at];
      }
    }
}

void Place(const Tensor& t, const DrawnSample& s, std::byte* to) {
  const bool moves = s.mirrored || s.down != 0 || s.right != 0;
  if (!moves || !IsImage(t)) {
    std::memcpy(to, t.raw(), static_cast<size_t>(t.byte_size()));
    return;
  }
  const int64_t planes = t.dim(0) * t.dim(1);
  if (t.dtype() == DType::kF32)
    MovePlanes(t.data<float>().data(), reinterpret_cast<float*>(to), planes, t.dim(2), t.dim(3), s);
  else
    MovePlanes(t.data<uint8_t>().data(), reinterpret_cast<uint8_t*>(to), planes, t.dim(2), t.dim(3),
               s);
}

/// A Reshape to [1, rest] of what has one row, too, as files of a fixed batch have it in front of
/// their products, keeps whatever rows there are.
void KeepRowsOfReshapes(Graph& g) {
  GraphEditor editor(g);
  for (const auto& n : g.nodes()) {
    if (!n->Is("Reshape") || n->AttrOr<int64_t>("allowzero", 0) != 0) continue;
    const Value *data = n->input(0), *shape = n->input(1), *out = n->output(0);
    if (!shape->is_constant() || !data->type().is_tensor() || !out->type().is_tensor() ||
        !data->tensor_type().is_static() || !out->tensor_type().is_static())
      continue;
    Dims to = out->shape().static_dims();
    const Dims from = data->shape().static_dims();
    if (from.empty() || to.empty() || from[0] != to[0] ||
        std::find(to.begin(), to.end(), 0) != to.end())
      continue;
    to[0] = 0;  // as the operand has
    editor.SetOperand(*n, 1, editor.AddConstant(Tensor::Int64s(to)));
  }
}

}  // namespace

Result<Graph> WithOpenRows(const Graph& g) {
  Graph open = g.Clone();
  KeepRowsOfReshapes(open);
  GraphEditor editor(open);
  for (Value* v : open.inputs()) {
    if (!v->type().is_tensor() || !v->shape().has_rank() || v->shape().rank() == 0)
      return Unsupported(Cat("input '", v->name(), "' has no first axis"));
    std::vector<Dim> dims = v->shape().dims();
    dims[0] = Dim::Symbol("stacked_rows");
    editor.SetType(v, TensorType{v->dtype(), Shape(std::move(dims))});
  }
  INFER_TRY(InferTypes(open));
  return open;
}

DrawnSample SampleOrder::At(int64_t at) {
  const int64_t epoch = at / count_;
  if (epoch != epoch_) {
    order_.resize(static_cast<size_t>(count_));
    std::iota(order_.begin(), order_.end(), 0);
    Random random(seed_, static_cast<uint64_t>(epoch) + 1);
    for (size_t i = order_.size(); i > 1; --i)
      std::swap(order_[i - 1], order_[random.Below(static_cast<uint32_t>(i))]);
    epoch_ = epoch;
  }
  DrawnSample s;
  s.sample = order_[static_cast<size_t>(at % count_)];
  Random random(seed_ + 0x5eed, static_cast<uint64_t>(at) + 1);
  const auto units = [&] { return static_cast<int64_t>(random.Below(2 * kUnits + 1)) - kUnits; };
  if (augment_.shift) {
    s.down = units();
    s.right = units();
  }
  s.mirrored = augment_.mirror && random.Below(2) == 1;
  return s;
}

Result<std::vector<Datum>> StackedInputs(const Samples& samples,
                                         std::span<const DrawnSample> drawn) {
  std::vector<Tensor> stacked;
  for (size_t i = 0; i < drawn.size(); ++i) {
    INFER_ASSIGN(const std::vector<Datum> inputs, samples.get(drawn[i].sample));
    for (size_t k = 0; k < inputs.size(); ++k) {
      if (!inputs[k].is_tensor() || inputs[k].tensor().dtype() == DType::kString)
        return InvalidArgument(
            Cat("input ", k, " is no tensor of numbers: fine-tuning wants such"));
      const Tensor& t = inputs[k].tensor();
      if (i == 0) {
        Dims dims = t.dims();
        if (drawn.size() > 1) dims[0] *= static_cast<int64_t>(drawn.size());
        stacked.emplace_back(t.dtype(), std::move(dims));
      }
      const int64_t bytes = t.byte_size();
      if (bytes * static_cast<int64_t>(drawn.size()) != stacked[k].byte_size())
        return InvalidArgument(Cat("sample ", drawn[i].sample, " has ", ToString(t.type()),
                                   ": fine-tuning wants samples of the same extents"));
      Place(t, drawn[i], stacked[k].mutable_raw() + static_cast<int64_t>(i) * bytes);
    }
  }
  std::vector<Datum> out;
  for (Tensor& t : stacked) out.emplace_back(std::move(t));
  return out;
}

Result<Tensor> StackedLabels(const Samples& samples, std::span<const DrawnSample> drawn,
                             const Dims& dims) {
  Tensor t = Tensor::Zeros(DType::kF32, dims);
  const auto to = t.mutable_data<float>();
  const int64_t classes = dims.back();
  const int64_t rows = t.num_elements() / classes / static_cast<int64_t>(drawn.size());
  for (size_t i = 0; i < drawn.size(); ++i) {
    if (drawn[i].mirrored) continue;
    INFER_ASSIGN(const std::vector<int64_t> labels, samples.labels(drawn[i].sample));
    for (size_t r = 0; r < labels.size() && static_cast<int64_t>(r) < rows; ++r)
      if (labels[r] >= 0 && labels[r] < classes) {
        const int64_t row = static_cast<int64_t>(i) * rows + static_cast<int64_t>(r);
        to[static_cast<size_t>(row * classes + labels[r])] = 1;
      }
  }
  return t;
}

}  // namespace infer
