#pragma once

// How much device memory a job holds, and whether it may take more.
//
// A charge is made before the driver is asked and settled after it answered:
//
//     reserve -> driver call -> commit            (or roll_back when the driver
//     refused) begin_release -> driver call -> end_release (or keep when the
//     driver refused)
//
// Between the two the bytes are *pending*: they count against the limit, and a
// request that does not fit only because of them waits for them to settle
// instead of being refused. A request is refused when it would not fit even if
// everything pending were given back.
//
// A process that dies leaves its share; whoever is about to refuse first reaps
// the dead.
//
// Hot path (a request that fits): two 16-byte swaps and an atomic addition, as
// for a release; no lock, allocation or system call. All byte counts are
// rounded up to wire::kGranule, so a caller passes the same numbers to the
// calls that settle as to the call that began.
//
// Threads: any number, in any number of processes. Nothing here throws or
// allocates.

#include <cstdint>

#include "ledger/slots.h"
#include "ledger/world.h"
#include "wire/job_layout.h"

namespace vram::ledger {

struct Usage {
  std::uint64_t used;     // bytes, pending ones included
  std::uint64_t limit;    // bytes; wire::kUnlimited: none
  std::uint64_t peak;     // bytes
  std::uint64_t denials;  // requests
};

// One process's view of one device's account. Copyable; refers to the mapped
// job.
class Account {
 public:
  Account() = default;
  Account(wire::Job* job, std::uint32_t device, std::uint32_t slot, const World* world)
      : job_(job), world_(world), device_(device), slot_(slot) {}

  // The same account, for charges of memory that can be moved to the host. Every charge ends the
  // way it began. See fixed.h.
  [[nodiscard]] Account moving() const {
    Account account = *this;
    account.moves_ = true;
    return account;
  }
  [[nodiscard]] bool moves() const { return moves_; }

  explicit operator bool() const { return job_ != nullptr; }
  std::uint32_t device() const { return device_; }
  std::uint32_t slot() const { return slot_; }

  // True: the bytes are charged and pending. False: over the limit; counted as
  // a denial.
  [[nodiscard]] bool reserve(std::uint64_t bytes) const;
  void commit(std::uint64_t bytes) const;
  void roll_back(std::uint64_t bytes) const;

  void begin_release(std::uint64_t bytes) const;
  void end_release(std::uint64_t bytes) const;
  void keep(std::uint64_t bytes) const;

  // Reserve without refusing and without counting a denial: for a caller that
  // has another way.
  [[nodiscard]] bool try_reserve(std::uint64_t bytes) const;

  // Memory that is already taken, found by measuring: charged even over the
  // limit.
  void charge(std::uint64_t bytes) const;
  void uncharge(std::uint64_t bytes) const;
  // Of what was charged as moving: nobody can move it any more. It is uncharged like what stays.
  void settle_down(std::uint64_t bytes) const;
  // Whether `more` bytes would be within what the job may hold that nobody can move: fixed.h. What
  // moves always is. A reservation that is not is refused.
  [[nodiscard]] bool may_stay(std::uint64_t more) const;
  // How much a reservation may have at the moment, bytes.
  std::uint64_t left() const;

  // Charged ahead of use: see credits.h.
  [[nodiscard]] bool try_charge_credit(std::uint64_t bytes) const;
  void uncharge_credit(std::uint64_t bytes) const;

  void add_part(wire::Part part, std::int64_t bytes) const;
  std::uint64_t part(wire::Part part) const;
  [[nodiscard]] bool swap_part(wire::Part part, std::uint64_t from, std::uint64_t to) const;

  // Part kContext and what was measured beside it.
  std::uint64_t context_bytes() const;

  Usage usage() const;
  std::uint64_t own_bytes() const;    // this process's share
  std::uint64_t own_pending() const;  // of calls of this process under way

  // Two marks that are `still` and equal enclose a time in which no call of the slot's process was
  // under way.
  struct Mark {
    std::uint64_t committed;
    std::uint64_t released;
    bool still;
    bool operator==(const Mark&) const = default;
  };
  Mark mark() const;
  wire::DeviceAccount& record() const { return job_->device[device_]; }

 private:
  bool settle_and_add(std::uint64_t bytes) const;
  void count_fixed(std::uint64_t count, std::int64_t sign) const;
  wire::Cell& cell() const { return job_->cell[device_][slot_]; }

  wire::Job* job_ = nullptr;
  const World* world_ = nullptr;
  std::uint32_t device_ = 0;
  std::uint32_t slot_ = 0;
  bool moves_ = false;
};

// What was measured of a process beside its calls becomes `to`, also over the
// limit. Any process of the job may measure any other: the charges a process
// makes itself are left alone. False, and nothing changes, when it is not
// `from` any more, the figure before the measurement, or when `owner` no longer
// sits in the slot.
bool measure_beside(wire::Job& job, std::uint32_t device, std::uint32_t slot, const Owner& owner,
                    std::uint64_t from, std::uint64_t to);
std::uint64_t beside_bytes(const wire::Job& job, std::uint32_t device, std::uint32_t slot);

// What `slot` holds on `device`, bytes, measured and charged; exact at some
// moment during the call.
std::uint64_t share_bytes(const wire::Job& job, std::uint32_t device, std::uint32_t slot);
std::uint64_t total_bytes(const wire::Job& job, std::uint32_t device);

// Gives back what dead processes held. Returns how many slots were freed. Any
// number of callers at once, each of which may die at any point: the next one
// finishes.
std::uint32_t reap(wire::Job& job, const World& world);

}  // namespace vram::ledger
