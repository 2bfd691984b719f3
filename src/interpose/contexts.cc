// Contexts: what they cost is measured, and what was allocated in one goes with it.
//
// A context's price on a card is known once somebody measured it, and is reserved before one is
// made. Until then more is reserved, and given back after the measurement. A context that costs
// more than the limit has left is taken down again.

#include "base/hold.h"
#include "interpose/block.h"
#include "interpose/change.h"
#include "interpose/export.h"
#include "interpose/measure.h"
#include "interpose/own_pools.h"
#include "interpose/pools.h"
#include "interpose/priced.h"
#include "interpose/room.h"
#include "interpose/trace.h"

namespace vram::interpose {
namespace {

using driver::real;
using ledger::Account;

// The driver keeps a stack of this size for every thread until somebody asks for another.
constexpr std::uint64_t kDefaultStack = 1024;

std::uint64_t known_price(const Device& device) {
  return device.account.record().context_bytes.load(std::memory_order_relaxed);
}

// More than a context costs on any card so far; what one costs that cannot be measured.
constexpr std::uint64_t kMoreThanAny = 1024 * kMiB;
constexpr std::uint64_t kUnmeasured = 512 * kMiB;
// More than a green one costs beside the primary.
constexpr std::uint64_t kGreen = 64 * kMiB;

// Reserves what a context will cost: its price, or as long as nobody in the job has measured it,
// more than any so far, or all that is left. False: refused.
bool reserve_price(const Device& device, std::uint64_t* reserved) {
  const Account& account = device.account;
  *reserved = known_price(device);
  if (*reserved != 0) return account.reserve(*reserved);
  *reserved = kMoreThanAny;
  while (!account.try_reserve(*reserved)) {
    const std::uint64_t left = least(account.left(), kMoreThanAny) / wire::kGranule;
    *reserved = left * wire::kGranule;
    // Nothing is left: refused, and counted as a refusal.
    if (*reserved == 0) return account.reserve(kUnmeasured);
  }
  return true;
}

void learn_price(const Device& device, std::uint64_t bytes) {
  std::uint64_t unknown = 0;
  if (bytes > 0) device.account.record().context_bytes.compare_exchange_strong(unknown, bytes);
}

// A context was made and `price` is charged for it, `before` for everything like it until then.
void settle_price(Device& device, std::uint64_t before, std::uint64_t price) {
  if (measure(device)) {
    const std::uint64_t after = device.account.context_bytes();
    if (after > before) learn_price(device, after - before);
  } else if (price > kUnmeasured) {
    device.account.add_part(wire::Part::kContext, static_cast<std::int64_t>(kUnmeasured) -
                                                      static_cast<std::int64_t>(price));
    device.account.uncharge(price - kUnmeasured);
  }
}

// `make` makes a context on the device, `unmake` takes the one it made down again, `note` notes one
// that is there to stay.
template <typename Make, typename Unmake, typename Note>
CUresult make_context(Device& device, Make make, Unmake unmake, Note note) {
  const Account& account = device.account;
  const std::uint64_t known = known_price(device);
  const std::uint64_t expected = known != 0 ? known : kUnmeasured;
  // Where it may not, what may stay decides, when it has been measured.
  (void)may_stay(device, account, expected);
  const CUresult result = with_room(device, expected, [&] {
    std::uint64_t price = 0;
    if (!reserve_price(device, &price)) return CUDA_ERROR_OUT_OF_MEMORY;
    const std::uint64_t before = account.context_bytes();
    const CUresult made = make();
    if (made != CUDA_SUCCESS) {
      account.roll_back(price);
      return made;
    }
    account.add_part(wire::Part::kContext, static_cast<std::int64_t>(price));
    account.commit(price);
    settle_price(device, before, price);
    return made;
  });
  if (result != CUDA_SUCCESS) return result;
  if (!is_too_much(device)) {
    note();
    return result;
  }
  unmake();
  measure(device);
  return CUDA_ERROR_OUT_OF_MEMORY;
}

// Takes a context's value out of the table, before the driver can use its handle again.
std::uint64_t leave(CUcontext context) {
  base::LevelTable::Entry* entry =
      joined() ? process().contexts.find(reinterpret_cast<std::uint64_t>(context)) : nullptr;
  return entry == nullptr ? 0 : entry->value.exchange(0, std::memory_order_acq_rel);
}

void stay(CUcontext context, std::uint64_t value) {
  base::LevelTable::Entry* entry =
      process().contexts.find(reinterpret_cast<std::uint64_t>(context));
  if (entry != nullptr) entry->value.store(value, std::memory_order_release);
}

void settle_gone(std::uint32_t ordinal, std::uint64_t price) {
  Device& device = process().device[ordinal];
  device.stack_bytes.store(0, std::memory_order_relaxed);
  reconcile_pools();
  // The process may have left the card's list.
  settle_priced(device, price);
}

void forget(std::uint32_t ordinal, std::uint32_t context) {
  if (is_traced()) note_context_end(ordinal, context);
  forget_context(ordinal, context);
  forget_imports(ordinal, context);
}

// `ended` says whether the context is gone after a call that succeeded.
template <typename Call, typename Ended>
CUresult end(CUcontext context, Call call, Ended ended) {
  const std::uint64_t value = leave(context);
  if (value == 0) return call();
  const auto ordinal = static_cast<std::uint32_t>(value & 0x7f);
  Device& device = process().device[ordinal];
  CUresult result = CUDA_SUCCESS;
  bool gone = false;
  {
    const base::Hold hold(process().ending_context);
    const Change change(device.account);
    result = call();
    gone = result == CUDA_SUCCESS && ended();
    if (gone) {
      forget(ordinal, static_cast<std::uint32_t>(value >> 8));
      close_own_pool(ordinal, context);
    }
    if (!gone) stay(context, value);
  }
  if (gone) settle_gone(ordinal, known_price(device));
  return result;
}

template <typename Call>
CUresult destroy(CUcontext context, Call call) {
  return end(context, call, [] { return true; });
}

bool primary_alive(CUdevice ordinal) {
  unsigned flags = 0;
  int active = 0;
  return real.cuDevicePrimaryCtxGetState(ordinal, &flags, &active) == CUDA_SUCCESS && active != 0;
}

// Release and reset end the primary context when nobody holds it any more.
template <typename Call>
CUresult end_primary(CUdevice ordinal, Call call) {
  const Device* device = device_at(ordinal);
  if (device == nullptr) return call();
  CUcontext const context = device->primary.load(std::memory_order_acquire);
  return end(context, call, [ordinal] { return !primary_alive(ordinal); });
}

void note_primary(Device& device, CUcontext context, CUdevice ordinal) {
  (void)note_context(context, ordinal);
  device.primary.store(context, std::memory_order_release);
}

CUresult retain_primary(Device& device, CUcontext* context, CUdevice ordinal) {
  if (primary_alive(ordinal)) {
    const CUresult result = real.cuDevicePrimaryCtxRetain(context, ordinal);
    if (result == CUDA_SUCCESS) note_primary(device, *context, ordinal);
    return result;
  }
  return make_context(
      device, [&] { return real.cuDevicePrimaryCtxRetain(context, ordinal); },
      [&] { return real.cuDevicePrimaryCtxRelease_v2(ordinal); },
      [&] { note_primary(device, *context, ordinal); });
}

// The context that a green one is to the calls that take any; null for none.
CUcontext context_of(CUgreenCtx green) {
  CUcontext context = nullptr;
  const bool found =
      real.cuCtxFromGreenCtx != nullptr && real.cuCtxFromGreenCtx(&context, green) == CUDA_SUCCESS;
  return found ? context : nullptr;
}

// What is allocated in a green context belongs to the primary one, so both have the same value.
void note_green(CUgreenCtx green, std::uint64_t value) {
  CUcontext const context = context_of(green);
  if (context == nullptr) return;
  base::LevelTable::Entry* entry =
      process().contexts.find_or_insert(reinterpret_cast<std::uint64_t>(context));
  if (entry != nullptr) entry->value.store(value, std::memory_order_release);
}

// What a green context costs is not known before, so it is made, measured and, where it does not
// fit, taken down again.
template <typename Call>
CUresult make_green(Device& device, CUgreenCtx* green, std::uint64_t value, Call call) {
  CUgreenCtx made = nullptr;
  const CUresult result = with_room_to_stay(device, kGreen, [&] { return call(&made); });
  if (result != CUDA_SUCCESS) return result;
  measure(device);
  if (is_too_much(device)) {
    real.cuGreenCtxDestroy(made);
    measure(device);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  note_green(made, value);
  *green = made;
  return result;
}

CUresult set_stack(Device& device, CUlimit limit, std::size_t value) {
  const Account& account = device.account;
  std::uint64_t current = device.stack_bytes.load(std::memory_order_relaxed);
  if (current == 0) current = kDefaultStack;
  const std::uint64_t more = value > current ? (value - current) * device.threads : 0;
  if (value > ~std::uint64_t{0} / (device.threads + 1)) return CUDA_ERROR_OUT_OF_MEMORY;
  const CUresult result = with_room_to_stay(device, more, [&] {
    make_room(device, more);
    if (!account.reserve(more)) return CUDA_ERROR_OUT_OF_MEMORY;
    const CUresult set = real.cuCtxSetLimit(limit, value);
    if (set != CUDA_SUCCESS) account.roll_back(more);
    return set;
  });
  if (result != CUDA_SUCCESS) return result;
  account.add_part(wire::Part::kContext, static_cast<std::int64_t>(more));
  account.commit(more);
  device.stack_bytes.store(value, std::memory_order_relaxed);
  measure(device);
  return result;
}

}  // namespace
}  // namespace vram::interpose

using namespace vram::interpose;
using vram::driver::real;

VRAM_EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice ordinal) {
  VRAM_ENTER(cuDevicePrimaryCtxRetain, context, ordinal);
  Device* device = device_at(ordinal);
  if (device == nullptr || context == nullptr) {
    return real.cuDevicePrimaryCtxRetain(context, ordinal);
  }
  return retain_primary(*device, context, ordinal);
}

