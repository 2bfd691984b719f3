#include "replay/replay.h"

#include <algorithm>
#include <chrono>

namespace vram::replay {
namespace {

using Clock = std::chrono::steady_clock;

struct Held {
  std::uint64_t block = 0;  // 0: nothing
  std::uint64_t bytes = 0;
  std::uint32_t stream = 0;
};

class Run {
 public:
  Run(const Workload& workload, Target& target)
      : workload_(workload), target_(target), held_(workload.slots) {}

  // False: refused.
  bool part(std::size_t end, Outcome* outcome) {
    highest_ = live_;
    const auto begin = Clock::now();
    while (done_ < end && step(workload_.steps[done_])) ++done_;
    ns_ += std::chrono::duration<double, std::nano>(Clock::now() - begin).count();
    outcome->peak_live = std::max(outcome->peak_live, highest_);
    outcome->samples.push_back({highest_, target_.reserved()});
    return done_ == end;
  }

  void finish(Outcome* outcome) {
    outcome->steps = done_;
    outcome->allocations = allocations_;
    outcome->peak_reserved = target_.peak_reserved();
    if (done_ > 0) outcome->step_ns = ns_ / static_cast<double>(done_);
    if (done_ < workload_.steps.size()) {
      outcome->stop =
          Stop{done_ + 1, workload_.steps[done_].bytes, live_, outcome->samples.back().reserved};
    }
    for (const Held& held : held_) {
      if (held.block != 0) target_.free(held.block, held.bytes, held.stream);
    }
  }

 private:
  bool step(const Step& step) {
    Held& held = held_[step.slot];
    if (step.bytes == 0) {
      target_.free(held.block, held.bytes, step.stream);
      live_ -= held.bytes;
      held.block = 0;
      return true;
    }
    const std::uint64_t block = target_.allocate(step.bytes, step.stream);
    if (block == 0) return false;
    held = {block, step.bytes, step.stream};
    ++allocations_;
    live_ += step.bytes;
    if (live_ > highest_) highest_ = live_;
    return true;
  }

  const Workload& workload_;
  Target& target_;
  std::vector<Held> held_;
  std::size_t done_ = 0;
  std::uint64_t allocations_ = 0;
  std::uint64_t live_ = 0;
  std::uint64_t highest_ = 0;  // since the part began
  double ns_ = 0;
};

std::uint64_t rounded_up(std::uint64_t bytes, std::uint64_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

}  // namespace

Outcome run(const Workload& workload, Target& target, unsigned samples) {
  Outcome outcome;
  Run run(workload, target);
  const std::size_t steps = workload.steps.size();
  for (std::size_t part = 1; part <= samples; ++part) {
    if (!run.part(steps * part / samples, &outcome)) break;
  }
  run.finish(&outcome);
  return outcome;
}

std::optional<std::uint64_t> smallest_limit(
    const Search& search, const std::function<bool(std::uint64_t limit)>& completes) {
  std::uint64_t fails = rounded_up(search.least, search.precision);
  if (fails > search.most) return std::nullopt;
  if (completes(fails)) return fails;
  std::uint64_t works =
      std::min(std::max(rounded_up(search.likely, search.precision), fails), search.most);
  for (std::uint64_t more = search.precision; works == fails || !completes(works); more *= 2) {
    fails = std::max(fails, works);
    if (fails >= search.most) return std::nullopt;
    works = std::min(search.most, fails + more);
  }
  while (works - fails > search.precision) {
    const std::uint64_t middle = fails + rounded_up((works - fails) / 2, search.precision);
    (completes(middle) ? works : fails) = middle;
  }
  return works;
}

}  // namespace vram::replay
