// cuMemAlloc and its relatives.
//
// A driver carves requests of up to 1 MiB from slabs of 2 MiB and takes whole 2 MiB pieces above
// that (docs/design/driver-behaviour.md). A small request therefore may or may not take a slab, and
// only the address it gets tells which. So from its first small request on the process holds one
// slab in reserve, charged and unused (its "slab credit"): a request is made under it, and pays for
// a slab of its own if it took one. When it cannot pay, it is undone. So the cap holds at every
// moment, for 2 MiB a process and card, and a request that finds room in a slab costs no charge.
//
// A thread that finds the credit lent to another reserves a slab before the call, and gives it up
// again when the address lies in a slab that is already charged.

#include "interpose/block.h"
#include "interpose/capture.h"
#include "interpose/change.h"
#include "interpose/charged.h"
#include "interpose/elastic.h"
#include "interpose/export.h"
#include "interpose/measure.h"
#include "interpose/own_pools.h"
#include "interpose/pins.h"
#include "interpose/pools.h"
#include "interpose/room.h"
#include "interpose/trace.h"
#include "pool/streams.h"

namespace vram::interpose {
namespace {

using driver::real;
using ledger::Account;

constexpr std::uint64_t kSlab = 2 * kMiB;
constexpr std::uint64_t kLargestSmall = kMiB;
constexpr std::uint64_t kManagedPage = 64 << 10;

constexpr std::uint32_t kNoCredit = 0;
constexpr std::uint32_t kCredit = 1;
constexpr std::uint32_t kCreditLent = 2;

std::uint64_t slab_of(std::uint64_t address) { return address / kSlab + 1; }

// True: the slab was not charged before.
bool enter_slab(std::uint64_t address) {
  base::LevelTable::Entry* slab = process().slabs.find_or_insert(slab_of(address));
  return slab == nullptr || slab->value.fetch_add(1, std::memory_order_acq_rel) == 0;
}

// True: that was the slab's last block.
bool leave_slab(std::uint64_t address) {
  base::LevelTable::Entry* slab = process().slabs.find(slab_of(address));
  return slab == nullptr || slab->value.fetch_sub(1, std::memory_order_acq_rel) == 1;
}

void get_credit(const Here& here) {
  std::uint32_t none = kNoCredit;
  std::atomic<std::uint32_t>& credit = here.device->slab_credit;
  if (credit.load(std::memory_order_relaxed) != kNoCredit) return;
  if (!credit.compare_exchange_strong(none, kCreditLent)) return;
  const bool charged = here.device->account.try_charge_credit(kSlab);
  credit.store(charged ? kCredit : kNoCredit, std::memory_order_release);
}

void note(const Here& here, std::uint64_t address, std::uint64_t bytes, Kind kind, bool* kept) {
  const Block block{bytes, here.ordinal, here.context, kind};
  *kept = process().blocks.insert(address, pack(block));
}

// The block is in the table, or the memory has been given back and the answer is out of memory.
CUresult keep_or_free(const Here& here, CUdeviceptr address, std::uint64_t bytes, Kind kind) {
  bool kept = false;
  note(here, address, bytes, kind, &kept);
  if (kept) return CUDA_SUCCESS;
  real.cuMemFree_v2(address);
  return CUDA_ERROR_OUT_OF_MEMORY;
}

template <typename Call>
CUresult take_whole(const Here& here, std::uint64_t bytes, Kind kind, CUdeviceptr* out, Call call) {
  CUdeviceptr address = 0;
  const CUresult result = take_charged(
      *here.device, here.device->account, bytes, part_of(kind), [&] { return call(&address); },
      [&] { return keep_or_free(here, address, bytes, kind) == CUDA_SUCCESS; });
  if (result == CUDA_SUCCESS) *out = address;
  return result;
}

// With a slab reserved. `kept`: whether the reservation became a charge.
template <typename Call>
CUresult take_small_reserved(const Here& here, std::uint64_t bytes, CUdeviceptr* out, Call call) {
  const Account& account = here.device->account;
  CUdeviceptr address = 0;
  CUresult result = call(&address);
  if (result == CUDA_SUCCESS) result = keep_or_free(here, address, bytes, Kind::kSmall);
  if (result == CUDA_SUCCESS && enter_slab(address)) {
    account.add_part(wire::Part::kBlocks, static_cast<std::int64_t>(kSlab));
    account.commit(kSlab);
  } else {
    account.roll_back(kSlab);
  }
  if (result == CUDA_SUCCESS) *out = address;
  return result;
}

// The slab of a new block has to be charged. False: there is no room, and the block is freed again.
// `credit` is what the slab credit is from now on: another block may have come to lie in the slab
// meanwhile, and counts on its charge. Then the credit becomes that.
bool pay_slab(const Account& account, CUdeviceptr address, std::uint32_t* credit) {
  std::uint64_t value = 0;
  const bool room = account.try_reserve(kSlab);
  if (!room) {
    process().blocks.take(address, &value);
    real.cuMemFree_v2(address);
    if (leave_slab(address)) return false;
    *credit = kNoCredit;
    account.add_part(wire::Part::kCredits, -static_cast<std::int64_t>(kSlab));
  }
  account.add_part(wire::Part::kBlocks, static_cast<std::int64_t>(kSlab));
  if (room) account.commit(kSlab);
  return room;
}

// Under the credit. kNotTried: somebody else has it.
enum class Tried { kDone, kUndone, kNotTried };
template <typename Call>
Tried take_small_on_credit(const Here& here, std::uint64_t bytes, CUdeviceptr* out, Call call,
                           CUresult* result) {
  std::atomic<std::uint32_t>& credit = here.device->slab_credit;
  std::uint32_t next = kCredit;
  if (!credit.compare_exchange_strong(next, kCreditLent)) return Tried::kNotTried;
  const Account& account = here.device->account;
  CUdeviceptr address = 0;
  bool done = true;
  {
    const Change change(account);
    *result = call(&address);
    if (*result == CUDA_SUCCESS) *result = keep_or_free(here, address, bytes, Kind::kSmall);
    if (*result == CUDA_SUCCESS && enter_slab(address)) done = pay_slab(account, address, &next);
  }
  if (done && *result == CUDA_SUCCESS) *out = address;
  credit.store(next, std::memory_order_release);
  return done ? Tried::kDone : Tried::kUndone;
}

template <typename Call>
CUresult take_small(const Here& here, std::uint64_t requested, CUdeviceptr* out, Call call) {
  const std::uint64_t bytes = round_up(requested, wire::kGranule);
  const Account& account = here.device->account;
  get_credit(here);
  CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
  if (take_small_on_credit(here, bytes, out, call, &result) == Tried::kDone) return result;
  measure_near_limit(*here.device, kSlab);
  make_room(*here.device, kSlab);
  if (!account.reserve(kSlab)) return CUDA_ERROR_OUT_OF_MEMORY;
  return take_small_reserved(here, bytes, out, call);
}

// More than the card has, or wrong: the driver says what is wrong with the request.
template <typename Call>
CUresult impossible(Call call) {
  CUdeviceptr address = 0;
  const CUresult result = call(&address);
  if (result != CUDA_SUCCESS) return result;
  real.cuMemFree_v2(address);
  return CUDA_ERROR_OUT_OF_MEMORY;
}

// Whether the captures under way forbid this thread a call that allocates: what such a call does to
// them it does here, too.
CUresult forbidden_by_captures(const Account& staying) {
  const Account account = staying.moving();
  if (!may_be_capturing() || !account.try_reserve(kSlab)) return CUDA_SUCCESS;
  CUdeviceptr tried = 0;
  const CUresult result = real.cuMemAlloc_v2(&tried, 1);
  if (result == CUDA_SUCCESS) real.cuMemFree_v2(tried);
  account.roll_back(kSlab);
  const bool forbidden = result == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED ||
                         result == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  return forbidden ? result : CUDA_SUCCESS;
}

// Who may serve a request: addresses of 32 bits are the driver's alone.
enum class Server { kAny, kDriver };

template <typename Call>
CUresult take_governed(std::uint64_t bytes, Server server, CUdeviceptr* out, Call call) {
  Here here{};
  // Nothing to govern, or nothing the driver would grant: it answers with its own error.
  if (bytes == 0 || !locate(&here)) return call(out);
  const std::uint64_t most = here.device->capacity;
  if (most != 0 && bytes > most) return impossible(call);
  pool::Segments* own = server == Server::kAny ? elastic_pool(here.ordinal) : nullptr;
  if (own != nullptr) {
    if (const CUresult no = forbidden_by_captures(here.device->account); no != CUDA_SUCCESS) {
      return no;
    }
    return allocate_in(*own, *here.device, bytes, out, pool::synchronized_stream());
  }
  if (bytes <= kLargestSmall) return take_small(here, bytes, out, call);
  return take_whole(here, round_up(bytes, kSlab), Kind::kWhole, out, call);
}

// `asked` is noted; `bytes` is what the driver is expected to take.
template <typename Call>
CUresult take(const Taking& asked, std::uint64_t bytes, CUdeviceptr* out, Call call) {
  if (out == nullptr) return call(out);
  Here here{};
  if (is_elastic() && locate(&here)) {
    const auto attempt = [&] { return take_governed(bytes, Server::kAny, out, call); };
    const bool moves = elastic_pool(here.ordinal) != nullptr;
    return noted(moves ? with_room(*here.device, bytes, attempt)
                       : with_room_to_stay(*here.device, round_up(bytes, kSlab), attempt),
                 asked, out);
  }
  const residency::Through through;
  return noted(take_governed(bytes, Server::kAny, out, call), asked, out);
}

void settle_freed(const Account& account, std::uint64_t address, const Block& block) {
  if (block.kind == Kind::kArray) {
    forget_array(block);
    account.keep(block.bytes);
    return;
  }
  if (block.kind == Kind::kSmall) {
    if (!leave_slab(address)) {
      account.keep(kSlab);
      return;
    }
    account.add_part(wire::Part::kBlocks, -static_cast<std::int64_t>(kSlab));
    account.end_release(kSlab);
    return;
  }
  account.add_part(part_of(block.kind), -static_cast<std::int64_t>(block.bytes));
  account.end_release(block.bytes);
  if (block.kind == Kind::kManaged) publish_pins();
}

// The driver may give the memory back later (a stream-ordered free), or somebody else may hold it
// now (see measure.h): what is charged follows the card.
void settle_by_card(const Account& account, std::uint64_t address, const Block& block) {
  Device& device = process().device[block.device];
  // Where nobody tells what the card holds, nobody would ever tell that it has gone.
  if (!measurable(device)) return settle_freed(account, address, block);
  const bool small = block.kind == Kind::kSmall;
  const std::uint64_t bytes = small ? kSlab : block.bytes;
  const bool last = !small || leave_slab(address);
  if (last) orphan(device, part_of(block.kind), bytes);
  account.keep(bytes);
  if (block.kind == Kind::kManaged) publish_pins();
  if (!last) return;
  if (shares_memory()) return measure_shared();
  remeasure_orphans();
}

void settle_freed_now(const Account& account, std::uint64_t address, const Block& block) {
  return shares_memory() ? settle_by_card(account, address, block)
                         : settle_freed(account, address, block);
}

// `on` is what the free waits for, null for nothing. `settle` says when the charge goes;
// `unknown` is called after the free of an address that is not in the table.
template <typename Call, typename Settle, typename Unknown>
CUresult give_back(std::uint64_t address, const OnStream* on, Call bare, Settle settle,
                   Unknown unknown) {
  Guard guard;
  std::uint64_t value = 0;
  if (guard.nested() || address == 0) return bare();
  if (ends_parked()) return CUDA_SUCCESS;
  const residency::Through through;
  const auto call = [&] { return freed(KeySpace::kAddress, address, on, bare); };
  // Out of the table before the driver can hand the same address to another thread.
  if (!process().blocks.take(address, &value)) {
    const CUresult result = call();
    if (result == CUDA_SUCCESS) unknown();
    return result;
  }
  const Block block = unpack_block(value);
  const Account& account = process().device[block.device].account;
  const std::uint64_t pending = block.kind == Kind::kSmall ? kSlab : block.bytes;
  account.begin_release(pending);
  const CUresult result = call();
  if (result != CUDA_SUCCESS) {
    (void)process().blocks.insert(address, value);
    account.keep(pending);
    return result;
  }
  settle(account, address, block);
  return result;
}

template <typename Call>
CUresult give_back_now(std::uint64_t address, Call call) {
  // Stream-ordered memory may be freed this way too.
  return give_back(address, nullptr, call, settle_freed_now, reconcile_pools);
}

template <typename Call>
CUresult give_back_in_order(std::uint64_t address, const OnStream& on, Call call) {
  // The memory of a pool goes back at a synchronisation, where pools are reconciled.
  return give_back(address, &on, call, settle_by_card, [] {});
}

// A free in a capture happens whenever its graph runs, which nobody tells: the block stays.
CUresult free_own(CUdeviceptr address, CUstream stream, bool captured) {
  if (captured || free_in_own_pool(address, stream)) return CUDA_SUCCESS;
  return CUDA_ERROR_INVALID_VALUE;
}

// Rows of a pitched allocation begin on 512-byte boundaries on every card so far.
constexpr std::uint64_t kPitch = 512;

bool is_element(unsigned bytes) { return bytes == 4 || bytes == 8 || bytes == 16; }

std::uint64_t pitched_bytes(std::size_t width, std::size_t height) {
  const std::uint64_t pitch = round_up(width, kPitch);
  return height != 0 && pitch > ~std::uint64_t{0} / height ? ~std::uint64_t{0} : pitch * height;
}

}  // namespace

void forget_context(std::uint32_t device, std::uint32_t context) {
  Process& self = process();
  self.blocks.for_each([&](std::uint64_t address, std::uint64_t value) {
    const Block block = unpack_block(value);
    if (block.device != device || block.context != context) return;
    if (!self.blocks.take(address, &value)) return;
    const Account& account = self.device[device].account;
    account.begin_release(block.kind == Kind::kSmall ? kSlab : block.bytes);
    settle_freed(account, address, block);
  });
}

}  // namespace vram::interpose

