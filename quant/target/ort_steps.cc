#include "quant/target/ort_steps.h"

#include <algorithm>
#include <set>

#include "lib/ir/body.h"
#include "lib/ir/roles.h"
#include "quant/target/checks.h"
#include "quant/target/ort_work.h"

namespace infer {
namespace {

using target::ElementsOf;
using target::ExtentOf;
using target::GroupsOf;
using target::IsPool;
using target::OrtForms;
using target::RankOf;
using target::ScaledPartsOf;
using target::Touched;
using target::WindowsOf;

constexpr std::string_view kFamilies[] = {
    "call",  // of a run as a whole
    "conv f32",
    "wide conv f32",
    "conv1x1 f32",
    "few-channel conv f32",
    "grouped conv f32",
    "depthwise f32",
    "multiplied depthwise f32",
    "conv 1-d f32",
    "depthwise 1-d f32",
    "transposed conv f32",
    "product f32",
    "product nbits",
    "vector product f32",
    "elements f32",
    "functions f32",
    "pool f32",
    "global pool f32",
    "softmax f32",
    "rows f32",
    "conv int8",
    "conv1x1 int8",
    "few-channel conv int8",
    "grouped conv int8",
    "depthwise int8",
    "multiplied depthwise int8",
    "product int8",
    "vector product int8",
    "elements int8",
    "table int8",
    "average pool int8",
    "max pool int8",
    "max pool last int8",
    "global pool int8",
    "softmax int8",
    "concat int8",
    "move",
    "move int8",
    "view",
    "layout",
    "layout int8",
    "quantize",
    "dequantize",
    "dequantize weights",
};

/// Of no blocks of channels: also where weights are no constants.
constexpr std::string_view kPlainConv = "grouped conv f32";
constexpr std::string_view kChannelByChannel = "multiplied depthwise f32";
constexpr double kMillion = 1e6, kThousand = 1e3;
/// The first ONNX Runtime 1.x that quantizes the weights of a layer between codes itself.
constexpr int kQuantizesWeights = 21;
constexpr int64_t kGeluOpset = 20;  ///< the first opset with Gelu
/// Of an integer kernel: its sum in i32 is written, and read where it becomes a code.
constexpr double kSumBytes = 8;

/// The order of elements in which a kernel leaves a result of channels and spatial axes.
enum class Layout : uint8_t { kPlain, kBlocked, kLast };

/// All elements in one order whatever the layout: one channel, or one position.
bool HasOneOrder(const Value* v) {
  if (ExtentOf(v, 1) == 1) return true;
  for (size_t axis = 2; axis < RankOf(v); ++axis)
    if (ExtentOf(v, axis) != 1) return false;
  return true;
}

class StepWriter {
 public:
  StepWriter(const Graph& g, const FileVersions& file, const Target& target, bool standard_only)
      : g_(g), is_standard_(standard_only && file.opset < kGeluOpset) {
    TargetReport unused;
    target::CheckOrtForms(g, file, target, unused, &forms_);
    for (const auto& n : g.nodes())
      if (target.minor >= kQuantizesWeights && QuantizesWeightsOf(*n))
        forms_.emplace(n.get(), n->Is("Gemm") ? "QGemm" : "QLinearConv");
    for (const auto& [node, kernel] : forms_)
      if (kernel == "QGemm" && IsMatrixProduct(*node) && !TakesBias(*node))
        biased_.insert(node->output(0)->uses()[0].user);
  }

  std::vector<OrtStep> Write() && {
    steps_.push_back({"call"});
    for (const auto& n : g_.nodes()) Visit(*n);
    for (const Value* v : g_.outputs())
      if (v->producer()) Convert(v, Layout::kPlain, *v->producer(), sizeof(float));
    return std::move(steps_);
  }

 private:
  /// A layer in f32 whose neighbours are codes: its constant weights become codes when the file is
  /// loaded (ONNX Runtime's WeightBiasQuantization), and it is computed in integers.
  static bool QuantizesWeightsOf(const Node& n) {
    if (!(n.Is("Conv") || n.Is("Gemm")) || !target::QuantizedBy(n.output(0))) return false;
    const Node* x = target::DequantizedBy(n.input(0));
    if (!x || x->input(0)->is_constant() || !target::Is8Bit(x->input(0)->dtype())) return false;
    const Value* w = n.input(1);
    return w && (w->is_constant() || (w->producer() && MakesStoredWeights(*w->producer())));
  }

