#include "tools/infer_bench/predict/profile.h"

#include <algorithm>
#include <cmath>

#include "lib/support/file.h"
#include "lib/support/strings.h"

namespace infer::bench {
namespace {

constexpr std::string_view kSchema = "infer-bench/machine@1";
/// Amounts (bytes, FLOPs) and times of steps stay far below.
constexpr double kMost = 1e18;

Json AmountsJson(const Features& x) {
  Json o = Json::object();
  for (size_t c = 0; c < kNumColumns; ++c)
    if (x[c] > 0) o[kColumns[c]] = x[c];
  return o;
}

/// Reads with the path of what is wrong; the first failure sticks.
class Reader {
 public:
  const Status& status() const { return status_; }
  void Fail(std::string what) {
    if (status_.ok()) status_ = InvalidModel(std::move(what));
  }
  const Json& Member(const Json& o, const char* name) {
    static const Json kNone;
    if (!o.is_object() || !o.contains(name)) {
      Fail(Cat("'", name, "' is missing"));
      return kNone;
    }
    return o[name];
  }
  double Number(const Json& o, const char* name, bool positive = false) {
    const Json& v = Member(o, name);
    const double d = v.is_number() ? v.get<double>() : std::nan("");
    if (!(d >= 0 && d <= kMost) || (positive && d == 0)) {
      Fail(Cat("'", name, "' is no number ", positive ? "above 0" : "of 0 or more",
               " that a machine has"));
      return positive ? 1 : 0;
    }
    return d;
  }
  int Count(const Json& o, const char* name, int least) {
    const double d = Number(o, name);
    if (d < least || d > 1e9 || d != std::floor(d)) {
      Fail(Cat("'", name, "' is no number from ", least));
      return least;
    }
    return static_cast<int>(d);
  }
  std::string Text(const Json& o, const char* name) {
    const Json& v = Member(o, name);
    if (v.is_string()) return v.get<std::string>();
    Fail(Cat("'", name, "' is no text"));
    return "";
  }
  const Json& List(const Json& o, const char* name) {
    static const Json kNone = Json::array();
    const Json& v = Member(o, name);
    if (v.is_array()) return v;
    Fail(Cat("'", name, "' is no list"));
    return kNone;
  }
  Features Amounts(const Json& o, const char* name) {
    Features x{};
    const Json& v = Member(o, name);
    if (!v.is_object()) {
      Fail(Cat("'", name, "' is no object"));
      return x;
    }
    for (const auto& [column, unused] : v.items()) {
      const auto it = std::find(kColumns.begin(), kColumns.end(), column);
      if (it == kColumns.end()) {
        Fail(Cat("'", column, "' is no column that this version knows"));
        continue;
      }
      x[static_cast<size_t>(it - kColumns.begin())] = Number(v, column.c_str());
    }
    return x;
  }

 private:
  Status status_;
};

Roofline ReadRoofline(Reader& in, const Json& o) {
  Roofline r;
  r.lanes = in.Count(o, "lanes", 1);
  r.f32_gflops = in.Number(o, "f32_gflops", true);
  r.int8_gops = in.Number(o, "int8_gops", true);
  for (const Json& l : in.List(o, "levels"))
    r.levels.push_back({in.Text(l, "name"), static_cast<int64_t>(in.Number(l, "bytes")),
                        in.Number(l, "gb_per_s", true)});
  if (r.levels.empty()) in.Fail("'levels' is empty");
  return r;
}

LaneProfile ReadLanes(Reader& in, const Json& o) {
  LaneProfile p;
  p.lanes = in.Count(o, "threads", 1);
  p.roofline = ReadRoofline(in, in.Member(o, "roofline"));
  p.programs = in.Count(o, "programs", 1);
  p.steps = in.Count(o, "steps", 1);
  p.run_us = in.Number(o, "run_us");
  p.step_profile_us = in.Number(o, "step_profile_us");
  for (const Json& f : in.List(o, "families")) {
    Family& family = p.families[in.Text(f, "family")];
    family.price = in.Amounts(f, "price_us");
    family.most = in.Amounts(f, "most");
    family.cases = in.Count(f, "cases", 1);
    family.held_out = in.Count(f, "held_out", 0);
    if (family.held_out == 0) continue;
    family.regret_median = in.Number(f, "regret_median");
    family.regret_p90 = in.Number(f, "regret_p90");
  }
  if (p.families.empty()) in.Fail("'families' is empty");
  return p;
}

}  // namespace

const LaneProfile* Profile::For(int threads) const {
  for (const LaneProfile& p : lanes)
    if (p.lanes == threads) return &p;
  return nullptr;
}

Json ToJson(const LaneProfile& p) {
  Json families = Json::array();
  for (const auto& [name, f] : p.families) {
    const bool known = f.held_out > 0;
    families.push_back({{"family", name},
                        {"cases", f.cases},
                        {"held_out", f.held_out},
                        {"regret_median", known ? Json(f.regret_median) : Json()},
                        {"regret_p90", known ? Json(f.regret_p90) : Json()},
                        {"price_us", AmountsJson(f.price)},
                        {"most", AmountsJson(f.most)}});
  }
  return {{"threads", p.lanes},
          {"roofline", ToJson(p.roofline)},
          {"programs", p.programs},
          {"steps", p.steps},
          {"run_us", p.run_us},
          {"step_profile_us", p.step_profile_us},
          {"families", std::move(families)}};
}

Result<Profile> ReadProfile(const std::string& path) {
  INFER_ASSIGN(const std::string text, ReadFile(path));
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("schema") || !json["schema"].is_string() ||
      json["schema"].get<std::string>() != kSchema)
    return InvalidModel(Cat(path, ": no profile of `infer-bench machine` (", kSchema, ")"));
  Reader in;
  Profile p;
  const Json& host = in.Member(json, "host");
  p.isa = in.Text(host, "isa");
  p.cpu = in.Text(host, "cpu");
  const Json& environment = in.Member(json, "environment");
  p.revision = in.Text(environment, "git_revision");
  p.date = in.Text(environment, "date");
  const Json& watch = in.Member(json, "watch");
  p.spin_ms =
      std::min(in.Number(watch, "spin_before_ms", true), in.Number(watch, "spin_after_ms", true));
  for (const Json& o : in.List(json, "profiles")) p.lanes.push_back(ReadLanes(in, o));
  if (p.lanes.empty()) in.Fail("'profiles' is empty");
  if (!in.status().ok()) return Status(in.status()).In(path);
  return p;
}

}  // namespace infer::bench
