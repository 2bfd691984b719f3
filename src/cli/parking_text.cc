#include "cli/parking_text.h"

#include "cli/failure.h"

#include "host/limit_text.h"

namespace vram::cli {
namespace {

using ledger::Move;
using wire::Place;
using wire::Refusal;

// What does not fit, or "all" while nobody said how much it is.
std::string amount(std::uint64_t bytes) {
  return bytes != 0 ? format_bytes(bytes) + " of " : std::string("the memory of ");
}

}  // namespace

std::string describe(Place place, std::uint64_t bytes) {
  switch (place) {
    case Place::kCard:
      return "on the card";
    case Place::kParking:
      return "parking";
    case Place::kHost:
      return "parked " + format_bytes(bytes);
    case Place::kRestoring:
      return "restoring";
    case Place::kWaiting:
      return "waits for memory";
    case Place::kNone:
      break;
  }
  return "-";
}

std::optional<std::string> name_of(Place place) {
  switch (place) {
    case Place::kCard:
      return "card";
    case Place::kParking:
      return "parking";
    case Place::kHost:
      return "parked";
    case Place::kRestoring:
      return "restoring";
    case Place::kWaiting:
      return "waiting";
    case Place::kNone:
      break;
  }
  return std::nullopt;
}

std::optional<std::string> name_of(Refusal refusal) {
  switch (refusal) {
    case Refusal::kNothing:
      return "nothing";
    case Refusal::kBusy:
      return "busy";
    case Refusal::kCapture:
      return "capture";
    case Refusal::kShared:
      return "shared";
    case Refusal::kManaged:
      return "managed";
    case Refusal::kUnmapped:
      return "unmapped";
    case Refusal::kHostMemory:
      return "host_memory";
    case Refusal::kCardMemory:
      return "card_memory";
    case Refusal::kDriver:
      return "driver";
    case Refusal::kNone:
      break;
  }
  return std::nullopt;
}

std::string explain(Refusal refusal, Move move, Place place, const std::string& process,
                    std::uint64_t bytes) {
  const bool parks = move == Move::kToHost;
  const bool in_part = place == Place::kHost || place == Place::kWaiting;
  const std::string on_card = in_part ? "; the rest stays on the card" : "; stays on the card";
  const std::string stays = parks ? on_card : "; stays parked";
  const std::string again = parks ? "park it again" : "unpark it again";
  switch (refusal) {
    case Refusal::kNothing:
      return process + " holds nothing that could be moved";
    case Refusal::kBusy:
      return process + " has work under way that did not come to an end in time" + stays + "; " +
             again + " when it pauses";
    case Refusal::kCapture:
      return process + " is capturing a stream into a graph, which must not be interrupted" +
             stays + "; " + again + " in a moment";
    case Refusal::kShared:
      return process + " shares memory with other processes, which would lose it" + stays + "; " +
             again + " when it no longer does, or end it";
    case Refusal::kManaged:
      return process + " holds managed memory, which only the driver can move" + stays +
             "; end it to free that";
    case Refusal::kUnmapped:
      return process + " holds memory that is mapped nowhere, so that nobody can copy it" + stays +
             "; " + again + " when it is mapped, or end it";
    case Refusal::kHostMemory:
      return "the host has no memory for " + amount(bytes) + process + stays +
             "; free host memory, then " + again;
    case Refusal::kCardMemory:
      return "the card has no room for " + amount(bytes) + process +
             (place == Place::kWaiting ? "; it is restored when there is some" : stays) +
             "; park or end what holds it (see 'vram ps')" +
             (place == Place::kWaiting ? "" : ", then " + again);
    case Refusal::kDriver:
      return "the driver refused a step of moving " + process + stays +
             "; see whether nvidia-smi works, then " + again;
    case Refusal::kNone:
      break;
  }
  return process + " was not moved" + stays + "; " + again;
}

}  // namespace vram::cli
