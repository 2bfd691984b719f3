// The C interface of pools: checks its arguments, forwards, turns failures into a status.

#include <algorithm>
#include <cstring>

#include "library/handle.h"

static_assert(VRAM_VERSION_MAJOR == VRAM_PROJECT_MAJOR &&
                  VRAM_VERSION_MINOR == VRAM_PROJECT_MINOR &&
                  VRAM_VERSION_PATCH == VRAM_PROJECT_PATCH,
              "vram.h and the project have one version");

namespace vram::library {
namespace {

constexpr std::uint32_t kBfcFlags = VRAM_POOL_GREEDY | VRAM_POOL_KEEP_REGIONS | VRAM_POOL_MANAGED;
// What the first version of each structure had; less is a size that was not set.
constexpr std::size_t kLeastOptions = 48;
constexpr std::size_t kLeastInfo = 96;
static_assert(sizeof(vram_pool_options) >= kLeastOptions && sizeof(vram_pool_info) >= kLeastInfo);

vram_status null(const char* what) {
  return fail(VRAM_INVALID_ARGUMENT, std::string("vram: ") + what + " is a null pointer");
}

vram_status not_a_block(const char* function) {
  return fail(VRAM_NOT_A_BLOCK, std::string("vram: ") + function +
                                    ": no live block of this pool begins at the address; free each "
                                    "block once, in the pool that allocated it");
}

// The caller's options in the library's own layout.
vram_status read(const vram_pool_options* from, vram_pool_options* to) {
  if (from == nullptr) return null("options");
  if (from->size < kLeastOptions) {
    return fail(VRAM_INVALID_ARGUMENT,
                "vram: options.size is not set; begin with VRAM_POOL_OPTIONS_INIT");
  }
  const auto* bytes = reinterpret_cast<const unsigned char*>(from);
  for (std::size_t i = sizeof *to; i < from->size; ++i) {
    if (bytes[i] != 0) {
      return fail(VRAM_NOT_SUPPORTED, "vram: the options say what only a newer libvram knows");
    }
  }
  *to = VRAM_POOL_OPTIONS_INIT;
  std::memcpy(to, from, std::min(from->size, sizeof *to));
  return VRAM_OK;
}

vram_status check(const vram_pool_options& options) {
  if (options.kind < VRAM_POOL_SEGMENTS || options.kind > VRAM_POOL_HOST) {
    return fail(VRAM_INVALID_ARGUMENT, "vram: options.kind is none of VRAM_POOL_...");
  }
  if (options.limit == 0) {
    return fail(VRAM_INVALID_ARGUMENT,
                "vram: a limit of 0 bytes allows nothing; for none write VRAM_NO_LIMIT");
  }
  if ((options.flags & ~kBfcFlags) != 0 || options.reserved != 0) {
    return fail(VRAM_INVALID_ARGUMENT, "vram: options.flags has a flag that does not exist");
  }
  if (options.flags != 0 && options.kind != VRAM_POOL_BFC) {
    return fail(VRAM_INVALID_ARGUMENT, "vram: options.flags are for VRAM_POOL_BFC only");
  }
  if (!(options.fragmentation_fraction >= 0 && options.fragmentation_fraction <= 1)) {
    return fail(VRAM_INVALID_ARGUMENT, "vram: options.fragmentation_fraction is not in 0..1");
  }
  return VRAM_OK;
}

pool::Options translated(const vram_pool_options& from) {
  constexpr pool::Kind kKinds[] = {pool::Kind::kSegments, pool::Kind::kBfc,
                                   pool::Kind::kDriverAsync, pool::Kind::kHost};
  pool::Options to;
  to.kind = kKinds[from.kind];
  to.ordinal = from.device;
  to.limit = from.limit;
  to.growth = (from.flags & VRAM_POOL_GREEDY) == 0;
  to.garbage_collection = (from.flags & VRAM_POOL_KEEP_REGIONS) == 0;
  to.managed = (from.flags & VRAM_POOL_MANAGED) != 0;
  to.fragmentation_fraction = from.fragmentation_fraction;
  to.wait_ms = from.wait_ms;
  to.decay_ms = from.decay_ms;
  return to;
}

vram_pool_info info_of(const pool::MemoryPool& pool) {
  const pool::Info from = pool.info();
  vram_pool_info to = VRAM_POOL_INFO_INIT;
  to.limit = from.limit;
  to.in_use = from.in_use;
  to.peak_in_use = from.peak_in_use;
  to.reserved = from.reserved;
  to.peak_reserved = from.peak_reserved;
  to.largest_free = from.largest_free;
  to.live_blocks = from.live_blocks;
  to.allocations = from.allocations;
  to.failures = from.failures;
  to.largest_request = from.largest_request;
  to.fragmentation = pool.fragmentation();
  return to;
}

}  // namespace

vram_status create(const pool::Options& options, vram_pool** pool) {
  const base::Expected<const pool::DriverCalls*, pool::Failure> driver = pool::open_driver();
  if (!driver) return fail(driver.error());
  base::Expected<std::unique_ptr<pool::MemoryPool>, pool::Failure> made =
      pool::make_pool(**driver, options);
  if (!made) return fail(made.error());
  *pool = new vram_pool{std::move(*made)};
  return VRAM_OK;
}

}  // namespace vram::library

using vram::library::address_of;
using vram::library::fail;
using vram::library::guarded;
using vram::library::stream_of;