using namespace vram::interpose;
using vram::driver::real;

VRAM_EXPORT CUresult cuMemAlloc_v2(CUdeviceptr* dptr, size_t bytesize) {
  VRAM_ENTER(cuMemAlloc_v2, dptr, bytesize);
  return take({Way::kAlloc, bytesize}, bytesize, dptr,
              [&](CUdeviceptr* out) { return real.cuMemAlloc_v2(out, bytesize); });
}

VRAM_EXPORT CUresult cuMemAllocPitch_v2(CUdeviceptr* dptr, size_t* pitch, size_t width,
                                        size_t height, unsigned element) {
  VRAM_ENTER(cuMemAllocPitch_v2, dptr, pitch, width, height, element);
  const Taking asked{Way::kPitch, width * height};
  const auto call = [&](CUdeviceptr* out) {
    return real.cuMemAllocPitch_v2(out, pitch, width, height, element);
  };
  // Nothing that a driver would grant: it says so itself.
  if (pitch == nullptr || width == 0 || height == 0 || !is_element(element)) return call(dptr);
  const CUresult result = take(asked, pitched_bytes(width, height), dptr, call);
  if (result == CUDA_SUCCESS && is_in_own_pool(*dptr)) *pitch = round_up(width, kPitch);
  return result;
}

