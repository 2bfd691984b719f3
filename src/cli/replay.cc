// `vram replay`: recorded traces through vram's pools.

#include "cli/replay.h"

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>

#include "cli/commands.h"
#include "cli/curve.h"
#include "cli/table.h"
#include "host/host.h"
#include "host/limit_text.h"

namespace vram::cli {
namespace {

// When neither the trace nor the user says how large a card is: an H200.
constexpr std::uint64_t kDefaultCard = std::uint64_t{141} << 30;
constexpr std::uint64_t kLimitPrecision = std::uint64_t{2} << 20;  // a page
constexpr unsigned kNoCurve = 1;

std::string pool_names() {
  std::string names;
  for (const replay::NamedPool& pool : replay::kPools) names += std::string(pool.name) + ", ";
  return names.substr(0, names.size() - 2) + " or all";
}

Result<std::vector<replay::NamedPool>> chosen_pools(const std::string& name) {
  if (name == "all") {
    return std::vector<replay::NamedPool>(std::begin(replay::kPools), std::end(replay::kPools));
  }
  const auto pool = replay::find_pool(name);
  if (!pool) {
    return Failure{"--pool: there is no pool '" + name + "'; use " + pool_names(), kUsage};
  }
  return std::vector<replay::NamedPool>{*pool};
}

// The card is the machine's or a simulated one, and then the same for all traces; or made of
// bookkeeping, for each trace as large as it says.
class Cards {
 public:
  static Result<std::unique_ptr<Cards>> open(const ReplayOptions& options) {
    auto cards = std::make_unique<Cards>();
    if (options.card) {
      const Result<base::Size> size = parse_size(*options.card, "--card");
      if (!size) return size.error();
      if (size->kind != base::Size::Kind::kBytes) {
        return Failure{
            "--card: '" + *options.card + "' is a share of nothing; write a size like 24GiB",
            kUsage};
      }
      cards->wish_ = size->amount;
    }
    if (options.sim) {
      if (const Result<Done> loaded = load_simulator(*options.sim); !loaded) return loaded.error();
      cards->kind_ = "simulated";
    } else if (options.real) {
      cards->kind_ = "real";
    } else {
      return cards;
    }
    auto device = replay::Device::real();
    if (!device) return Failure{(options.sim ? "--sim: " : "--real: ") + device.error()};
    cards->device_ = std::move(*device);
    return cards;
  }

  replay::Device& card_for(const replay::Recorded& recorded) {
    if (kind_ != "dry") return *device_;
    const std::uint64_t told = recorded.card_bytes != 0 ? recorded.card_bytes : kDefaultCard;
    device_ = replay::Device::dry(wish_ != 0 ? wish_ : told);
    return *device_;
  }

  [[nodiscard]] const std::string& kind() const { return kind_; }

 private:
  static Result<Done> load_simulator(const std::string& sim) {
    const Result<std::string> machine = read_simulation(sim, "--sim");
    if (!machine) return machine.error();
    setenv("VRAM_SIM", machine->c_str(), 1);
    const std::string library = find_install_layout(executable_folder()).simulated_driver;
    // From here on its name leads to it.
    if (dlopen(library.c_str(), RTLD_NOW | RTLD_GLOBAL) == nullptr) {
      return Failure{"--sim: the simulator is missing (" + library + "); reinstall vram"};
    }
    return Done{};
  }

