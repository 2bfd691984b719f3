#include "pool/pools.h"

namespace vram::pool {

MadePool make_pool(const DriverCalls& driver, const Options& options) {
  base::Expected<std::unique_ptr<Card>, Failure> card = Card::open(driver, options.ordinal);
  if (!card) return card.error();
  switch (options.kind) {
    case Kind::kSegments:
      return make_segments_pool(std::move(*card), options);
    case Kind::kDriverAsync:
      return make_driver_async_pool(std::move(*card), options);
    case Kind::kBfc:
      return make_bfc_pool(std::move(*card), options);
    case Kind::kHost:
      return make_host_pool(std::move(*card), options);
  }
  return Failure{CUDA_ERROR_NOT_SUPPORTED, "vram: no such kind of pool"};
}

}  // namespace vram::pool
