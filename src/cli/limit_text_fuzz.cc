// What is read as a limit can be printed and read again, and then means the same; which cards a
// text names never leads outside of the list of cards.
#include <cstdint>
#include <cstdlib>

#include "cli/cards_for_test.h"
#include "cli/visibility.h"
#include "host/limit_text.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace vram::cli;
  const std::string text(reinterpret_cast<const char*>(data), size);
  if (const Result<Limit> limit = parse_limit(text, "-m")) {
    const Result<Limit> again = parse_limit(format_limit(*limit), "-m");
    if (!again || again->cards.size() != limit->cards.size()) std::abort();
    if (again->every.has_value() != limit->every.has_value()) std::abort();
  } else if (limit.error().message.find("-m: ") != 0) {
    std::abort();
  }
  static const std::vector<vram::probe::Card> cards = three_cards();
  if (const Result<std::size_t> card = find_card(text, cards, "-m");
      card && *card >= cards.size()) {
    std::abort();
  }
  for (const VisibilityRequest& request : {VisibilityRequest{text, std::nullopt, std::nullopt},
                                           VisibilityRequest{std::nullopt, text, std::nullopt}}) {
    const Result<Visibility> visible = resolve_visibility(request, cards);
    if (visible && visible->cards.size() > cards.size()) std::abort();
  }
  return 0;
}