VRAM_EXPORT CUresult cuDevicePrimaryCtxRelease(CUdevice ordinal) {
  VRAM_PASS_BACK(cuDevicePrimaryCtxRelease, ordinal);
  return end_primary(ordinal, [&] { return real.cuDevicePrimaryCtxRelease(ordinal); });
}

VRAM_EXPORT CUresult cuDevicePrimaryCtxRelease_v2(CUdevice ordinal) {
  VRAM_PASS_BACK(cuDevicePrimaryCtxRelease_v2, ordinal);
  return end_primary(ordinal, [&] { return real.cuDevicePrimaryCtxRelease_v2(ordinal); });
}

VRAM_EXPORT CUresult cuDevicePrimaryCtxReset(CUdevice ordinal) {
  VRAM_PASS_BACK(cuDevicePrimaryCtxReset, ordinal);
  return end_primary(ordinal, [&] { return real.cuDevicePrimaryCtxReset(ordinal); });
}

VRAM_EXPORT CUresult cuDevicePrimaryCtxReset_v2(CUdevice ordinal) {
  VRAM_PASS_BACK(cuDevicePrimaryCtxReset_v2, ordinal);
  return end_primary(ordinal, [&] { return real.cuDevicePrimaryCtxReset_v2(ordinal); });
}