VRAM_EXPORT CUresult cuMemAllocManaged(CUdeviceptr* dptr, size_t bytesize, unsigned flags) {
  VRAM_ENTER(cuMemAllocManaged, dptr, bytesize, flags);
  const auto call = [&](CUdeviceptr* out) { return real.cuMemAllocManaged(out, bytesize, flags); };
  Here here{};
  if (dptr == nullptr || bytesize == 0 || !locate(&here)) {
    const vram::residency::Through through;
    return call(dptr);
  }
  const bool known = flags == CU_MEM_ATTACH_GLOBAL || flags == CU_MEM_ATTACH_HOST;
  const Taking asked{Way::kManaged, bytesize};
  const std::uint64_t bytes = round_up(bytesize, kManagedPage);
  if (known && !may_stay(*here.device, here.device->account, bytes))
    return CUDA_ERROR_OUT_OF_MEMORY;
  return pinning([&] {
    if (!known) return impossible(call);
    return noted(take_whole(here, bytes, Kind::kManaged, dptr, call), asked, dptr);
  });
}

VRAM_EXPORT CUresult cuMemFree_v2(CUdeviceptr dptr) {
  VRAM_LOADED(cuMemFree_v2);
  return give_back_now(dptr, [&] {
    return is_in_own_pool(dptr) ? free_in_own_pool_now(dptr) : real.cuMemFree_v2(dptr);
  });
}

