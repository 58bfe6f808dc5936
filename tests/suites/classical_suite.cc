/// The models of ai.onnx.ml: support vector machines, trees, linear models, and what prepares their
/// features.
#include <limits>
#include <numeric>

#include "tests/suites/suite.h"

namespace infer {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

/// On the cpu backend the last step runs on a kernel of its own, which other backends may lack.
void ExpectOwn(const std::vector<StepInfo>& steps, std::string_view name = "own:") {
  if (BackendUnderTest().name() != "cpu" || steps.empty()) return;
  ExpectFast(steps);
  EXPECT_EQ(steps.back().kernel.substr(0, name.size()), name) << steps.back().op;
}

template <typename T>
std::string ListOf(const std::vector<T>& v) {
  std::vector<std::string> parts;
  for (const T& t : v) {
    if constexpr (std::is_floating_point_v<T>) {
      std::string text = FormatDouble(static_cast<double>(t));
      if (text.find_first_of(".e") == std::string::npos) text += ".0";
      parts.push_back(text);
    } else if constexpr (std::is_integral_v<T>) {
      parts.push_back(Cat(t));
    } else {
      parts.push_back(Cat("\"", t, "\""));
    }
  }
  return Cat("[", Join(parts, ", "), "]");
}

/// Multiples of 1/64, which text holds exactly.
std::vector<float> Numbers(size_t n, Random& random, float scale = 1) {
  std::vector<float> v;
  for (size_t i = 0; i < n; ++i)
    v.push_back((static_cast<float>(random.Below(257)) - 128) / 64 * scale);
  return v;
}

Tensor RowsLike(int64_t rows, int64_t features, uint64_t seed) {
  Random random(seed);
  return RandomInput(DType::kF32, {rows, features}, random);
}

struct Machine {
  std::string kernel = "RBF", params = "[0.125, 0.25, 3.0]";
  std::vector<int64_t> counts = {7, 9};  ///< of vectors, by class
  int64_t features = 3;
  bool probabilities = false;
  std::string type = "f32", more = "";
};

std::string ClassifierText(const Machine& m, int64_t rows, uint64_t seed) {
  Random random(seed);
  const size_t classes = m.counts.size(), pairs = classes * (classes - 1) / 2;
  const auto supports =
      static_cast<size_t>(std::accumulate(m.counts.begin(), m.counts.end(), int64_t{0}));
  std::vector<int64_t> labels(classes);
  std::iota(labels.begin(), labels.end(), 4);
  const std::string prob = m.probabilities
                               ? Cat(", prob_a=", ListOf(std::vector<float>(pairs, -1.5f)),
                                     ", prob_b=", ListOf(Numbers(pairs, random, 0.25f)))
                               : "";
  return Cat(
      "graph g(x: ", m.type, "[", rows, ",", m.features,
      "]) -> (y, z) { y, z = ai.onnx.ml::SVMClassifier(x) {kernel_type=\"", m.kernel,
      "\", kernel_params=", m.params, ", vectors_per_class=", ListOf(m.counts),
      ", support_vectors=", ListOf(Numbers(supports * static_cast<size_t>(m.features), random)),
      ", coefficients=", ListOf(Numbers((classes - 1) * supports, random)),
      ", rho=", ListOf(Numbers(pairs, random)), prob, ", classlabels_ints=", ListOf(labels), m.more,
      "} }");
}

TEST(Classical, SupportVectorClasses) {
  uint64_t seed = 1;
  for (std::string_view kernel : {"LINEAR", "POLY", "RBF", "SIGMOID"})
    for (const std::vector<int64_t>& counts :
         {std::vector<int64_t>{1, 1}, {7, 9}, {40, 30}, {3, 1, 5}, {33, 1, 20, 12, 4}})
      for (int64_t features : {1, 3, 20})
        for (bool probabilities : {false, true}) {
          Machine m;
          m.kernel = kernel;
          m.counts = counts;
          m.features = features;
          m.probabilities = probabilities;
          const int64_t rows = std::vector<int64_t>{1, 3, 4, 7, 70}[++seed % 5];
          ExpectOwn(CheckGraph(ClassifierText(m, rows, seed), seed));
        }
}

TEST(Classical, SupportVectorsMeetOtherNumbers) {
  for (std::string_view type : {"f64", "i64", "i32"}) {
    Machine m;
    m.type = type;
    ExpectOwn(CheckGraph(ClassifierText(m, 9, 3), 3), "own:f64");
  }
  Machine m;
  m.more = ", post_transform=\"SOFTMAX\"";
  m.counts = {4, 5, 6};
  ExpectOwn(CheckGraph(ClassifierText(m, 9, 4), 4));
  // Degrees that are no small integers are the reference's.
  m.kernel = "POLY";
  m.params = "[0.0, 2.0, 1.5]";
  CheckGraph(ClassifierText(m, 5, 5), 5);
}

TEST(Classical, NaNAndInfinityAmongRows) {
  for (std::string_view kernel : {"RBF", "SIGMOID"}) {
    Machine m;
    m.kernel = kernel;
    Tensor x = RowsLike(6, m.features, 8);
    x.Set(1, static_cast<double>(kNaN));
    x.Set(4, INFINITY);
    x.Set(8, -INFINITY);
    ExpectOwn(CheckGraph(ClassifierText(m, 6, 8), std::vector<Datum>{x}));
  }
}

std::string RegressorText(int64_t rows, int64_t supports, int64_t features, uint64_t seed,
                          std::string_view kernel, std::string_view more, float scale = 1) {
  Random random(seed);
  std::vector<float> vectors = Numbers(static_cast<size_t>(supports * features), random);
  std::vector<float> coefficients = Numbers(static_cast<size_t>(supports), random);
  if (scale != 1)
    // Pairs of near vectors whose coefficients nearly cancel.
    for (int64_t s = 0; s + 1 < supports; s += 2) {
      coefficients[static_cast<size_t>(s)] = scale;
      coefficients[static_cast<size_t>(s + 1)] = -scale;
      for (int64_t i = 0; i < features; ++i)
        vectors[static_cast<size_t>((s + 1) * features + i)] =
            vectors[static_cast<size_t>(s * features + i)] + (i == 0 ? 0x1p-10f : 0);
    }
  return Cat("graph g(x: f32[", rows, ",", features,
             "]) -> (y) { y = ai.onnx.ml::SVMRegressor(x) {kernel_type=\"", kernel,
             "\", kernel_params=[0.25, 0.5, 2.0], n_supports=", supports,
             ", support_vectors=", ListOf(vectors), ", coefficients=", ListOf(coefficients),
             ", rho=[0.125]", more, "} }");
}

TEST(Classical, SupportVectorValues) {
  for (std::string_view kernel : {"LINEAR", "POLY", "RBF", "SIGMOID"})
    for (int64_t supports : {1, 31, 33, 90})
      for (std::string_view more : {"", ", one_class=1", ", post_transform=\"LOGISTIC\""})
        ExpectOwn(CheckGraph(RegressorText(supports % 7 + 1, supports, supports % 5 + 2,
                                           static_cast<uint64_t>(supports), kernel, more),
                             2));
}

/// Where large coefficients nearly cancel, f32 would leave nothing right.
TEST(Classical, LargeCoefficientsAreSummedInDouble) {
  for (std::string_view kernel : {"POLY", "RBF", "SIGMOID"})
    ExpectOwn(CheckGraph(RegressorText(20, 60, 8, 6, kernel, "", 0x1p20f), 6), "own:f64");
  ExpectOwn(CheckGraph(RegressorText(20, 60, 8, 6, "RBF", ""), 6), "own:f64");
  ExpectOwn(CheckGraph(RegressorText(20, 60, 8, 6, "SIGMOID", ""), 6), "own:f32");
}

TEST(Classical, SupportVectorsSameBits) {
  Machine m;
  m.counts = {30, 40, 20};
  m.features = 20;
  m.probabilities = true;
  std::string text = ClassifierText(m, 203, 9);
  CheckSameBits(text);
  CheckSameBits(text.replace(text.find("(y, z)"), 6, "(z)"));
}

// ---- Trees -----------------------------------------------------------------------------------

/// Random trees as the lists of the older forms: nodes grow where `random` says, up to `depth`.
struct Trees {
  std::vector<int64_t> tree, node, feature, yes, no, missing;
  std::vector<float> value;
  std::vector<std::string> mode;
  std::vector<int64_t> vote_tree, vote_node, vote_target;
  std::vector<float> vote_weight;

