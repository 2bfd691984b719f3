// Objects that several processes hold, and the repair of what is derived from rows and holds.
#include "sim/lifeline.h"
#include "sim/machine.h"
#include "sim/machine_guard.h"
#include "sim/machine_layout.h"

namespace vram::sim {

uint64_t Machine::new_object() {
  Guard guard(*this);
  return layout_->next_object++;
}

Machine::HoldStatus Machine::add_hold(uint64_t object, int card, uint64_t bytes, bool paying,
                                      int keeper) {
  for (uint32_t i = 0; i < kMaxHolds; ++i) {
    Hold& hold = layout_->holds[i];
    if (hold.object != 0) continue;
    if (layout_->hold_limit <= i) layout_->hold_limit = i + 1;
    hold.bytes = bytes;
    hold.order = layout_->next_order++;
    hold.row = row_;
    hold.card = static_cast<uint16_t>(card);
    hold.paying = paying ? 1 : 0;
    hold.keeper = keeper;
    __atomic_store_n(&hold.object, object, __ATOMIC_RELEASE);
    if (paying) {
      layout_->rows[row_].shared[card] += bytes;
      layout_->cards[card].used += bytes;
    }
    return HoldStatus::kOk;
  }
  return HoldStatus::kNoRoom;
}

bool Machine::share(uint64_t object, int card, uint64_t bytes) {
  Guard guard(*this);
  keep_row();
  if (add_hold(object, card, bytes, true) != HoldStatus::kOk) return false;
  own_[card] -= bytes;
  layout_->rows[row_].own[card] -= bytes;
  layout_->cards[card].used -= bytes;
  return true;
}

Machine::HoldStatus Machine::join(uint64_t object) {
  for (uint32_t i = 0; i < layout_->hold_limit; ++i) {
    const Hold& other = layout_->holds[i];
    if (other.object == object) return add_hold(object, other.card, other.bytes, false);
  }
  return HoldStatus::kNoSuchObject;
}

Machine::HoldStatus Machine::hold(uint64_t object) {
  Guard guard(*this);
  keep_row();
  sweep_dead();
  return join(object);
}

Machine::HoldStatus Machine::hold_or_create(uint64_t object, int card, uint64_t bytes) {
  Guard guard(*this);
  keep_row();
  sweep_dead();
  const HoldStatus status = join(object);
  if (status != HoldStatus::kNoSuchObject) return status;
  if (!take(card, bytes)) return HoldStatus::kNoRoom;
  return add_hold(object, card, bytes, true);
}

bool Machine::drop(uint64_t object) {
  Guard guard(*this);
  keep_row();
  bool others = false;
  for (uint32_t i = 0; i < layout_->hold_limit; ++i) {
    if (layout_->holds[i].object != object) continue;
    if (layout_->holds[i].row == row_ && layout_->holds[i].keeper == kNoKeeper) {
      drop_hold(i);
    } else {
      others = true;
    }
  }
  return !others;
}

bool Machine::held_by_others(uint64_t object) {
  Guard guard(*this);
  sweep_dead();
  for (uint32_t i = 0; i < layout_->hold_limit; ++i) {
    const Hold& hold = layout_->holds[i];
    const bool own = hold.row == row_ && hold.keeper == kNoKeeper;
    if (hold.object == object && !own) return true;
  }
  return false;
}

bool Machine::hold_while_open(uint64_t object, int keeper) {
  Guard guard(*this);
  keep_row();
  for (uint32_t i = 0; i < layout_->hold_limit; ++i) {
    const Hold own = layout_->holds[i];
    if (own.object != object || own.row != row_) continue;
    return add_hold(object, own.card, own.bytes, false, keeper) == HoldStatus::kOk;
  }
  return false;
}

void Machine::end_closed_holds() {
  Guard guard(*this);
  drop_closed_holds();
}

void Machine::drop_closed_holds() {
  for (uint32_t i = 0; i < layout_->hold_limit; ++i) {
    const Hold& hold = layout_->holds[i];
    if (hold.object == 0 || hold.keeper == kNoKeeper) continue;
    if (!is_given_open(layout_->heads[hold.row].pid, hold.keeper)) drop_hold(i);
  }
}

void Machine::drop_hold(uint32_t index) {
  Hold& hold = layout_->holds[index];
  const uint64_t object = hold.object;
  __atomic_store_n(&hold.object, uint64_t{0}, __ATOMIC_RELEASE);
  if (hold.paying == 0) return;
  layout_->rows[hold.row].shared[hold.card] -= hold.bytes;
  layout_->cards[hold.card].used -= hold.bytes;
  Hold* heir = nullptr;
  for (uint32_t i = 0; i < layout_->hold_limit; ++i) {
    Hold& other = layout_->holds[i];
    if (other.object == object && (heir == nullptr || other.order < heir->order)) heir = &other;
  }
  if (heir == nullptr) return;
  heir->paying = 1;
  layout_->rows[heir->row].shared[heir->card] += heir->bytes;
  layout_->cards[heir->card].used += heir->bytes;
}

void Machine::recompute() {
  for (uint32_t card = 0; card < layout_->card_count; ++card) layout_->cards[card].used = 0;
  for (uint32_t i = 0; i < layout_->row_limit; ++i) {
    ProcessRow& row = layout_->rows[i];
    for (uint32_t card = 0; card < layout_->card_count; ++card) {
      row.shared[card] = 0;
      if (layout_->heads[i].in_use != 0) layout_->cards[card].used += row.own[card];
    }
  }
  for (uint32_t i = 0; i < layout_->hold_limit; ++i) {
    Hold& hold = layout_->holds[i];
    if (hold.object != 0 && layout_->heads[hold.row].in_use == 0) hold.object = 0;
    hold.paying = 0;
  }
  for (uint32_t i = 0; i < layout_->hold_limit; ++i) {
    if (layout_->holds[i].object == 0) continue;
    Hold* payer = &layout_->holds[i];
    for (uint32_t j = 0; j < layout_->hold_limit; ++j) {
      Hold& other = layout_->holds[j];
      if (other.object == payer->object && other.order < payer->order) payer = &other;
    }
    if (payer->paying != 0) continue;
    payer->paying = 1;
    layout_->rows[payer->row].shared[payer->card] += payer->bytes;
    layout_->cards[payer->card].used += payer->bytes;
  }
}

}  // namespace vram::sim
