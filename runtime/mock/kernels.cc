#include "runtime/mock/kernels.h"

#include <algorithm>
#include <cstring>

#include "lib/ir/eval.h"
#include "lib/ops/conv/conv_reference.h"
#include "lib/support/strings.h"
#include "runtime/mock/device.h"

namespace infer::mock {
namespace {

constexpr int64_t kBlock = 4;

/// A launch whose work is a function of the views, on the device's thread.
class FunctionLaunch final : public Launch {
 public:
  using Function = std::function<Status(std::span<const BufferView>)>;
  explicit FunctionLaunch(Function f) : f_(std::make_shared<const Function>(std::move(f))) {}
  Status Record(Encoder& encoder, std::span<const BufferView> args, LaunchState*) const override {
    static_cast<MockEncoder&>(encoder).Add(
        [f = f_, views = std::vector<BufferView>(args.begin(), args.end())] {
          return (*f)(views);
        });
    return {};
  }

 private:
  std::shared_ptr<const Function> f_;  // commands may outlive the launch
};

/// A kernel from a function that prepares it.
class FunctionKernel final : public Kernel {
 public:
  using Function =
      std::function<Result<Prepared>(std::span<const Operand>, std::span<const Operand>)>;
  explicit FunctionKernel(Function f) : f_(std::move(f)) {}
  Result<Prepared> Prepare(std::span<const Operand> in,
                           std::span<const Operand> out) const override {
    return f_(in, out);
  }

