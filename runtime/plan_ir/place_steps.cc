#include "runtime/plan_ir/place_steps.h"

#include <algorithm>

#include "runtime/plan_ir/specialize.h"

namespace infer {
namespace {

class Placer {
 public:
  Placer(const Plan& plan, const ShapePlan& shapes, std::span<const StepKernels> kernels,
         const PlanBackends& backends, const std::vector<bool>& needed)
      : plan_(plan), shapes_(shapes), kernels_(kernels), backends_(backends), needed_(needed) {}

  std::vector<size_t> Run() {
    const size_t host = backends_.size() - 1;
    side_.assign(plan_.steps.size(), host);
    if (host == 0) return side_;
    for (size_t s = 0; s < side_.size(); ++s)
      if (!kernels_[s].kernels.empty()) side_[s] = kernels_[s].backend(0);
    FindReaders();
    // Whole islands first, whose steps would each lose by leaving alone; then single steps.
    for (const std::vector<size_t>& island : Islands()) MoveToHost(island);
    bool moved = true;
    for (int round = 0; moved && round < kMostRounds; ++round) {
      moved = false;
      for (size_t s = 0; s < side_.size(); ++s) moved |= OnDevice(s) && MoveToHost({s});
    }
    return side_;
  }

 private:
  static constexpr int kMostRounds = 8;

  bool OnDevice(size_t s) const {
    return needed_[s] && backends_[side_[s]]->space() == MemorySpace::kDevice;
  }

  void FindReaders() {
    maker_.assign(plan_.values.size(), -1);
    readers_.resize(plan_.values.size());
    for (size_t s = 0; s < plan_.steps.size(); ++s) {
      if (!needed_[s]) continue;
      for (int id : plan_.steps[s].outputs) maker_[static_cast<size_t>(id)] = static_cast<int>(s);
      for (int id : plan_.steps[s].inputs)
        if (!Given(shapes_, id)) readers_[static_cast<size_t>(id)].push_back(s);
    }
    lies_there_.assign(plan_.values.size(), false);
    for (size_t i = 0; i < plan_.inputs.size(); ++i)
      if (plan_.is_resident_input(i)) lies_there_[static_cast<size_t>(plan_.inputs[i])] = true;
    is_output_.assign(plan_.values.size(), false);
    stays_there_.assign(plan_.values.size(), false);
    for (size_t o = 0; o < plan_.outputs.size(); ++o)
      (plan_.is_resident_output(o) ? stays_there_
                                   : is_output_)[static_cast<size_t>(plan_.outputs[o])] = true;
  }

  /// Microseconds that value `id` takes to move between the spaces, as the steps are placed.
  double TransferOf(int id) const {
    const auto i = static_cast<size_t>(id);
    const bool made_on_device =
        maker_[i] < 0 ? lies_there_[i] : OnDevice(static_cast<size_t>(maker_[i]));
    bool read_on_device = stays_there_[i], read_on_host = is_output_[i];
    for (size_t s : readers_[i]) (OnDevice(s) ? read_on_device : read_on_host) = true;
    const bool crosses = made_on_device ? read_on_host : read_on_device;
    return crosses ? backends_[0]->TransferMicroseconds(shapes_.value(id).bytes) : 0;
  }

  /// Of all values at the steps' borders.
  double Transfers(const std::vector<size_t>& steps) const {
    std::vector<int> ids;
    for (size_t s : steps) {
      for (int id : plan_.steps[s].inputs)
        if (!Given(shapes_, id)) ids.push_back(id);
      ids.insert(ids.end(), plan_.steps[s].outputs.begin(), plan_.steps[s].outputs.end());
    }
    std::sort(ids.begin(), ids.end());
    ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
    double sum = 0;
    for (int id : ids) sum += TransferOf(id);
    return sum;
  }

  /// Where that takes less; whether they went.
  bool MoveToHost(const std::vector<size_t>& steps) {
    const size_t host = backends_.size() - 1;
    double work = 0;  // that the host needs more
    for (size_t s : steps)
      work += backends_[host]->StepMicroseconds(shapes_.cost[s]) -
              backends_[side_[s]]->StepMicroseconds(shapes_.cost[s]);
    const double before = Transfers(steps);
    std::vector<size_t> were;
    for (size_t s : steps) were.push_back(std::exchange(side_[s], host));
    if (work + Transfers(steps) < before) return true;
    for (size_t i = 0; i < steps.size(); ++i) side_[steps[i]] = were[i];
    return false;
  }

  /// The steps on the device, by connected parts.
  std::vector<std::vector<size_t>> Islands() const {
    std::vector<std::vector<size_t>> islands;
    std::vector<bool> seen(side_.size(), false);
    for (size_t first = 0; first < side_.size(); ++first) {
      if (!OnDevice(first) || seen[first]) continue;
      std::vector<size_t>& island = islands.emplace_back(1, first);
      seen[first] = true;
      const auto reach = [&](size_t s) {
        if (!OnDevice(s) || seen[s]) return;
        seen[s] = true;
        island.push_back(s);
      };
      for (size_t i = 0; i < island.size(); ++i) {
        const PlanStep& step = plan_.steps[island[i]];
        for (int id : step.inputs)
          if (const int m = maker_[static_cast<size_t>(id)]; m >= 0) reach(static_cast<size_t>(m));
        for (int id : step.outputs)
          for (size_t s : readers_[static_cast<size_t>(id)]) reach(s);
      }
    }
    return islands;
  }

  const Plan& plan_;
  const ShapePlan& shapes_;
  std::span<const StepKernels> kernels_;
  const PlanBackends& backends_;
  const std::vector<bool>& needed_;
  std::vector<size_t> side_;
  std::vector<int> maker_;                      // by value: the step; -1: an input
  std::vector<std::vector<size_t>> readers_;    // by value
  std::vector<bool> is_output_;                 // by value: for the host
  std::vector<bool> lies_there_, stays_there_;  // by value: inputs and outputs on the device
};

}  // namespace

std::vector<size_t> PlaceSteps(const Plan& plan, const ShapePlan& shapes,
                               std::span<const StepKernels> kernels, const PlanBackends& backends,
                               const std::vector<bool>& needed_step) {
  return Placer(plan, shapes, kernels, backends, needed_step).Run();
}

}  // namespace infer
