/// TfIdfVectorizer: how often n-grams of words occur in texts.
#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "lib/ops/common.h"
#include "lib/ops/op_def.h"

namespace infer {
namespace {

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

/// The n-grams of the pool as a tree: each step down is a further word.
class Grams {
 public:
  static constexpr int32_t kRoot = 0, kNone = -1;

  /// Adds `gram` as number `index`; of equal ones the last counts.
  void Add(std::span<const int32_t> gram, int32_t index) {
    int32_t node = kRoot;
    for (const int32_t word : gram) {
      const auto [at, is_new] =
          children_.try_emplace(Key(node, word), static_cast<int32_t>(grams_.size()));
      if (is_new) grams_.push_back(kNone);
      node = at->second;
    }
    grams_[static_cast<size_t>(node)] = index;
  }
  /// The node behind `node` and `word`; kNone where no gram goes on so.
  int32_t Next(int32_t node, int32_t word) const {
    const auto at = children_.find(Key(node, word));
    return at == children_.end() ? kNone : at->second;
  }
  /// The number of the gram that ends at `node`; kNone where none does.
  int32_t At(int32_t node) const { return grams_[static_cast<size_t>(node)]; }

  /// Number of a word of the pool; kNone of any other.
  int32_t Word(const std::string& word) const { return Find(words_, word); }
  int32_t Word(int64_t word) const { return Find(numbers_, word); }
  int32_t AddWord(const std::string& word) { return Number(words_, word); }
  int32_t AddWord(int64_t word) { return Number(numbers_, word); }

 private:
  static uint64_t Key(int32_t node, int32_t word) {
    return uint64_t{static_cast<uint32_t>(node)} << 32 | static_cast<uint32_t>(word);
  }
  template <typename Map, typename T>
  static int32_t Find(const Map& map, const T& word) {
    const auto at = map.find(word);
    return at == map.end() ? kNone : at->second;
  }
  template <typename Map, typename T>
  static int32_t Number(Map& map, const T& word) {
    return map.try_emplace(word, static_cast<int32_t>(map.size())).first->second;
  }

  std::unordered_map<std::string, int32_t> words_;
  std::unordered_map<int64_t, int32_t> numbers_;
  std::unordered_map<uint64_t, int32_t> children_;
  std::vector<int32_t> grams_{kNone};  ///< by node
};

/// The pool holds the 1-grams, then the 2-grams, ...; ngram_counts[n - 1] is where n-grams begin.
template <typename T>
Result<std::shared_ptr<const void>> ReadPool(const OpCall& call, const std::vector<T>& pool) {
  const std::vector<int64_t>& starts = call.Ints("ngram_counts");
  const size_t known = call.Ints("ngram_indexes").size();
  auto grams = std::make_shared<Grams>();
  std::vector<int32_t> words;
  for (const T& word : pool) words.push_back(grams->AddWord(word));
  size_t index = 0;
  for (size_t n = 1; n <= starts.size(); ++n) {
    const auto size = static_cast<int64_t>(pool.size());
    const int64_t begin = starts[n - 1], end = n < starts.size() ? starts[n] : size;
    if (begin < 0 || begin > end || end > size)
      return InvalidModel(Cat("ngram_counts: [", begin, ", ", end, ") of ", size, " words"));
    for (auto at = static_cast<size_t>(begin); at + n <= static_cast<size_t>(end); at += n) {
      if (index >= known) return InvalidModel("ngram_indexes is shorter than the pool");
      grams->Add(std::span(words).subspan(at, n), static_cast<int32_t>(index++));
    }
  }
  return std::shared_ptr<const void>(std::move(grams));
}

Result<std::shared_ptr<const void>> PrepareTfIdf(const OpCall& call) {
  if (call.HasAttr("pool_strings"))
    return ReadPool(call, call.Attr<std::vector<std::string>>("pool_strings"));
  return ReadPool(call, call.Ints("pool_int64s"));
}

/// Lengths of n-grams, and how many words may be left out between two of their words.
struct GramLimits {
  int64_t shortest = 1, longest = 1, skips = 0;
};

/// Counts the grams of the pool in a row of words. A single word skips nothing: it is
/// counted once.
void Count(const Grams& grams, const GramLimits& limits, std::span<const int32_t> words,
           std::vector<int32_t>& counts) {
  const auto columns = static_cast<int64_t>(words.size());
  for (int64_t skip = 0; skip <= std::min(limits.skips, columns); ++skip)
    for (int64_t begin = 0; begin < columns; ++begin) {
      int32_t node = Grams::kRoot;
      for (int64_t n = 1, at = begin; n <= limits.longest && at < columns; ++n, at += skip + 1) {
        node = grams.Next(node, words[static_cast<size_t>(at)]);
        if (node == Grams::kNone) break;
        const int32_t gram = grams.At(node);
        if (gram != Grams::kNone && n >= limits.shortest && (n > 1 || skip == 0))
          ++counts[static_cast<size_t>(gram)];
      }
    }
}

/// The number of each element of row `row` of X in the pool.
void ReadWords(const Grams& grams, const Tensor& x, int64_t row, std::vector<int32_t>& words) {
  const auto columns = static_cast<int64_t>(words.size());
  for (int64_t i = 0; i < columns; ++i) {
    const int64_t at = row * columns + i;
    words[static_cast<size_t>(i)] = x.dtype() == DType::kString
                                        ? grams.Word(x.strings()[static_cast<size_t>(at)])
                                        : grams.Word(x.IntAt(at));
  }
}

Status RunTfIdf(OpRun& run) {
  const Tensor& x = run.in(0);
  INFER_ASSIGN(const auto grams, run.call().Prepared<Grams>());
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
  float* const out = y.mutable_data<float>().data();
  const GramLimits limits{.shortest = run.Int("min_gram_length"),
                          .longest = std::min(run.Int("max_gram_length"), columns),
                          .skips = run.Int("max_skip_count")};
  const int64_t cost = std::max<int64_t>(columns * 64 + std::ssize(indexes), 1);
  ParallelFor(rows, std::max<int64_t>(1, kElementGrain / cost), [&](int64_t begin, int64_t end) {
    std::vector<int32_t> words(static_cast<size_t>(columns)), counts;
    for (int64_t row = begin; row < end; ++row) {
      counts.assign(indexes.size(), 0);
      ReadWords(*grams, x, row, words);
      Count(*grams, limits, words, counts);
      for (size_t g = 0; g < counts.size(); ++g) {
        if (counts[g] == 0) continue;
        const float weight = mode == "TF" || weights.empty() ? 1.0f : weights[g];
        const float count = mode == "IDF" ? 1.0f : static_cast<float>(counts[g]);
        out[row * width + indexes[g]] = count * weight;
      }
    }
  });
  run.Set(0, std::move(y));
  return {};
}

}  // namespace

std::span<const OpDef> TfIdfOps() {
  static const OpDef ops[] = {
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