  // ---- which nodes are steps --------------------------------------------------------------------

  void Visit(const Node& n) {
    if (IsFolded(n)) return;
    if (IsInteger(n)) return Turns(n) ? void() : Integer(n);
    if (n.Is(Trait::kQuantize) || n.Is(Trait::kDequantize)) return Codes(n);
    if (IsTakenIn(n)) return Pass(n);
    if (IsTransposedWhileRead(n) || Turns(n)) return;
    if (IsConvolution(n) || IsTransposedConvolution(n) || n.Is("FusedConv", kMicrosoft))
      return Convolve(n);
    if (IsMatrixProduct(n)) return Multiply(n);
    if (n.Is(Trait::kAttention)) return Attend(n);
    Float(n);
  }

  /// Made of constants and extents: done when the file is loaded. DequantizeLinear is left.
  bool IsFolded(const Node& n) {
    if (n.Is(Trait::kDequantize)) return false;
    const auto is_known = [&](const Value* v) { return !v || v->known() || folded_.contains(v); };
    const bool all = std::all_of(n.inputs().begin(), n.inputs().end(), is_known);
    const bool results = std::all_of(n.outputs().begin(), n.outputs().end(), is_known);
    if (!all && !results) return false;
    for (const Value* v : n.outputs())
      if (v) folded_.insert(v);
    return true;
  }

  bool IsInteger(const Node& n) const { return forms_.contains(&n); }

  /// Part of the integer kernel before it, or of all that read it.
  bool IsInKernel(const Node& n) const {
    if (n.Is(Trait::kDequantize)) {
      const Value* v = n.output(0);
      return v && !v->is_output() &&
             std::all_of(v->uses().begin(), v->uses().end(), [&](const Use& u) {
               return IsInteger(*u.user) || biased_.contains(u.user);
             });
    }
    const Value* x = n.input(0);
    if (!x || !x->producer()) return false;
    if (IsInteger(*x->producer()) || biased_.contains(x->producer()))
      return target::QuantizedBy(x) != nullptr;
    const Node* bound = x->producer();  // between an integer kernel and its QuantizeLinear
    const Value* y = ClampOf(*bound) ? bound->input(0) : nullptr;
    return y && y->producer() && IsInteger(*y->producer()) && target::QuantizedBy(y) == &n;
  }

  void Codes(const Node& n) {
    if (IsInKernel(n)) return Pass(n);
    const Value* x = n.input(0);
    if (x->is_constant()) {
      Add(n, "dequantize weights", ScaledPartsOf(n), 5 * ElementsOf(n.output(0)));
      return;
    }
    Layout layout = LayoutOf(x);
    if (layout == Layout::kBlocked) {
      layout = Layout::kPlain;
      Convert(x, layout, n, sizeof(float));
    }
    Add(n, n.Is(Trait::kQuantize) ? "quantize" : "dequantize", 0, 5 * ElementsOf(x));
    Leave(n, layout);
  }

  /// Epilogue of a convolution or product before it: bounds, the bias of a MatMul, a sum with
  /// another blocked value. Also bounds before the codes of an integer kernel.
  bool IsTakenIn(const Node& n) {
    const Value* x = n.input(0);
    if (x && x->producer() && IsInteger(*x->producer()) && ClampOf(n) && target::QuantizedBy(x))
      return true;
    if (biased_.contains(&n)) return true;
    for (const Value* v : n.inputs()) {
      const auto open = v ? open_.find(v) : open_.end();
      if (open == open_.end() || !v->has_one_use()) continue;
      const bool ends = target::Lists(" Relu Clip LeakyRelu ", n.op());
      if (!ends && !(n.Is(Trait::kSum) && !open->second.summed && Sums(n, *v, open->second)))
        continue;
      Open rest = open->second;
      rest.summed = true;
      open_.erase(open);
      if (!ends && n.output(0)) open_.emplace(n.output(0), rest);
      return true;
    }
    return false;
  }

