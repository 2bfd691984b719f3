#include "replay/pools.h"

namespace vram::replay {
namespace {

// Pools do not tell what they map, and a driver's functions are no objects: the counts are the
// process's.
struct MapCounts {
  decltype(pool::DriverCalls::map) real = nullptr;
  std::uint64_t calls = 0;
  std::uint64_t bytes = 0;
};
MapCounts map_counts;

CUresult counted_map(CUdeviceptr address, std::size_t bytes, std::size_t offset,
                     CUmemGenericAllocationHandle handle, unsigned long long flags) {
  const CUresult result = map_counts.real(address, bytes, offset, handle, flags);
  if (result == CUDA_SUCCESS) {
    ++map_counts.calls;
    map_counts.bytes += bytes;
  }
  return result;
}

pool::DriverCalls counted(const pool::DriverCalls& driver) {
  pool::DriverCalls calls = driver;
  map_counts = {calls.map, 0, 0};
  calls.map = counted_map;
  return calls;
}

class PoolTarget final : public Target {
 public:
  PoolTarget(pool::MemoryPool& pool, const std::vector<CUstream>& streams)
      : pool_(pool), streams_(streams) {}
  [[nodiscard]] std::uint64_t allocate(std::uint64_t bytes, std::uint32_t stream) override {
    const auto block = pool_.allocate(bytes, streams_[stream]);
    return block ? *block : 0;
  }
  void free(std::uint64_t block, std::uint64_t, std::uint32_t stream) override {
    (void)pool_.free(block, streams_[stream]);
  }
  [[nodiscard]] std::uint64_t reserved() override { return pool_.info().reserved; }
  [[nodiscard]] std::uint64_t peak_reserved() override { return pool_.info().peak_reserved; }

 private:
  pool::MemoryPool& pool_;
  const std::vector<CUstream>& streams_;
};

}  // namespace

std::optional<NamedPool> find_pool(const std::string& name) {
  for (const NamedPool& pool : kPools) {
    if (name == pool.name) return pool;
  }
  return std::nullopt;
}

base::Expected<PoolOutcome, std::string> run_pool(const Workload& workload, Device& device,
                                                  pool::Kind kind, std::uint64_t limit,
                                                  unsigned samples) {
  if (kind == pool::Kind::kDriverAsync && device.driver().async_pool_create == nullptr) {
    return std::string("it is the driver's own, and this card has no driver; use --real or --sim");
  }
  const std::vector<CUstream>& streams = device.streams(workload.streams);
  if (streams.size() < workload.streams) {
    return "the driver makes no " + std::to_string(workload.streams) + " streams";
  }
  const pool::DriverCalls calls = counted(device.driver());
  pool::Options options;
  options.kind = kind;
  options.limit = limit;
  options.decay_ms = 0;
  const auto made = pool::make_pool(calls, options);
  if (!made) {
    const std::string& message = made.error().message;
    return message.substr(message.rfind("vram: ", 0) == 0 ? 6 : 0);
  }
  PoolTarget target(**made, streams);
  PoolOutcome outcome;
  static_cast<Outcome&>(outcome) = run(workload, target, samples);
  outcome.pages_mapped = map_counts.calls;
  outcome.bytes_mapped = map_counts.bytes;
  return outcome;
}

}  // namespace vram::replay