VRAM_EXPORT CUresult cuMemFreeAsync(CUdeviceptr dptr, CUstream stream) {
  VRAM_LOADED(cuMemFreeAsync);
  return give_back_in_order(dptr, {stream, stream_id}, [&] {
    if (!is_in_own_pool(dptr) || !has_context(stream)) return real.cuMemFreeAsync(dptr, stream);
    const bool captured = is_known_capturing(real.cuStreamIsCapturing, stream);
    return free_own(dptr, named_stream(stream), captured);
  });
}

VRAM_EXPORT CUresult cuMemFreeAsync_ptsz(CUdeviceptr dptr, CUstream stream) {
  VRAM_LOADED(cuMemFreeAsync_ptsz);
  return give_back_in_order(dptr, {stream, stream_id_per_thread}, [&] {
    if (!is_in_own_pool(dptr) || !has_context(stream)) {
      return real.cuMemFreeAsync_ptsz(dptr, stream);
    }
    const bool captured = is_known_capturing(real.cuStreamIsCapturing_ptsz, stream);
    return free_own(dptr, named_stream_per_thread(stream), captured);
  });
}

// CUDA 2's versions, with 32-bit addresses and sizes.

namespace {

template <typename Call>
CUresult take_narrow(const Taking& asked, std::uint64_t bytes, CUdeviceptr_v1* dptr, Call call) {
  if (dptr == nullptr) return call(nullptr);
  CUdeviceptr wide = 0;
  const vram::residency::Through through;
  const CUresult taken = take_governed(bytes, Server::kDriver, &wide, [&](CUdeviceptr* out) {
    CUdeviceptr_v1 narrow = 0;
    const CUresult answer = call(&narrow);
    *out = narrow;
    return answer;
  });
  const CUresult result = noted(taken, asked, &wide);
  if (result == CUDA_SUCCESS) *dptr = static_cast<CUdeviceptr_v1>(wide);
  return result;
}

}  // namespace

VRAM_EXPORT CUresult cuMemAlloc(CUdeviceptr_v1* dptr, unsigned bytesize) {
  VRAM_ENTER(cuMemAlloc, dptr, bytesize);
  return take_narrow({Way::kAlloc, bytesize}, bytesize, dptr,
                     [&](CUdeviceptr_v1* out) { return real.cuMemAlloc(out, bytesize); });
}

VRAM_EXPORT CUresult cuMemAllocPitch(CUdeviceptr_v1* dptr, unsigned* pitch, unsigned width,
                                     unsigned height, unsigned element) {
  VRAM_ENTER(cuMemAllocPitch, dptr, pitch, width, height, element);
  const Taking asked{Way::kPitch, std::uint64_t{width} * height};
  return take_narrow(asked, pitched_bytes(width, height), dptr, [&](CUdeviceptr_v1* out) {
    return real.cuMemAllocPitch(out, pitch, width, height, element);
  });
}

VRAM_EXPORT CUresult cuMemFree(CUdeviceptr_v1 dptr) {
  VRAM_LOADED(cuMemFree);
  return give_back_now(dptr, [&] { return real.cuMemFree(dptr); });
}
