/// SVMClassifier and SVMRegressor: some rows beside all support vectors at a time.
#include <algorithm>

#include "lib/ops/common.h"
#include "lib/support/strings.h"
#include "runtime/cpu/kernels/common/kernels.h"
#include "runtime/cpu/kernels/common/step_results.h"
#include "runtime/cpu/kernels/ml/support_vectors.h"
#include "runtime/cpu/launch/launch.h"

namespace infer {
namespace {

/// Parts of the rows, each with memory of its own: what lanes take.
constexpr int64_t kMostSvmParts = 16;
/// Of the tolerance, what sums in f32 may take.
constexpr double kShareOfF32 = 0.2;

bool IsNumbers(DType t) {
  return t == DType::kF32 || t == DType::kF64 || t == DType::kI32 || t == DType::kI64;
}

/// The parts that the rows of a launch are cut into, and the places of operands and results.
struct SvmRows {
  DType type = DType::kF32;
  int64_t rows = 0, row_bytes = 0, parts = 1, part_bytes = 0, grain = 1;
  int scratch = 0;

  SvmRows(const SupportVectors& v, std::span<const Operand> in, std::span<const Operand> out,
          int64_t more_bytes)
      : type(in[0].dtype),
        rows(NumElements(in[0].dims) / v.features()),
        row_bytes(PackedBytes(type, v.features())),
        parts(std::min((rows + SupportVectors::kRows - 1) / SupportVectors::kRows, kMostSvmParts)),
        part_bytes((v.scratch_bytes() + more_bytes + 63) / 64 * 64),
        grain(std::max<int64_t>(1, kElementGrain * parts / (rows * v.work_per_row()))),
        scratch(static_cast<int>(in.size() + out.size())) {}

