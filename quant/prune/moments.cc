#include "quant/prune/moments.h"

#include <Eigen/Core>
#include <algorithm>
#include <cmath>

#include "lib/support/parallel.h"
#include "lib/support/strings.h"
#include "quant/algebra/eigen_product.h"
#include "quant/algorithm/layer_rows.h"
#include "quant/calibrate/calibrate.h"

namespace infer {
namespace {

using SumMatrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using MomentView = Eigen::Map<const SumMatrix>;

constexpr int64_t kMomentSegments = 8;  // of a sample's rows, where there are few samples

/// Rows of one group.
struct RowChunk {
  int64_t group = 0;
  SumMatrix rows;
};

/// The rows of `source` in `x`, the depth in the order of `plane`.
Status ReadRows(const RowSource& source, const WeightPlane& plane, const Tensor& x, int64_t run,
                int64_t most, std::vector<RowChunk>& chunks) {
  return ForRows(source, x, run, most, [&](const float* rows, int64_t count, int64_t group) {
    RowChunk chunk{group, MomentView(rows, count, plane.depth())};
    if (plane.taps > 1)
      for (int64_t t = 0; t < plane.taps; ++t)
        for (int64_t c = 0; c < plane.channels; ++c)
          for (int64_t r = 0; r < count; ++r)
            chunk.rows(r, t * plane.channels + c) = rows[r * plane.depth() + c * plane.taps + t];
    chunks.push_back(std::move(chunk));
  });
}

void AddMomentRows(const MomentView& x, const SumMatrix& y, LayerMoments& m) {
  const int64_t d = x.cols(), r = y.cols();
  m.rows += x.rows();
  const auto add = [](const Eigen::RowVectorXf& from, std::vector<double>& to) {
    Eigen::Map<Eigen::RowVectorXd>(to.data(), from.size()) += from.cast<double>();
  };
  add(x.colwise().squaredNorm(), m.squares);
  add(x.colwise().sum(), m.sum_x);
  if (m.h.empty()) return;
  add(y.colwise().sum(), m.sum_y);
  m.energy += y.cast<double>().squaredNorm();
  Eigen::Map<SumMatrix> h(m.h.data(), d, d), c(m.c.data(), d, r);
  AddProduct<float>(1, ViewOf(x).transposed(), ViewOf(x), MutableViewOf(h), Part::kLower);
  AddProduct<float>(1, ViewOf(x).transposed(), ViewOf(y), MutableViewOf(c));
}

/// Sums for one request.
class MomentsSink {
 public:
  MomentsSink(const MomentsRequest& request, bool whole_samples)
      : request_(request), by_sample_(whole_samples) {
    const WeightPlane& plane = request.layer->place.plane;
    if (request.layer->sources.empty()) return;
    const auto d = static_cast<size_t>(plane.depth()), r = static_cast<size_t>(plane.rows);
    LayerMoments empty;
    empty.squares.resize(d);
    empty.sum_x.resize(d);
    empty.sum_y.resize(r);
    if (!request.squares_only) {
      empty.h.resize(d * d);
      empty.c.resize(d * r);
    }
    pair_.fit.assign(static_cast<size_t>(plane.groups), empty);
    pair_.held_out = pair_.fit;
  }

  Status See(const RowSource& source, const Tensor& dense, const Tensor& pruned, int64_t run,
             int64_t most) {
    const WeightPlane& plane = request_.layer->place.plane;
    std::vector<RowChunk> x, now;
    INFER_TRY(ReadRows(source, plane, dense, run, most, x));
    if (&dense != &pruned) INFER_TRY(ReadRows(source, plane, pruned, run, most, now));
    if (!now.empty() && now.size() != x.size())
      return Internal("the pruned model has other rows than the dense one");
    for (size_t i = 0; i < x.size(); ++i) {
      SumMatrix y;
      if (!request_.squares_only) {
        const MomentView w(request_.dense.data() + x[i].group * plane.rows * plane.depth(),
                           plane.rows, plane.depth());
        y.noalias() = x[i].rows * w.transpose();
      }
      AddSplit(now.empty() ? x[i] : now[i], y, run);
    }
    return {};
  }

  MomentsPair Take() {
    for (auto* part : {&pair_.fit, &pair_.held_out})
      for (LayerMoments& m : *part) {
        if (m.h.empty()) continue;
        const auto d = static_cast<int64_t>(m.squares.size());
        Eigen::Map<SumMatrix> h(m.h.data(), d, d);
        h.triangularView<Eigen::StrictlyUpper>() = h.transpose();
      }
    return std::move(pair_);
  }

 private:
  void AddSplit(const RowChunk& chunk, const SumMatrix& y, int64_t run) {
    const int64_t count = chunk.rows.rows(), d = chunk.rows.cols();
    const auto add = [&](int64_t begin, int64_t end, bool held_out) {
      auto& part = held_out ? pair_.held_out : pair_.fit;
      AddMomentRows(MomentView(chunk.rows.data() + begin * d, end - begin, d),
                    y.rows() > 0 ? SumMatrix(y.middleRows(begin, end - begin)) : y,
                    part[static_cast<size_t>(chunk.group)]);
    };
    if (by_sample_ || count < kMomentSegments) return add(0, count, IsHeldOutSample(run));
    for (int64_t s = 0; s < kMomentSegments; ++s)
      add(s * count / kMomentSegments, (s + 1) * count / kMomentSegments, IsHeldOutSample(s));
  }

