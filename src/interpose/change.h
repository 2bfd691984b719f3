#pragma once

#include "ledger/ledger.h"

namespace vram::interpose {

// While one lives, what this process holds on the card may differ from what it is charged for, and
// no charge under way says so. What anybody measures meanwhile is not used (see measure.h).
//
// The other way to say it is a pending charge. In both cases the parts are brought up to date
// before the end.
class Change {
 public:
  explicit Change(const ledger::Account& account) : account_(account) {
    account_.begin_release(wire::kGranule);
  }
  ~Change() { account_.keep(wire::kGranule); }
  Change(const Change&) = delete;
  Change& operator=(const Change&) = delete;

 private:
  const ledger::Account& account_;
};

}  // namespace vram::interpose
