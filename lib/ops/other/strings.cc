/// Operators on tensors of strings: StringNormalizer, StringConcat, StringSplit, RegexFullMatch.
#include <re2/re2.h>

#include <set>

#include "lib/ops/common.h"
#include "lib/ops/op_def.h"
#include "lib/ops/other/text.h"

namespace infer {
namespace {

constexpr TypeSet kStrings{DType::kString};

// ---- StringNormalizer ------------------------------------------------------------------------

Status InferStringNormalizer(OpCall& call) {
  INFER_TRY(CheckRank(call, 0, 1, 2));
  const std::string& action = call.Str("case_change_action");
  if (action != "NONE" && action != "LOWER" && action != "UPPER")
    return InvalidModel(Cat("case_change_action is '", action, "'"));
  call.SetOut(0, DType::kString, Shape());
  if (!call.shape(0).has_rank()) return {};
  std::vector<Dim> dims = call.shape(0).dims();
  dims.back() = Dim();
  call.SetOut(0, DType::kString, Shape(std::move(dims)));
  return {};
}

Status RunStringNormalizer(OpRun& run) {
  const Tensor& x = run.in(0);
  if (x.rank() == 2 && x.dim(0) != 1)
    return InvalidModel(
        Cat("StringNormalizer: the operand is ", ToString(x.type()), ", wants [C] or [1,C]"));
  const std::string& action = run.Str("case_change_action");
  const bool fold = run.Int("is_case_sensitive") == 0;
  std::set<std::string> stop;
  if (run.call().HasAttr("stopwords"))
    for (const std::string& word : run.Attr<std::vector<std::string>>("stopwords")) {
      INFER_ASSIGN(std::string w, fold ? ChangeCase(word, false) : Result<std::string>(word));
      stop.insert(std::move(w));
    }
  std::vector<std::string> kept;
  for (const std::string& s : x.strings()) {
    if (!stop.empty()) {
      INFER_ASSIGN(const std::string key, fold ? ChangeCase(s, false) : Result<std::string>(s));
      if (stop.contains(key)) continue;
    }
    if (action == "NONE") {
      kept.push_back(s);
    } else {
      INFER_ASSIGN(std::string changed, ChangeCase(s, action == "UPPER"));
      kept.push_back(std::move(changed));
    }
  }
  if (kept.empty()) kept.emplace_back();
  Dims dims = x.dims();
  dims.back() = static_cast<int64_t>(kept.size());
  run.Set(0, Tensor::OfStrings(std::move(dims), std::move(kept)));
  return {};
}

// ---- StringConcat, StringSplit ---------------------------------------------------------------

Status RunStringConcat(OpRun& run) {
  const Tensor &a = run.in(0), &b = run.in(1);
  INFER_ASSIGN(const Dims dims, Broadcast(a.dims(), b.dims()));
  Tensor y(DType::kString, dims);
  const Dims operands[] = {a.dims(), b.dims()};
  const StridedLoop loop = StridedLoop::Broadcast(dims, operands);
  loop.ForEachRow(0, loop.size(), [&](int64_t at, const int64_t* offsets, int64_t n) {
    for (int64_t i = 0; i < n; ++i)
      y.mutable_strings()[static_cast<size_t>(at + i)] =
          a.strings()[static_cast<size_t>(offsets[0] + i * loop.inner_stride(0))] +
          b.strings()[static_cast<size_t>(offsets[1] + i * loop.inner_stride(1))];
  });
  run.Set(0, std::move(y));
  return {};
}

Status InferStringSplit(OpCall& call) {
  call.SetOut(0, DType::kString, Shape());
  call.SetOut(1, DType::kI64, call.shape(0));
  if (!call.shape(0).has_rank()) return {};
  std::vector<Dim> dims = call.shape(0).dims();
  dims.emplace_back();
  call.SetOut(0, DType::kString, Shape(std::move(dims)));
  return {};
}

/// At most `most` cuts. An empty delimiter: runs of blanks, those at the ends dropped.
std::vector<std::string> SplitText(std::string_view text, std::string_view delimiter,
                                   int64_t most) {
  constexpr std::string_view kBlanks = " \t\n\v\f\r";
  std::vector<std::string> parts;
  if (delimiter.empty()) {
    while (true) {
      text.remove_prefix(std::min(text.find_first_not_of(kBlanks), text.size()));
      if (text.empty()) return parts;
      size_t end = text.find_first_of(kBlanks);
      if (static_cast<int64_t>(parts.size()) == most) end = text.find_last_not_of(kBlanks) + 1;
      parts.emplace_back(text.substr(0, end));
      if (static_cast<int64_t>(parts.size()) > most) return parts;
      text.remove_prefix(std::min(end, text.size()));
    }
  }
  if (text.empty()) return parts;
  while (static_cast<int64_t>(parts.size()) < most) {
    const size_t end = text.find(delimiter);
    if (end == std::string_view::npos) break;
    parts.emplace_back(text.substr(0, end));
    text.remove_prefix(end + delimiter.size());
  }
  parts.emplace_back(text);
  return parts;
}

Status RunStringSplit(OpRun& run) {
  const Tensor& x = run.in(0);
  const std::string delimiter = run.call().HasAttr("delimiter") ? run.Str("delimiter") : "";
  const int64_t most = run.call().HasAttr("maxsplit") ? run.Int("maxsplit") : INT64_MAX;
  std::vector<std::vector<std::string>> all;
  size_t widest = 0;
  Tensor& count = run.Out(1, DType::kI64, x.dims());
  for (int64_t i = 0; i < x.num_elements(); ++i) {
    all.push_back(SplitText(x.strings()[static_cast<size_t>(i)], delimiter, most));
    count.SetInt(i, static_cast<int64_t>(all.back().size()));
    widest = std::max(widest, all.back().size());
  }
  std::vector<std::string> parts;
  for (std::vector<std::string>& p : all) {
    p.resize(widest);
    for (std::string& s : p) parts.push_back(std::move(s));
  }
  Dims dims = x.dims();
  dims.push_back(static_cast<int64_t>(widest));
  run.Set(0, Tensor::OfStrings(std::move(dims), std::move(parts)));
  return {};
}

// ---- RegexFullMatch --------------------------------------------------------------------------

Status InferRegexFullMatch(OpCall& call) {
  if (!call.HasAttr("pattern")) return InvalidModel("pattern is missing");
  call.SetOut(0, DType::kBool, call.shape(0));
  return {};
}

Status RunRegexFullMatch(OpRun& run) {
  RE2::Options options;
  options.set_log_errors(false);
  const RE2 pattern(run.Str("pattern"), options);
  if (!pattern.ok())
    return InvalidModel(Cat("\"", run.Str("pattern"), "\" is no pattern: ", pattern.error()));
  const Tensor& x = run.in(0);
  const auto y = run.Out(0, DType::kBool, x.dims()).mutable_data<bool>();
  for (size_t i = 0; i < y.size(); ++i) y[i] = RE2::FullMatch(x.strings()[i], pattern);
  return {};
}

}  // namespace

std::span<const OpDef> StringOps() {
  static const OpDef ops[] = {
      {
          .name = "StringNormalizer",
          .doc = "Strings without stop words, in lower or upper case.",
          .traits = Trait::kText,
          .since = 10,
          .versions = {10},
          .inputs = {{"X", "str"}},
          .outputs = {{"Y", "str"}},
          .attrs = {{"case_change_action", AttrKind::kString, std::string("NONE")},
                    {"is_case_sensitive", AttrKind::kInt, int64_t{0}},
                    {"locale", AttrKind::kString},
                    {"stopwords", AttrKind::kStrings}},
          .infer = InferStringNormalizer,
          .reference = RunStringNormalizer,
          .example = R"(graph g() -> (y) { x = const str[3] {"a", "The", "b"}
            y = StringNormalizer(x) {stopwords=["the"], case_change_action="UPPER"} })",
      },
      {
          .name = "StringConcat",
          .doc = "Each string of X followed by that of Y, with broadcasting.",
          .traits = Trait::kText,
          .since = 20,
          .versions = {20},
          .inputs = {{"X", "T"}, {"Y", "T"}},
          .outputs = {{"Z", "T"}},
          .constraints = {{"T", kStrings}},
          .infer = InferBroadcast,
          .reference = RunStringConcat,
          .example = R"(graph g() -> (z) { x = const str[2] {"a", "b"} y = const str[] {"c"}
            z = StringConcat(x, y) })",
      },
      {
          .name = "StringSplit",
          .doc = "The parts of each string between delimiters, and their number.",
          .traits = Trait::kText,
          .since = 20,
          .versions = {20},
          .inputs = {{"X", "T1"}},
          .outputs = {{"Y", "T2"}, {"Z", "T3"}},
          .attrs = {{"delimiter", AttrKind::kString}, {"maxsplit", AttrKind::kInt}},
          .constraints = {{"T1", kStrings}, {"T2", kStrings}, {"T3", TypeSet(DType::kI64)}},
          .infer = InferStringSplit,
          .reference = RunStringSplit,
          .example = R"(graph g() -> (y, z) { x = const str[2] {"a b", "c"}
            y, z = StringSplit(x) })",
      },
      {
          .name = "RegexFullMatch",
          .doc = "Whether each string matches a regular expression (RE2) from end to end.",
          .traits = Trait::kText,
          .since = 20,
          .versions = {20},
          .inputs = {{"X", "T1"}},
          .outputs = {{"Y", "T2"}},
          .attrs = {{"pattern", AttrKind::kString}},
          .constraints = {{"T1", kStrings}, {"T2", TypeSet(DType::kBool)}},
          .infer = InferRegexFullMatch,
          .reference = RunRegexFullMatch,
          .example = R"(graph g() -> (y) { x = const str[3] {"ab", "b", "abc"}
            y = RegexFullMatch(x) {pattern="a+b"} })",
      },
  };
  return ops;
}

}  // namespace infer