  /// use(first row, rows, values, memory of the part beyond what the support vectors need)
  template <typename F>
  void ForTiles(const SupportVectors& v, std::byte* const* args, const F& use) const {
    ForRange(parts, grain, [&](int64_t begin, int64_t end) {
      for (int64_t p = begin; p < end; ++p) {
        std::byte* const own = args[scratch] + p * part_bytes;
        auto* const values = As<double>(own + v.scratch_bytes());
        const int64_t last = rows * (p + 1) / parts;
        for (int64_t row = rows * p / parts; row < last; row += SupportVectors::kRows) {
          const int64_t count = std::min(SupportVectors::kRows, last - row);
          v.Run(args[0] + row * row_bytes, type, count, own, values);
          use(row, count, values, values + SupportVectors::kRows * v.functions());
        }
      }
    });
  }
  Prepared Of(const SupportVectors& v, std::shared_ptr<const Launch> launch) const {
    Prepared p;
    p.name = Cat("own:", v.is_wide() ? "f64:" : "f32:", simd::TheModelLoops().isa);
    p.launch = std::move(launch);
    p.scratch_bytes = parts * part_bytes;
    p.weight_bytes = v.bytes();
    return p;
  }
};

double EnoughOf(const StepCall& call) { return kShareOfF32 * call.main().def().tolerance; }

/// Demands of both operators on a step; `model` is nullptr where its attributes contradict each
/// other.
template <typename Model>
std::string RefuseSvm(const StepCall& call, const Model* model, size_t supports) {
  if (call.step.nodes.size() > 1) return "it has no epilogue";
  if (!model) return "the model cannot be read";
  const DType t = ElementTypeOf(call.main().input(0));
  if (!IsNumbers(t)) return Cat("elements of ", Name(t));
  if (supports == 0) return "there are no support vectors";
  if (model->vectors.empty() || model->vectors.size() % supports != 0)
    return "the support vectors have no features";
  return SupportVectors::Refuse(model->kernel);
}

template <typename Model>
std::shared_ptr<const Model> ModelOf(const StepCall& call) {
  auto model = CallOf(call.main()).template Prepared<Model>();
  return model.ok() ? *std::move(model) : nullptr;
}

// ---- SVMRegressor ----------------------------------------------------------------------------

std::string RefuseSvmRegressor(const StepCall& call) {
  const auto m = ModelOf<SvmRegressor>(call);
  return RefuseSvm(call, m.get(), m ? m->supports : 0);
}

std::unique_ptr<Kernel> MakeSvmRegressor(const StepCall& call) {
  const auto m = ModelOf<SvmRegressor>(call);
  const auto supports = static_cast<int64_t>(m->supports);
  const auto v = std::make_shared<const SupportVectors>(
      m->kernel, m->vectors, supports, m->coefficients,
      std::vector<SupportTerm>{{0, supports, 0}, {}}, std::vector<double>{m->rho},
      ElementTypeOf(call.main().input(0)) == DType::kF32, EnoughOf(call));
  return KernelOf(
      [m, v](std::span<const Operand> in, std::span<const Operand> out) -> Result<Prepared> {
        if (in[0].dims.back() != v->features()) return Unsupported("another number of features");
        const SvmRows rows(*v, in, out, SupportVectors::kRows * 8);
        return rows.Of(*v, LaunchOf([m, v, rows](std::byte* const* args) {
          rows.ForTiles(*v, args, [&](int64_t row, int64_t count, const double* sums, double*) {
            for (int64_t r = 0; r < count; ++r)
              As<float>(args[1])[row + r] = static_cast<float>(m->Finish(sums[r]));
          });
        }));
      });
}

// ---- SVMClassifier ---------------------------------------------------------------------------

std::string RefuseSvmClassifier(const StepCall& call) {
  const auto m = ModelOf<SvmClassifier>(call);
  if (m && m->labels.dtype() == DType::kString) return "the labels are text";
  return RefuseSvm(call, m.get(), m ? m->supports() : 0);
}

std::unique_ptr<Kernel> MakeSvmClassifier(const StepCall& call) {
  const auto m = ModelOf<SvmClassifier>(call);
  const auto supports = static_cast<int64_t>(m->supports());
  // A vector of class c has a coefficient against every other class: the row of the other one, the
  // later classes moved down by one.
  std::vector<SupportTerm> terms;
  const auto term = [&](size_t of, size_t row) {
    const auto first = static_cast<int64_t>(m->begin[of]);
    terms.push_back({first, static_cast<int64_t>(m->begin[of + 1]) - first,
                     static_cast<int64_t>(row) * supports + first});
  };
  for (size_t i = 0; i < m->classes(); ++i)
    for (size_t j = i + 1; j < m->classes(); ++j) {
      term(i, j - 1);
      term(j, i);
    }
  const auto v = std::make_shared<const SupportVectors>(
      m->kernel, m->vectors, supports, m->coefficients, std::move(terms),
      std::vector<double>(m->rho.begin(), m->rho.begin() + static_cast<ptrdiff_t>(m->pairs())),
      ElementTypeOf(call.main().input(0)) == DType::kF32, EnoughOf(call));
  const int label = ResultOf(call, 0), score = ResultOf(call, 1);
  return KernelOf(
      [=](std::span<const Operand> in, std::span<const Operand> out) -> Result<Prepared> {
        if (in[0].dims.back() != v->features()) return Unsupported("another number of features");
        const size_t numbers =
            static_cast<size_t>(SupportVectors::kRows * v->functions()) + m->scores() + m->work();
        const SvmRows rows(*v, in, out, static_cast<int64_t>(8 * numbers));
        return rows.Of(*v, LaunchOf([m, v, rows, label, score](std::byte* const* args) {
          const auto columns = static_cast<int64_t>(m->scores());
          const std::span<const int64_t> labels = m->labels.data<int64_t>();
          rows.ForTiles(*v, args,
                        [&](int64_t row, int64_t count, const double* values, double* memory) {
                          const std::span scores(memory, m->scores());
                          for (int64_t r = 0; r < count; ++r) {
                            const size_t best = m->Decide({values + r * v->functions(), m->pairs()},
                                                          scores, {memory + columns, m->work()});
                            if (label >= 0) As<int64_t>(args[1 + label])[row + r] = labels[best];
                            for (int64_t c = 0; score >= 0 && c < columns; ++c)
                              As<float>(args[1 + score])[(row + r) * columns + c] =
                                  static_cast<float>(scores[static_cast<size_t>(c)]);
                          }
                        });
        }));
      });
}

}  // namespace

KernelList SvmKernels() {
  return {{"SVMRegressor", "ai.onnx.ml", "own", RefuseSvmRegressor, MakeSvmRegressor},
          {"SVMClassifier", "ai.onnx.ml", "own", RefuseSvmClassifier, MakeSvmClassifier}};
}

}  // namespace infer
