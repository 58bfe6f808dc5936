/// Operators on tensors of strings: StringNormalizer, StringConcat, StringSplit, RegexFullMatch,
/// TfIdfVectorizer.
#include <re2/re2.h>

#include <map>
#include <set>

#include "lib/ops/common.h"
#include "lib/ops/op_def.h"

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

/// Letters of ASCII; case beyond it depends on a locale, which we have none of.
Result<std::string> ChangeCase(const std::string& s, bool upper) {
  std::string out = s;
  for (char& c : out) {
    if (static_cast<unsigned char>(c) >= 0x80)
      return Unsupported(Cat("StringNormalizer: upper and lower case of '", s, "' (not ASCII)"));
    if (upper ? c >= 'a' && c <= 'z' : c >= 'A' && c <= 'Z') c = static_cast<char>(c ^ 0x20);
  }
  return out;
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

// ---- TfIdfVectorizer -------------------------------------------------------------------------

int64_t LargestIndex(const std::vector<int64_t>& indexes) {
  return indexes.empty() ? -1 : *std::max_element(indexes.begin(), indexes.end());
}

Status InferTfIdf(OpCall& call) {
  INFER_TRY(CheckRank(call, 0, 1, 2));
  const std::vector<int64_t>& indexes = call.Ints("ngram_indexes");
  constexpr int64_t kMost = int64_t{1} << 31;
  for (int64_t i : indexes)
    if (i < 0 || i >= kMost) return InvalidModel(Cat("ngram_indexes has ", i));
  if (call.HasAttr("pool_strings") == call.HasAttr("pool_int64s"))
    return InvalidModel("wants one of pool_strings and pool_int64s");
  if (call.HasAttr("pool_strings") != (call.dtype(0) == DType::kString))
    return InvalidModel(Cat("the pool does not fit an operand of ", Name(call.dtype(0))));
  if (call.Int("min_gram_length") < 1 || call.Int("max_skip_count") < 0)
    return InvalidModel("min_gram_length is below 1 or max_skip_count below 0");
  call.SetOut(0, DType::kF32, Shape());
  if (!call.shape(0).has_rank()) return {};
  std::vector<Dim> dims = call.shape(0).dims();
  dims.back() = LargestIndex(indexes) + 1;
  call.SetOut(0, DType::kF32, Shape(std::move(dims)));
  return {};
}

/// Which output an n-gram counts for, by its words.
using Grams = std::map<std::vector<std::string>, size_t>;

/// The pool holds the 1-grams, then the 2-grams, ...; ngram_counts[n - 1] is where n-grams begin.
Result<Grams> ReadPool(const OpCall& call, const std::vector<std::string>& pool) {
  const std::vector<int64_t>& starts = call.Ints("ngram_counts");
  const size_t known = call.Ints("ngram_indexes").size();
  Grams grams;
  size_t index = 0;
  for (size_t n = 1; n <= starts.size(); ++n) {
    const auto size = static_cast<int64_t>(pool.size());
    const int64_t begin = starts[n - 1], end = n < starts.size() ? starts[n] : size;
    if (begin < 0 || begin > end || end > size)
      return InvalidModel(Cat("ngram_counts: [", begin, ", ", end, ") of ", size, " words"));
    for (auto at = static_cast<size_t>(begin); at + n <= static_cast<size_t>(end); at += n) {
      if (index >= known) return InvalidModel("ngram_indexes is shorter than the pool");
      grams[{pool.begin() + static_cast<std::ptrdiff_t>(at),
             pool.begin() + static_cast<std::ptrdiff_t>(at + n)}] = index++;
    }
  }
  return grams;
}

Result<std::shared_ptr<const void>> PrepareTfIdf(const OpCall& call) {
  std::vector<std::string> pool;
  if (call.HasAttr("pool_strings")) {
    pool = call.Attr<std::vector<std::string>>("pool_strings");
  } else {
    for (int64_t v : call.Ints("pool_int64s")) pool.push_back(std::to_string(v));
  }
  INFER_ASSIGN(Grams grams, ReadPool(call, pool));
  return std::shared_ptr<const void>(std::make_shared<const Grams>(std::move(grams)));
}

Status RunTfIdf(OpRun& run) {
  const Tensor& x = run.in(0);
  const auto text = [](const Tensor& t, int64_t i) {
    return t.dtype() == DType::kString ? t.strings()[static_cast<size_t>(i)]
                                       : std::to_string(t.IntAt(i));
  };
  INFER_ASSIGN(const auto prepared, run.call().Prepared<Grams>());
  const Grams& grams = *prepared;
  const std::vector<int64_t>& indexes = run.Ints("ngram_indexes");
  const std::string& mode = run.Str("mode");
  if (mode != "TF" && mode != "IDF" && mode != "TFIDF")
    return InvalidModel(Cat("TfIdfVectorizer: mode is '", mode, "'"));
  std::vector<float> weights;
  if (run.call().HasAttr("weights")) weights = run.Attr<std::vector<float>>("weights");
  if (!weights.empty() && weights.size() != indexes.size())
    return InvalidModel(Cat(weights.size(), " weights for ", indexes.size(), " n-grams"));
  Dims dims = x.dims();
  const int64_t columns = x.rank() == 0 ? 0 : x.dim(-1), width = LargestIndex(indexes) + 1;
  const int64_t rows = x.rank() == 2 ? x.dim(0) : 1;
  dims.back() = width;
  Tensor y = Tensor::Zeros(DType::kF32, std::move(dims));
  const auto out = y.mutable_data<float>();
  const int64_t longest = std::min(run.Int("max_gram_length"), columns);
  for (int64_t row = 0; row < rows; ++row) {
    std::vector<int64_t> counts(indexes.size(), 0);
    for (int64_t n = run.Int("min_gram_length"); n <= longest; ++n) {
      // A single word skips nothing: it is counted once.
      const int64_t last_skip = n == 1 ? 0 : std::min(run.Int("max_skip_count"), columns);
      for (int64_t skip = 0; skip <= last_skip; ++skip)
        for (int64_t at = 0; at + (n - 1) * (skip + 1) < columns; ++at) {
          std::vector<std::string> gram;
          for (int64_t k = 0; k < n; ++k)
            gram.push_back(text(x, row * columns + at + k * (skip + 1)));
          if (const auto found = grams.find(gram); found != grams.end()) ++counts[found->second];
        }
    }
    for (size_t g = 0; g < counts.size(); ++g) {
      if (counts[g] == 0) continue;
      const float weight = weights.empty() ? 1.0f : weights[g];
      const auto count = static_cast<float>(counts[g]);
      out[static_cast<size_t>(row * width + indexes[g])] = mode == "TF"    ? count
                                                           : mode == "IDF" ? weight
                                                                           : count * weight;
    }
  }
  run.Set(0, std::move(y));
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
      {
          .name = "TfIdfVectorizer",
          .doc = "How often each n-gram of a pool occurs, optionally weighted.",
          .traits = Trait::kText,
          .since = 9,
          .versions = {9},
          .inputs = {{"X", "T"}},
          .outputs = {{"Y", "T1"}},
          .attrs = {{"max_gram_length", AttrKind::kInt, {}, true},
                    {"max_skip_count", AttrKind::kInt, {}, true},
                    {"min_gram_length", AttrKind::kInt, {}, true},
                    {"mode", AttrKind::kString, {}, true},
                    {"ngram_counts", AttrKind::kInts, {}, true},
                    {"ngram_indexes", AttrKind::kInts, {}, true},
                    {"pool_int64s", AttrKind::kInts},
                    {"pool_strings", AttrKind::kStrings},
                    {"weights", AttrKind::kFloats}},
          .constraints = {{"T", TypeSet(DType::kString, DType::kI32, DType::kI64)},
                          {"T1", TypeSet(DType::kF32)}},
          .infer = InferTfIdf,
          .reference = RunTfIdf,
          .prepare = PrepareTfIdf,
          .example = R"(graph g() -> (y) { x = const i64[6] {1, 1, 3, 3, 3, 7}
            y = TfIdfVectorizer(x) {mode="TF", min_gram_length=1, max_gram_length=2,
              max_skip_count=0, ngram_counts=[0, 2], ngram_indexes=[0, 1, 2],
              pool_int64s=[3, 7, 1, 3]} })",
      },
  };
  return ops;
}

}  // namespace infer
