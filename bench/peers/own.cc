#include "peers/own.h"

#include "peers/load.h"
#include "pool/current.h"
#include "pool/segments.h"

namespace vram::bench {
namespace {

using pool::DriverCalls;

CUdeviceptr address(void* block) { return reinterpret_cast<CUdeviceptr>(block); }
void* block(CUdeviceptr address) { return reinterpret_cast<void*>(address); }
CUstream on(void* stream) { return static_cast<CUstream>(stream); }

class SegmentsAllocator final : public Allocator {
 public:
  explicit SegmentsAllocator(const DriverCalls& driver) : driver_(driver) {}
  std::string name() const override { return "vram"; }
  bool open(std::size_t limit) override {
    pool::SegmentsOptions options;
    if (driver_.primary_retain(&options.context, 0) != CUDA_SUCCESS) return false;
    if (limit != 0) options.limit = limit;
    segments_ = std::make_unique<pool::Segments>();
    return segments_->open(driver_, options) == CUDA_SUCCESS;
  }
  void* allocate(std::size_t bytes, void* stream) override {
    CUdeviceptr found = 0;
    return segments_->allocate(&found, bytes, on(stream)) == CUDA_SUCCESS ? block(found) : nullptr;
  }
  void free(void* of, std::size_t, void* stream) override {
    (void)segments_->free(address(of), on(stream));
  }
  std::size_t reserved() override { return segments_->info().reserved; }
  std::size_t peak_reserved() override { return segments_->info().peak_reserved; }
  void trim() override { (void)segments_->trim(0); }
  void close() override {
    segments_.reset();
    (void)driver_.primary_release(0);
  }

 private:
  const DriverCalls& driver_;
  std::unique_ptr<pool::Segments> segments_;
};

class Bfc final : public Allocator {
 public:
  explicit Bfc(const DriverCalls& driver) : driver_(driver) {}
  std::string name() const override { return "vram BFC"; }
  bool open(std::size_t limit) override {
    pool::Options options;
    options.kind = pool::Kind::kBfc;
    if (limit != 0) options.limit = limit;
    auto made = pool::make_pool(driver_, options);
    if (made) pool_ = std::move(*made);
    return pool_ != nullptr;
  }
  void* allocate(std::size_t bytes, void* stream) override {
    const auto found = pool_->allocate(bytes, on(stream));
    return found ? block(*found) : nullptr;
  }
  void free(void* of, std::size_t, void* stream) override {
    (void)pool_->free(address(of), on(stream));
  }
  std::size_t reserved() override { return pool_->info().reserved; }
  std::size_t peak_reserved() override { return pool_->info().peak_reserved; }
  void trim() override { (void)pool_->trim(0); }
  void close() override { pool_.reset(); }

 private:
  const DriverCalls& driver_;
  std::unique_ptr<pool::MemoryPool> pool_;
};

class DriverAsync final : public Allocator {
 public:
  explicit DriverAsync(const DriverCalls& driver) : driver_(driver) {}
  std::string name() const override { return "cuMemAllocAsync"; }
  bool open(std::size_t limit) override {
    CUmemPoolProps properties{};
    properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    properties.location.id = 0;
    properties.maxSize = limit;
    if (driver_.async_pool_create(&pool_, &properties) != CUDA_SUCCESS) return false;
    cuuint64_t keep_all = ~cuuint64_t{0};
    return driver_.async_pool_set(pool_, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep_all) ==
           CUDA_SUCCESS;
  }
  void* allocate(std::size_t bytes, void* stream) override {
    CUdeviceptr found = 0;
    return driver_.async_alloc(&found, bytes, pool_, on(stream)) == CUDA_SUCCESS ? block(found)
                                                                                 : nullptr;
  }
  void free(void* of, std::size_t, void* stream) override {
    (void)driver_.async_free(address(of), on(stream));
  }
  std::size_t reserved() override { return read(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT); }
  std::size_t peak_reserved() override { return read(CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH); }
  void trim() override {
    (void)driver_.context_synchronize();
    (void)driver_.async_pool_trim(pool_, 0);
  }
  void close() override {
    (void)driver_.context_synchronize();
    (void)driver_.async_pool_destroy(pool_);
  }

 private:
  std::size_t read(CUmemPool_attribute attribute) const {
    cuuint64_t value = 0;
    (void)driver_.async_pool_get(pool_, attribute, &value);
    return value;
  }
  const DriverCalls& driver_;
  CUmemoryPool pool_ = nullptr;
};

class DriverAlloc final : public Allocator {
 public:
  explicit DriverAlloc(const DriverCalls& driver) : driver_(driver) {}
  std::string name() const override { return "cuMemAlloc"; }
  bool open(std::size_t) override { return true; }
  void* allocate(std::size_t bytes, void*) override {
    CUdeviceptr found = 0;
    return driver_.mem_alloc(&found, bytes) == CUDA_SUCCESS ? block(found) : nullptr;
  }
  void free(void* of, std::size_t, void*) override { (void)driver_.mem_free(address(of)); }
  std::size_t reserved() override { return 0; }
  std::size_t peak_reserved() override { return 0; }
  void trim() override {}
  void close() override {}

 private:
  const DriverCalls& driver_;
};

class LoadedPeer final : public Allocator {
 public:
  explicit LoadedPeer(const Peer& peer) : peer_(peer) {}
  std::string name() const override { return peer_.name(); }
  bool open(std::size_t limit) override { return peer_.open(limit) == 0; }
  void* allocate(std::size_t bytes, void* stream) override { return peer_.allocate(bytes, stream); }
  void free(void* of, std::size_t bytes, void* stream) override { peer_.free(of, bytes, stream); }
  std::size_t reserved() override { return peer_.reserved(); }
  std::size_t peak_reserved() override { return peer_.peak_reserved(); }
  void trim() override { peer_.trim(); }
  void close() override { peer_.close(); }

 private:
  Peer peer_;
};

}  // namespace

std::unique_ptr<Allocator> segments(const DriverCalls& driver) {
  return std::make_unique<SegmentsAllocator>(driver);
}
std::unique_ptr<Allocator> bfc(const DriverCalls& driver) { return std::make_unique<Bfc>(driver); }
std::unique_ptr<Allocator> driver_async(const DriverCalls& driver) {
  return std::make_unique<DriverAsync>(driver);
}
std::unique_ptr<Allocator> driver_alloc(const DriverCalls& driver) {
  return std::make_unique<DriverAlloc>(driver);
}
std::unique_ptr<Allocator> peer(const std::string& library) {
  Peer loaded{};
  if (!load_peer(library, &loaded)) return nullptr;
  return std::make_unique<LoadedPeer>(loaded);
}

}  // namespace vram::bench
