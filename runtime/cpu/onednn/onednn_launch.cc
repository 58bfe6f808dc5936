/// A primitive of oneDNN as a launch: its arguments are pointed at the tensors of each run.
#include "lib/support/parallel.h"
#include "runtime/cpu/onednn/onednn_desc.h"
#include "runtime/cpu/onednn/onednn_primitive.h"
#include "runtime/cpu/onednn/openmp.h"

namespace infer::onednn {
namespace {

using dnnl::memory;

int DnnlArg(Arg a) {
  switch (a) {
    case Arg::kSource: return DNNL_ARG_MULTIPLE_SRC;
    case Arg::kSrc: return DNNL_ARG_SRC;
    case Arg::kSrc1: return DNNL_ARG_SRC_1;
    case Arg::kWeights: return DNNL_ARG_WEIGHTS;
    case Arg::kBias: return DNNL_ARG_BIAS;
    case Arg::kDst: return DNNL_ARG_DST;
    case Arg::kScale: return DNNL_ARG_SCALE;
    case Arg::kShift: return DNNL_ARG_SHIFT;
    case Arg::kMean: return DNNL_ARG_MEAN;
    case Arg::kVariance: return DNNL_ARG_VARIANCE;
    case Arg::kWeightGradient: return DNNL_ARG_DIFF_WEIGHTS;
    case Arg::kDstGradient: return DNNL_ARG_DIFF_DST;
  }
  return 0;
}

struct State final : LaunchState {
  ~State() override {
    for (auto& a : args) dnnl_memory_destroy(a.memory);
    if (stream) dnnl_stream_destroy(stream);
  }
  dnnl_stream_t stream = nullptr;
  std::vector<dnnl_exec_arg_t> args;  // bindings in order, then scratch
  std::vector<const void*> handles;
};

class PrimitiveLaunch final : public Launch {
 public:
  PrimitiveLaunch(const Made& made, std::vector<Binding> bindings, int scratch_index)
      : primitive_(made.primitive), bindings_(std::move(bindings)), scratch_(scratch_index) {
    if (made.scratch_bytes == 0) scratch_ = -1;
  }

  std::unique_ptr<LaunchState> NewState() const override {
    auto state = std::make_unique<State>();
    if (dnnl_stream_create(&state->stream, Engine().get(), dnnl_stream_default_flags) !=
        dnnl_success)
      throw std::bad_alloc();
    state->args.reserve(bindings_.size() + 1);
    state->handles.reserve(bindings_.size() + 1);
    for (const Binding& b : bindings_) {
      const int arg = b.post_op >= 0 ? PostOpArg(b.post_op) : DnnlArg(b.arg) + b.source;
      const memory::desc* md = primitive_->Find(arg);
      INFER_CHECK(md);
      Add(*state, arg, *md,
          b.constant ? const_cast<std::byte*>(b.constant->data()) : DNNL_MEMORY_NONE);
    }
    if (scratch_ >= 0) Add(*state, DNNL_ARG_SCRATCHPAD, primitive_->scratch, DNNL_MEMORY_NONE);
    return state;
  }

  Status Run(std::byte* const* args, LaunchState* base) const override {
    auto& state = static_cast<State&>(*base);
    for (size_t i = 0; i < bindings_.size(); ++i)
      if (bindings_[i].index >= 0) Point(state, i, args[bindings_[i].index]);
    if (scratch_ >= 0) Point(state, bindings_.size(), args[scratch_]);
    const ThreadLimit limit(primitive_->one_thread ? 1 : 0);
    if (const int lanes = CurrentLanes(); lanes > 1 && !primitive_->one_thread) ReserveLanes(lanes);
    const dnnl_status_t s =
        dnnl_primitive_execute(primitive_->primitive.get(), state.stream,
                               static_cast<int>(state.args.size()), state.args.data());
    if (s != dnnl_success) return Internal(Cat("oneDNN failed with status ", int{s}));
    return {};
  }

 private:
  static void Add(State& state, int arg, const memory::desc& md, void* handle) {
    dnnl_memory_t m = nullptr;
    if (dnnl_memory_create(&m, &md.data, Engine().get(), handle) != dnnl_success)
      throw std::bad_alloc();
    state.args.push_back({arg, m});
    state.handles.push_back(handle);
  }
  static void Point(State& state, size_t i, const std::byte* p) {
    if (state.handles[i] == p) return;
    // The plain setter of 2.x zeroes the padding of blocked tensors: the data is not there yet.
    dnnl_memory_set_data_handle(state.args[i].memory, const_cast<std::byte*>(p));
    state.handles[i] = p;
  }

  std::shared_ptr<const Primitive> primitive_;
  std::vector<Binding> bindings_;
  int scratch_;
};

}  // namespace

std::shared_ptr<const Launch> MakeLaunch(const Made& made, std::vector<Binding> bindings,
                                         int scratch_index) {
  return std::make_shared<PrimitiveLaunch>(made, std::move(bindings), scratch_index);
}

}  // namespace infer::onednn
