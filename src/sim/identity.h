// What a simulated card is: the constants that driver and management library must agree on.
// The card is modelled on an H200: 132 multiprocessors of 2,048 threads, compute capability 9.0.
#pragma once

#include <array>
#include <cstdint>
#include <string>

namespace vram::sim {

inline constexpr int kDriverVersion = 13000;  // of the CUDA interface
inline constexpr char kDriverRelease[] = "580.159.04";
inline constexpr char kManagementRelease[] = "13.580.159.04";
inline constexpr char kCardName[] = "vram simulated GPU";
inline constexpr int kComputeMajor = 9;
inline constexpr int kComputeMinor = 0;
inline constexpr int kMultiprocessors = 132;
inline constexpr int kThreadsPerMultiprocessor = 2048;
inline constexpr uint64_t kResidentThreads = uint64_t{kMultiprocessors} * kThreadsPerMultiprocessor;

// The management library's total is larger than what CUDA shows by what the card keeps for itself.
inline constexpr uint64_t kReservedBytes = 615ull << 20;
// A context, with room for the default 1 KiB stack of every resident thread.
inline constexpr uint64_t kContextBytes = 518ull << 20;
// Card memory is taken and given in such pieces.
inline constexpr uint64_t kPieceBytes = 2ull << 20;

// The same for every process of the machine, different between machines and cards.
[[nodiscard]] std::array<uint8_t, 16> card_uuid(const std::string& machine, int card);
[[nodiscard]] std::string uuid_text(const std::array<uint8_t, 16>& uuid);  // "GPU-…"
[[nodiscard]] int card_bus(int card);
// "00000000:01:00.0" with 8 digits of domain, "0000:01:00.0" with 4.
[[nodiscard]] std::string pci_bus_id(int card, int domain_digits);
// The card at the bus id, any number of domain digits or none; -1 when there is none.
[[nodiscard]] int card_at_bus_id(const char* text, int card_count);

}  // namespace vram::sim
