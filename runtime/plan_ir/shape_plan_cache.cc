#include "runtime/plan_ir/shape_plan.h"

namespace infer {

void PlanFrame::Index(std::span<const PlannedBuffer> buffers) {
  lives.assign(buffers.size(), {INT32_MAX, -1});
  for (size_t l = 0; l < launches.size(); ++l) {
    first_arg.push_back(args.size());
    for (int b : launches[l].args) {
      args.push_back(b);
      if (b < 0) continue;
      const PlannedBuffer::Kind kind = buffers[static_cast<size_t>(b)].kind;
      if (kind == PlannedBuffer::Kind::kInput || kind == PlannedBuffer::Kind::kOutput)
        external.push_back(args.size() - 1);
      auto& [first, last] = lives[static_cast<size_t>(b)];
      first = std::min(first, static_cast<int>(l));
      last = std::max(last, static_cast<int>(l));
    }
  }
}

std::shared_ptr<const ShapePlan> ShapePlanCache::Find(std::span<const Dims> input_dims) {
  std::lock_guard lock(mutex_);
  for (size_t i = 0; i < plans_.size(); ++i)
    if (std::equal(input_dims.begin(), input_dims.end(), plans_[i]->input_dims.begin(),
                   plans_[i]->input_dims.end())) {
      std::rotate(plans_.begin(), plans_.begin() + static_cast<int64_t>(i),
                  plans_.begin() + static_cast<int64_t>(i) + 1);
      return plans_[0];
    }
  return nullptr;
}

void ShapePlanCache::Add(std::shared_ptr<const ShapePlan> plan) {
  std::lock_guard lock(mutex_);
  plans_.insert(plans_.begin(), std::move(plan));
  if (plans_.size() > capacity_) plans_.pop_back();
}

void ShapePlanCache::Drop(const ShapePlan* plan) {
  std::lock_guard lock(mutex_);
  std::erase_if(plans_, [plan](const auto& kept) { return kept.get() == plan; });
}

}  // namespace infer