extern "C" {

vram_status vram_pool_create(const vram_pool_options* options, vram_pool** pool) {
  return guarded([&] {
    vram_pool_options known = VRAM_POOL_OPTIONS_INIT;
    if (pool == nullptr) return vram::library::null("pool");
    vram_status status = vram::library::read(options, &known);
    if (status == VRAM_OK) status = vram::library::check(known);
    if (status != VRAM_OK) return status;
    return vram::library::create(vram::library::translated(known), pool);
  });
}

void vram_pool_destroy(vram_pool* pool) { delete pool; }

vram_status vram_pool_allocate(vram_pool* pool, uint64_t bytes, void* stream, void** address) {
  return guarded([&] {
    if (pool == nullptr || address == nullptr) {
      return vram::library::null(pool == nullptr ? "pool" : "address");
    }
    const auto block = pool->pool->allocate(bytes, stream_of(stream));
    if (!block) return fail(block.error());
    *address = reinterpret_cast<void*>(*block);
    return VRAM_OK;
  });
}

vram_status vram_pool_free(vram_pool* pool, void* address, void* stream) {
  return guarded([&] {
    if (pool == nullptr) return vram::library::null("pool");
    if (pool->pool->free(address_of(address), stream_of(stream))) return VRAM_OK;
    return vram::library::not_a_block("vram_pool_free");
  });
}

vram_status vram_pool_record_use(vram_pool* pool, void* address, void* stream) {
  return guarded([&] {
    if (pool == nullptr) return vram::library::null("pool");
    if (pool->pool->record_use(address_of(address), stream_of(stream))) return VRAM_OK;
    return vram::library::not_a_block("vram_pool_record_use");
  });
}

vram_status vram_pool_forget_stream(vram_pool* pool, void* stream) {
  return guarded([&] {
    if (pool == nullptr) return vram::library::null("pool");
    pool->pool->forget_stream(stream_of(stream));
    return VRAM_OK;
  });
}

vram_status vram_pool_begin_capture(vram_pool* pool, void* stream, uint32_t* capture) {
  return guarded([&] {
    if (pool == nullptr) return vram::library::null("pool");
    if (capture == nullptr) return vram::library::null("capture");
    if (pool->pool->begin_capture(stream_of(stream), capture)) return VRAM_OK;
    return vram::library::fail(
        VRAM_NOT_SUPPORTED,
        "vram: vram_pool_begin_capture: only a pool of segments serves captures, "
        "and about a thousand streams and captures at once; release those "
        "whose graphs are gone");
  });
}

vram_status vram_pool_end_capture(vram_pool* pool, uint32_t capture) {
  return guarded([&] {
    if (pool == nullptr) return vram::library::null("pool");
    if (pool->pool->end_capture(capture)) return VRAM_OK;
    return vram::library::fail(VRAM_INVALID_ARGUMENT,
                               "vram: vram_pool_end_capture: no such capture is under way");
  });
}

vram_status vram_pool_release_capture(vram_pool* pool, uint32_t capture) {
  return guarded([&] {
    if (pool == nullptr) return vram::library::null("pool");
    if (pool->pool->release_capture(capture)) return VRAM_OK;
    return vram::library::fail(
        VRAM_INVALID_ARGUMENT,
        "vram: vram_pool_release_capture: there is no such capture, or it is under "
        "way: end it first");
  });
}

vram_status vram_pool_trim(vram_pool* pool, uint64_t keep, uint64_t* given_back) {
  return guarded([&] {
    if (pool == nullptr) return vram::library::null("pool");
    const uint64_t bytes = pool->pool->trim(keep);
    if (given_back != nullptr) *given_back = bytes;
    return VRAM_OK;
  });
}

vram_status vram_pool_set_limit(vram_pool* pool, uint64_t bytes) {
  return guarded([&] {
    if (pool == nullptr) return vram::library::null("pool");
    if (bytes == 0) {
      return fail(VRAM_INVALID_ARGUMENT,
                  "vram: a limit of 0 bytes allows nothing; for none write VRAM_NO_LIMIT");
    }
    pool->pool->set_limit(bytes);
    return VRAM_OK;
  });
}

vram_status vram_pool_get_info(vram_pool* pool, vram_pool_info* info) {
  return guarded([&] {
    if (pool == nullptr || info == nullptr) {
      return vram::library::null(pool == nullptr ? "pool" : "info");
    }
    if (info->size < vram::library::kLeastInfo) {
      return fail(VRAM_INVALID_ARGUMENT,
                  "vram: info.size is not set; begin with VRAM_POOL_INFO_INIT");
    }
    const std::size_t room = info->size;
    vram_pool_info now = vram::library::info_of(*pool->pool);
    now.size = room;
    std::memset(info, 0, room);
    std::memcpy(info, &now, std::min(room, sizeof now));
    return VRAM_OK;
  });
}

vram_status vram_pool_reset_peaks(vram_pool* pool) {
  return guarded([&] {
    if (pool == nullptr) return vram::library::null("pool");
    pool->pool->reset_peaks();
    return VRAM_OK;
  });
}

size_t vram_pool_report(vram_pool* pool, uint64_t wanted, char* text, size_t size) {
  size_t length = 0;
  (void)guarded([&] {
    if (pool == nullptr || (text == nullptr && size != 0)) {
      return vram::library::null(pool == nullptr ? "pool" : "text");
    }
    const std::string report = pool->pool->report(wanted);
    length = report.size();
    if (size != 0) {
      const size_t copied = std::min(length, size - 1);
      std::memcpy(text, report.data(), copied);
      text[copied] = 0;
    }
    return VRAM_OK;
  });
  return length;
}
}
