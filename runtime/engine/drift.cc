#include "runtime/engine/drift.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <new>

#include "lib/support/rank_tests.h"
#include "lib/support/statistics.h"
#include "lib/support/strings.h"

namespace infer::engine {
namespace {

constexpr size_t kTenths = 10;

std::vector<double> DistancesTo(double median, std::vector<double> v) {
  for (double& x : v) x = x == median ? 0 : std::abs(x - median);  // infinity - infinity
  return v;
}

/// p values of place, scale and shape. The median of both sides serves the distances, so that they
/// are as exchangeable as the values are where nothing has moved.
std::array<double, 3> Compared(const std::vector<double>& a, const std::vector<double>& b) {
  std::vector<double> both = a;
  both.insert(both.end(), b.begin(), b.end());
  const double median = UpperMedian(std::move(both));
  return {MannWhitneyP(a, b), MannWhitneyP(DistancesTo(median, a), DistancesTo(median, b)),
          KolmogorovSmirnovP(a, b)};
}

/// Shares by tenths of `reference`; half a row is added to each so that none is 0.
double StabilityIndex(std::vector<double> reference, const std::vector<double>& values) {
  std::sort(reference.begin(), reference.end());
  std::vector<double> limits;
  for (size_t i = 1; i < kTenths; ++i) limits.push_back(reference[i * reference.size() / kTenths]);
  limits.erase(std::unique(limits.begin(), limits.end()), limits.end());
  const auto shares = [&](const std::vector<double>& v) {
    std::vector<double> share(limits.size() + 1, 0.5);
    for (const double x : v)
      ++share[static_cast<size_t>(std::upper_bound(limits.begin(), limits.end(), x) -
                                  limits.begin())];
    const double all = static_cast<double>(v.size()) + 0.5 * static_cast<double>(share.size());
    for (double& s : share) s /= all;
    return share;
  };
  const auto from = shares(reference), to = shares(values);
  double index = 0;
  for (size_t i = 0; i < from.size(); ++i) index += (to[i] - from[i]) * std::log(to[i] / from[i]);
  return index;
}

std::vector<double> FigureOf(const std::deque<std::vector<float>>& rows, size_t figure) {
  std::vector<double> values;
  for (const auto& row : rows) values.push_back(row[figure]);
  return values;
}

struct Tested {
  Drift drift;
  std::array<double, 3> p;
};

Tested TestedOf(const DriftRows& reference, const DriftRows& window, size_t figure) {
  const RowParts& parts = *reference.parts;
  const auto groups = static_cast<size_t>(parts.groups);
  const auto group = static_cast<int64_t>(figure % groups);
  const auto from = FigureOf(reference.rows, figure), to = FigureOf(window.rows, figure);
  Tested t{.drift = {.tensor = reference.name,
                     .first_channel = parts.FirstOf(group),
                     .channels = parts.FirstOf(group + 1) - parts.FirstOf(group),
                     .figure = figure < groups ? RowFigure::kMean : RowFigure::kContrast},
           .p = Compared(from, to)};
  const auto least = std::min_element(t.p.begin(), t.p.end());
  t.drift.by = static_cast<Drift::By>(least - t.p.begin());
  t.drift.psi = StabilityIndex(from, to);
  t.drift.reference_median = UpperMedian(from);
  t.drift.median = UpperMedian(to);
  return t;
}

/// Holm's step-down correction: the i-th smallest of n is multiplied by n - i, and is not less than
/// the one before.
void Correct(std::vector<Tested>& all) {
  std::vector<double*> order;
  for (Tested& t : all)
    for (double& p : t.p) order.push_back(&p);
  std::sort(order.begin(), order.end(), [](const double* a, const double* b) { return *a < *b; });
  double least = 0;
  for (size_t i = 0; i < order.size(); ++i)
    *order[i] = least =
        std::max(least, std::min(1.0, *order[i] * static_cast<double>(order.size() - i)));
}

using FiguresOfRows = std::vector<std::vector<float>>;

/// Of each tensor that has parts, none where the value does not fit them.
std::vector<FiguresOfRows> FiguresBy(const std::vector<DriftRows>& tensors,
                                     std::span<const Datum> inputs,
                                     std::span<const Datum> outputs) {
  std::vector<FiguresOfRows> figures(tensors.size());
  for (size_t i = 0; i < tensors.size() && i < inputs.size() + outputs.size(); ++i) {
    const Datum& value = i < inputs.size() ? inputs[i] : outputs[i - inputs.size()];
    if (tensors[i].parts && value.is_tensor())
      figures[i] = FiguresOf(value.tensor(), *tensors[i].parts);
  }
  return figures;
}

bool IsPossible(const RowParts& p) {
  return p.axis >= -1 && p.channels >= 1 && p.groups >= 1 && p.groups <= kMostGroups &&
         p.groups <= p.channels && (p.axis >= 0 || p.channels == 1) &&
         DispatchReal(p.dtype, [](auto) {});
}

void Keep(std::vector<DriftRows>& tensors, std::vector<FiguresOfRows> figures, size_t most) {
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (!tensors[i].parts) continue;
    tensors[i].misfits += figures[i].empty() ? 1 : 0;
    for (auto& row : figures[i]) tensors[i].rows.push_back(std::move(row));
    while (tensors[i].rows.size() > most) tensors[i].rows.pop_front();
  }
}

}  // namespace

