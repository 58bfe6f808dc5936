#include "runtime/plan_ir/groups/group_query.h"

#include <algorithm>
#include <cmath>

#include "lib/support/strings.h"

namespace infer {

int64_t GroupQuery::PlaceUnread(int64_t begin) {
  for (size_t r = 0; r < result.size(); ++r) {
    if (result[r].arg >= 0) continue;
    result[r] = {scratch, begin};
    const int64_t floats = r == 0 ? batch * queries * heads * size : cache_floats();
    begin += (floats + 15) / 16 * 16;
  }
  return begin;
}

Status GroupQuery::Check(const int32_t* lengths, int64_t total) const {
  if (total < queries || total > past + queries)
    return InvalidModel(Cat("total_sequence_length is ", total, " with ", queries,
                            " new tokens and a past of ", past));
  if (std::max(total, past) != cache)
    return InvalidModel(Cat("the model says that ", cache, " tokens are cached, running it gives ",
                            std::max(total, past)));
  for (int64_t b = 0; b < batch; ++b) {
    const int64_t before = Before(lengths[b], total);
    if (lengths[b] < 0 || before < 0 || (queries != total && before > past) ||
        before + queries > cache)
      return InvalidModel(Cat("seqlens_k[", b, "] is ", lengths[b], " with ", queries,
                              " new tokens, a past of ", past, " and a total of ", total));
    if (rotary > 0 && before + queries > positions)
      return InvalidModel(Cat("position ", before + queries - 1, " is outside cos_cache"));
  }
  return {};
}

AttentionGeometry GeometryOf(const GroupQuery& g) {
  AttentionGeometry a;
  a.leads = g.batch * g.heads;
  a.queries = g.queries;
  a.keys = g.cache;
  a.depth = a.values = g.size;
  a.scale = g.scale;
  a.band.left = g.window > 0 ? g.window - 1 : -1;
  a.band.right = 0;
  a.band.valid_arg = g.scratch;
  a.band.queries = g.queries;
  a.band.leads_per_sample = g.heads;
  a.q.arg = g.at[GroupInput::kQuery];
  a.k.arg = g.result[1].arg;
  a.v.arg = g.result[2].arg;
  a.y.arg = g.result[0].arg;
  a.q.row = g.RowOf(0);
  a.k.row = a.v.row = g.size;
  a.y.row = g.heads * g.size;
  for (int64_t b = 0; b < g.batch; ++b)
    for (int64_t h = 0; h < g.heads; ++h) {
      const int64_t cache = (b * g.groups + h / (g.heads / g.groups)) * g.cache * g.size;
      a.q.offset.push_back(b * g.queries * a.q.row + h * g.size);
      a.k.offset.push_back(g.result[1].offset + cache);
      a.v.offset.push_back(g.result[2].offset + cache);
      a.y.offset.push_back(g.result[0].offset + b * g.queries * a.y.row + h * g.size);
    }
  return a;
}

std::string RefuseGroupQuery(const StepCall& call) {
  const Node& n = call.main();
  for (const Value* v : n.inputs())
    if (v && v->dtype() != DType::kF32 && v->dtype() != DType::kI32 && v->dtype() != DType::kI64)
      return Cat("operand '", v->name(), "' is ", ToString(v->type()));
  for (size_t i = GroupQuery::kTaken; i < n.inputs().size(); ++i)
    if (n.input(i)) return Cat("'", n.def().inputs[i].name, "' is given");
  if (n.outputs().size() > 3 && n.output(3)) return "scores are a result";
  if (n.Attr<float>("softcap") != 0) return "softcap is set";
  if (n.Attr<int64_t>("smooth_softmax") == 1) return "smooth_softmax is set";
  if (n.Attr<int64_t>("local_window_size") == 0) return "the window is empty";
  if (n.Attr<int64_t>("causal") == 0) return "it is not causal";
  if (n.Attr<int64_t>("do_rotary") != 0 && n.input(GroupInput::kPositions))
    return "positions are given";
  return "";
}

GroupQueryReader::GroupQueryReader(const StepCall& call) {
  const Node& n = call.main();
  g_.heads = n.Attr<int64_t>("num_heads");
  g_.groups = n.Attr<int64_t>("kv_num_heads");
  g_.window = n.Attr<int64_t>("local_window_size");
  g_.scale = n.Attr<float>("scale");
  g_.interleaved = n.Attr<int64_t>("rotary_interleaved") != 0;
  g_.packed = !n.input(GroupInput::kKey);
  rotates_ = n.Attr<int64_t>("do_rotary") != 0;
  for (size_t i = 0; i < g_.at.size(); ++i) g_.at[i] = call.operand(n.input(i));
  const auto& made = call.step.outputs;
  for (size_t r = 0; r < g_.result.size() && r < n.outputs().size(); ++r) {
    const Value* v = n.output(r);
    const auto it = v ? std::find(made.begin(), made.end(), call.plan.id(v)) : made.end();
    if (it != made.end()) g_.result[r].arg = static_cast<int>(it - made.begin());
  }
}

Result<GroupQuery> GroupQueryReader::Read(std::span<const Operand> in,
                                          std::span<const Operand> out) const {
  GroupQuery made = g_;
  const auto operand = [&](size_t i) -> const Operand& {
    return in[static_cast<size_t>(g_.at[i])];
  };
  const auto dims = [&](size_t i) -> const Dims& { return operand(i).dims; };
  if (operand(GroupInput::kLengths).dtype != DType::kI32) return Unsupported("seqlens_k is no i32");
  made.batch = dims(GroupInput::kQuery)[0];
  made.queries = dims(GroupInput::kQuery)[1];
  made.size = dims(GroupInput::kQuery)[2] / (g_.packed ? g_.heads + 2 * g_.groups : g_.heads);
  made.past = g_.at[GroupInput::kPastKey] < 0 ? 0 : dims(GroupInput::kPastKey)[2];
  made.cache = -1;
  if (const Tensor* total = operand(GroupInput::kTotal).constant)
    made.cache = std::max(made.past, total->IntAt(0));
  for (size_t r : {1, 2}) {
    if (g_.result[r].arg < 0) continue;
    const Dims& cache = out[static_cast<size_t>(g_.result[r].arg)].dims;
    if (made.cache < 0) made.cache = cache[2];
    if (cache != Dims{made.batch, made.groups, made.cache, made.size})
      return Unsupported("extents do not fit");
  }
  if (made.cache < 0) return Unsupported("only the run knows how many tokens are cached");
  if (NumElements(dims(GroupInput::kLengths)) != made.batch)
    return Unsupported("extents do not fit");
  if (made.scale == 0) made.scale = 1 / std::sqrt(static_cast<float>(made.size));
  if (rotates_) {
    made.rotary = dims(GroupInput::kCos).back();
    made.positions = NumElements(dims(GroupInput::kCos)) / made.rotary;
    if (dims(GroupInput::kSin) != dims(GroupInput::kCos) || 2 * made.rotary > made.size)
      return Unsupported("cos_cache and sin_cache do not fit");
  }
  for (GroupQuery::Place& place : made.result)
    if (place.arg >= 0) place.arg += static_cast<int>(in.size());
  made.scratch = static_cast<int>(in.size() + out.size());
  return made;
}

}  // namespace infer