 private:
  Function f_;
};

Tensor LoadTensor(const BufferView& view, const Dims& dims) {
  Tensor t(DType::kF32, dims);
  const std::vector<std::byte> bytes = Load(view);
  INFER_CHECK(static_cast<int64_t>(bytes.size()) >= t.byte_size());
  if (t.byte_size() > 0)
    std::memcpy(t.mutable_raw(), bytes.data(), static_cast<size_t>(t.byte_size()));
  return t;
}

void StoreTensor(const BufferView& view, const Tensor& t) {
  Store(view, std::vector<std::byte>(t.raw(), t.raw() + t.byte_size()));
}

int64_t Blocks(const Dims& dims) { return (dims[1] + kBlock - 1) / kBlock; }

Dims BlockedDims(const Dims& dims) {
  Dims blocked = dims;
  blocked[1] = Blocks(dims);
  blocked.push_back(kBlock);
  return blocked;
}

/// Element (n, c, s) of a tensor [n, c, spatial] in the blocked order.
int64_t BlockedIndex(const Dims& dims, int64_t plane, int64_t n, int64_t c, int64_t s) {
  return ((n * Blocks(dims) + c / kBlock) * plane + s) * kBlock + c % kBlock;
}

Tensor ToBlocked(const Tensor& t) {
  const Dims& dims = t.dims();
  Tensor out = Tensor::Zeros(DType::kF32, BlockedDims(dims));
  const int64_t plane = t.num_elements() / (dims[0] * dims[1]);
  for (int64_t n = 0; n < dims[0]; ++n)
    for (int64_t c = 0; c < dims[1]; ++c)
      for (int64_t s = 0; s < plane; ++s)
        out.Set(BlockedIndex(dims, plane, n, c, s), t.At((n * dims[1] + c) * plane + s));
  return out;
}

Tensor FromBlocked(const Tensor& blocked, const Dims& dims) {
  Tensor out(DType::kF32, dims);
  const int64_t plane = out.num_elements() / (dims[0] * dims[1]);
  for (int64_t n = 0; n < dims[0]; ++n)
    for (int64_t c = 0; c < dims[1]; ++c)
      for (int64_t s = 0; s < plane; ++s)
        out.Set((n * dims[1] + c) * plane + s, blocked.At(BlockedIndex(dims, plane, n, c, s)));
  return out;
}

bool IsPlainF32(const Value* v) { return IsF32(v) && v->shape().has_rank(); }

std::string RefuseUnlessF32(const StepCall& call) {
  if (call.step.nodes.size() > 1) return "it has no epilogue";
  for (const Value* v : call.main().inputs())
    if (v && !IsPlainF32(v)) return Cat("operand '", v->name(), "' is ", ToString(v->type()));
  for (const Value* v : call.main().outputs())
    if (v && !IsPlainF32(v)) return Cat("result '", v->name(), "' is ", ToString(v->type()));
  return call.step.outputs.size() == 1 ? "" : "it has another number of results than one";
}

// ---- Conv ------------------------------------------------------------------------------------

std::string RefuseConv(const StepCall& call) {
  if (std::string r = RefuseUnlessF32(call); !r.empty()) return r;
  if (call.main().input(0)->shape().rank() != 4) return "not two spatial axes";
  for (size_t i = 1; i < call.main().inputs().size(); ++i)
    if (call.main().input(i) && !call.constant(call.main().input(i))) return "weights of a run";
  return call.operand(call.main().input(0)) < 0 ? "its operand is constant" : "";
}

std::unique_ptr<Kernel> MakeConv(const StepCall& call) {
  const Node& n = call.main();
  const Tensor w = *call.constant(n.input(1));
  const Tensor bias = n.input(2) ? *call.constant(n.input(2)) : Tensor();
  const int x = call.operand(n.input(0));
  return std::make_unique<FunctionKernel>([&def = n.def(), attrs = n.attrs(), w, bias, x](
                                              std::span<const Operand> in,
                                              std::span<const Operand> out) -> Result<Prepared> {
    const Dims dims = in[static_cast<size_t>(x)].dims, y_dims = out[0].dims;
    INFER_ASSIGN(const ConvGeometry g, ReadConvGeometry(def, attrs, dims, w.dims()));
    if (NumElements(dims) == 0 || NumElements(y_dims) == 0) return Unsupported("no elements");
    Prepared p;
    p.name = "mock:conv";
    p.in_layouts.resize(in.size());
    p.in_layouts[static_cast<size_t>(x)] = BlockedBy4(dims);
    p.unused.assign(in.size(), true);
    p.unused[static_cast<size_t>(x)] = false;
    p.out_layouts = {BlockedBy4(y_dims)};
    p.weight_bytes = w.byte_size();
    p.launch = std::make_shared<FunctionLaunch>([g, w, bias, x, dims, y_dims,
                                                 y = in.size()](std::span<const BufferView> args) {
      const Tensor data =
          FromBlocked(LoadTensor(args[static_cast<size_t>(x)], BlockedDims(dims)), dims);
      Tensor result(DType::kF32, y_dims);
      const int64_t plane = NumElements(g.output);
      ConvolveReference(
          g, data, w, [&](int64_t n, int64_t m, int64_t begin, int64_t count, const double* sums) {
            const double b = bias.defined() ? bias.At(m) : 0;
            for (int64_t i = 0; i < count; ++i)
              result.Set((n * g.out_channels + m) * plane + begin + i, sums[i] + b);
          });
      StoreTensor(args[y], ToBlocked(result));
      return Status();
    });
    return p;
  });
}

// ---- Element-wise ----------------------------------------------------------------------------

std::string RefuseUnary(const StepCall& call) {
  if (std::string r = RefuseUnlessF32(call); !r.empty()) return r;
  for (size_t i = 1; i < call.main().inputs().size(); ++i)
    if (call.main().input(i) && !call.constant(call.main().input(i))) return "a bound of a run";
  return call.operand(call.main().input(0)) < 0 ? "its operand is constant" : "";
}

/// Element by element wherever they lie, and in place. Other operands are constants.
std::unique_ptr<Kernel> MakeUnary(const StepCall& call) {
  const Node& n = call.main();
  const int x = call.operand(n.input(0));
  std::vector<Datum> constants;
  for (const Value* v : n.inputs())
    constants.push_back(v && call.constant(v) ? Datum(*call.constant(v)) : Datum());
  // The plan outlives the launches of its program.
  return std::make_unique<FunctionKernel>([&n, &ops = call.plan.graph.ops(), x, constants](
                                              std::span<const Operand> in,
                                              std::span<const Operand>) -> Result<Prepared> {
    const Operand& operand = in[static_cast<size_t>(x)];
    const int64_t bytes = operand.layout.plain() ? operand.plain_bytes() : operand.layout.bytes;
    Prepared p;
    p.name = "mock:unary";
    p.in_layouts.resize(in.size());
    p.in_layouts[static_cast<size_t>(x)] = operand.layout;
    p.unused.assign(in.size(), true);
    p.unused[static_cast<size_t>(x)] = false;
    p.out_layouts = {operand.layout};
    p.in_place = true;
    p.launch = std::make_shared<FunctionLaunch>([&n, &ops, x, constants, bytes,
                                                 y = in.size()](std::span<const BufferView> args) {
      std::vector<Datum> given = constants;
      given[0] =
          LoadTensor(args[static_cast<size_t>(x)], {bytes / static_cast<int64_t>(sizeof(float))});
      std::vector<const Datum*> operands;
      for (size_t i = 0; i < given.size(); ++i)
        operands.push_back(n.input(i) ? &given[i] : nullptr);
      INFER_ASSIGN(const auto made, EvaluateNode(n, operands, ops));
      StoreTensor(args[y], made[0].tensor());
      return Status();
    });
    return p;
  });
}

std::string RefuseAdd(const StepCall& call) {
  if (std::string r = RefuseUnlessF32(call); !r.empty()) return r;
  const Node& n = call.main();
  if (!(n.input(0)->tensor_type() == n.input(1)->tensor_type())) return "it broadcasts";
  return call.operand(n.input(0)) < 0 || call.operand(n.input(1)) < 0 ? "an operand is constant"
                                                                      : "";
}

/// Both operands as the first lies, the result in the place of one that nobody reads again.
std::unique_ptr<Kernel> MakeAdd(const StepCall& call) {
  const auto a = static_cast<size_t>(call.operand(call.main().input(0))),
             b = static_cast<size_t>(call.operand(call.main().input(1)));
  return std::make_unique<FunctionKernel>(
      [a, b](std::span<const Operand> in, std::span<const Operand> out) -> Result<Prepared> {
        if (in[a].dims != in[b].dims || in[a].dims != out[0].dims)
          return Unsupported("it broadcasts");
        const Layout layout = in[a].layout;
        const int64_t bytes = layout.plain() ? in[a].plain_bytes() : layout.bytes;
        Prepared p;
        p.name = "mock:add";
        p.in_layouts.assign(in.size(), layout);
        p.out_layouts = {layout};
        p.in_place = true;
        p.launch = std::make_shared<FunctionLaunch>(
            [a, b, bytes, y = in.size()](std::span<const BufferView> args) {
              const Dims flat = {bytes / static_cast<int64_t>(sizeof(float))};
              Tensor x = LoadTensor(args[a], flat);
              const Tensor other = LoadTensor(args[b], flat);
              const auto to = x.mutable_data<float>();
              const auto from = other.data<float>();
              for (size_t i = 0; i < to.size(); ++i) to[i] += from[i];
              StoreTensor(args[y], x);
              return Status();
            });
        return p;
      });
}

}  // namespace

Layout BlockedBy4(const Dims& dims) {
  return {.code = "c4", .bytes = NumElements(BlockedDims(dims)) * int64_t{sizeof(float)}};
}

Result<Prepared> Reorder(DType dtype, const Dims& dims, const Layout& from, const Layout& to) {
  Prepared p;
  p.name = "mock:reorder";
  p.in_layouts = {from};
  p.out_layouts = {to};
  if (from == to) {
    const int64_t bytes = from.plain() ? PackedBytes(dtype, NumElements(dims)) : from.bytes;
    p.launch = std::make_shared<FunctionLaunch>([bytes](std::span<const BufferView> args) {
      std::vector<std::byte> data = Load(args[0]);
      data.resize(static_cast<size_t>(bytes));
      Store(args[1], data);
      return Status();
    });
    return p;
  }
  const bool blocks = from.plain();
  p.launch = std::make_shared<FunctionLaunch>([dims, blocks](std::span<const BufferView> args) {
    StoreTensor(args[1], blocks ? ToBlocked(LoadTensor(args[0], dims))
                                : FromBlocked(LoadTensor(args[0], BlockedDims(dims)), dims));
    return Status();
  });
  return p;
}

KernelList Kernels() {
  return {{"Conv", "", "conv", RefuseConv, MakeConv},
          {"Add", "", "add", RefuseAdd, MakeAdd},
          {"", "", "unary", RefuseUnary, MakeUnary, Trait::kUnary}};
}

}  // namespace infer::mock
