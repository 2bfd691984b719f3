// What an allocation and a free cost, with many live blocks of mixed sizes, side by side with other
// allocators in one run.
//
//   pool_cost [--dry] [--threads N] [--live N] [--largest BYTES] [--distinct N] [--peer LIBRARY]...
//
// Sizes are spread evenly over their logarithm, from 512 B to --largest (4 MiB); --distinct says
// how many different ones there are (64, about what a training has; 0: hardly any size comes
// twice). Each round frees a random live block and allocates another; with several threads every
// second block is freed by the thread next door. All allocators are open during the whole run and
// take turns, so that what disturbs one disturbs all; the figure of each is the median of its
// turns. --dry runs vram alone, on a card of bookkeeping. The row "none" is an allocator that does
// nothing: what the bench itself costs, and how far the machine carries it with threads.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "peers/own.h"
#include "pool/dry_driver.h"

namespace {

using Clock = std::chrono::steady_clock;
using vram::bench::Allocator;

struct Settings {
  std::size_t distinct = 64;
  unsigned threads = 16;
  std::size_t live = 10'000;
  double largest = 4 << 20;
  int turns = 7;
};

struct Block {
  void* at;
  std::size_t bytes;
};

// Blocks on their way from one thread to the next: one writes, one reads. Each side keeps what it
// last saw of the other, so that the belt itself costs a line of memory for a few dozen blocks.
class Belt {
 public:
  bool put(const Block& block) {
    if (written_.own - written_.seen == kLength) {
      written_.seen = read_.shared.load(std::memory_order_acquire);
      if (written_.own - written_.seen == kLength) return false;
    }
    blocks_[written_.own++ % kLength] = block;
    written_.shared.store(written_.own, std::memory_order_release);
    return true;
  }
  // Waits for a batch, as a program would.
  bool take(Block* block) {
    if (read_.own == read_.seen) {
      const std::size_t written = written_.shared.load(std::memory_order_acquire);
      if (written - read_.own < kBatch) return false;
      read_.seen = written;
    }
    *block = blocks_[read_.own++ % kLength];
    if (read_.own == read_.seen) read_.shared.store(read_.own, std::memory_order_release);
    return true;
  }

 private:
  static constexpr std::size_t kLength = 256;
  static constexpr std::size_t kBatch = 64;
  struct alignas(128) End {
    std::atomic<std::size_t> shared{0};
    alignas(128) std::size_t own = 0;
    std::size_t seen = 0;
  };
  Block blocks_[kLength] = {};
  End written_;
  End read_;
};

// Random numbers are drawn beforehand: they are not what is measured.
struct Worker {
  static constexpr std::size_t kDraws = 1 << 16;
  std::vector<Block> live;
  std::vector<std::size_t> sizes;
  std::vector<std::uint32_t> places;
  std::size_t next = 0;
  Belt belt;  // to this worker