#define VRAM_MAKE_CONTEXT(symbol, out, ordinal, ...)                        \
  VRAM_ENTER(symbol, __VA_ARGS__);                                          \
  Device* device = device_at(ordinal);                                      \
  if (device == nullptr || out == nullptr) return real.symbol(__VA_ARGS__); \
  return make_context(                                                      \
      *device, [&] { return real.symbol(__VA_ARGS__); },                    \
      [&] { return real.cuCtxDestroy_v2(*out); }, [&] { (void)note_context(*out, ordinal); })

VRAM_EXPORT CUresult cuCtxCreate(CUcontext* context, unsigned flags, CUdevice ordinal) {
  VRAM_MAKE_CONTEXT(cuCtxCreate, context, ordinal, context, flags, ordinal);
}

VRAM_EXPORT CUresult cuCtxCreate_v2(CUcontext* context, unsigned flags, CUdevice ordinal) {
  VRAM_MAKE_CONTEXT(cuCtxCreate_v2, context, ordinal, context, flags, ordinal);
}

VRAM_EXPORT CUresult cuCtxCreate_v3(CUcontext* context, CUexecAffinityParam* affinity, int count,
                                    unsigned flags, CUdevice ordinal) {
  VRAM_MAKE_CONTEXT(cuCtxCreate_v3, context, ordinal, context, affinity, count, flags, ordinal);
}

