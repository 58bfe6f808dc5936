/// What stands around quantized products: sums and products of codes, functions by tables, pooling,
/// views, and QuantizeLinear and DequantizeLinear themselves. Each rounds as the graph does.
#include "runtime/plan_ir/groups/quant_codes.h"

#include <algorithm>

#include "lib/ir/roles.h"
#include "lib/ops/common.h"
#include "lib/ops/conv/conv_geometry.h"
#include "runtime/vulkan/kernels/kernels.h"
#include "runtime/vulkan/kernels/walk.h"

namespace infer::vulkan {
namespace {

constexpr size_t kMostCodeAxes = 5;

int32_t FlipFor(DType t) { return t == DType::kI8 ? 0x80 : 0; }
int32_t ZeroFor(const QuantParams8& p) { return p.zero_point() + FlipFor(p.dtype); }
float LowestFor(const QuantParams8& p) { return static_cast<float>(-ZeroFor(p)); }

// ---- Q and DQ --------------------------------------------------------------------------------

std::string RefuseCodeCast(const StepCall& call, const DeviceFacts&) {
  const Node& n = call.main();
  if (std::string r = RefuseEpilogue(call); !r.empty()) return r;
  const Value* codes = CodesSide(n);
  if (!IsF32(NumbersSide(n)) || !IsF32(n.input(1))) return "not f32";
  if (!Is8Bit(codes)) return "not 8 bits";
  if (n.input(2) && (!Is8Bit(n.input(2)) || n.input(2)->dtype() != codes->dtype()))
    return "the zero point is of another type";
  return n.attrs().count("block_size") && n.Attr<int64_t>("block_size") != 0 ? "blocks of scales"
                                                                             : "";
}

std::unique_ptr<Kernel> MakeCodeCast(const StepCall& call, const Facts& facts) {
  const Node& n = call.main();
  const bool quantize = n.Is(Trait::kQuantize);
  const int32_t flip = FlipFor(CodesSide(n)->dtype());
  const int64_t axis = n.Attr<int64_t>("axis");
  const int x = call.operand(n.input(0)), s = call.operand(n.input(1)),
            z = call.operand(n.input(2));
  return KernelOf(
      [=](std::span<const Operand> in, std::span<const Operand> out) -> Result<Prepared> {
        const Dims& dims = in[static_cast<size_t>(x)].dims;
        const Operand& scale = in[static_cast<size_t>(s)];
        const int64_t count = NumElements(scale.dims), n_elements = NumElements(dims);
        int64_t inner = n_elements;
        if (count > 1) {
          if (scale.dims.size() != 1) return Unsupported("blocks of scales");
          INFER_ASSIGN(const int a, NormalizeAxis(axis, static_cast<int>(dims.size())));
          if (dims[static_cast<size_t>(a)] != count)
            return Unsupported("scales do not fit the axis");
          inner = NumElements(Dims(dims.begin() + a + 1, dims.end()));
        }
        if (z >= 0 && NumElements(in[static_cast<size_t>(z)].dims) != count)
          return Unsupported("not as many zero points as scales");
        LaunchBuilder b(facts, in, out);
        b.DispatchElements("qcast", {quantize, flip, z >= 0},
                           {b.Read(x), b.Read(s), b.ReadOr(z, s), b.Write()},
                           Push().U(n_elements).U(inner).U(count), n_elements);
        return b.Finish("qcast");
      });
}

// ---- Add and Mul -----------------------------------------------------------------------------

std::string RefuseCodeBinary(const StepCall& call, const DeviceFacts&) {
  const auto g = WholeCodeGroup(call, 2);
  if (!g.ok()) return g.status().message();
  if (g->activations.size() > 1 || (g->activations.size() == 1 && !IsRelu(*g->activations[0])))
    return "an activation other than Relu";
  return "";
}

std::unique_ptr<Kernel> MakeCodeBinary(const StepCall& call, const Facts& facts) {
  const QuantGroup g = *WholeCodeGroup(call, 2);
  INFER_CHECK(g.output && g.inputs[0] && g.inputs[1]);
  const bool multiply = !call.main().Is(Trait::kSum);
  return KernelOf(
      [=](std::span<const Operand> in, std::span<const Operand> out) -> Result<Prepared> {
        const QuantInput &l = *g.inputs[0], &r = *g.inputs[1];
        const QuantParams8& y = *g.output;
        const Walk w = BroadcastWalk(out[0].dims, {in[static_cast<size_t>(l.operand)].dims,
                                                   in[static_cast<size_t>(r.operand)].dims});
        if (w.dims.size() > kMostCodeAxes)
          return Unsupported("it broadcasts over more than five axes");
        const bool flat = w.dims.size() == 1 && w.strides[0][0] == 1 && w.strides[1][0] == 1;
        const int64_t n = NumElements(out[0].dims);
        Push push;
        push.U(n).List(w.dims, kMostCodeAxes, 1).List(w.strides[0], kMostCodeAxes, 0);
        push.List(w.strides[1], kMostCodeAxes, 0).U(ZeroFor(l.params)).U(ZeroFor(r.params));
        push.F(l.params.scale()).F(r.params.scale()).F(y.scale()).F(LowestFor(y));
        LaunchBuilder b(facts, in, out);
        b.DispatchElements("qbinary",
                           {multiply, !g.activations.empty(), FlipFor(l.params.dtype),
                            FlipFor(r.params.dtype), FlipFor(y.dtype), flat},
                           {b.Read(l.operand), b.Read(r.operand), b.Write()}, push, n);
        return b.Finish("qbinary");
      });
}

// ---- Functions of one operand ----------------------------------------------------------------

std::string RefuseTable8(const StepCall& call, const DeviceFacts&) { return RefuseCodeTable(call); }

std::unique_ptr<Kernel> MakeTable8(const StepCall& call, const Facts& facts) {
  const auto table = CodeTableOf(call);
  const int x = DecodeQuantGroup(call)->inputs[0]->operand;
  return KernelOf(
      [=](std::span<const Operand> in, std::span<const Operand> out) -> Result<Prepared> {
        if (!table.ok()) return table.status();
        std::vector<int32_t> words(64);
        for (size_t i = 0; i < 256; ++i)
          words[i / 4] = static_cast<int32_t>(static_cast<uint32_t>(words[i / 4]) |
                                              static_cast<uint32_t>((*table)[i]) << (8 * (i % 4)));
        const int64_t n = NumElements(out[0].dims);
        LaunchBuilder b(facts, in, out);
        const LaunchBuilder::Arg t = b.Table(std::move(words));
        b.DispatchElements("qtable", {}, {b.Read(x), t, b.Write()}, Push().U(n), n);
        INFER_ASSIGN(Prepared p, b.Finish("qtable"));
        p.in_place = true;
        return p;
      });
}

// ---- Pooling ---------------------------------------------------------------------------------

std::string RefuseMean(const StepCall& call, const DeviceFacts&) {
  const auto g = WholeCodeGroup(call, 1);
  if (!g.ok()) return g.status().message();
  return g->activations.empty() ? "" : "an activation follows";
}
std::string RefuseMaximum(const StepCall& call, const DeviceFacts&) {
  return RefuseSameCodes(call);
}

Result<Window> WindowOf(const Node& node, const Dims& image) {
  Window window;
  if (!node.attrs().contains("kernel_shape")) {  // all of the image
    for (const int64_t extent : image) {
      WindowAxis a;
      a.kernel = extent;
      window.axes.push_back(a);
    }
    return window;
  }
  INFER_ASSIGN(window, ReadWindow(node.def(), node.attrs(), static_cast<int>(image.size())));
  return ResolvePads(std::move(window), image);
}

std::unique_ptr<Kernel> MakePool8(const StepCall& call, const Facts& facts) {
  const Node& node = call.main();
  const QuantGroup g = *WholeCodeGroup(call, 1);
  INFER_CHECK(g.output && g.inputs[0]);
  const bool average = !node.Is("MaxPool");
  const auto padded = node.attrs().find("count_include_pad");
  const bool counts_padding =
      average && padded != node.attrs().end() && std::get<int64_t>(padded->second) != 0;
  return KernelOf([=, &node](std::span<const Operand> in,
                             std::span<const Operand> out) -> Result<Prepared> {
    const QuantInput& from = *g.inputs[0];
    const Dims &x = in[static_cast<size_t>(from.operand)].dims, &y = out[0].dims;
    if (x.size() < 3 || x.size() > 5) return Unsupported("not one to three spatial axes");
    const Dims image(x.begin() + 2, x.end());
    INFER_ASSIGN(const Window window, WindowOf(node, image));
    Dims kernel, step, pad, pad_end;
    for (const WindowAxis& a : window.axes) {
      if (a.stride > 0x7fff || a.dilation > 0x7fff) return Unsupported("so large a step");
      kernel.push_back(a.kernel);
      step.push_back(a.stride | a.dilation << 16);
      pad.push_back(a.pad_begin);
      pad_end.push_back(a.pad_end);
    }
    const int64_t n = NumElements(y);
    Push push;
    push.U(n).List(image, 3, 1).List(Dims(y.begin() + 2, y.end()), 3, 1).List(kernel, 3, 1);
    push.List(step, 3, 1 | 1 << 16).List(pad, 3, 0).List(pad_end, 3, 0).U(ZeroFor(from.params));
    push.F(from.params.scale()).F(g.output->scale()).F(LowestFor(*g.output));
    LaunchBuilder b(facts, in, out);
    b.Iterations(4 * (3 * NumElements(kernel) + kFewRounds));
    b.DispatchElements(
        "qpool", {average, counts_padding, FlipFor(from.params.dtype), FlipFor(g.output->dtype)},
        {b.Read(from.operand), b.Write()}, push, n);
    return b.Finish("qpool");
  });
}

// ---- Views -----------------------------------------------------------------------------------

std::string RefuseView8(const StepCall& call, const DeviceFacts&) {
  if (std::string r = RefuseSameCodes(call); !r.empty()) return r;
  return DecodeQuantGroup(call)->inputs[0]->operand == 0 ? "" : "the operand is not the first";
}

std::unique_ptr<Kernel> MakeView8(const StepCall&, const Facts&) {
  return KernelOf(
      [](std::span<const Operand> in, std::span<const Operand> out) -> Result<Prepared> {
        if (in[0].constant) return Unsupported("the operand is constant");
        if (in[0].plain_bytes() != out[0].plain_bytes()) return Unsupported("sizes differ");
        Prepared p;
        p.name = "view";
        return p;
      });
}

}  // namespace

KernelList QuantCodeKernels(const Facts& facts) {
  KernelList list = {Def(facts, "QuantizeLinear", "", "quantize", RefuseCodeCast, MakeCodeCast),
                     Def(facts, "DequantizeLinear", "", "quantize", RefuseCodeCast, MakeCodeCast),
                     Def(facts, "Add", "", "int8:binary", RefuseCodeBinary, MakeCodeBinary),
                     Def(facts, "Mul", "", "int8:binary", RefuseCodeBinary, MakeCodeBinary),
                     Def(facts, "MaxPool", "", "int8:pool", RefuseMaximum, MakePool8),
                     Def(facts, "AveragePool", "", "int8:pool", RefuseMean, MakePool8),
                     Def(facts, "GlobalAveragePool", "", "int8:pool", RefuseMean, MakePool8)};
  KernelDef view = Def(facts, "", "", "int8:view", RefuseView8, MakeView8);
  view.traits = Trait::kView;
  list.push_back(std::move(view));
  KernelDef table = Def(facts, "", "", "int8:table", RefuseTable8, MakeTable8);
  table.traits = Trait::kUnary;
  list.push_back(std::move(table));
  return list;
}

}  // namespace infer::vulkan