  Worker(const Settings& settings, std::size_t count, unsigned seed) : live(count) {
    std::mt19937_64 random(seed);
    const double doublings = std::log2(settings.largest / 512);
    const auto steps = static_cast<double>(settings.distinct);
    for (std::size_t i = 0; i < kDraws; ++i) {
      double place = static_cast<double>(random() >> 11) * 0x1p-53;
      if (settings.distinct != 0) place = std::floor(place * steps) / steps;
      sizes.push_back(static_cast<std::size_t>(512 * std::exp2(place * doublings)));
      places.push_back(static_cast<std::uint32_t>(random() % count));
    }
  }
};

[[noreturn]] void refused(Allocator& allocator) {
  fprintf(stderr, "pool_cost: %s refused a block\n", allocator.name().c_str());
  exit(1);
}

void renew(Allocator& allocator, Worker& worker, Block& block) {
  block.bytes = worker.sizes[worker.next++ % Worker::kDraws];
  block.at = allocator.allocate(block.bytes, nullptr);
  if (block.at == nullptr) refused(allocator);
}

void free_block(Allocator& allocator, const Block& block) {
  allocator.free(block.at, block.bytes, nullptr);
}

// One free and one allocation. Of several threads, each frees every second block of its neighbour.
void exchange(Allocator& allocator, Worker& worker, Worker* neighbour) {
  Block& mine = worker.live[worker.places[worker.next % Worker::kDraws]];
  if (neighbour == nullptr || worker.next % 2 == 0) {
    free_block(allocator, mine);
  } else {
    if (!neighbour->belt.put(mine)) free_block(allocator, mine);
    Block handed{};
    if (worker.belt.take(&handed)) free_block(allocator, handed);
  }
  renew(allocator, worker, mine);
}

class NoAllocator final : public Allocator {
 public:
  std::string name() const override { return "none"; }
  bool open(std::size_t) override { return true; }
  void* allocate(std::size_t, void*) override { return this; }
  void free(void*, std::size_t, void*) override {}
  std::size_t reserved() override { return 0; }
  std::size_t peak_reserved() override { return 0; }
  void trim() override {}
  void close() override {}
};

struct Contestant {
  std::unique_ptr<Allocator> allocator;
  std::function<void()> enter;                   // in each thread, before it works
  std::vector<std::unique_ptr<Worker>> workers;  // [0] for the turns of one thread
  std::vector<double> alone_ns, together_ns;     // a turn each: for one exchange, of all threads
  std::vector<float> each_ns;
};

double turn(Contestant& who, unsigned first, unsigned count, std::size_t exchanges) {
  std::atomic<unsigned> ready{0};
  std::vector<double> ns(count);
  const auto work = [&](unsigned t) {
    Worker& mine = *who.workers[first + t];
    Worker* neighbour = count == 1 ? nullptr : who.workers[first + (t + 1) % count].get();
    if (who.enter) who.enter();
    ready.fetch_add(1);
    while (ready.load() < count) std::this_thread::yield();
    const auto begin = Clock::now();
    for (std::size_t i = 0; i < exchanges; ++i) exchange(*who.allocator, mine, neighbour);
    ns[t] = std::chrono::duration<double, std::nano>(Clock::now() - begin).count();
  };
  std::vector<std::thread> threads;
  for (unsigned t = 1; t < count; ++t) threads.emplace_back(work, t);
  work(0);
  for (std::thread& thread : threads) thread.join();
  return *std::max_element(ns.begin(), ns.end()) / static_cast<double>(exchanges) / count;
}

// What the timer and the machine (its clock's interrupts, its neighbours) add to each.
std::vector<float> time_nothing() {
  std::vector<float> ns;
  for (int i = 0; i < 1'000'000; ++i) {
    const auto begin = Clock::now();
    ns.push_back(std::chrono::duration<float, std::nano>(Clock::now() - begin).count());
  }
  std::sort(ns.begin(), ns.end());
  return ns;
}

void time_each(Contestant& who, std::size_t exchanges) {
  who.each_ns.reserve(exchanges);
  for (std::size_t i = 0; i < exchanges; ++i) {
    const auto begin = Clock::now();
    exchange(*who.allocator, *who.workers[0], nullptr);
    who.each_ns.push_back(std::chrono::duration<float, std::nano>(Clock::now() - begin).count());
  }
  std::sort(who.each_ns.begin(), who.each_ns.end());
}

double median(std::vector<double> of) {
  std::sort(of.begin(), of.end());
  return of.empty() ? 0 : of[of.size() / 2];
}

// How many exchanges a turn of about 100 ms has; the allocator is warm afterwards.
std::size_t exchanges_of_a_turn(Contestant& who) {
  for (Block& block : who.workers[0]->live) renew(*who.allocator, *who.workers[0], block);
  std::size_t exchanges = 1000;
  double ns = 0;
  do {
    exchanges *= 2;
    ns = turn(who, 0, 1, exchanges) * static_cast<double>(exchanges);
  } while (ns < 5e7);
  return exchanges;
}

void measure(std::vector<Contestant>& all, const Settings& settings) {
  std::vector<std::size_t> exchanges;
  for (Contestant& who : all) {
    if (!who.allocator->open(0)) {
      fprintf(stderr, "pool_cost: %s does not open\n", who.allocator->name().c_str());
      exit(1);
    }
    who.workers.push_back(std::make_unique<Worker>(settings, settings.live, 1));
    exchanges.push_back(exchanges_of_a_turn(who));
  }
  for (int t = 0; t < settings.turns; ++t) {
    for (std::size_t i = 0; i < all.size(); ++i) {
      all[i].alone_ns.push_back(turn(all[i], 0, 1, exchanges[i]));
    }
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    time_each(all[i], std::min<std::size_t>(exchanges[i] * 4, 2'000'000));
    for (const Block& block : all[i].workers[0]->live) free_block(*all[i].allocator, block);
  }
  for (Contestant& who : all) {
    for (unsigned t = 0; t < settings.threads; ++t) {
      who.workers.push_back(
          std::make_unique<Worker>(settings, settings.live / settings.threads, t + 2));
      for (Block& block : who.workers.back()->live)
        renew(*who.allocator, *who.workers.back(), block);
    }
  }
  for (std::size_t i = 0; i < all.size(); ++i)
    (void)turn(all[i], 1, settings.threads, exchanges[i]);
  for (int t = 0; t < settings.turns; ++t) {
    for (std::size_t i = 0; i < all.size(); ++i) {
      all[i].together_ns.push_back(turn(all[i], 1, settings.threads, exchanges[i] / 4));
    }
  }
}

void print(const std::vector<Contestant>& all, const Settings& settings) {
  printf("%zu live blocks, 512 B to %.0f B, %zu different sizes; a free and an allocation\n",
         settings.live, settings.largest, settings.distinct);
  printf(
      "| allocator | ns | of vram's | p50 | p99 | p99.9 | p99.99 ns | %u threads, M/s | of one |\n",
      settings.threads);
  printf("|---|---|---|---|---|---|---|---|---|\n");
  const double own = median(all[0].alone_ns);
  const std::vector<float> nothing = time_nothing();
  const auto share_of = [](const std::vector<float>& each, double of) {
    return static_cast<double>(
        each[static_cast<std::size_t>(of * static_cast<double>(each.size() - 1))]);
  };
  printf("| the timer | | | %.0f | %.0f | %.0f | %.0f | | |\n", share_of(nothing, 0.5),
         share_of(nothing, 0.99), share_of(nothing, 0.999), share_of(nothing, 0.9999));
  for (const Contestant& who : all) {
    const double alone = median(who.alone_ns);
    const double together = median(who.together_ns);
    const auto share = [&](double of) { return share_of(who.each_ns, of); };
    printf("| %s | %.1f | %.1f x | %.0f | %.0f | %.0f | %.0f | %.2f | %.2f x |\n",
           who.allocator->name().c_str(), alone, alone / own, share(0.5), share(0.99), share(0.999),
           share(0.9999), 1e3 / together, alone / together);
  }
}

}  // namespace

