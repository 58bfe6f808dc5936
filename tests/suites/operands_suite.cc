/// Operands that an operator cannot take: what inference knows before the run is taken away,
/// extents and numbers are changed at random, and a backend says what the reference kernels say:
/// the same numbers, or a refusal of the same kind. Nothing aborts.
#include <cstdlib>

#include "lib/ir/editor.h"
#include "lib/ir/inference.h"
#include "tests/suites/suite.h"

namespace infer {
namespace {

/// An operator's example with operands of unknown shape, its constants among them where inference
/// can do without their values.
struct OpenExample {
  Graph graph;
  std::vector<Tensor> given;  ///< operands that fit, by input
};

/// False where the graph needs to know more.
bool OpenInputs(Graph& g, const std::vector<bool>& open) {
  GraphEditor editor(g);
  for (size_t i = 0; i < g.inputs().size(); ++i)
    if (open[i]) editor.SetType(g.inputs()[i], TensorType{g.inputs()[i]->dtype(), Shape()});
  return InferTypes(g).ok();
}

/// The results of `n` that have a name, and all that it could have besides.
std::vector<std::string> AllResults(const Node& n) {
  std::vector<std::string> names;
  for (const Value* v : n.outputs()) names.push_back(v ? v->name() : "");
  const auto& defined = n.def().outputs;
  if (!defined.empty() && defined.back().arity == Arity::kVariadic) return names;
  names.resize(std::max(names.size(), defined.size()));
  for (size_t i = 0; i < names.size(); ++i)
    if (names[i].empty()) names[i] = Cat(n.output(0)->name(), "_", i);
  return names;
}

enum class Form : uint8_t {
  kConstantsAsInputs,
  kAllResults,  ///< each result that a node could have is an output of the graph
};

/// Copies the nodes of `from`.
Result<OpenExample> InForm(const Graph& from, std::vector<Tensor> given, Form form) {
  OpenExample made{Graph(from.ops(), "open"), {}};
  GraphEditor editor(made.graph);
  std::map<const Value*, Value*> is;
  for (size_t i = 0; i < from.inputs().size(); ++i)
    is[from.inputs()[i]] = editor.AddInput(from.inputs()[i]->name(), from.inputs()[i]->type());
  for (const auto& n : from.nodes()) {
    std::vector<Value*> operands;
    for (const Value* v : n->inputs()) {
      if (v && v->is_constant() && !is.contains(v)) {
        if (form == Form::kConstantsAsInputs) given.push_back(*v->constant());
        is[v] = form == Form::kConstantsAsInputs ? editor.AddInput(v->name(), v->type())
                                                 : editor.AddConstant(*v->constant());
      }
      operands.push_back(v ? is.at(v) : nullptr);
    }
    if (!n->subgraphs().empty()) return Unsupported("control flow");
    NodeOptions options;
    const size_t had = n->outputs().size();
    for (const Value* v : n->outputs()) options.output_names.push_back(v ? v->name() : "");
    if (form == Form::kAllResults) options.output_names = AllResults(*n);
    INFER_ASSIGN(Node* const copy,
                 editor.AddNode(n->def(), std::move(operands), n->attrs(), std::move(options)));
    for (size_t o = 0; o < n->outputs().size(); ++o)
      if (n->output(o)) is[n->output(o)] = copy->output(o);
    for (size_t o = 0; o < copy->outputs().size(); ++o)
      if (o >= had || !n->output(o)) editor.MarkOutput(copy->output(o));
  }
  for (const Value* v : from.outputs()) editor.MarkOutput(is.at(v));
  made.given = std::move(given);
  return made;
}

Dims Changed(Dims dims, Random& random) {
  const auto below = [&](size_t n) { return size_t{random.Below(static_cast<uint32_t>(n))}; };
  constexpr int64_t kExtents[] = {0, 1, 2, 3, 5, 7};
  switch (random.Below(4)) {
    case 0:
      if (!dims.empty()) dims.erase(dims.begin() + static_cast<int64_t>(below(dims.size())));
      return dims;
    case 1:
      dims.insert(dims.begin() + static_cast<int64_t>(below(dims.size() + 1)), random.Below(3));
      return dims;
    default:
      if (!dims.empty()) dims[below(dims.size())] = kExtents[below(std::size(kExtents))];
      return dims;
  }
}

/// Elements of `like` again and again, some of the integers changed.
Tensor Filled(const Tensor& like, Dims dims, bool change, Random& random) {
  constexpr int64_t kInts[] = {-1, 0, 1, 2, 7, -5, 50, -50, INT64_MIN, INT64_MAX};
  Tensor t(like.dtype(), std::move(dims));
  const int64_t n = like.num_elements();
  for (int64_t i = 0; i < t.num_elements(); ++i) {
    if (like.dtype() == DType::kString) {
      t.mutable_strings()[static_cast<size_t>(i)] =
          n ? like.strings()[static_cast<size_t>(i % n)] : "a";
    } else if (IsInteger(like.dtype())) {
      t.SetInt(i, change && random.Below(2) ? kInts[random.Below(10)] : n ? like.IntAt(i % n) : 0);
    } else {
      t.Set(i, n ? like.At(i % n) : 0);
    }
  }
  return t;
}

/// Whether operators of the graph give random numbers, or take memory by the numbers they get.
bool IsApart(const Graph& g) {
  return std::any_of(g.nodes().begin(), g.nodes().end(), [](const auto& n) {
    return !n->def().deterministic || !n->subgraphs().empty();
  });
}

/// Asked for more than there is: which of two backends notices first is not compared.
bool IsResource(const Status& s) { return s.code() == Code::kResource; }

void ExpectAlike(const Graph& g, const std::vector<Datum>& inputs, double tolerance,
                 const std::string& what) {
  Result<std::vector<Datum>> want = ResourceExhausted("");
  try {
    want = Evaluate(g, inputs);
  } catch (const std::bad_alloc&) {
    return;
  }
  for (const int level : DifferentLevels()) {
    if (level == 1) continue;
    auto program = BackendUnderTest().Compile(g, {.level = level});
    if (!program.ok() && !want.ok()) continue;
    ASSERT_TRUE(program.ok()) << program.status().message() << what;
    const auto got = RunOnce(**program, inputs);
    if (IsResource(got.status()) || IsResource(want.status())) continue;
    ASSERT_EQ(got.ok(), want.ok())
        << "level " << level << ": '" << got.status().message() << "', the reference says '"
        << want.status().message() << "'" << what;
    if (!want.ok()) {
      EXPECT_NE(got.status().code(), Code::kInternal) << got.status().message() << what;
      continue;
    }
    for (size_t o = 0; o < want->size(); ++o)
      ExpectClose((*got)[o], (*want)[o], tolerance, Cat("level ", level, " output ", o, what));
  }
}

void Try(OpenExample example, double tolerance, int trials, std::string_view name) {
  const Graph& g = example.graph;
  if (IsApart(g)) return;
  const bool failed = ::testing::Test::HasFailure();
  for (int trial = 0; trial < trials; ++trial) {
    Random random(static_cast<uint64_t>(trial) + 1);
    std::vector<Datum> inputs;
    std::string what = Cat("\n", name, ", trial ", trial, ":");
    for (const Tensor& t : example.given) {
      const bool changes = random.Below(2) == 0;
      Dims dims = changes ? Changed(t.dims(), random) : t.dims();
      inputs.push_back(Filled(t, std::move(dims), random.Below(3) == 0, random));
      what += Cat(" ", ToString(inputs.back().tensor(), 6));
    }
    ExpectAlike(g, inputs, tolerance, Cat(what, "\n", Print(g)));
    if (failed != ::testing::Test::HasFailure()) return;
  }
}

/// `g` with a constant for input `i`: kernels know of constants before they are asked for extents.
/// nullopt: inference refuses it.
std::optional<Graph> WithConstant(const Graph& g, size_t i, const Tensor& t) {
  Graph made = g.Clone();
  GraphEditor editor(made);
  Value* const constant = editor.AddConstant(t);
  Value* const input = made.inputs()[i];
  const std::vector<Use> uses = input->uses();
  for (const Use& use : uses) editor.SetOperand(*use.user, use.operand, constant);
  editor.EraseInput(i);
  if (!InferTypes(made).ok()) return std::nullopt;
  return made;
}

/// Each operand in turn, empty along each of its axes, given for the run or constant.
void TryEmpty(const OpenExample& example, double tolerance, std::string_view name) {
  if (IsApart(example.graph)) return;
  for (size_t i = 0; i < example.given.size(); ++i)
    for (size_t axis = 0; axis < example.given[i].dims().size(); ++axis) {
      std::vector<Datum> inputs(example.given.begin(), example.given.end());
      Dims dims = example.given[i].dims();
      dims[axis] = 0;
      const Tensor empty(example.given[i].dtype(), std::move(dims));
      inputs[i] = empty;
      const std::string what = Cat("\n", name, ", operand ", i, " is empty along axis ", axis, "\n",
                                   Print(example.graph));
      ExpectAlike(example.graph, inputs, tolerance, what);
      const auto fixed = WithConstant(example.graph, i, empty);
      if (!fixed) continue;
      inputs.erase(inputs.begin() + static_cast<int64_t>(i));
      ExpectAlike(*fixed, inputs, tolerance, Cat(what, "as a constant"));
      if (::testing::Test::HasFailure()) return;
    }
}

TEST(Operands, ThoseThatDoNotFitAreRefusedAlike) {
  const int trials =
      std::getenv("INFER_SANITIZED") ? 3 : 24;  // sanitizers take a minute for all backends
  int tried = 0;
  for (const OpDef* def : SuiteOps().all()) {
    if (def->example.empty()) continue;
    auto g = ParseGraph(def->example, SuiteOps());
    ASSERT_TRUE(g.ok()) << g.status().message();
    const auto& inputs = g->inputs();
    const bool tensors = std::all_of(inputs.begin(), inputs.end(), [](const Value* v) {
      return v->type().is_tensor() && v->shape().has_rank() && v->dtype() != DType::kC64 &&
             v->dtype() != DType::kC128;
    });
    if (!tensors) continue;
    Random random(7);
    std::vector<Tensor> given;
    for (const Value* v : inputs) given.push_back(RandomInput(v->dtype(), DimsOf(*v), random));
    const double tolerance = std::max(def->tolerance, 1e-5);
    auto more = InForm(*g, given, Form::kConstantsAsInputs);
    auto all = InForm(*g, given, Form::kAllResults);
    const bool has_more_results = all.ok() && all->graph.outputs().size() > g->outputs().size();
    if (OpenInputs(*g, std::vector<bool>(inputs.size(), true))) {
      TryEmpty({g->Clone(), given}, tolerance, def->name);
      Try({std::move(*g), std::move(given)}, tolerance, trials, def->name);
      ++tried;
    }
    for (auto* form : {&more, &all}) {
      if (!form->ok() || (form == &all && !has_more_results)) continue;
      const size_t count = (*form)->graph.inputs().size();
      if (!OpenInputs((*form)->graph, std::vector<bool>(count, true))) continue;
      const std::string name =
          Cat(def->name, form == &all ? " with all results" : " without constants");
      TryEmpty(**form, tolerance, name);
      Try(*std::move(*form), tolerance, trials, name);
    }
  }
  EXPECT_GT(tried, 150);
}

}  // namespace
}  // namespace infer