std::string_view Name(Drift::By by) {
  switch (by) {
    case Drift::By::kPlace: return "place";
    case Drift::By::kScale: return "scale";
    case Drift::By::kShape: return "shape";
  }
  return "";
}

DriftReference::DriftReference(std::vector<std::string> inputs, std::vector<std::string> outputs) {
  for (auto* names : {&inputs, &outputs})
    for (std::string& n : *names) tensors_.push_back({.name = std::move(n)});
}

void DriftReference::Add(std::span<const Datum> inputs, std::span<const Datum> outputs) {
  for (size_t i = 0; i < tensors_.size() && i < inputs.size() + outputs.size(); ++i) {
    const Datum& value = i < inputs.size() ? inputs[i] : outputs[i - inputs.size()];
    if (!tensors_[i].parts && value.is_tensor()) tensors_[i].parts = RowPartsOf(value.tensor());
  }
  Keep(tensors_, FiguresBy(tensors_, inputs, outputs), kMostRows);
}

Result<DriftReference> DriftReference::Of(std::vector<DriftRows> tensors) {
  for (DriftRows& t : tensors) {
    while (t.rows.size() > kMostRows) t.rows.pop_front();
    if (t.parts ? !IsPossible(*t.parts) : !t.rows.empty())
      return InvalidArgument(Cat("'", t.name, "': parts that no tensor has"));
    for (const auto& row : t.rows)
      if (row.size() != t.parts->figures())
        return InvalidArgument(
            Cat("'", t.name, "': a row of ", row.size(), " figures, not of ", t.parts->figures()));
  }
  DriftReference r;
  r.tensors_ = std::move(tensors);
  return r;
}

DriftWatch::DriftWatch(std::shared_ptr<const DriftReference> reference)
    : DriftWatch(std::move(reference), Options()) {}

DriftWatch::DriftWatch(std::shared_ptr<const DriftReference> reference, Options options)
    : reference_(std::move(reference)), options_(options) {
  options_.window = std::max(options_.window, DriftReference::kLeastRows);
  for (const DriftRows& t : reference_->tensors())
    tensors_.push_back({.name = t.name, .parts = t.parts});
}

void DriftWatch::See(std::span<const Datum> inputs, std::span<const Datum> outputs) noexcept {
  try {
    // Names and parts never change, so that reading them takes no lock.
    auto figures = FiguresBy(reference_->tensors(), inputs, outputs);
    const std::lock_guard lock(mutex_);
    Keep(tensors_, std::move(figures), options_.window);
  } catch (const std::bad_alloc&) {
    // The request has its answer; its row is not looked at.
  }
}

DriftReport DriftWatch::Look() const {
  std::vector<DriftRows> window;
  {
    const std::lock_guard lock(mutex_);
    window = tensors_;
  }
  DriftReport report{.rows = static_cast<int64_t>(options_.window)};
  std::vector<Tested> tested;
  for (size_t i = 0; i < window.size(); ++i) {
    report.misfits += window[i].misfits;
    const DriftRows& reference = reference_->tensors()[i];
    if (!reference.parts) continue;
    report.rows = std::min(report.rows, static_cast<int64_t>(window[i].rows.size()));
    if (reference.rows.size() < DriftReference::kLeastRows ||
        window[i].rows.size() < options_.window)
      continue;
    for (size_t f = 0; f < reference.parts->figures(); ++f)
      tested.push_back(TestedOf(reference, window[i], f));
  }
  report.judged = !tested.empty();
  report.figures = static_cast<int64_t>(tested.size());
  Correct(tested);
  for (Tested& t : tested) {
    t.drift.p = *std::min_element(t.p.begin(), t.p.end());
    if (t.drift.p < options_.alarm) report.found.push_back(std::move(t.drift));
  }
  std::stable_sort(report.found.begin(), report.found.end(),
                   [](const Drift& a, const Drift& b) { return a.p < b.p; });
  return report;
}

}  // namespace infer::engine
