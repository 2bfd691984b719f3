#include "pool/pages.h"

namespace vram::pool {
namespace {

// Where nothing else lies on a 64-bit Linux, so that a program's own reservations lie where they
// lie without this pool. A wish: the driver may place them elsewhere.
constexpr CUdeviceptr kPreferredBase = CUdeviceptr{0x2} << 44;

}  // namespace

bool Holding::reserve(std::uint64_t bytes) {
  const std::uint64_t limit = limit_.load(std::memory_order_relaxed);
  std::uint64_t held = bytes_.load(std::memory_order_relaxed);
  do {
    if (bytes > limit || held > limit - bytes) return false;
  } while (!bytes_.compare_exchange_weak(held, held + bytes, std::memory_order_relaxed));
  if (grant_.reserve == nullptr || grant_.reserve(grant_.owner, bytes)) return true;
  bytes_.fetch_sub(bytes, std::memory_order_relaxed);
  return false;
}

void Holding::commit(std::uint64_t bytes) {
  const std::uint64_t held = this->bytes();
  std::uint64_t peak = peak_.load(std::memory_order_relaxed);
  while (peak < held && !peak_.compare_exchange_weak(peak, held, std::memory_order_relaxed)) {
  }
  if (grant_.commit != nullptr) grant_.commit(grant_.owner, bytes);
}

void Holding::roll_back(std::uint64_t bytes) {
  bytes_.fetch_sub(bytes, std::memory_order_relaxed);
  if (grant_.roll_back != nullptr) grant_.roll_back(grant_.owner, bytes);
}

void Holding::begin_release(std::uint64_t bytes) {
  if (grant_.begin_release != nullptr) grant_.begin_release(grant_.owner, bytes);
}

void Holding::end_release(std::uint64_t bytes) {
  bytes_.fetch_sub(bytes, std::memory_order_relaxed);
  if (grant_.end_release != nullptr) grant_.end_release(grant_.owner, bytes);
}

void Holding::keep(std::uint64_t bytes) {
  if (grant_.keep != nullptr) grant_.keep(grant_.owner, bytes);
}

CUresult Pages::open(const DriverCalls& driver, Holding* holding, CUdevice device,
                     std::uint64_t span, std::uint64_t page) {
  driver_ = &driver;
  holding_ = holding;
  page_ = page;
  properties_.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties_.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties_.location.id = device;
  access_[0] = {properties_.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  cards_ = 1;
  // A page on either side is never backed: a program that unmaps beyond its own reservation is told
  // so, as without this one beside it.
  const CUresult reserved =
      driver.address_reserve(&base_, span + 2 * page, page, kPreferredBase, 0);
  if (reserved != CUDA_SUCCESS) return reserved;
  base_ += page;
  span_ = span;
  const std::uint64_t pages = span / page;
  const bool noted = handle_of_.reserve(pages) && spare_.reserve(pages) && stranded_.reserve(pages);
  return noted ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult Pages::allow(CUdevice other) {
  CUmemLocation location = properties_.location;
  location.id = other;
  for (unsigned card = 0; card < cards_; ++card) {
    if (access_[card].location.id == other) return CUDA_SUCCESS;
  }
  if (cards_ == kMostCards) return CUDA_ERROR_INVALID_VALUE;
  const CUmemAccessDesc access{location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  const std::uint64_t pages = span_ / page_;
  for (std::uint64_t page = 0; page < pages; ++page) {
    if (handle_of_[page] == 0) continue;
    const CUresult opened = driver_->set_access(address(page), page_, &access, 1);
    if (opened != CUDA_SUCCESS) return opened;
  }
  access_[cards_++] = access;
  return CUDA_SUCCESS;
}

void Pages::close() {
  if (span_ == 0) return;
  const std::uint64_t pages = span_ / page_;
  for (std::uint64_t page = 0; page < pages && handle_of_.capacity() != 0; ++page) {
    if (handle_of_[page] != 0) (void)unback(page, 1);
  }
  (void)release_spare(spare_count_);
  (void)driver_->address_free(base_ - page_, span_ + 2 * page_);
  span_ = 0;
}

CUresult Pages::obtain(CUmemGenericAllocationHandle* handle) {
  if (spare_count_ > 0) {
    *handle = spare_[--spare_count_];
    return CUDA_SUCCESS;
  }
  if (!holding_->reserve(page_)) return CUDA_ERROR_OUT_OF_MEMORY;
  const CUresult created = driver_->handle_create(handle, page_, &properties_, 0);
  if (created == CUDA_SUCCESS) {
    holding_->commit(page_);
  } else {
    holding_->roll_back(page_);
  }
  return created;
}

CUresult Pages::back(std::uint64_t first, std::uint64_t count) {
  std::uint64_t mapped = 0;
  CUresult result = CUDA_SUCCESS;
  for (; mapped < count; ++mapped) {
    if (handle_of_[first + mapped] != 0) {
      recover(first + mapped);
      continue;
    }
    CUmemGenericAllocationHandle handle = 0;
    result = obtain(&handle);
    if (result != CUDA_SUCCESS) break;
    result = driver_->map(address(first + mapped), page_, 0, handle, 0);
    if (result != CUDA_SUCCESS) {
      spare_[spare_count_++] = handle;
      break;
    }
    handle_of_[first + mapped] = handle;
  }
  if (result == CUDA_SUCCESS) {
    result = driver_->set_access(address(first), count * page_, access_, cards_);
  }
  if (result != CUDA_SUCCESS) drop(first, mapped);
  return result;
}

CUresult Pages::unback(std::uint64_t first, std::uint64_t count) {
  const CUresult unmapped = driver_->unmap(address(first), count * page_);
  if (unmapped != CUDA_SUCCESS) return unmapped;
  for (std::uint64_t page = first; page < first + count; ++page) {
    spare_[spare_count_++] = handle_of_[page];
    handle_of_[page] = 0;
  }
  return CUDA_SUCCESS;
}

void Pages::drop(std::uint64_t first, std::uint64_t count) {
  if (count == 0 || unback(first, count) == CUDA_SUCCESS) return;
  for (std::uint64_t page = first; page < first + count; ++page) {
    stranded_[stranded_count_++] = page;
  }
}

void Pages::sweep() {
  for (std::uint64_t i = stranded_count_; i > 0; --i) {
    if (unback(stranded_[i - 1], 1) == CUDA_SUCCESS) {
      stranded_[i - 1] = stranded_[--stranded_count_];
    }
  }
}

// The page is wanted again, and still has its memory.
void Pages::recover(std::uint64_t page) {
  for (std::uint64_t i = 0; i < stranded_count_; ++i) {
    if (stranded_[i] != page) continue;
    stranded_[i] = stranded_[--stranded_count_];
    return;
  }
}

std::uint64_t Pages::release_spare(std::uint64_t count) {
  if (count > spare_count_) count = spare_count_;
  if (count == 0) return 0;
  holding_->begin_release(count * page_);
  std::uint64_t released = 0;
  while (released < count && driver_->handle_release(spare_[spare_count_ - 1]) == CUDA_SUCCESS) {
    --spare_count_;
    ++released;
  }
  if (released > 0) holding_->end_release(released * page_);
  if (released < count) holding_->keep((count - released) * page_);
  return released;
}

}  // namespace vram::pool
