#include "tools/common/input_fill.h"

#include <algorithm>
#include <cmath>

#include "lib/support/random.h"
#include "lib/support/strings.h"

namespace infer {
namespace {

struct Fill {
  std::string kind;
  double a = 0, b = 0;
};

constexpr char kKinds[] = "normal, normal:MEAN:SD, uniform:LOW:HIGH, constant:V";

Result<Fill> ParseFill(const std::string& text) {
  const std::vector<std::string> parts = Split(text, ':');
  Fill fill{.kind = parts[0]};
  std::vector<double> numbers;
  for (size_t i = 1; i < parts.size(); ++i) {
    const auto v = ParseDouble(parts[i]);
    if (!v || !std::isfinite(*v))
      return InvalidArgument(Cat("--fill ", text, ": '", parts[i], "' is no number"));
    numbers.push_back(*v);
  }
  const bool right = (fill.kind == "normal" && (numbers.empty() || numbers.size() == 2)) ||
                     (fill.kind == "uniform" && numbers.size() == 2 && numbers[0] <= numbers[1]) ||
                     (fill.kind == "constant" && numbers.size() == 1);
  if (!right) return InvalidArgument(Cat("--fill ", text, ": there are ", kKinds));
  fill.a = numbers.empty() ? 0 : numbers[0];
  fill.b = numbers.size() < 2 ? 1 : numbers[1];
  return fill;
}

Status Draw(const Fill& fill, Random& random, Tensor& t) {
  if (t.dtype() == DType::kString) return InvalidArgument("an input of strings");
  // A copy: whoever has the old values keeps them.
  t = Tensor(t.dtype(), t.dims());
  const bool whole = IsInteger(t.dtype()) || t.dtype() == DType::kBool;
  for (int64_t i = 0; i < t.num_elements(); ++i) {
    double v = fill.a;
    if (fill.kind == "normal") v = fill.a + fill.b * random.Normal();
    if (fill.kind == "uniform")
      v = whole ? std::floor(random.Uniform(std::ceil(fill.a), std::floor(fill.b) + 1))
                : random.Uniform(fill.a, fill.b);
    t.Set(i, v);
  }
  return {};
}

}  // namespace

Status FillInputs(const Graph& g, const std::vector<std::string>& fills, uint64_t seed,
                  std::vector<Datum>& values) {
  for (const std::string& text : fills) {
    const size_t at = text.rfind('=');
    const std::string name = at == std::string::npos ? "" : text.substr(0, at);
    INFER_ASSIGN(const Fill fill, ParseFill(at == std::string::npos ? text : text.substr(at + 1)));
    bool found = name.empty();
    for (size_t i = 0; i < values.size(); ++i) {
      const std::string& input = g.inputs()[i]->name();
      if (!name.empty() && input != name) continue;
      found = true;
      if (!values[i].is_tensor()) continue;
      Tensor t = values[i].tensor();
      Random random(seed, 2 + i);  // a stream of its own, whichever others are filled
      INFER_TRY(Draw(fill, random, t).In(Cat("--fill ", text, ": input '", input, "'")));
      values[i] = Datum(std::move(t));
    }
    if (!found) return InvalidArgument(Cat("--fill ", text, ": there is no input '", name, "'"));
  }
  return {};
}

}  // namespace infer