  void Grow(int64_t t, int depth, int64_t features, int64_t targets,
            const std::vector<std::string>& modes, bool with_missing, Random& random) {
    const size_t first = node.size();
    for (size_t i = first, open = 1; open > 0; ++i, --open) {
      const bool is_leaf = i - first >= (size_t{1} << depth) - 1 ||
                           (depth > 1 && i > first && random.Below(4) == 0) || depth == 0;
      tree.push_back(t);
      node.push_back(static_cast<int64_t>(i - first));
      feature.push_back(is_leaf ? 0 : random.Below(static_cast<uint32_t>(features)));
      value.push_back(is_leaf ? 0 : Numbers(1, random)[0]);
      mode.push_back(is_leaf ? "LEAF" : modes[random.Below(static_cast<uint32_t>(modes.size()))]);
      missing.push_back(!is_leaf && with_missing ? random.Below(2) : 0);
      const auto next = static_cast<int64_t>(i - first + open);
      yes.push_back(is_leaf ? 0 : next);
      no.push_back(is_leaf ? 0 : next + 1);
      if (!is_leaf) {
        open += 2;
        continue;
      }
      for (int64_t v = 0; v < targets; ++v) {
        vote_tree.push_back(t);
        vote_node.push_back(static_cast<int64_t>(i - first));
        vote_target.push_back(v);
        vote_weight.push_back(Numbers(1, random)[0]);
      }
    }
  }
  std::string Text(std::string_view votes) const {
    return Cat("nodes_treeids=", ListOf(tree), ", nodes_nodeids=", ListOf(node),
               ", nodes_featureids=", ListOf(feature), ", nodes_values=", ListOf(value),
               ", nodes_modes=", ListOf(mode), ", nodes_truenodeids=", ListOf(yes),
               ", nodes_falsenodeids=", ListOf(no),
               ", nodes_missing_value_tracks_true=", ListOf(missing), ", ", votes,
               "_treeids=", ListOf(vote_tree), ", ", votes, "_nodeids=", ListOf(vote_node), ", ",
               votes, "_ids=", ListOf(vote_target), ", ", votes == "class" ? "class" : "target",
               "_weights=", ListOf(vote_weight));
  }
};

Tensor RowsWithNaN(int64_t rows, int64_t features, uint64_t seed) {
  Tensor x = RowsLike(rows, features, seed);
  for (int64_t i = 0; i < x.num_elements(); i += 5) x.Set(i, static_cast<double>(kNaN));
  return x;
}

TEST(Classical, TreesOfEveryKindOfCondition) {
  const std::vector<std::vector<std::string>> kinds = {
      {"BRANCH_LEQ"},
      {"BRANCH_LT"},
      {"BRANCH_GTE"},
      {"BRANCH_GT"},
      {"BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT"}};
  uint64_t seed = 0;
  for (const auto& modes : kinds)
    for (bool with_missing : {false, true})
      for (int64_t rows : {1, 5, 64, 65, 200})
        for (int64_t targets : {1, 3}) {
          Random random(++seed);
          Trees trees;
          for (int64_t t = 0; t < 11; ++t)
            trees.Grow(t, static_cast<int>(t % 6), 4, targets, modes, with_missing, random);
          const std::string_view how =
              std::vector<std::string_view>{"SUM", "AVERAGE", "MIN", "MAX"}[seed % 4];
          const std::string text =
              Cat("graph g(x: f32[", rows,
                  ",4]) -> (y) { y = ai.onnx.ml::TreeEnsembleRegressor(x) {n_targets=", targets,
                  ", aggregate_function=\"", how, "\", base_values=[0.5], ", trees.Text("target"),
                  "} }");
          ExpectOwn(CheckGraph(text, std::vector<Datum>{RowsLike(rows, 4, seed)}, 0));
          ExpectOwn(CheckGraph(text, std::vector<Datum>{RowsWithNaN(rows, 4, seed)}, 0));
          // Values at the splits themselves.
          Tensor at(DType::kF32, {rows, 4});
          for (int64_t i = 0; i < at.num_elements(); ++i)
            at.Set(i, static_cast<double>(
                          trees.value[static_cast<size_t>(i) * 7 % trees.value.size()]));
          ExpectOwn(CheckGraph(text, std::vector<Datum>{at}, 0));
        }
}

TEST(Classical, TreesThatVoteForClasses) {
  uint64_t seed = 40;
  for (std::string_view transform : {"NONE", "SOFTMAX", "LOGISTIC", "PROBIT"})
    for (int64_t classes : {1, 2, 3}) {
      Random random(++seed);
      Trees trees;
      for (int64_t t = 0; t < 9; ++t) trees.Grow(t, 4, 6, classes, {"BRANCH_LEQ"}, false, random);
      // One class that is voted for, of two.
      const std::string labels = classes < 3 ? "[7, 9]" : "[7, 9, 11]";
      const std::string text =
          Cat("graph g(x: f32[70,6]) -> (y, z) { y, z = ai.onnx.ml::TreeEnsembleClassifier(x) "
              "{classlabels_int64s=",
              labels, ", post_transform=\"", transform, "\", ", trees.Text("class"), "} }");
      ExpectOwn(CheckGraph(text, std::vector<Datum>{RowsLike(70, 6, seed)}, 0));
      CheckSameBits(text);
    }
}

/// Other conditions, and features that a row lacks, are the reference's.
TEST(Classical, TreesThatTheReferenceRuns) {
  Random random(3);
  Trees trees;
  trees.Grow(0, 3, 4, 1, {"BRANCH_EQ", "BRANCH_NEQ"}, false, random);
  const auto text = [&](std::string_view type) {
    return Cat("graph g(x: ", type,
               "[9,4]) -> (y) { y = ai.onnx.ml::TreeEnsembleRegressor(x) {n_targets=1, ",
               trees.Text("target"), "} }");
  };
  CheckGraph(text("f32"), 1, 0);
  for (std::string_view type : {"f64", "i64", "i32"}) CheckGraph(text(type), 1, 0);
}

// ---- Linear models ---------------------------------------------------------------------------

TEST(Classical, LinearModels) {
  uint64_t seed = 0;
  for (int64_t features : {1, 3, 4, 7, 8, 15, 16, 17, 33, 70})
    for (int64_t outputs : {1, 2, 3, 4, 5, 9})
      for (std::string_view transform : {"NONE", "SOFTMAX", "LOGISTIC"}) {
        Random random(++seed);
        const int64_t rows = std::vector<int64_t>{1, 4, 7, 130}[seed % 4];
        const std::string model =
            Cat("coefficients=", ListOf(Numbers(static_cast<size_t>(features * outputs), random)),
                seed % 3 == 0
                    ? ""
                    : Cat(", intercepts=", ListOf(Numbers(static_cast<size_t>(outputs), random))),
                ", post_transform=\"", transform, "\"");
        const std::string x = Cat("graph g(x: f32[", rows, ",", features, "])");
        ExpectOwn(CheckGraph(Cat(x, " -> (y) { y = ai.onnx.ml::LinearRegressor(x) {targets=",
                                 outputs, ", ", model, "} }"),
                             seed));
        std::vector<int64_t> labels(static_cast<size_t>(std::max<int64_t>(2, outputs)));
        std::iota(labels.begin(), labels.end(), 3);
        for (std::string_view results : {"(y, z)", "(y)", "(z)"})
          ExpectOwn(CheckGraph(Cat(x, " -> ", results,
                                   " { y, z = ai.onnx.ml::LinearClassifier(x) {classlabels_ints=",
                                   ListOf(labels), ", ", model, "} }"),
                               seed));
      }
}

/// The last features of a row are read with the row before them; what that row has stays out.
TEST(Classical, InfinityStaysInItsRow) {
  Random random(5);
  for (int64_t features : {5, 9, 17, 40}) {
    Tensor x = RowsLike(9, features, 4);
    x.Set(features + 1, INFINITY);
    x.Set(3 * features - 1, static_cast<double>(kNaN));
    ExpectOwn(
        CheckGraph(Cat("graph g(x: f32[9,", features,
                       "]) -> (y) { y = ai.onnx.ml::LinearRegressor(x) {targets=2, coefficients=",
                       ListOf(Numbers(static_cast<size_t>(2 * features), random)), "} }"),
                   std::vector<Datum>{x}));
  }
}

TEST(Classical, LinearSameBits) {
  Random random(6);
  CheckSameBits(
      Cat("graph g(x: f32[1001,37]) -> (z) { y, z = ai.onnx.ml::LinearClassifier(x) "
          "{classlabels_ints=[1, 2, 3], post_transform=\"SOFTMAX\", coefficients=",
          ListOf(Numbers(3 * 37, random)), "} }"));
}

// ---- Features --------------------------------------------------------------------------------

TEST(Classical, FeaturesByThemselves) {
  uint64_t seed = 0;
  for (std::string_view dims : {"1,1", "3,5", "700,3", "2,600", "7"}) {
    const std::string x = Cat("graph g(x: f32[", dims, "]) -> (y) { y = ai.onnx.ml::");
    const Graph g = *ParseGraph(Cat(x, "Binarizer(x) }"), SuiteOps());
    const auto features = static_cast<size_t>(DimsOf(*g.inputs()[0]).back());
    Random random(++seed);
    Tensor with_nan = RandomInput(DType::kF32, DimsOf(*g.inputs()[0]), random);
    for (int64_t i = 0; i < with_nan.num_elements(); i += 3)
      with_nan.Set(i, static_cast<double>(kNaN));
    for (size_t entries : {size_t{1}, features}) {
      ExpectOwn(CheckGraph(Cat(x, "Scaler(x) {offset=", ListOf(Numbers(entries, random)),
                               ", scale=", ListOf(Numbers(entries, random)), "} }"),
                           seed));
      const std::string values = ListOf(Numbers(entries, random));
      ExpectOwn(CheckGraph(
          Cat(x, "Imputer(x) {replaced_value_float=nan, imputed_value_floats=", values, "} }"),
          std::vector<Datum>{with_nan}, 0));
      ExpectOwn(CheckGraph(
          Cat(x, "Imputer(x) {replaced_value_float=0.0, imputed_value_floats=", values, "} }"),
          std::vector<Datum>{Tensor::Zeros(DType::kF32, with_nan.dims())}, 0));
    }
    ExpectOwn(CheckGraph(Cat(x, "Binarizer(x) {threshold=0.25} }"), seed, 0));
    for (std::string_view norm : {"MAX", "L1", "L2"}) {
      ExpectOwn(CheckGraph(Cat(x, "Normalizer(x) {norm=\"", norm, "\"} }"), seed));
      ExpectOwn(CheckGraph(Cat(x, "Normalizer(x) {norm=\"", norm, "\"} }"),
                           std::vector<Datum>{Tensor::Zeros(DType::kF32, with_nan.dims())}, 0));
    }
  }
}

TEST(Classical, FeaturesByTheirPlaces) {
  for (std::string_view type : {"f32", "i64", "f64", "i32"})
    for (std::string_view dims : {"4,5", "2,3,5", "5"})
      ExpectOwn(CheckGraph(Cat("graph g(x: ", type, "[", dims,
                               "]) -> (y) { i = const i64[3] {4, 0, 4}"
                               " y = ai.onnx.ml::ArrayFeatureExtractor(x, i) }"),
                           1, 0));
  // Indices that come with the run.
  const std::string late =
      "graph g(x: f32[3,5], i: i64[1,2]) -> (y) { y = ai.onnx.ml::ArrayFeatureExtractor(x, i) }";
  Random random(1);
  const Tensor x = RandomInput(DType::kF32, {3, 5}, random);
  ExpectOwn(CheckGraph(late, {x, Tensor::Of<int64_t>({1, 2}, {4, 1})}, 0));
  for (std::string_view type : {"i64", "i32"})
    for (int zeros : {0, 1})
      ExpectOwn(CheckGraph(Cat("graph g(x: ", type,
                               "[2,2]) -> (y) { y = ai.onnx.ml::OneHotEncoder(x) {zeros=", zeros,
                               ", cats_int64s=[1, 5, 1, -2]} }"),
                           {type == "i64" ? Tensor::Of<int64_t>({2, 2}, {1, -2, 5, 1})
                                          : Tensor::Of<int32_t>({2, 2}, {1, -2, 5, 1})},
                           0));
}

TEST(Classical, LabelsOfNumbers) {
  // A key that stands twice has its last value; there is one zero, and one NaN.
  const std::pair<std::string_view, Tensor> cases[] = {
      {"keys_int64s=[0, 7, -3, 7, 5000]", Tensor::Of<int64_t>({6}, {7, 0, 5000, 1, -3, -1})},
      {"keys_floats=[0.5, nan, 0.0]", Tensor::Of<float>({4}, {kNaN, -0.0f, 0.5f, 7})}};
  for (const auto& [keys, x] : cases)
    for (std::string_view values : {"int64s", "floats"}) {
      const bool whole = values == "int64s", five = x.dtype() == DType::kI64;
      const std::string text =
          Cat("graph g(x: ", Name(x.dtype()), "[", x.num_elements(),
              "]) -> (y) { y = ai.onnx.ml::LabelEncoder(x) {", keys, ", values_", values, "=",
              whole ? (five ? "[1, 2, 3, 4, 5]" : "[1, 2, 3]")
                    : (five ? "[1.0, 2.0, 3.0, 4.0, 5.0]" : "[1.0, 2.0, 3.0]"),
              ", default_", whole ? "int64=9" : "float=9.5", "} }");
      ExpectOwn(CheckGraph(text, std::vector<Datum>{x}, 0));
    }
  // Text is looked up by the reference.
  CheckGraph(
      "graph g() -> (y) { x = const str[3] {\"a\", \"b\", \"c\"}"
      " y = ai.onnx.ml::LabelEncoder(x) {keys_strings=[\"a\", \"b\"], values_int64s=[5, 6]} }",
      1, 0);
}

/// The classes run on the kernels of numbers, and a Gather gives the text.
TEST(Classical, LabelsOfText) {
  Random random(2);
  Trees trees;
  for (int64_t t = 0; t < 5; ++t) trees.Grow(t, 3, 4, 3, {"BRANCH_LEQ"}, false, random);
  Machine m;
  m.counts = {4, 5, 6};
  std::string svm = ClassifierText(m, 9, 4);
  const std::string_view numbers = "classlabels_ints=[4, 5, 6]",
                         texts = "classlabels_strings=[\"x\", \"y\", \"zz\"]";
  svm.replace(svm.find(numbers), numbers.size(), texts);
  const std::string x = "graph g(x: f32[9,4]) -> (y, z) { y, z = ai.onnx.ml::";
  for (const std::string& text :
       {svm,
        Cat(x, "LinearClassifier(x) {", texts, ", coefficients=", ListOf(Numbers(12, random)),
            "} }"),
        Cat(x, "TreeEnsembleClassifier(x) {", texts, ", ", trees.Text("class"), "} }"),
        Cat("graph g(x: f32[9,4]) -> (z) { y, z = ai.onnx.ml::TreeEnsembleClassifier(x) {", texts,
            ", ", trees.Text("class"), "} }")}) {
    const auto steps = CheckGraph(text, 5);
    if (BackendUnderTest().name() != "cpu" || steps.empty()) continue;
    EXPECT_EQ(steps[0].kernel.substr(0, 4), "own:") << steps[0].op << steps[0].kernel;
  }
}

}  // namespace
}  // namespace infer
