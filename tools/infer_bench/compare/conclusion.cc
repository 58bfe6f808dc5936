#include "tools/infer_bench/compare/conclusion.h"

#include <cmath>

#include "lib/support/readable.h"
#include "lib/support/strings.h"

namespace infer {
namespace {

std::string Interval(const Conclusion& c) {
  return Cat("95 % interval ", Percent(c.effect.low), " to ", Percent(c.effect.high));
}

std::string Replaced(std::string_view text, std::string_view special,
                     std::span<const std::string_view> by) {
  std::string out;
  for (const char c : text) {
    const size_t at = special.find(c);
    if (at == std::string_view::npos)
      out += c;
    else
      out += by[at];
  }
  return out;
}

std::string MarkdownCell(std::string_view text) {
  constexpr std::string_view kBy[] = {"\\|", " ", " ", "\\`", "&lt;"};
  return Replaced(text, "|\n\r`<", kBy);
}

std::string CommandData(std::string_view text) {
  constexpr std::string_view kBy[] = {"%25", "%0D", "%0A"};
  return Replaced(text, "%\r\n", kBy);
}

std::string CommandProperty(std::string_view text) {
  constexpr std::string_view kBy[] = {"%25", "%0D", "%0A", "%3A", "%2C"};
  return Replaced(text, "%\r\n:,", kBy);
}

}  // namespace

std::string Percent(double share) {
  return std::isfinite(share) ? Cat(share > 0 ? "+" : "", Fixed(share * 100, 2), " %") : "?";
}

std::string Sentence(const Conclusion& c) {
  if (!c.measured) return Cat("inconclusive: ", c.reason.empty() ? "nothing measured" : c.reason);
  switch (c.verdict) {
    case Verdict::kSame:
      return Cat("B is the same (within ", Percent(c.min_effect), "; ", Interval(c), ")");
    case Verdict::kSlower:
    case Verdict::kFaster:
      return Cat("B is ", Name(c.verdict), ": it takes ", Percent(c.effect.value), " (",
                 Interval(c), ")");
    case Verdict::kInconclusive: break;
  }
  const std::string why = c.reason.empty() ? "" : Cat(": ", c.reason);
  if (!std::isfinite(c.effect.high))
    return Cat("inconclusive: ", Percent(c.effect.value), ", but a single start has no interval",
               why);
  const std::string_view way = c.effect.value > 0 ? "slower" : "faster";
  if (c.suspected)
    return Cat("inconclusive: B is probably ", way, ", ", Percent(c.effect.value), " (",
               Interval(c), "), but this is not confirmed", why);
  if (c.effect.low > 0 || c.effect.high < 0)
    return Cat("inconclusive: B seems ", way, ", ", Percent(c.effect.value), " (", Interval(c),
               "), but too little was measured to rely on it", why);
  return Cat("inconclusive: B takes between ", Percent(c.effect.low), " and ",
             Percent(c.effect.high), why);
}

std::string MarkdownTable(std::span<const Conclusion> all) {
  std::string out =
      "| | verdict | B's time | 95 % interval | A ms | B ms | from |\n"
      "|---|---|--:|---|--:|--:|---|\n";
  for (const Conclusion& c : all) {
    const auto cell = [&](std::string_view text) { out += Cat("| ", MarkdownCell(text), " "); };
    cell(c.title);
    cell(Cat(c.fails ? "**" : "", Name(c.verdict), c.fails ? "**" : "",
             c.verdict == Verdict::kInconclusive && !c.reason.empty() ? Cat(" (", c.reason, ")")
                                                                      : std::string()));
    cell(c.measured ? Percent(c.effect.value) : "");
    cell(c.measured && std::isfinite(c.effect.high)
             ? Cat(Percent(c.effect.low), " to ", Percent(c.effect.high))
             : "");
    cell(c.a_ms);
    cell(c.b_ms);
    cell(c.basis);
    out += "|\n";
  }
  return out;
}

std::string GithubCommands(std::span<const Conclusion> all) {
  std::string out;
  for (const Conclusion& c : all) {
    const std::string_view kind = c.fails                               ? "error"
                                  : c.verdict == Verdict::kInconclusive ? "warning"
                                                                        : "notice";
    out +=
        Cat("::", kind, " title=", CommandProperty(Cat("infer-bench: ", c.title)),
            "::", CommandData(Cat(Sentence(c), c.basis.empty() ? "" : Cat("; ", c.basis))), "\n");
  }
  return out;
}

}  // namespace infer
