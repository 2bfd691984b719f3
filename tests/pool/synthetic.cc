#include "synthetic.h"

#include <cmath>
#include <deque>

namespace vram::replay {
namespace {

constexpr std::uint64_t kKiB = std::uint64_t{1} << 10;
constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

// The standard library's distributions differ from one implementation to the next.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t below(std::uint64_t bound) { return next() % bound; }
  std::uint64_t between(std::uint64_t low, std::uint64_t high) {
    return low + below(high - low + 1);
  }
  // Evenly over the logarithm.
  std::uint64_t log_between(std::uint64_t low, std::uint64_t high) {
    const double share = static_cast<double>(next() >> 11) / 9007199254740992.0;
    return static_cast<std::uint64_t>(
        static_cast<double>(low) *
        std::pow(static_cast<double>(high) / static_cast<double>(low), share));
  }

 private:
  std::uint64_t next() {  // splitmix64
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  std::uint64_t state_;
};

class Program {
 public:
  explicit Program(std::uint64_t seed) : random(seed) {}
  std::uint64_t take(std::uint64_t bytes, std::uint64_t stream = 0) {
    builder_.allocate(++last_, bytes, stream);
    return last_;
  }
  void give(std::uint64_t block) { builder_.free(block); }
  void give(std::uint64_t block, std::uint64_t stream) { builder_.free(block, stream); }
  void give_all(std::vector<std::uint64_t>* blocks) {
    for (const std::uint64_t block : *blocks) give(block);
    blocks->clear();
  }
  // One of them, which goes.
  void give_any(std::vector<std::uint64_t>* blocks) {
    std::swap((*blocks)[random.below(blocks->size())], blocks->back());
    give(blocks->back());
    blocks->pop_back();
  }
  [[nodiscard]] std::uint64_t live() const { return builder_.live(); }
  Workload workload() { return builder_.take(); }

  Random random;

