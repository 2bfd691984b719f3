// What moves, and where on the host it will lie.

#include <algorithm>
#include <cstring>

#include "base/hold.h"
#include "residency/elastic_memory.h"

namespace vram::residency {

using base::Hold;
using wire::Refusal;

// Whatever is on the cards and is not on the host, when nothing of it has to stay.
Refusal ElasticMemory::list_what_can_move() {
  ordered_ = 0;
  for (Index index = 1; index <= backings_used_; ++index) {
    const Backing& backing = backing_[index];
    if (backing.bytes == 0 || backing.on_host) continue;
    if (backing.shared) return Refusal::kShared;
    if (backing.first_mapping == 0) return Refusal::kUnmapped;
    for (Index at = backing.first_mapping; at != 0; at = mapping_[at].next_of_backing) {
      if (mapping_[at].odd) return Refusal::kShared;
    }
    // Nobody may read it: then nobody may copy it either, until somebody may.
    if (((mapping_[backing.first_mapping].readable >> card_of(backing)) & 1) == 0) {
      return Refusal::kUnmapped;
    }
    order_[ordered_++] = index;
  }
  return Refusal::kNone;
}

// Of what was listed: the largest that fit, so that few are moved, and the smallest that makes up
// for the rest.
void ElasticMemory::pick(std::uint64_t bytes, unsigned card) {
  std::sort(&order_[0], &order_[0] + ordered_, [this](Index a, Index b) {
    const std::uint64_t of_a = backing_[a].bytes, of_b = backing_[b].bytes;
    return of_a != of_b ? of_a > of_b : address_of(a) < address_of(b);
  });
  std::uint32_t picked = 0;
  Index smallest_left = 0;
  for (std::uint32_t i = 0; i < ordered_; ++i) {
    const Backing& backing = backing_[order_[i]];
    if (card_of(backing) != card) continue;
    if (backing.bytes <= bytes) {
      bytes -= backing.bytes;
      order_[picked++] = order_[i];
    } else {
      smallest_left = order_[i];
    }
  }
  if (bytes != 0 && smallest_left != 0) order_[picked++] = smallest_left;
  ordered_ = picked;
}

void ElasticMemory::sort_by_address() {
  std::sort(&order_[0], &order_[0] + ordered_,
            [this](Index a, Index b) { return address_of(a) < address_of(b); });
}

// Neighbours in addresses are neighbours on the host, behind what is there.
void ElasticMemory::lay_out_on_host() {
  host_end_ = 0;
  for (Index index = 1; index <= backings_used_; ++index) {
    const Backing& backing = backing_[index];
    if (backing.bytes == 0 || !backing.on_host) continue;
    host_end_ = std::max(host_end_, backing.host_offset + backing.bytes);
  }
  for (std::uint32_t i = 0; i < ordered_; ++i) {
    Backing& backing = backing_[order_[i]];
    backing.host_offset = host_end_;
    host_end_ += backing.bytes;
  }
}

Refusal ElasticMemory::choose(std::uint64_t bytes, unsigned card) {
  const Hold hold(lock_);
  std::memset(chosen_, 0, sizeof chosen_);
  const Refusal refusal = list_what_can_move();
  if (refusal != Refusal::kNone) {
    ordered_ = 0;
    return refusal;
  }
  const auto add = [this](const Backing& backing) {
    chosen_[card_of(backing)][static_cast<unsigned>(backing.owner)] += backing.bytes;
  };
  // What the driver kept when it was given up goes in any case.
  std::uint64_t kept = 0;
  std::uint64_t kept_of_card = 0;
  for (Index index = 1; index <= backings_used_; ++index) {
    const Backing& backing = backing_[index];
    if (!is_kept(backing)) continue;
    add(backing);
    kept += backing.bytes;
    if (card_of(backing) == card) kept_of_card += backing.bytes;
  }
  if (bytes != kEverything) pick(bytes > kept_of_card ? bytes - kept_of_card : 0, card);
  for (std::uint32_t i = 0; i < ordered_; ++i) add(backing_[order_[i]]);
  sort_by_address();
  lay_out_on_host();
  return ordered_ == 0 && kept == 0 ? Refusal::kNothing : Refusal::kNone;
}

std::uint64_t ElasticMemory::all_bytes() const {
  std::uint64_t all = 0;
  for (unsigned card = 0; card < kMostCards; ++card) {
    all += bytes(card, Owner::kProgram) + bytes(card, Owner::kPool);
  }
  return all;
}

}  // namespace vram::residency
