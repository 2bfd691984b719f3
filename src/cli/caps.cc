#include "cli/caps.h"

#include <algorithm>
#include <map>

#include "cli/visibility.h"
#include "wire/job_layout.h"

namespace vram::cli {
namespace {

using BySize = std::map<std::string, base::Size>;  // UUID of the card

Result<BySize> sizes_by_card(const Setting<Limit>& limit, const std::vector<probe::Card>& cards) {
  BySize sizes;
  for (const Limit::ForCard& entry : limit.value.cards) {
    const Result<std::size_t> found = find_card(entry.card, cards, limit.origin);
    // The administrator's file serves hosts with different cards.
    if (!found && limit.layer == Layer::kSystemFile) continue;
    if (!found) return found.error();
    if (!sizes.emplace(cards[*found].uuid, entry.size).second) {
      return Failure{limit.origin + ": card " + std::to_string(cards[*found].index) +
                     " has two limits; give it one"};
    }
  }
  return sizes;
}

std::uint64_t bytes_for(const Setting<Limit>& limit, const BySize& sizes, const probe::Card& card) {
  if (limit.value.every) return bytes_on(*limit.value.every, card.capacity());
  const auto found = sizes.find(card.uuid);
  return found == sizes.end() ? wire::kUnlimited : bytes_on(found->second, card.capacity());
}

std::string on_card(const probe::Card& card) { return "card " + std::to_string(card.index); }

Result<Done> check_named_cards_visible(const Setting<Limit>& limit, const BySize& sizes,
                                       const std::vector<probe::Card>& visible,
                                       const std::vector<probe::Card>& all) {
  for (const probe::Card& card : all) {
    const bool seen = std::any_of(visible.begin(), visible.end(), [&](const probe::Card& other) {
      return other.uuid == card.uuid;
    });
    if (sizes.count(card.uuid) != 0 && !seen) {
      return Failure{limit.origin + ": the program will not see " + on_card(card) +
                     "; leave its limit out, or name it in --gpu"};
    }
  }
  return Done{};
}

Result<Done> check(std::uint64_t bytes, const Setting<Limit>& limit, const probe::Card& card,
                   const ContextCost& context) {
  const std::string asked = limit.origin + ": " + format_bytes(bytes);
  if (bytes > card.capacity()) {
    return Failure{asked + " is more than " + on_card(card) + " has (" +
                   format_bytes(card.capacity()) + "); use less, or a percentage like 90%"};
  }
  if (bytes < context.bytes) {
    return Failure{asked + " is less than " +
                   (context.measured ? "a CUDA context takes" : "any CUDA context takes") + " on " +
                   on_card(card) + " (" + format_bytes(context.bytes) +
                   "), so the program could not start; use more, like 1GiB"};
  }
  return Done{};
}

}  // namespace

Result<std::vector<std::uint64_t>> resolve_caps(const Setting<Limit>& limit,
                                                const Setting<Limit>& ceiling,
                                                const std::vector<probe::Card>& visible,
                                                const std::vector<probe::Card>& all,
                                                const ContextCostOf& context_cost) {
  // A person's own limit is for this run and must apply as it stands; the administrator's is cut to
  // what the card has.
  const bool personal = limit.layer > Layer::kSystemFile;
  const Result<BySize> sizes = sizes_by_card(limit, all);
  if (!sizes) return sizes.error();
  const Result<BySize> ceilings = sizes_by_card(ceiling, all);
  if (!ceilings) return ceilings.error();
  if (personal) {
    const auto visible_named = check_named_cards_visible(limit, *sizes, visible, all);
    if (!visible_named) return visible_named.error();
  }
  std::vector<std::uint64_t> caps;
  for (const probe::Card& card : visible) {
    std::uint64_t cap = bytes_for(limit, *sizes, card);
    const std::uint64_t highest = bytes_for(ceiling, *ceilings, card);
    if (cap == wire::kUnlimited || !personal) {
      cap = std::min(cap, highest);
      if (cap != wire::kUnlimited)
        cap = std::min(cap, bytes_on({base::Size::Kind::kPermille, 1000}, card.capacity()));
    } else if (const Result<Done> fine = check(cap, limit, card, context_cost(card)); !fine) {
      return fine.error();
    } else if (cap > highest) {
      return Failure{limit.origin + ": " + format_bytes(cap) + " on " + on_card(card) +
                     " is over the ceiling of this system (" + format_bytes(highest) + ", " +
                     ceiling.origin + "); use " + format_bytes(highest) + " or less"};
    }
    caps.push_back(cap);
  }
  return caps;
}

Result<std::vector<std::uint64_t>> resolve_reserves(const Setting<Limit>& reserve,
                                                    const std::vector<probe::Card>& visible,
                                                    const std::vector<probe::Card>& all,
                                                    const std::vector<std::uint64_t>& caps) {
  const Result<BySize> sizes = sizes_by_card(reserve, all);
  if (!sizes) return sizes.error();
  if (reserve.layer > Layer::kSystemFile) {
    const auto named = check_named_cards_visible(reserve, *sizes, visible, all);
    if (!named) return named.error();
  }
  std::vector<std::uint64_t> reserves;
  for (std::size_t i = 0; i < visible.size(); ++i) {
    const probe::Card& card = visible[i];
    const std::uint64_t bytes = bytes_for(reserve, *sizes, card);
    reserves.push_back(bytes == wire::kUnlimited ? 0 : bytes);
    const std::uint64_t highest = std::min(caps[i], card.capacity());
    if (reserves.back() <= highest) continue;
    const bool capped = caps[i] < card.capacity();
    return Failure{reserve.origin + ": " + format_bytes(reserves.back()) + " is more than " +
                   (capped ? "the limit on " + on_card(card) : on_card(card) + " has") + " (" +
                   format_bytes(highest) + "); reserve that or less" +
                   (capped ? ", or raise the limit with -m" : "")};
  }
  return reserves;
}

}  // namespace vram::cli
