#include "quant/algorithm/hessian.h"

#include <Eigen/Core>
#include <algorithm>
#include <cmath>

#include "lib/ir/roles.h"
#include "lib/support/parallel.h"
#include "lib/support/strings.h"
#include "quant/algebra/eigen_product.h"
#include "quant/algorithm/layer_rows.h"
#include "quant/calibrate/calibrate.h"

namespace infer {
namespace {

using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

constexpr int64_t kChunk = 256;   // rows of one rank update
constexpr int64_t kSegments = 8;  // of a sample's rows; every fourth is held out

/// Adds rows [rows, depth] to the lower triangle.
void AddRows(const float* rows, int64_t count, Hessian& h, int64_t group) {
  Eigen::Map<Matrix> sum(h.sum.data() + group * h.depth * h.depth, h.depth, h.depth);
  for (int64_t at = 0; at < count; at += kChunk) {
    const Eigen::Map<const Matrix> x(rows + at * h.depth, std::min(kChunk, count - at), h.depth);
    AddProduct<float>(1, ViewOf(x).transposed(), ViewOf(x), MutableViewOf(sum), Part::kLower);
  }
  if (group == 0) h.rows += count;
}

void MirrorLower(Hessian& h) {
  for (int64_t g = 0; g < h.groups; ++g) {
    Eigen::Map<Matrix> sum(h.sum.data() + g * h.depth * h.depth, h.depth, h.depth);
    sum.triangularView<Eigen::StrictlyUpper>() = sum.transpose();
  }
}

/// Where the rows of one source go.
struct Sink {
  RowSource source;
  bool is_input = false;
  size_t index = 0;  // input or output number of the program
  bool by_sample = true;
  HessianPair pair;

  Sink(RowSource s, bool whole_samples) : source(std::move(s)), by_sample(whole_samples) {
    for (Hessian* h : {&pair.fit, &pair.held_out}) {
      h->depth = source.depth;
      h->groups = source.groups;
      h->sum.assign(static_cast<size_t>(source.groups * source.depth * source.depth), 0.0f);
    }
  }

  /// Rows of one sample; `group` 0 comes first.
  void Add(const float* rows, int64_t count, int64_t group, int64_t run) {
    if (by_sample || count < kSegments)
      return AddRows(rows, count, IsHeldOutSample(run) ? pair.held_out : pair.fit, group);
    for (int64_t s = 0; s < kSegments; ++s) {
      const int64_t begin = s * count / kSegments, end = (s + 1) * count / kSegments;
      AddRows(rows + begin * source.depth, end - begin,
              IsHeldOutSample(s) ? pair.held_out : pair.fit, group);
    }
  }