 private:
  WorkloadBuilder builder_;
  std::uint64_t last_ = 0;
};

// Requests of a server, each with a cache that is reallocated a little larger at every token; some
// end, others begin. The new cache is there before the old one goes.
Workload growing_caches() {
  Program program(1);
  struct Request {
    std::uint64_t cache, tokens, end;
  };
  constexpr std::uint64_t kToken = 160 * kKiB;
  std::deque<Request> requests;
  for (int step = 0; step < 6000; ++step) {
    while (requests.size() < 24) {
      const std::uint64_t prompt = program.random.between(20, 400);
      requests.push_back(
          {program.take(prompt * kToken), prompt, prompt + program.random.between(50, 500)});
    }
    Request request = requests.front();
    requests.pop_front();
    const std::uint64_t larger = program.take((request.tokens + 8) * kToken);
    program.give(request.cache);
    if (request.tokens + 8 >= request.end) {
      program.give(larger);
    } else {
      requests.push_back({larger, request.tokens + 8, request.end});
    }
  }
  return program.workload();
}

// Random sizes, random lives, at a level that is held.
Workload log_uniform(std::uint64_t low, std::uint64_t high, std::uint64_t level,
                     std::uint64_t seed) {
  Program program(seed);
  std::vector<std::uint64_t> blocks;
  for (int step = 0; step < 40'000; ++step) {
    const std::uint64_t bytes = program.random.log_between(low, high);
    while (!blocks.empty() && program.live() + bytes > level) program.give_any(&blocks);
    blocks.push_back(program.take(bytes));
  }
  return program.workload();
}

// Small blocks that stay, taken in between large ones that go: what is left when the large ones
// have gone is then used for larger ones.
Workload small_among_large() {
  Program program(3);
  std::vector<std::uint64_t> large;
  std::vector<std::uint64_t> small;
  for (int step = 0; step < 600; ++step) {
    for (int i = 0; i < 4; ++i) large.push_back(program.take(10 * kMiB));
    small.push_back(program.take(512 * kKiB));
  }
  program.give_all(&large);
  for (int round = 0; round < 20; ++round) {
    for (int i = 0; i < 1000 - 40 * round; ++i) {
      large.push_back(program.take((24 + static_cast<std::uint64_t>(round)) * kMiB));
    }
    for (int i = 0; i < 30; ++i) small.push_back(program.take(512 * kKiB));
    program.give_all(&large);
    for (int i = 0; i < 30; ++i) program.give_any(&small);
  }
  return program.workload();
}

// Training whose batch size rises and falls: activations of every layer, freed in reverse.
Workload sawtooth() {
  Program program(4);
  std::vector<std::uint64_t> weights;
  for (int layer = 0; layer < 48; ++layer) weights.push_back(program.take(50 * kMiB));
  for (int step = 0; step < 200; ++step) {
    const std::uint64_t batch = 8 + static_cast<std::uint64_t>(step * 5 % 57);
    std::vector<std::uint64_t> activations;
    for (int layer = 0; layer < 48; ++layer) {
      activations.push_back(program.take(batch * 1300 * kKiB));
      activations.push_back(program.take(batch * 410 * kKiB));
      activations.push_back(program.take(batch * 3 * kKiB));
      program.give(program.take(batch * 2600 * kKiB));
    }
    while (!activations.empty()) {
      const std::uint64_t gradient = program.take(batch * 1300 * kKiB);
      program.give(activations.back());
      activations.pop_back();
      program.give(gradient);
    }
  }
  return program.workload();
}

// A mix of small sizes fills the memory, goes but for one block in forty, and a mix of large sizes
// wants it; and back.
Workload two_phases() {
  Program program(5);
  constexpr std::uint64_t kLevel = 6000 * kMiB;
  std::vector<std::uint64_t> blocks;
  for (int phase = 0; phase < 6; ++phase) {
    const bool small = phase % 2 == 0;
    while (program.live() < kLevel) {
      blocks.push_back(program.take(small ? program.random.log_between(2 * kKiB, 2 * kMiB)
                                          : program.random.log_between(20 * kMiB, 300 * kMiB)));
    }
    const std::size_t kept = small ? blocks.size() / 40 : 3;
    while (blocks.size() > kept) program.give_any(&blocks);
  }
  return program.workload();
}

// As many streams as a server has workers; every fourth block goes to the next worker, which frees
// it on its own stream.
Workload many_streams() {
  Program program(6);
  constexpr std::uint64_t kStreams = 32;
  struct Block {
    std::uint64_t block, stream;
  };
  std::vector<Block> blocks;
  for (int step = 0; step < 40'000; ++step) {
    const std::uint64_t bytes = program.random.log_between(4 * kKiB, 64 * kMiB);
    while (!blocks.empty() && program.live() + bytes > 4000 * kMiB) {
      std::swap(blocks[program.random.below(blocks.size())], blocks.back());
      program.give(blocks.back().block, blocks.back().stream);
      blocks.pop_back();
    }
    const std::uint64_t stream = 1 + program.random.below(kStreams);
    const std::uint64_t freed_on = program.random.below(4) == 0 ? stream % kStreams + 1 : stream;
    blocks.push_back({program.take(bytes, stream), freed_on});
  }
  return program.workload();
}

// Each stream in its turn takes nearly everything, and leaves a little behind.
Workload streams_in_turn() {
  Program program(7);
  std::vector<std::uint64_t> kept;
  for (std::uint64_t turn = 0; turn < 60; ++turn) {
    const std::uint64_t stream = 1 + turn % 12;
    std::vector<std::uint64_t> blocks;
    while (program.live() < 3000 * kMiB) {
      blocks.push_back(program.take(program.random.log_between(64 * kKiB, 40 * kMiB), stream));
    }
    for (int i = 0; i < 4; ++i) {
      kept.push_back(blocks[blocks.size() - 1 - static_cast<std::size_t>(i)]);
    }
    blocks.resize(blocks.size() - 4);
    program.give_all(&blocks);
    while (kept.size() > 24) program.give_any(&kept);
  }
  return program.workload();
}

}  // namespace

std::vector<Synthetic> synthetic_workloads() {
  return {{"growing caches", growing_caches(), 1.2},
          {"log-uniform, 512 B to 256 MiB", log_uniform(512, 256 * kMiB, 8000 * kMiB, 2), 1.2},
          {"log-uniform, 512 B to 2 MiB", log_uniform(512, 2 * kMiB, 1000 * kMiB, 8), 1.26},
          {"log-uniform, 1 MiB to 32 MiB", log_uniform(kMiB, 32 * kMiB, 4000 * kMiB, 9), 1.22},
          {"small among large", small_among_large(), 1.04},
          {"sawtooth batches", sawtooth(), 1.12},
          {"two phases", two_phases(), 1.18},
          {"many streams", many_streams(), 1.2},
          {"streams in turn", streams_in_turn(), 1.09}};
}

}  // namespace vram::replay
