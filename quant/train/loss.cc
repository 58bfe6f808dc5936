#include "quant/train/loss.h"

#include "lib/ir/inline.h"
#include "lib/ir/text.h"
#include "lib/support/strings.h"

namespace infer {
namespace {

/// Smallest probability whose logarithm is taken.
constexpr const char* kLeastProbability = "1e-12";

/// Names of logits made of "student" and "golden".
std::string Logits(OutputLoss::Kind kind) {
  if (kind == OutputLoss::Kind::kScores) return "  s = Identity(student)\n  t = Identity(golden)\n";
  return Cat("  least = const f32[] {", kLeastProbability,
             "}\n  sp = Max(student, least)\n  s = Log(sp)\n  tp = Max(golden, least)\n"
             "  t = Log(tp)\n");
}

std::string DivergenceText(OutputLoss::Kind kind, double temperature) {
  return Cat("graph loss(student, golden) -> (loss) {\n", Logits(kind), "  cool = const f32[] {",
             FormatDouble(1 / temperature), "}\n", "  back = const f32[] {",
             FormatDouble(temperature * temperature), "}\n",
             R"(  classes = const i64[1] {-1}
  sc = Mul(s, cool)  tc = Mul(t, cool)
  ls = LogSoftmax(sc) {axis=-1}  lt = LogSoftmax(tc) {axis=-1}  p = Softmax(tc) {axis=-1}
  d = Sub(lt, ls)  e = Mul(p, d)
  rows = ReduceSum(e, classes) {keepdims=0}
  mean = ReduceMean(rows) {keepdims=0}
  loss = Mul(mean, back)
})");
}

std::string SquaresText(double energy) {
  return Cat("graph loss(student, golden) -> (loss) {\n  scale = const f32[] {",
             FormatDouble(1 / energy), R"(}
  d = Sub(student, golden)  q = Mul(d, d)  mean = ReduceMean(q) {keepdims=0}
  loss = Mul(mean, scale)
})");
}

std::string LabelText(OutputLoss::Kind kind, double weight) {
  return Cat("graph loss(student, golden, labels) -> (loss) {\n", Logits(kind),
             "  weight = const f32[] {", FormatDouble(-weight), R"(}
  classes = const i64[1] {-1}
  ls = LogSoftmax(s) {axis=-1}  e = Mul(labels, ls)
  rows = ReduceSum(e, classes) {keepdims=0}  mean = ReduceMean(rows) {keepdims=0}
  loss = Mul(mean, weight)
})");
}

Result<Value*> Put(GraphEditor& editor, const OpRegistry& ops, const std::string& text,
                   const std::vector<Value*>& operands) {
  const AttrMap no_parameters;  // of a body: its inputs have no types
  INFER_ASSIGN(const Graph body, ParseGraph(text, ops, {.parameters = &no_parameters}));
  INFER_ASSIGN(const auto made, InlineGraph(editor, body, operands));
  return made[0];
}

}  // namespace

Status AddLoss(Graph& g, const LossOptions& options) {
  GraphEditor editor(g);
  Value* loss = nullptr;
  bool with_labels = options.label_weight > 0;
  const auto add = [&](Value* more) -> Status {
    if (loss) {
      INFER_ASSIGN(loss, editor.Add("Add", {loss, more}));
    } else {
      loss = more;
    }
    return {};
  };
  std::vector<Value*> golden;
  for (size_t k = 0; k < options.outputs.size(); ++k)
    golden.push_back(
        editor.AddInput(Cat("golden_", k), g.outputs()[options.outputs[k].output]->type()));
  for (size_t k = 0; k < options.outputs.size(); ++k) {
    const OutputLoss& o = options.outputs[k];
    Value* y = g.outputs()[o.output];
    const bool numbers = o.kind == OutputLoss::Kind::kNumbers;
    const std::string text =
        numbers ? SquaresText(o.energy / o.weight) : DivergenceText(o.kind, options.temperature);
    INFER_ASSIGN(Value * part, Put(editor, g.ops(), text, {y, golden[k]}));
    INFER_TRY(add(part));
    if (numbers || !with_labels) continue;
    with_labels = false;  // once
    Value* labels = editor.AddInput("labels", y->type());
    INFER_ASSIGN(part, Put(editor, g.ops(), LabelText(o.kind, options.label_weight),
                           {y, golden[k], labels}));
    INFER_TRY(add(part));
  }
  if (!loss) return InvalidArgument("no output to compare");
  editor.MarkOutput(loss);
  return {};
}

}  // namespace infer