VRAM_EXPORT CUresult cuCtxCreate_v4(CUcontext* context, CUctxCreateParams* params, unsigned flags,
                                    CUdevice ordinal) {
  VRAM_MAKE_CONTEXT(cuCtxCreate_v4, context, ordinal, context, params, flags, ordinal);
}

VRAM_EXPORT CUresult cuCtxDestroy(CUcontext context) {
  VRAM_PASS_BACK(cuCtxDestroy, context);
  return destroy(context, [&] { return real.cuCtxDestroy(context); });
}

VRAM_EXPORT CUresult cuCtxDestroy_v2(CUcontext context) {
  VRAM_PASS_BACK(cuCtxDestroy_v2, context);
  return destroy(context, [&] { return real.cuCtxDestroy_v2(context); });
}

VRAM_EXPORT CUresult cuGreenCtxCreate(CUgreenCtx* context, CUdevResourceDesc resources,
                                      CUdevice ordinal, unsigned flags) {
  VRAM_ENTER(cuGreenCtxCreate, context, resources, ordinal, flags);
  Device* device = device_at(ordinal);
  if (device == nullptr || context == nullptr) {
    return real.cuGreenCtxCreate(context, resources, ordinal, flags);
  }
  // It retains the primary context, which has a price of its own.
  CUcontext primary = nullptr;
  if (const CUresult result = retain_primary(*device, &primary, ordinal); result != CUDA_SUCCESS) {
    return result;
  }
  const CUresult result = make_green(
      *device, context, note_context(primary, ordinal),
      [&](CUgreenCtx* out) { return real.cuGreenCtxCreate(out, resources, ordinal, flags); });
  const vram::residency::Through through;
  (void)end_primary(ordinal, [&] { return real.cuDevicePrimaryCtxRelease_v2(ordinal); });
  return result;
}

VRAM_EXPORT CUresult cuGreenCtxDestroy(CUgreenCtx green) {
  VRAM_PASS_BACK(cuGreenCtxDestroy, green);
  CUcontext const context = context_of(green);
  const std::uint64_t value = context == nullptr ? 0 : leave(context);
  if (value == 0) return real.cuGreenCtxDestroy(green);
  const auto ordinal = static_cast<CUdevice>(value & 0x7f);
  const CUresult result = end_primary(ordinal, [&] { return real.cuGreenCtxDestroy(green); });
  if (result != CUDA_SUCCESS) {
    stay(context, value);
  } else {
    measure(process().device[ordinal]);
  }
  return result;
}

VRAM_EXPORT CUresult cuCtxSetLimit(CUlimit limit, size_t value) {
  VRAM_ENTER(cuCtxSetLimit, limit, value);
  Here here{};
  if (limit != CU_LIMIT_STACK_SIZE || !locate(&here)) return real.cuCtxSetLimit(limit, value);
  return set_stack(*here.device, limit, value);
}
