#pragma once

// What the NVIDIA management library says about the cards of this host: the real library or the
// simulator's, loaded at run time, never linked. A reading is a moment's; nothing is cached.
//
// Threads: an Nvml is used by one thread at a time.

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/expected.h"

namespace vram::probe {

struct Card {
  int index = -1;    // NVML's order, which is that of the PCI bus
  std::string uuid;  // "GPU-6d9dd6c4-..."
  std::array<std::uint8_t, 16> uuid_bytes{};
  std::string name;
  std::string pci;             // "0000:01:00.0"
  std::uint64_t total = 0;     // bytes
  std::uint64_t reserved = 0;  // bytes which the card keeps for itself
  std::uint64_t used = 0;      // bytes, without the reserved ones
  std::uint64_t free = 0;      // bytes
  bool mig = false;            // divided into instances

  // What CUDA programs see as the card's total.
  std::uint64_t capacity() const { return total - reserved; }
};

struct CardProcess {
  std::int32_t pid = 0;
  std::optional<std::uint64_t> used;  // bytes; the driver does not always tell
};

enum class NvmlError : std::uint8_t {
  kNotFound,  // no such library: no driver
  kNotNvml,   // it lacks a function
  kNoDriver,  // it is there, the kernel's part is not
  kFailed,    // see text
};

struct NvmlFailure {
  NvmlError error;
  std::string text;  // what the loader or the library said
};

class Nvml {
 public:
  template <typename T>
  using Result = base::Expected<T, NvmlFailure>;

  // `path`: a file, or a bare name which the loader looks up.
  static Result<std::unique_ptr<Nvml>> open(const std::string& path);
  ~Nvml();
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  Result<std::vector<Card>> cards() const;
  Result<std::vector<CardProcess>> processes(int index) const;

  // The newest CUDA version that the driver serves, as cuda.h writes it (12040 for 12.4).
  Result<int> cuda_version() const;
  std::string driver_release() const;  // "580.159.04"; empty when it does not tell

 private:
  struct Calls;
  Nvml(void* library, std::unique_ptr<Calls> calls);

  Result<Card> card(int index) const;
  NvmlFailure failure(const char* what, int code) const;

  void* library_;
  std::unique_ptr<Calls> calls_;
};

// "GPU-6d9dd6c4-7b1c-..." to its 16 bytes. False: not of that form.
[[nodiscard]] bool parse_uuid(const std::string& text, std::array<std::uint8_t, 16>* out);

}  // namespace vram::probe
