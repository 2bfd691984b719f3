#include "cli/visibility.h"

#include <algorithm>
#include <cctype>

namespace vram::cli {
namespace {

constexpr std::size_t kNone = static_cast<std::size_t>(-1);

std::string trim(const std::string& text) {
  const std::size_t from = text.find_first_not_of(" \t");
  if (from == std::string::npos) return "";
  return text.substr(from, text.find_last_not_of(" \t") - from + 1);
}

std::vector<std::string> entries(const std::string& list) {
  std::vector<std::string> parts;
  std::size_t from = 0;
  for (;;) {
    const std::size_t to = list.find(',', from);
    parts.push_back(trim(list.substr(from, to - from)));
    if (to == std::string::npos) return parts;
    from = to + 1;
  }
}

bool is_mig(const std::string& entry) { return entry.compare(0, 4, "MIG-") == 0; }

Failure mig_refused(const std::string& source, const std::string& entry) {
  return {source + ": '" + entry +
          "' is a MIG instance; vram governs whole cards: MIG already divides memory in hardware, "
          "so run the program without vram, or name a card"};
}

bool starts_with(const std::string& text, const std::string& prefix) {
  return text.compare(0, prefix.size(), prefix) == 0;
}

// The driver reads leading digits and ignores what follows them: "1gpu" is 1.
std::size_t index_as_driver_reads(const std::string& entry, std::size_t count) {
  std::size_t digits = 0;
  std::size_t value = 0;
  while (digits < entry.size() && std::isdigit(static_cast<unsigned char>(entry[digits]))) {
    value = std::min(value * 10 + static_cast<std::size_t>(entry[digits++] - '0'), count);
  }
  return digits == 0 || value >= count ? kNone : value;
}

std::size_t uuid_as_driver_reads(const std::string& entry, const std::vector<probe::Card>& cards) {
  std::size_t found = kNone;
  for (std::size_t i = 0; i < cards.size(); ++i) {
    if (!starts_with(cards[i].uuid, entry)) continue;
    if (found != kNone) return kNone;
    found = i;
  }
  return found;
}

bool same_model(const std::vector<probe::Card>& cards) {
  return std::all_of(cards.begin(), cards.end(),
                     [&](const probe::Card& card) { return card.name == cards.front().name; });
}

// Without CUDA_DEVICE_ORDER=PCI_BUS_ID the driver puts the fastest card first.
bool numbers_are_nvml_order(const VisibilityRequest& request,
                            const std::vector<probe::Card>& cards) {
  return cards.size() < 2 || same_model(cards) || request.cuda_order == "PCI_BUS_ID";
}

Result<Visibility> inherited(const VisibilityRequest& request,
                             const std::vector<probe::Card>& cards) {
  Visibility visible;
  if (!request.cuda_visible) {
    visible.cards = cards;
    visible.certain = numbers_are_nvml_order(request, cards);
    return visible;
  }
  std::vector<std::size_t> chosen;
  for (const std::string& entry : entries(*request.cuda_visible)) {
    if (is_mig(entry)) return mig_refused("CUDA_VISIBLE_DEVICES", entry);
    const bool by_uuid = starts_with(entry, "GPU-");
    if (!by_uuid && !numbers_are_nvml_order(request, cards)) {
      visible.cards = cards;
      visible.certain = false;
      return visible;
    }
    const std::size_t card =
        by_uuid ? uuid_as_driver_reads(entry, cards) : index_as_driver_reads(entry, cards.size());
    if (card == kNone) break;
    if (std::find(chosen.begin(), chosen.end(), card) != chosen.end()) {
      chosen.clear();
      break;
    }
    chosen.push_back(card);
  }
  for (const std::size_t card : chosen) visible.cards.push_back(cards[card]);
  return visible;
}

std::string range_of(const std::vector<probe::Card>& cards) {
  if (cards.empty()) return "there is none";
  if (cards.size() == 1) return "the only card is " + std::to_string(cards.front().index);
  const int last = cards.back().index;
  if (last - cards.front().index + 1 == static_cast<int>(cards.size())) {
    return "cards are " + std::to_string(cards.front().index) + " to " + std::to_string(last);
  }
  std::string list;
  for (const probe::Card& card : cards) {
    list += (list.empty() ? "" : ", ") + std::to_string(card.index);
  }
  return "cards are " + list;
}

// Numbers are those of `vram devices`, also where only some of the cards are given.
std::size_t at_number(const std::string& digits, const std::vector<probe::Card>& cards) {
  for (std::size_t i = 0; i < cards.size(); ++i) {
    if (std::to_string(cards[i].index) == digits) return i;
  }
  return kNone;
}

bool is_number(const std::string& text) {
  return !text.empty() && std::all_of(text.begin(), text.end(),
                                      [](unsigned char c) { return std::isdigit(c) != 0; });
}

std::string lower(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

Result<Visibility> requested(const VisibilityRequest& request,
                             const std::vector<probe::Card>& cards) {
  const Result<Visibility> outer = inherited(request, cards);
  if (!outer) return outer.error();
  if (!outer->certain && request.cuda_visible) {
    return Failure{"--gpu: CUDA_VISIBLE_DEVICES=" + *request.cuda_visible +
                   " counts cards of different models by speed, which vram cannot; "
                   "set CUDA_DEVICE_ORDER=PCI_BUS_ID or unset CUDA_VISIBLE_DEVICES"};
  }
  Visibility visible;
  std::string variable;
  for (const std::string& entry : entries(*request.gpu)) {
    const Result<std::size_t> found = find_card(entry, cards, "--gpu");
    if (!found) return found.error();
    const probe::Card& card = cards[*found];
    const auto same = [&](const probe::Card& other) { return other.uuid == card.uuid; };
    if (std::any_of(visible.cards.begin(), visible.cards.end(), same)) {
      return Failure{"--gpu: card " + std::to_string(card.index) + " is named twice; name it once"};
    }
    if (std::none_of(outer->cards.begin(), outer->cards.end(), same)) {
      return Failure{"--gpu: card " + std::to_string(card.index) +
                     " is hidden by CUDA_VISIBLE_DEVICES=" + *request.cuda_visible +
                     "; choose a visible one or unset that variable"};
    }
    visible.cards.push_back(card);
    variable += (variable.empty() ? "" : ",") + card.uuid;
  }
  // By UUID, so that the order is the one asked for whatever order the driver counts in.
  visible.variable = variable;
  return visible;
}

}  // namespace

Result<std::size_t> find_card(const std::string& text, const std::vector<probe::Card>& cards,
                              const std::string& source) {
  if (text.empty()) {
    return Failure{source + ": a card is missing; write a number of 'vram devices' or a UUID"};
  }
  if (is_mig(text)) return mig_refused(source, text);
  if (is_number(text)) {
    const std::size_t index = at_number(text, cards);
    if (index == kNone) {
      return Failure{source + ": there is no card " + text + "; " + range_of(cards) +
                     " (see 'vram devices')"};
    }
    return index;
  }
  const std::string wanted = lower(starts_with(lower(text), "gpu-") ? text.substr(4) : text);
  std::size_t found = kNone;
  for (std::size_t i = 0; i < cards.size(); ++i) {
    if (wanted.empty() || !starts_with(lower(cards[i].uuid.substr(4)), wanted)) continue;
    if (found != kNone) {
      return Failure{source + ": '" + text + "' is the beginning of the UUIDs of cards " +
                     std::to_string(cards[found].index) + " and " + std::to_string(cards[i].index) +
                     "; write more of it"};
    }
    found = i;
  }
  if (found == kNone) {
    return Failure{source + ": '" + text + "' is no card; " + range_of(cards) +
                   " (numbers and UUIDs: 'vram devices')"};
  }
  return found;
}

Result<Visibility> resolve_visibility(const VisibilityRequest& request,
                                      const std::vector<probe::Card>& cards) {
  Result<Visibility> visible = request.gpu ? requested(request, cards) : inherited(request, cards);
  if (!visible) return visible;
  for (const probe::Card& card : visible->cards) {
    if (card.mig && visible->certain) {
      return Failure{
          "card " + std::to_string(card.index) +
          " is divided by MIG, which vram does not govern; choose another with --gpu, or "
          "run the program without vram"};
    }
  }
  return visible;
}

}  // namespace vram::cli
