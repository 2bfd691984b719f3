// Memory of every kind that can move: taken, filled, looked at and given back.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace scene {

// What the driver tells of an address; parking must not change any of it.
struct Told {
  CUdeviceptr range = 0;
  std::size_t range_bytes = 0;
  CUdeviceptr pointer = 0;
  CUcontext context = nullptr;
  unsigned type = 0;
  unsigned managed = 0;
  int ordinal = -1;
  CUdeviceptr start = 0;
  std::size_t bytes = 0;

  bool operator==(const Told&) const = default;
};

// Owned by whoever holds it; filled with words made from `seed`.
struct Block {
  std::string kind;
  CUdeviceptr address = 0;
  CUdeviceptr alias = 0;  // the same memory once more, or 0
  std::size_t bytes = 0;
  std::uint32_t seed = 0;
  CUmemoryPool pool = nullptr;
  std::vector<CUmemGenericAllocationHandle> handles;  // kept; of virtual memory
  std::size_t handle_bytes = 0;
  Told told;
  unsigned long long id = 0;  // as the driver tells it when the block was taken
};

// block, pitch, async, pool, virtual, alias, scattered, kept, shareable, managed. Empty: taken;
// else the name of the driver's error, and nothing is held.
[[nodiscard]] std::string take(const std::string& kind, std::size_t bytes, Block* block);
// The same, of giving it back; when it fails half-way, the next attempt goes on from there.
[[nodiscard]] std::string give_back(Block* block);

[[nodiscard]] std::string fill(Block* block, std::uint32_t seed);
// Every byte and every answer about the address. Empty: as it was left; else what is not.
[[nodiscard]] std::string check(const Block& block);

// Whether it still has the identity that the driver gave it.
[[nodiscard]] std::string check_id(const Block& block);

[[nodiscard]] std::string name_of(CUresult result);

}  // namespace scene
