#include "quant/accuracy/code_check.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_set>

#include "lib/ir/editor.h"
#include "lib/ops/quantized/quant_reference.h"
#include "lib/support/strings.h"

namespace infer {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

/// Codes of at most 16 bits that `n` makes as its result 0.
bool MakesCodes(const Node& n) {
  const Value* const y = n.output(0);
  if (!n.Is(Trait::kQuantization) || !y || !y->type().is_tensor() || !IsInteger(y->dtype()))
    return false;
  if (IntegerMax(y->dtype()) > 65535) return false;
  const auto block = n.attrs().find("block_size");
  return block == n.attrs().end() || std::get<int64_t>(block->second) == 0;
}

bool IsDynamic(const Node& n) { return n.Is("DynamicQuantizeLinear"); }
bool HasReals(const Node& n) { return n.Is("QuantizeLinear") || IsDynamic(n); }

/// The results of the node that makes the codes of value `name`: a dynamic quantizer's three belong
/// together.
std::vector<std::string> Family(const Graph& golden, const std::string& name) {
  const Node& n = *golden.FindValue(name)->producer();
  std::vector<std::string> names{name};
  if (IsDynamic(n))
    for (size_t i = 1; i < n.outputs().size(); ++i)
      if (n.output(i)) names.push_back(n.output(i)->name());
  return names;
}

/// Copies of `g` with more outputs, behind those that it has.
class Tapped {
 public:
  explicit Tapped(const Graph& g) : graph(g.Clone()), editor_(graph) {}

  /// Position of the value among the outputs.
  Result<size_t> Output(Value* v) {
    if (v->is_input() || v->is_constant()) {
      INFER_ASSIGN(v, editor_.Add("Identity", {v}));
    }
    editor_.MarkOutput(v);
    return graph.outputs().size() - 1;
  }

  /// Readers of `v` read an input, the last one, instead.
  void Cut(Value* v) {
    Value* const given = editor_.AddInput(Cat(v->name(), "_given"), v->type());
    const std::vector<Use> uses = v->uses();
    for (const Use& u : uses) editor_.SetOperand(*u.user, u.operand, given);
  }

  Graph graph;

 private:
  GraphEditor editor_;
};

/// Positions among golden's outputs of what a quantizer read; -1: it read none.
struct Reals {
  int x = -1, scale = -1, zero = -1;
  int axis = 0;
};

/// One value of codes: where it stands among the outputs of both sides.
struct Checked {
  std::string name;
  size_t golden = 0, candidate = 0;
  Reals reals;
  size_t given = 1;  ///< how many outputs of golden's, from `golden` on, the candidate reads
};

Result<Reals> TapReals(const Node& n, size_t codes, Tapped& golden) {
  Reals r;
  if (!HasReals(n)) return r;
  INFER_ASSIGN(const size_t x, golden.Output(n.input(0)));
  r.x = static_cast<int>(x);
  if (IsDynamic(n)) {
    r.scale = static_cast<int>(codes) + 1;
    r.zero = static_cast<int>(codes) + 2;
    return r;
  }
  INFER_ASSIGN(const size_t scale, golden.Output(n.input(1)));
  r.scale = static_cast<int>(scale);
  if (n.input(2)) {
    INFER_ASSIGN(const size_t zero, golden.Output(n.input(2)));
    r.zero = static_cast<int>(zero);
  }
  r.axis = static_cast<int>(n.Attr<int64_t>("axis"));
  return r;
}

/// The numbers that a quantizer read, element by element.
struct RealReader {
  const Tensor* x = nullptr;
  BroadcastReader scale, zero;
  double largest = 0;

  static Result<RealReader> Of(const Reals& at, const std::vector<Datum>& values) {
    RealReader r;
    r.x = &values[static_cast<size_t>(at.x)].tensor();
    const int rank = r.x->rank(), axis = at.axis < 0 ? at.axis + rank : at.axis;
    const auto reader = [&](const Tensor& t) {
      return BroadcastReader::Make(t, QuantParamDims(t.dims(), rank, axis), r.x->dims());
    };
    INFER_ASSIGN(r.scale, reader(values[static_cast<size_t>(at.scale)].tensor()));
    INFER_ASSIGN(r.zero, reader(at.zero < 0 ? Tensor::Scalar<int32_t>(0)
                                            : values[static_cast<size_t>(at.zero)].tensor()));
    for (int64_t i = 0; i < r.x->num_elements(); ++i)
      if (const double v = std::abs(r.x->At(i)); std::isfinite(v))
        r.largest = std::max(r.largest, v);
    return r;
  }