  const MomentsRequest& request_;
  bool by_sample_;
  MomentsPair pair_;
};

/// A graph and where the values are that layers read.
class TappedRuns {
 public:
  static Result<TappedRuns> Make(const Graph& g, std::span<const MomentsRequest> requests,
                                 const Backend& backend, int threads) {
    TappedRuns t;
    std::vector<std::string> taps;
    for (const MomentsRequest& r : requests)
      for (const RowSource& s : r.layer->sources) {
        if (t.at_.contains(s.value)) continue;
        const Value* v = g.FindValue(s.value);
        if (!v) return Internal(Cat("the pruned model has no value '", s.value, "'"));
        if (v->is_input()) {
          const auto& in = g.inputs();
          t.at_[s.value] = {true,
                            static_cast<size_t>(std::find(in.begin(), in.end(), v) - in.begin())};
        } else {
          t.at_[s.value] = {false, g.outputs().size() + taps.size()};
          taps.push_back(s.value);
        }
      }
    CompileOptions compile;
    compile.level = 1;
    compile.threads = threads;
    INFER_ASSIGN(t.program_, CompileWithTaps(g, taps, backend, compile));
    return t;
  }
  Status Run(const std::vector<Datum>& inputs, const std::stop_token& stop) {
    return RunInputs(*program_.context, inputs, stop);
  }
  const Tensor& Of(const std::string& value, const std::vector<Datum>& inputs) const {
    const auto& [is_input, index] = at_.at(value);
    return is_input ? inputs[index].tensor() : program_.context->output(index).tensor();
  }

 private:
  TappedRuns() = default;
  std::map<std::string, std::pair<bool, size_t>> at_;
  TappedProgram program_;
};

}  // namespace

bool LayerMoments::finite() const {
  const auto all = [](const auto& v) {
    return std::all_of(v.begin(), v.end(), [](auto x) { return std::isfinite(x); });
  };
  return all(h) && all(c) && all(squares) && std::isfinite(energy);
}

void LayerMoments::Add(const LayerMoments& o) {
  const auto add = [](auto& to, const auto& from) {
    for (size_t i = 0; i < from.size(); ++i) to[i] += from[i];
  };
  rows += o.rows;
  energy += o.energy;
  add(h, o.h);
  add(c, o.c);
  add(squares, o.squares);
  add(sum_x, o.sum_x);
  add(sum_y, o.sum_y);
}

int64_t MomentsBytes(const MomentsRequest& request) {
  const WeightPlane& p = request.layer->place.plane;
  if (request.layer->sources.empty() || request.squares_only) return 0;
  return 2 * p.groups * p.depth() * (p.depth() + p.rows) * static_cast<int64_t>(sizeof(float));
}

Result<std::vector<MomentsPair>> SumMoments(const Graph& golden, const Graph* pruned,
                                            std::span<const MomentsRequest> requests,
                                            const Samples& samples, const Backend& backend,
                                            const MomentsOptions& options) {
  if (samples.count <= 0) return InvalidArgument("there are no calibration samples");
  std::vector<MomentsSink> sinks;
  for (const MomentsRequest& r : requests)
    sinks.emplace_back(r, samples.count >= kHoldOutSamplesFrom);
  INFER_ASSIGN(TappedRuns dense, TappedRuns::Make(golden, requests, backend, options.threads));
  std::optional<TappedRuns> now;
  if (pruned) {
    INFER_ASSIGN(now, TappedRuns::Make(*pruned, requests, backend, options.threads));
  }
  for (int64_t run = 0; run < samples.count; ++run) {
    const auto in_sample = [&](Status s) {
      return std::move(s).In(Cat("calibration sample ", run));
    };
    if (options.stop.stop_requested()) return Cancelled("summing the calibration data was stopped");
    auto inputs = samples.get(run);
    if (!inputs.ok()) return in_sample(inputs.status());
    if (Status s = dense.Run(*inputs, options.stop); !s.ok()) return in_sample(std::move(s));
    if (now)
      if (Status s = now->Run(*inputs, options.stop); !s.ok()) return in_sample(std::move(s));
    std::vector<Status> seen(sinks.size());
    const LaneLease lease(options.threads);
    ParallelFor(static_cast<int64_t>(sinks.size()), 1, [&](int64_t begin, int64_t end) {
      for (auto k = static_cast<size_t>(begin); k < static_cast<size_t>(end); ++k)
        for (const RowSource& s : requests[k].layer->sources) {
          const Tensor& x = dense.Of(s.value, *inputs);
          const Tensor& y = now ? now->Of(s.value, *inputs) : x;
          if (seen[k].ok()) seen[k] = sinks[k].See(s, x, y, run, options.conv_windows);
        }
    });
    for (Status& s : seen)
      if (!s.ok()) return in_sample(std::move(s));
    if (options.progress) options.progress(run + 1, samples.count);
  }
  std::vector<MomentsPair> pairs;
  for (MomentsSink& s : sinks) pairs.push_back(s.Take());
  return pairs;
}

}  // namespace infer