  Status See(const Tensor& x, int64_t run, int64_t windows) {
    return ForRows(source, x, run, windows, [&](const float* rows, int64_t count, int64_t group) {
      Add(rows, count, group, run);
    });
  }
};

Status CheckValue(const Graph& graph, const RowSource& s) {
  const Value* v = graph.FindValue(s.value);
  if (!v || v->is_constant() || !v->type().is_tensor() || v->dtype() != DType::kF32)
    return InvalidArgument(Cat("'", s.value, "' is not a computed f32 tensor of the graph"));
  return {};
}

}  // namespace

bool Hessian::finite() const {
  return std::all_of(sum.begin(), sum.end(), [](float x) { return std::isfinite(x); });
}

void Hessian::Add(const Hessian& o) {
  if (sum.empty()) {
    *this = o;
    return;
  }
  INFER_CHECK(depth == o.depth && groups == o.groups);
  rows += o.rows;
  for (size_t i = 0; i < sum.size(); ++i) sum[i] += o.sum[i];
}

std::string RowSource::Key() const {
  if (!conv) return positions ? Cat(value, " positions") : value;
  std::string key = Cat(value, " windows of ", depth, "/", groups);
  for (const char* name : {"kernel_shape", "strides", "dilations", "pads"})
    if (const auto it = conv->attrs().find(name); it != conv->attrs().end())
      key += Cat(" ", Join(std::get<std::vector<int64_t>>(it->second), ","));
  if (const auto it = conv->attrs().find("auto_pad"); it != conv->attrs().end())
    key += Cat(" ", std::get<std::string>(it->second));
  return key;
}

Result<RowSource> SourceOf(const Node& node) {
  const Value* w = node.input(1);
  const auto layout = WeightLayoutOf(node);
  if (!layout || layout->outputs_in_groups)
    return InvalidArgument(Cat(node.op(), " multiplies no weights"));
  if (!w || !w->type().is_tensor() || !w->shape().has_rank() || !w->shape().is_static())
    return InvalidArgument("the shape of its weights is not known");
  const Dims dims = w->shape().static_dims();
  RowSource s;
  s.value = node.input(0)->name();
  if (layout->is_window) {
    if (!w->is_constant()) return InvalidArgument("its weights are not constant");
    s.conv = &node;
    s.groups = node.Attr<int64_t>("group");
    s.depth = w->constant()->num_elements() / std::max<int64_t>(dims[0], 1);
    return s;
  }
  if (dims.size() != 2) return InvalidArgument("its weights are no matrix");
  if (layout->data_transposed) return InvalidArgument("its operand is transposed");
  s.depth = layout->InputChannels(dims);
  return s;
}

Result<RowSource> LayerSourceOf(const Node& node, size_t operand) {
  if (!node.input(operand) || !node.input(operand)->is_constant())
    return InvalidArgument("its weights are not constant");
  const Tensor& w = *node.input(operand)->constant();
  RowSource s;
  s.value = node.input(0)->name();
  if (IsConvolution(node) && operand == 1) {
    INFER_ASSIGN(s, SourceOf(node));
  } else if (IsTransposedConvolution(node) && operand == 1) {
    if (node.Attr<int64_t>("group") != 1) return InvalidArgument("it has groups");
    s.positions = true;
    s.depth = w.dim(0);
  } else if (IsRecurrentLayer(node) && operand <= 2) {
    s.depth = w.dim(2);
    if (operand == 2) {
      if (w.dim(0) != 1) return InvalidArgument("it has two directions");
      if (node.AttrOr<int64_t>("linear_before_reset", 1) == 0)
        return InvalidArgument("a gate lies between its states and their weights");
      if (!node.output(0)) return InvalidArgument("its states are no result");
      s.value = node.output(0)->name();
    }
  } else {
    return InvalidArgument(Cat(node.op(), " is no convolution or recurrent layer"));
  }
  s.weights = node.input(operand)->name();
  return s;
}

int64_t HessianBytes(const RowSource& source) {
  return 2 * source.groups * source.depth * source.depth * static_cast<int64_t>(sizeof(float));
}

Result<std::map<std::string, HessianPair>> SumHessians(const Graph& graph,
                                                       std::span<const RowSource> sources,
                                                       const Samples& samples,
                                                       const Backend& backend,
                                                       const HessianOptions& options) {
  if (samples.count <= 0) return InvalidArgument("there are no calibration samples");
  std::vector<Sink> sinks;
  std::vector<std::string> taps;
  for (const RowSource& s : sources) {
    INFER_TRY(CheckValue(graph, s));
    Sink sink(s, samples.count >= kHoldOutSamplesFrom);
    const Value* v = graph.FindValue(s.value);
    sink.is_input = v->is_input();
    if (sink.is_input) {
      while (graph.inputs()[sink.index] != v) ++sink.index;
    } else {
      const auto at = std::find(taps.begin(), taps.end(), s.value);
      sink.index = graph.outputs().size() + static_cast<size_t>(at - taps.begin());
      if (at == taps.end()) taps.push_back(s.value);
    }
    sinks.push_back(std::move(sink));
  }
  CompileOptions compile;
  compile.level = options.level;
  compile.threads = options.threads;
  INFER_ASSIGN(TappedProgram t, CompileWithTaps(graph, taps, backend, compile));
  for (int64_t run = 0; run < samples.count; ++run) {
    if (options.stop.stop_requested()) return Cancelled("summing the calibration data was stopped");
    auto inputs = samples.get(run);
    if (!inputs.ok()) return std::move(inputs.status()).In(Cat("calibration sample ", run));
    if (Status s = RunInputs(*t.context, *inputs, options.stop); !s.ok())
      return std::move(s).In(Cat("calibration sample ", run));
    std::vector<Status> seen(sinks.size());
    const LaneLease lease(options.threads);
    ParallelFor(static_cast<int64_t>(sinks.size()), 1, [&](int64_t begin, int64_t end) {
      for (auto k = static_cast<size_t>(begin); k < static_cast<size_t>(end); ++k) {
        Sink& s = sinks[k];
        const Datum& d = s.is_input ? (*inputs)[s.index] : t.context->output(s.index);
        seen[k] = s.See(d.tensor(), run, options.conv_windows);
      }
    });
    for (Status& s : seen)
      if (!s.ok()) return std::move(s).In(Cat("calibration sample ", run));
    if (options.progress) options.progress(run + 1, samples.count);
  }
  std::map<std::string, HessianPair> table;
  for (Sink& s : sinks) {
    MirrorLower(s.pair.fit);
    MirrorLower(s.pair.held_out);
    table.emplace(s.source.Key(), std::move(s.pair));
  }
  return table;
}

}  // namespace infer