int main(int argc, char** argv) {
  Settings settings;
  bool dry = false;
  std::vector<std::string> peers;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const char* value = i + 1 < argc ? argv[i + 1] : "";
    if (word == "--dry") {
      dry = true;
    } else if (word == "--threads") {
      settings.threads = static_cast<unsigned>(atoi(value));
    } else if (word == "--live") {
      settings.live = static_cast<std::size_t>(atol(value));
    } else if (word == "--largest") {
      settings.largest = atof(value);
    } else if (word == "--distinct") {
      settings.distinct = static_cast<std::size_t>(atol(value));
    } else if (word == "--peer") {
      peers.push_back(value);
    } else {
      fprintf(stderr, "pool_cost: unknown option %s\n", word.c_str());
      return 2;
    }
    if (word != "--dry") ++i;
  }
  const vram::pool::DriverCalls* driver = &vram::pool::dry_driver(std::size_t{140} << 30);
  if (!dry) {
    const auto opened = vram::pool::open_driver();
    if (!opened) {
      fprintf(stderr, "%s\n", opened.error().message.c_str());
      return 1;
    }
    driver = *opened;
    CUcontext context = nullptr;
    if (driver->primary_retain(&context, 0) != CUDA_SUCCESS ||
        driver->context_push(context) != CUDA_SUCCESS) {
      fprintf(stderr, "pool_cost: no context on the first card\n");
      return 1;
    }
  }
  std::vector<Contestant> all(1);
  all[0].allocator = vram::bench::segments(*driver);
  all.emplace_back().allocator = std::make_unique<NoAllocator>();
  if (!dry) {
    all.emplace_back().allocator = vram::bench::driver_async(*driver);
    all.emplace_back().allocator = vram::bench::driver_alloc(*driver);
  }
  for (const std::string& path : peers) {
    auto loaded = vram::bench::peer(path);
    if (loaded == nullptr) return 1;
    all.emplace_back().allocator = std::move(loaded);
  }
  if (!dry) {
    for (Contestant& who : all) {
      who.enter = [driver] {
        CUcontext context = nullptr;
        if (driver->primary_retain(&context, 0) == CUDA_SUCCESS)
          (void)driver->context_push(context);
      };
    }
  }
  measure(all, settings);
  print(all, settings);
  return 0;
}