  struct Open {
    size_t step = 0;
    bool blocked = false, summed = false;
  };
  /// Whether the kernel that makes `v` can add the other operand of `n`.
  bool Sums(const Node& n, const Value& v, const Open& open) {
    const Value* other = n.input(n.input(0) == &v ? 1 : 0);
    if (!other || other == &v) return false;
    if (!open.blocked)
      return !IsConvolution(*v.producer()) &&
             (other->is_constant() || target::IsAddedByGemm(v, *other));
    if (LayoutOf(other) != Layout::kBlocked || ElementsOf(other) != ElementsOf(&v)) return false;
    steps_[open.step].kb += sizeof(float) * ElementsOf(other) / kThousand;
    return true;
  }

  // ---- f32 --------------------------------------------------------------------------------------

  /// The last two axes change places, and f32 products alone read the result: they read the operand
  /// itself (ONNX Runtime's FusedMatMul, and Gemm).
  bool IsTransposedWhileRead(const Node& n) const {
    const Value* const y = n.output(0);
    if (!n.Is(Trait::kPermutation) || !y || y->is_output() || RankOf(y) < 2) return false;
    return target::SwapsLastAxes(n) &&
           std::all_of(y->uses().begin(), y->uses().end(), [&](const Use& u) {
             return IsMatrixProduct(*u.user) && !IsInteger(*u.user);
           });
  }

  void Convolve(const Node& n) {
    const Value *x = n.input(0), *w = n.input(1), *y = n.output(0);
    const bool is_stored = !w || !w->producer() || folded_.contains(w);
    const bool planes = RankOf(x) == 4 && !IsTransposedConvolution(n);
    const std::string_view family = is_stored || !planes     ? target::FloatConvFamily(n)
                                    : target::IsDepthwise(n) ? kChannelByChannel
                                                             : kPlainConv;
    const bool blocked = planes && is_stored && family != kPlainConv && family != kChannelByChannel;
    const bool reads_blocks = blocked && family != "few-channel conv f32";
    Convert(x, reads_blocks ? Layout::kBlocked : Layout::kPlain, n, sizeof(float));
    const double filled = blocked ? target::FilledBlocks(n, family) : 1;
    const double columns = blocked ? 0 : 2 * target::ColumnsOf(n).elements;
    Add(n, family, filled * FlopsOf(n),
        sizeof(float) * (ElementsOf(x) + ElementsOf(w) + ElementsOf(y) + columns));
    if (!blocked && !IsTransposedConvolution(n)) steps_.back().launches = GroupsOf(n);
    Leave(n, blocked ? Layout::kBlocked : Layout::kPlain);
    if (y) open_.emplace(y, Open{steps_.size() - 1, blocked, false});
  }

  void Multiply(const Node& n) {
    ConvertAll(n, Layout::kPlain, sizeof(float));
    Add(n, target::IsOfOneRow(n) ? "vector product f32" : "product f32", FlopsOf(n),
        sizeof(float) * Touched(n));
    Leave(n, Layout::kPlain);
    if (n.output(0)) open_.emplace(n.output(0), Open{steps_.size() - 1, false, false});
  }

  /// Div, Add, two Mul, and a second DequantizeLinear, which keeps them from becoming one Gelu.
  void AddGeluParts(const Node& n) {
    const double each = ElementsOf(n.input(0));
    for (int i = 0; i < 4; ++i) Add(n, "elements f32", each, 2 * sizeof(float) * each);
    Add(n, "dequantize", 0, 5 * each);
  }

  /// Products with the keys and the values, and a softmax between them.
  void Attend(const Node& n) {
    ConvertAll(n, Layout::kPlain, sizeof(float));
    const target::ScoresWork scores = target::ScoresOf(n);
    Add(n, "product f32", FlopsOf(n), sizeof(float) * (Touched(n) + 2 * scores.elements));
    steps_.back().launches = 2;
    Add(n, "softmax f32", scores.operations, 2 * sizeof(float) * scores.elements);
  }