  /// By how much element i must change to become `code` and not `golden`, over the largest.
  double ShiftTo(int64_t i, int64_t code, int64_t golden) const {
    const double border = static_cast<double>(code) + (code > golden ? -0.5 : 0.5);
    const double wanted = (border - zero.At(i)) * scale.At(i), d = std::abs(wanted - x->At(i));
    if (!std::isfinite(d)) return kNever;
    return d == 0 ? 0 : largest == 0 ? kNever : d / largest;
  }
};

/// Golden's codes beside the candidate's, of one sample.
Status CompareCodes(const Checked& c, const std::vector<Datum>& golden,
                    const std::vector<Datum>& candidate, CodeCheck& check) {
  const Tensor &g = golden[c.golden].tensor(), &d = candidate[c.candidate].tensor();
  if (g.dims() != d.dims())
    return InvalidModel(
        Cat("'", c.name, "' is ", ToString(d.dims()), " instead of ", ToString(g.dims())));
  check.codes += g.num_elements();
  double worst = 0;
  int64_t zeros_apart = 0;
  if (c.given == 3) {
    // Of a dynamic quantizer the scale and the zero point may round otherwise, too.
    const double s = golden[c.golden + 1].tensor().At(0),
                 t = candidate[c.candidate + 1].tensor().At(0);
    zeros_apart =
        candidate[c.candidate + 2].tensor().IntAt(0) - golden[c.golden + 2].tensor().IntAt(0);
    worst = std::abs(zeros_apart) > 1 || !(s > 0) ? (s == t ? 0 : kNever) : std::abs(t / s - 1);
  }
  if (zeros_apart == 0 && BitEqual(g, d)) {
    if (worst > check.shift) check.shift = worst, check.worst = c.name;
    return {};
  }
  std::optional<RealReader> reals;
  if (c.reals.x >= 0) {
    INFER_ASSIGN(reals, RealReader::Of(c.reals, golden));
  }
  for (int64_t i = 0; i < g.num_elements(); ++i) {
    const int64_t want = g.IntAt(i), got = d.IntAt(i) - zeros_apart;
    if (want == got) continue;
    ++check.moved;
    worst = std::max(worst, reals ? reals->ShiftTo(i, got, want) : kNever);
  }
  if (worst > check.shift || check.worst.empty()) check.shift = worst, check.worst = c.name;
  return {};
}

}  // namespace

std::vector<std::string> SharedCodes(const Graph& golden, const Graph& candidate) {
  std::vector<std::string> names;
  for (const auto& n : golden.nodes()) {
    if (!MakesCodes(*n)) continue;
    const auto is_shared = [&](const Value* v) {
      const Value* const other = candidate.FindValue(v->name());
      return other && other->producer() && other->type().is_tensor() &&
             other->dtype() == v->dtype();
    };
    const auto& made = n->outputs();
    if (std::all_of(made.begin(),
                    made.begin() + (IsDynamic(*n) ? static_cast<int64_t>(made.size()) : 1),
                    [&](const Value* v) { return v && is_shared(v); }))
      names.push_back(n->output(0)->name());
  }
  return names;
}

Result<CodeCheck> CheckCodes(const Graph& golden, const Graph& candidate, const Backend& backend,
                             const Samples& samples, const CodeCheckOptions& options) {
  INFER_TRY(CheckInterfaces(golden, candidate));
  CodeCheck check;
  const std::vector<std::string> names = SharedCodes(golden, candidate);
  check.values = static_cast<int64_t>(names.size());
  if (names.empty()) return check;
  const size_t outputs = golden.outputs().size();
  Tapped g(golden), c(candidate);
  std::vector<Checked> checked;
  std::vector<size_t> given;  // outputs of golden's that the candidate reads
  for (const std::string& name : names) {
    Checked v{name, g.graph.outputs().size(), c.graph.outputs().size(), {}, 0};
    for (const std::string& part : Family(golden, name)) {
      INFER_ASSIGN(const size_t at, g.Output(g.graph.FindValue(part)));
      given.push_back(at);
      c.Cut(c.graph.FindValue(part));
      INFER_TRY(c.Output(c.graph.FindValue(part)).status());
      ++v.given;
    }
    INFER_ASSIGN(v.reals, TapReals(*g.graph.FindValue(name)->producer(), v.golden, g));
    checked.push_back(std::move(v));
  }
  INFER_ASSIGN(const OutputSource run_golden,
               RunsOf(g.graph, backend, options.golden_level, options.threads, options.stop));
  INFER_ASSIGN(const OutputSource run_candidate,
               RunsOf(c.graph, backend, options.candidate_level, options.threads, options.stop));
  std::vector<TensorComparer> comparers(outputs);
  for (int64_t s = 0; s < samples.count; ++s) {
    if (options.stop.stop_requested()) return Cancelled("comparison was stopped");
    INFER_ASSIGN(std::vector<Datum> inputs, samples.get(s));
    INFER_ASSIGN(const auto of_golden, run_golden(s, inputs));
    for (const size_t at : given) inputs.push_back(of_golden[at]);
    INFER_ASSIGN(const auto of_candidate, run_candidate(s, inputs));
    for (const Checked& v : checked) INFER_TRY(CompareCodes(v, of_golden, of_candidate, check));
    INFER_TRY(AddOutputs(
        {of_golden.begin(), of_golden.begin() + static_cast<int64_t>(outputs)},
        {of_candidate.begin(), of_candidate.begin() + static_cast<int64_t>(outputs)}, comparers));
  }
  const std::unordered_set<std::string> codes(names.begin(), names.end());
  check.outputs.samples = samples.count;
  for (size_t i = 0; i < outputs; ++i) {
    const Value& v = *golden.outputs()[i];
    if (!codes.contains(v.name())) check.outputs.outputs.push_back(AccuracyOf(v, comparers[i]));
  }
  return check;
}

}  // namespace infer
