#include "runtime/engine/queue.h"

#include <algorithm>
#include <iterator>

#include "lib/support/strings.h"

namespace infer::engine {

int64_t Bucket::size() const {
  size_t n = 0;
  for (const auto* lists : {&levels, &late})
    for (const auto& level : *lists) n += level.size();
  return static_cast<int64_t>(n);
}

/// Pre: the first of the level is behind its late_ns.
void Bucket::SetLate(size_t level) {
  auto &from = levels[level], &to = late[level];
  Pending& p = *from.front();
  p.late = true;
  auto behind = to.end();
  while (behind != to.begin() && (*std::prev(behind))->deadline_ns > p.deadline_ns) --behind;
  to.splice(behind, from, from.begin());  // p.place stays its place
}

Pending* Bucket::First(int64_t now_ns, int64_t ageing_ns, int of_levels) {
  Pending* first = nullptr;
  for (size_t level = 0; level < static_cast<size_t>(of_levels); ++level) {
    while (!levels[level].empty() && now_ns > levels[level].front()->late_ns) SetLate(level);
    for (const auto* list : {&levels[level], &late[level]})
      if (!list->empty() && (!first || list->front()->order(ageing_ns) < first->order(ageing_ns)))
        first = list->front().get();
  }
  return first;
}

Waiters Bucket::Facts() const {
  Waiters w{.rows = rows};
  for (const auto& level : levels)
    if (!level.empty()) w.oldest_ns = std::min(w.oldest_ns, level.front()->came_ns);
  for (const auto& level : late)
    for (const PendingPtr& p : level) w.oldest_ns = std::min(w.oldest_ns, p->came_ns);
  if (!deadlines.empty()) w.earliest_deadline_ns = *deadlines.begin();
  constexpr auto kHigh = static_cast<size_t>(Priority::kHigh);
  w.has_high = !levels[kHigh].empty() || !late[kHigh].empty();
  return w;
}

std::string RequestQueue::Refuses(int64_t bytes) const {
  if (requests_ >= limits_.max_requests)
    return Cat("the queue is full: ", requests_, " of ", limits_.max_requests, " requests wait");
  if (requests_ > 0 && bytes > limits_.max_bytes - bytes_)
    return Cat("the queue is full: ", bytes_, " of ", limits_.max_bytes,
               " bytes wait, the request has ", bytes);
  return "";
}

void RequestQueue::Push(PendingPtr p, int64_t run_ns) {
  Bucket& bucket = buckets_[p->shape];
  p->late = false;
  p->late_ns = run_ns > 0 && p->deadline_ns != kNever ? p->deadline_ns - run_ns * 3 / 2 : kNever;
  auto& level = bucket.levels[static_cast<size_t>(p->request.priority)];
  Pending& added = *p;
  level.push_back(std::move(p));
  added.place = std::prev(level.end());
  added.bucket = &bucket;
  if (added.deadline_ns != kNever) bucket.deadlines.insert(added.deadline_ns);
  bucket.rows += added.rows;
  rows_ += added.rows;
  ++requests_;
  bytes_ += added.bytes;
}

PendingPtr RequestQueue::Remove(Pending& p) {
  Bucket& bucket = *p.bucket;
  PendingPtr removed = *p.place;
  (p.late ? bucket.late : bucket.levels)[static_cast<size_t>(p.request.priority)].erase(p.place);
  if (p.deadline_ns != kNever) bucket.deadlines.erase(bucket.deadlines.find(p.deadline_ns));
  bucket.rows -= p.rows;
  rows_ -= p.rows;
  --requests_;
  bytes_ -= p.bytes;
  p.bucket = nullptr;
  if (bucket.empty()) buckets_.erase(p.shape);
  return removed;
}

std::vector<PendingPtr> RequestQueue::Take(Bucket& bucket, int64_t max_rows, int64_t now_ns,
                                           int64_t ageing_ns, int levels) {
  std::vector<PendingPtr> taken;
  int64_t rows = 0;
  // The bucket goes with its last request.
  for (int64_t left = bucket.rows; left > 0;) {
    Pending* next = bucket.First(now_ns, ageing_ns, levels);
    if (!next || (!taken.empty() && next->rows > max_rows - rows)) break;
    rows += next->rows;
    left -= next->rows;
    taken.push_back(Remove(*next));
  }
  return taken;
}

RequestQueue::Choice RequestQueue::Choose(const BatchRules& rules, int64_t now_ns, int64_t run_ns,
                                          int64_t ageing_ns, bool draining, int levels,
                                          const Known& known) {
  Choice choice;
  for (auto& [shape, bucket] : buckets_) {
    const Pending* first = bucket.First(now_ns, ageing_ns, levels);
    if (!first) continue;
    const Waiters facts = bucket.Facts();
    BatchRules adapted = rules;
    if (known.rows) adapted.max_rows = known.rows(shape, rules.max_rows);
    BatchAdvice advice{.rows = adapted.max_rows, .run_ns = run_ns};
    if (rules.adapts && known.times) {
      const BatchTimes* times = known.times(shape);
      if (times) advice = Advise(*times, adapted, facts, now_ns, draining);
    }
    if (advice.by == BatchAdvice::By::kRules && advice.rows < rules.max_rows)
      advice.by = BatchAdvice::By::kMemory;
    adapted.max_rows = advice.rows;
    Decision d = Decide(adapted, facts, advice.run_ns, draining);
    if (advice.by == BatchAdvice::By::kTrial)
      d.why = Fired::kTrial;
    else if (d.why == Fired::kFull && advice.rows < rules.max_rows)
      d.why = advice.by == BatchAdvice::By::kMemory ? Fired::kMemory : Fired::kEnough;
    if (d.at_ns > now_ns) {
      choice.next_ns = std::min(choice.next_ns, d.at_ns);
      continue;
    }
    const Order order = first->order(ageing_ns);
    if (!choice.bucket || order < choice.order) {
      choice.bucket = &bucket;
      choice.order = order;
      choice.why = d.why;
      choice.advice = advice;
    }
  }
  return choice;
}

std::vector<PendingPtr> RequestQueue::All() const {
  std::vector<PendingPtr> all;
  for (const auto& [shape, bucket] : buckets_)
    for (const auto* lists : {&bucket.levels, &bucket.late})
      for (const auto& level : *lists) all.insert(all.end(), level.begin(), level.end());
  return all;
}

}  // namespace infer::engine