  void Float(const Node& n) {
    const std::string_view family = target::FloatFamily(n);
    if (n.Is("Gelu") && is_standard_ && target::DequantizedBy(n.input(0))) AddGeluParts(n);
    Layout layout = IsTransparent(n) ? LayoutOfInputs(n) : Layout::kPlain;
    if (layout == Layout::kBlocked && n.IsAny(Trait::kPooling | Trait::kConcatenation) &&
        !target::HasWholeBlocks(n))
      layout = Layout::kPlain;
    ConvertAll(n, layout, sizeof(float));
    if (family == "view")
      Add(n, family, 0, 0);
    else
      Add(n, family, IsPool(family) ? WindowsOf(n) : FlopsOf(n) + target::RowOperationsOf(n),
          sizeof(float) * Touched(n));
    Leave(n, layout);
  }

  // ---- integers ---------------------------------------------------------------------------------

  void Integer(const Node& n) {
    const std::string& kernel = forms_.find(&n)->second;
    const auto layout = n.Is(Trait::kContraction) && WeightLayoutOf(n);
    if (layout && WeightLayoutOf(n)->is_window) return ConvolveCodes(n);
    if (layout || n.Is(Trait::kContraction)) {
      ConvertAll(n, Layout::kPlain, 1);
      Add(n,
          kernel == "MatMulNBits" ? "product nbits"
          : target::IsOfOneRow(n) ? "vector product int8"
                                  : "product int8",
          FlopsOf(n), Touched(n) + kSumBytes * ElementsOf(n.output(0)));
      return Leave(n, Layout::kPlain);
    }
    const bool rounds = PassesCodesOn(n) && !HasCodes(n.input(0));
    if (rounds) RoundBefore(n);
    const std::string_view family = target::IntegerFamily(n);
    const Layout kept = IsTransparent(n) && !rounds ? LayoutOfInputs(n) : Layout::kPlain;
    if (!rounds) ConvertAll(n, kept, 1);
    if (family == "max pool int8" && kept == Layout::kLast) {
      // Channels of a position lie together: an operation is the whole of them.
      const double channels = static_cast<double>(std::max<int64_t>(ExtentOf(n.input(0), 1), 1));
      Add(n, "max pool last int8", WindowsOf(n) / channels, WindowsOf(n));
    } else if (family == "view")
      Add(n, family, 0, 0);
    else
      Add(n, family, IsPool(family) ? WindowsOf(n) : FlopsOf(n), Touched(n));
    Leave(n, kept);
    if (PassesCodesOn(n) && !target::QuantizedBy(n.output(0))) ReturnFloats(n);
  }

  bool PassesCodesOn(const Node& n) const {
    return target::PassesCodes(n) && forms_.find(&n)->second == target::kMovesCodes;
  }
  bool HasCodes(const Value* v) const {
    const Node* const from = v->producer();
    if (!from) return false;
    return from->Is(Trait::kDequantize) || IsInteger(*from) || biased_.contains(from) ||
           (ClampOf(*from) && HasCodes(from->input(0)));
  }
  /// The QuantizeLinear behind `n` is moved before it.
  void RoundBefore(const Node& n) {
    Convert(n.input(0), Layout::kPlain, n, sizeof(float));
    Add(n, "quantize", 0, 5 * ElementsOf(n.input(0)));
  }
  /// The DequantizeLinear before `n` is moved behind it, one for each that computes in f32.
  void ReturnFloats(const Node& n) {
    const Value* const y = n.output(0);
    int64_t readers = y->is_output() ? 1 : 0;
    for (const Use& u : y->uses())
      readers += IsInteger(*u.user) || biased_.contains(u.user) ? 0 : 1;
    for (; readers > 0; --readers) Add(n, "dequantize", 0, 5 * ElementsOf(y));
  }

  /// Columns of windows are copied first, but of depthwise ones.
  void ConvolveCodes(const Node& n) {
    const Value *x = n.input(0), *w = n.input(1), *y = n.output(0);
    const bool depthwise = target::IsDepthwise(n);
    const double groups = GroupsOf(n), filled = target::FilledColumns(n);
    Convert(x, Layout::kLast, n, 1);
    const target::ColumnWork columns = target::ColumnsOf(n);
    const bool grouped = groups > 1 && !depthwise;  // copies of few channels are most of the work
    Add(n, target::IntegerConvFamily(n), grouped ? columns.copies : filled * FlopsOf(n),
        ElementsOf(x) + ElementsOf(w) + 2 * columns.elements +
            (1 + kSumBytes) * (grouped ? 1 : filled) * ElementsOf(y));
    if (grouped) steps_.back().launches = groups;
    Leave(n, Layout::kLast);
  }

