#include "sim/driver.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <mutex>
#include <string_view>

#include "sim/context.h"
#include "sim/entry.h"
#include "sim/faults.h"
#include "sim/identity.h"
#include "sim/try.h"

namespace vram::sim {
namespace {

enum class State { kNone, kReady, kForked };
std::atomic<State> g_state{State::kNone};

// Never destroyed: threads of the program may call until the process is gone.
Driver& instance() {
  static Driver* const it = new Driver;
  return *it;
}

int card_named(std::string_view entry, const std::string& machine, int card_count) {
  if (entry.starts_with("GPU-")) {
    int found = -1;
    for (int card = 0; card < card_count; ++card) {
      if (!uuid_text(card_uuid(machine, card)).starts_with(entry)) continue;
      if (found >= 0) return -1;
      found = card;
    }
    return found;
  }
  const std::string text(entry);
  char* end = nullptr;
  const long index = std::strtol(text.c_str(), &end, 10);
  const bool whole =
      end != text.c_str() && text.find_first_not_of(" \t", end - text.c_str()) == std::string::npos;
  return whole && index >= 0 && index < card_count ? static_cast<int>(index) : -1;
}

CUresult join_machine() {
  MachineSpec spec;
  switch (spec_from_environment(&spec)) {
    case SpecStatus::kAbsent:
      return CUDA_ERROR_NO_DEVICE;
    case SpecStatus::kMalformed:
      return CUDA_ERROR_INVALID_DEVICE;
    case SpecStatus::kOk:
      break;
  }
  if (faults_are_malformed()) return CUDA_ERROR_INVALID_VALUE;
  Machine* machine = nullptr;
  switch (Machine::open(spec, &machine)) {
    case OpenStatus::kUnavailable:
      return CUDA_ERROR_SYSTEM_NOT_READY;
    case OpenStatus::kMismatch:
      return CUDA_ERROR_SYSTEM_DRIVER_MISMATCH;
    case OpenStatus::kOk:
      break;
  }
  std::vector<int> cards =
      visible_cards(std::getenv("CUDA_VISIBLE_DEVICES"), machine->name(), machine->card_count());
  if (cards.empty()) return CUDA_ERROR_NO_DEVICE;
  if (!machine->attach()) return CUDA_ERROR_OPERATING_SYSTEM;
  instance().machine = machine;
  instance().cards = std::move(cards);
  return CUDA_SUCCESS;
}

}  // namespace

std::vector<int> visible_cards(const char* list, const std::string& machine, int card_count) {
  std::vector<int> cards;
  if (list == nullptr) {
    for (int card = 0; card < card_count; ++card) cards.push_back(card);
    return cards;
  }
  std::string_view rest = list;
  for (;;) {
    const size_t comma = rest.find(',');
    const int card = card_named(rest.substr(0, comma), machine, card_count);
    if (card < 0) return cards;
    if (std::find(cards.begin(), cards.end(), card) != cards.end()) return {};
    cards.push_back(card);
    if (comma == std::string_view::npos) return cards;
    rest.remove_prefix(comma + 1);
  }
}

CUresult initialise_driver() {
  static std::mutex* const mutex = new std::mutex;
  if (g_state.load() == State::kForked) return CUDA_ERROR_NOT_INITIALIZED;
  const std::lock_guard held(*mutex);
  if (g_state.load() == State::kReady) return CUDA_SUCCESS;
  const CUresult result = join_machine();
  if (result != CUDA_SUCCESS) return result;
  ::pthread_atfork(nullptr, nullptr, [] { g_state.store(State::kForked); });
  g_state.store(State::kReady, std::memory_order_release);
  return CUDA_SUCCESS;
}

Driver& driver() { return instance(); }

CUresult require_initialized() {
  return g_state.load(std::memory_order_acquire) == State::kReady ? CUDA_SUCCESS
                                                                  : CUDA_ERROR_NOT_INITIALIZED;
}

CUresult require_device(CUdevice device) {
  VRAM_SIM_TRY(require_initialized());
  return device >= 0 && device < device_count() ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

}  // namespace vram::sim

using namespace vram::sim;

CUresult cuInit(unsigned int flags) {
  VRAM_SIM_ENTER();
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  return initialise_driver();
}

CUresult cuDriverGetVersion(int* version) {
  if (version == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *version = kDriverVersion;
  return CUDA_SUCCESS;
}
