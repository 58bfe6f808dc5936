#include "tools/common/sweep_choice.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "lib/support/readable.h"
#include "lib/support/strings.h"

namespace infer {
namespace {

constexpr double kSignificant = 0.05, kAgreement = 0.98, kSqnrDb = 25;
constexpr double kHardlyLarger = 1.01;

/// Numbers are JSON's own, or text: "inf", "-inf", "nan" (JsonNumber).
double NumberOf(const Json& j) {
  if (j.is_number()) return j.get<double>();
  return ParseDouble(j.get<std::string>()).value_or(std::numeric_limits<double>::quiet_NaN());
}

bool IsAcceptable(const Variant& v, double max_drop) {
  if (!v.made() || !v.measured.contains("accuracy")) return false;
  const Json& accuracy = v.measured.at("accuracy");
  if (!accuracy.contains("task")) return LeastSqnr(accuracy) >= kSqnrDb;
  const Json& task = accuracy.at("task");
  if (task.at("drop").get<double>() <= max_drop) return true;
  const Json& output = accuracy.at("outputs").at(0);
  return task.at("mcnemar_p").get<double>() >= kSignificant && output.contains("rows") &&
         output.at("rows").at("top1_agreement").get<double>() >= kAgreement;
}

/// `a` is at least as good in everything, and better in something.
bool Beats(const Variant& a, const Variant& b) {
  const double fa = a.speed_up(), fb = b.speed_up();
  if (fa < fb || a.bytes() > b.bytes() || a.score() < b.score()) return false;
  return fa > fb || a.bytes() < b.bytes() || a.score() > b.score();
}

double SpeedUpLow(const Variant& v) {
  return v.measured.at("speed_up").at("median_ci95").at(0).get<double>();
}
double SpeedUpHigh(const Variant& v) {
  return v.measured.at("speed_up").at("median_ci95").at(1).get<double>();
}

}  // namespace

int64_t Variant::bytes() const { return measured.at("bytes").get<int64_t>(); }
double Variant::speed_up() const { return measured.at("speed_up").at("median").get<double>(); }
double Variant::score() const { return NumberOf(measured.at("accuracy_score")); }
double Variant::delta() const { return NumberOf(measured.at("accuracy_delta")); }

double LeastOf(const Json& accuracy, const char* name, double otherwise) {
  double least = otherwise;
  for (const Json& output : accuracy.at("outputs"))
    if (output.contains(name)) least = std::min(least, NumberOf(output.at(name)));
  return least;
}

double LeastSqnr(const Json& accuracy) {
  return LeastOf(accuracy, "sqnr_db", std::numeric_limits<double>::infinity());
}

double SizeRatio(const Variant& v, const Variant& golden) {
  return static_cast<double>(v.bytes()) / static_cast<double>(std::max<int64_t>(golden.bytes(), 1));
}

double EvalScore(const Variant& v) { return v.measured.at("eval_score").get<double>(); }

std::string SignedPercent(double share) { return Cat(share > 0 ? "+" : "", Fixed(100 * share, 2)); }

std::string SpeedUpText(const Variant& v) {
  return Cat(Fixed(v.speed_up(), 2), " [", Fixed(SpeedUpLow(v), 2), ", ", Fixed(SpeedUpHigh(v), 2),
             "]");
}

void Judge(std::vector<Variant>& variants, double max_drop, const EvalFlags& eval) {
  const auto keeps = [&](const Variant& v) {
    if (!eval.given() || !v.made()) return IsAcceptable(v, max_drop);
    return CheckEval(eval, EvalScore(variants[0]), EvalScore(v)).passed;
  };
  for (Variant& v : variants) {
    v.acceptable = v.spec.mode.empty() || keeps(v);
    v.pareto = v.made() && std::none_of(variants.begin(), variants.end(),
                                        [&](auto& o) { return o.made() && Beats(o, v); });
  }
}

Recommendation Recommend(const std::vector<Variant>& variants) {
  const Variant* fastest = &variants[0];
  for (const Variant& v : variants)
    if (v.made() && v.acceptable && SpeedUpLow(v) > 1 && v.speed_up() > fastest->speed_up())
      fastest = &v;
  std::vector<const Variant*> as_fast = {fastest};
  for (const Variant& v : variants)
    if (v.made() && v.acceptable && SpeedUpHigh(v) >= SpeedUpLow(*fastest)) as_fast.push_back(&v);
  const auto smallest = (*std::ranges::min_element(as_fast, {}, &Variant::bytes))->bytes();
  const Variant* best = nullptr;
  for (const Variant* v : as_fast)
    if (static_cast<double>(v->bytes()) <= kHardlyLarger * static_cast<double>(smallest) &&
        (!best || v->score() > best->score() || Beats(*v, *best)))
      best = v;
  if (best == &variants[0])
    return {best->spec.id,
            best->measured.contains("accuracy") || best->measured.contains("eval_score")
                ? "no variant that keeps the accuracy is faster or smaller"
                : "without data no variant is known to keep the accuracy"};
  std::string why = Cat("the fastest that keeps the accuracy: ", SpeedUpText(*best), " x FP32");
  if (best != fastest)
    why =
        Cat("as fast as the fastest (", fastest->spec.id, ") within the intervals, and ",
            best->bytes() < fastest->bytes() ? "smaller: " : "more accurate: ", SpeedUpText(*best),
            " x FP32");
  why += Cat(", ", Fixed(SizeRatio(*best, variants[0]), 2), " x its size, ");
  if (best->measured.contains("eval_score"))
    return {best->spec.id, Cat(why, "eval command ", Rounded(EvalScore(*best), 6), ", FP32 ",
                               Rounded(EvalScore(variants[0]), 6))};
  const Json& accuracy = best->measured.at("accuracy");
  if (!accuracy.contains("task"))
    return {best->spec.id, Cat(why, "SQNR ", Fixed(LeastSqnr(accuracy), 1), " dB")};
  const Json& task = accuracy.at("task");
  why +=
      Cat("top-1 ", SignedPercent(best->delta()), " points (lost ", task.at("lost").get<int64_t>(),
          ", gained ", task.at("gained").get<int64_t>(), " of ", task.at("samples").get<int64_t>(),
          ", p = ", Fixed(task.at("mcnemar_p").get<double>(), 2), ")");
  return {best->spec.id, why};
}

}  // namespace infer