  std::string kind_ = "dry";
  std::uint64_t wish_ = 0;
  std::unique_ptr<replay::Device> device_;
};

Result<Done> check(const ReplayOptions& options) {
  if (options.sim && options.real) {
    return Failure{"--sim and --real exclude each other; choose one", kUsage};
  }
  if (options.card && (options.sim || options.real)) {
    return Failure{std::string("--card is for a card of bookkeeping; leave it out, or leave ") +
                       (options.sim ? "--sim" : "--real") + " out",
                   kUsage};
  }
  if (options.limit && options.smallest_limit) {
    return Failure{"--smallest-limit looks for the limit; leave --limit out", kUsage};
  }
  return Done{};
}

std::optional<std::uint64_t> search_limit(const replay::Workload& workload, replay::Device& device,
                                          pool::Kind kind, const replay::Outcome& free) {
  const std::uint64_t most = device.bytes();
  return replay::smallest_limit(
      {workload.peak_live, free.peak_reserved, most, kLimitPrecision}, [&](std::uint64_t limit) {
        const auto tried = replay::run_pool(workload, device, kind, limit, kNoCurve);
        return tried && !tried->stop;
      });
}

Replayed replay_one(const replay::Recorded& recorded, replay::Device& device,
                    const replay::NamedPool& pool, const ReplayOptions& options, Replayed replayed,
                    unsigned samples) {
  replayed.pool = pool.name;
  const auto outcome =
      replay::run_pool(recorded.workload, device, pool.kind, replayed.limit, samples);
  if (!outcome) {
    replayed.unavailable = outcome.error();
    return replayed;
  }
  replayed.outcome = *outcome;
  if (options.smallest_limit) {
    replayed.smallest_limit = search_limit(recorded.workload, device, pool.kind, *outcome);
  }
  return replayed;
}

// Through every pool that was chosen.
Result<Done> replay_file(const std::string& path, const std::vector<replay::NamedPool>& pools,
                         const ReplayOptions& options, Cards& cards, unsigned samples,
                         std::vector<Replayed>* out) {
  auto read = replay::read_recorded(path, {options.process, options.device});
  if (!read) return Failure{read.error()};
  const auto recorded = std::make_shared<replay::Recorded>(std::move(*read));
  replay::Device& device = cards.card_for(*recorded);
  Replayed blank;
  blank.trace = path;
  blank.recorded = recorded;
  blank.events = recorded->workload.steps.size();
  blank.card = device.bytes();
  blank.limit = pool::kNoLimit;
  if (options.limit) {
    const Result<base::Size> size = parse_size(*options.limit, "--limit");
    if (!size) return size.error();
    blank.limit = bytes_on(*size, device.bytes());
  }
  for (const replay::NamedPool& pool : pools) {
    out->push_back(replay_one(*recorded, device, pool, options, blank, samples));
    if (pools.size() == 1 && out->back().unavailable) {
      return Failure{"--pool " + options.pool + ": " + *out->back().unavailable};
    }
  }
  recorded->workload.steps = {};
  return Done{};
}

std::string describe_cards(const std::vector<Replayed>& replays, const std::string& kind) {
  for (const Replayed& replayed : replays) {
    if (replayed.card != replays.front().card)
      return "cards of bookkeeping, as the traces name them";
  }
  const std::string size = format_bytes(replays.front().card);
  if (kind == "dry") return "a card of bookkeeping, " + size;
  return (kind == "real" ? "the card, " : "a simulated card, ") + size;
}

}  // namespace

Result<Done> replay_traces(const ReplayOptions& options) {
  if (const Result<Done> fine = check(options); !fine) return fine;
  const auto pools = chosen_pools(options.pool);
  if (!pools) return pools.error();
  // A bad size is told before anything is read.
  if (options.limit) {
    if (const Result<base::Size> size = parse_size(*options.limit, "--limit"); !size) {
      return size.error();
    }
  }
  const auto cards = Cards::open(options);
  if (!cards) return cards.error();
  const bool one = options.files.size() == 1 && pools->size() == 1 && !options.json;
  const std::size_t columns = one ? curve_columns(terminal_width()) : 0;
  std::vector<Replayed> replays;
  for (const std::string& path : options.files) {
    const unsigned samples = columns > 0 ? static_cast<unsigned>(columns) : kNoCurve;
    const Result<Done> done = replay_file(path, *pools, options, **cards, samples, &replays);
    if (!done) return done;
  }
  std::string text;
  if (options.json) {
    text = replays_as_json(replays, (*cards)->kind());
  } else {
    if (columns > 0) {
      const replay::Outcome& outcome = replays.front().outcome;
      text = draw_curve(outcome.samples, outcome.steps, terminal_colour());
    }
    text += replays_as_text(replays, options.smallest_limit ? Searched::kYes : Searched::kNo,
                            describe_cards(replays, (*cards)->kind()));
  }
  std::fputs(text.c_str(), stdout);
  return Done{};
}

}  // namespace vram::cli