  // ---- amounts and layouts ----------------------------------------------------------------------

  void Add(const Node& n, std::string_view family, double operations, double bytes) {
    steps_.push_back({family, operations / kMillion, bytes / kThousand, 1, &n});
  }

  double FlopsOf(const Node& n) const {
    const auto is_static = [](const Value* v) {
      return !v || (v->type().is_tensor() && v->tensor_type().is_static());
    };
    if (!n.subgraphs().empty() || !std::all_of(n.inputs().begin(), n.inputs().end(), is_static) ||
        !std::all_of(n.outputs().begin(), n.outputs().end(), is_static))
      return 0;
    return static_cast<double>(CostOfNode(n, g_.ops()).flops);
  }
  /// Takes operands in any layout, where all have the same.
  static bool IsTransparent(const Node& n) {
    return RankOf(n.output(0)) > 2 && !n.Is(Trait::kView) &&
           (n.IsAny(Trait::kElementwise | Trait::kUnary | Trait::kPooling | Trait::kConcatenation));
  }
  Layout LayoutOf(const Value* v) const {
    const auto it = layouts_.find(v);
    return it == layouts_.end() ? Layout::kPlain : it->second;
  }
  Layout LayoutOfInputs(const Node& n) const {
    for (const Value* v : n.inputs())
      if (v && LayoutOf(v) != Layout::kPlain) return LayoutOf(v);
    return Layout::kPlain;
  }
  /// A permutation between channels first and channels last is a copy between layouts, or none.
  bool Turns(const Node& n) {
    const Value* x = n.input(0);
    if (!n.Is(Trait::kPermutation) || RankOf(x) < 3) return false;
    std::vector<int64_t> to_last = {0}, to_first = {0, static_cast<int64_t>(RankOf(x)) - 1};
    for (size_t axis = 2; axis < RankOf(x); ++axis) to_last.push_back(static_cast<int64_t>(axis));
    to_last.push_back(1);
    for (size_t axis = 1; axis + 1 < RankOf(x); ++axis)
      to_first.push_back(static_cast<int64_t>(axis));
    const std::vector<int64_t> perm = PermOf(n);
    if (perm == to_first && LayoutOf(x) == Layout::kPlain) {
      Leave(n, Layout::kLast);
      return true;
    }
    if (perm != to_last || LayoutOf(x) == Layout::kPlain) return false;
    Convert(x, Layout::kLast, n, IsInteger(n) ? 1 : sizeof(float));
    return true;
  }
  void Leave(const Node& n, Layout layout) {
    for (const Value* v : n.outputs())
      if (v && layout != Layout::kPlain) layouts_[v] = layout;
  }
  void Pass(const Node& n) { Leave(n, LayoutOfInputs(n)); }
  void ConvertAll(const Node& n, Layout to, double element_bytes) {
    for (const Value* v : n.inputs())
      if (v && !v->is_constant()) Convert(v, to, n, element_bytes);
  }
  void Convert(const Value* v, Layout to, const Node& reader, double element_bytes) {
    if (LayoutOf(v) == to || RankOf(v) < 3 || HasOneOrder(v)) return;
    if (!copies_.insert({v, to}).second) return;
    Add(reader, element_bytes > 1 ? "layout" : "layout int8", 0, 2 * element_bytes * ElementsOf(v));
  }

  const Graph& g_;
  const bool is_standard_;  ///< the file has no Gelu
  OrtForms forms_;
  std::set<const Value*> folded_;
  std::set<const Node*> biased_;  ///< Adds that are the bias of an integer kernel
  std::map<const Value*, Open> open_;
  std::map<const Value*, Layout> layouts_;
  std::set<std::pair<const Value*, Layout>> copies_;
  std::vector<OrtStep> steps_;
};

}  // namespace

std::span<const std::string_view> OrtFamilies() { return kFamilies; }

std::vector<OrtStep> OrtStepsOf(const Graph& g, const FileVersions& file, const Target& target,
                                bool standard_only) {
  return StepWriter(g, file, target, standard_only).Write();
}

}  // namespace infer
