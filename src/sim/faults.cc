#include "sim/faults.h"

#include <charconv>
#include <cstdlib>

namespace vram::sim {
namespace {

bool take_number(std::string_view text, uint64_t* out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *out);
  return error == std::errc() && end == text.data() + text.size();
}

// name:3=2 or name:every=10=999
bool parse_fault(std::string_view text, Fault* out) {
  const size_t colon = text.find(':');
  const size_t equals = text.rfind('=');
  if (colon == std::string_view::npos || equals == std::string_view::npos || equals < colon) {
    return false;
  }
  Fault fault;
  fault.name = text.substr(0, colon);
  std::string_view when = text.substr(colon + 1, equals - colon - 1);
  constexpr std::string_view kEvery = "every=";
  if (when.starts_with(kEvery)) {
    fault.repeats = true;
    when.remove_prefix(kEvery.size());
  }
  uint64_t result = 0;
  if (!take_number(when, &fault.number) || !take_number(text.substr(equals + 1), &result)) {
    return false;
  }
  if (fault.name.empty() || fault.number == 0 || result == 0 || result > CUDA_ERROR_UNKNOWN) {
    return false;
  }
  fault.result = static_cast<CUresult>(result);
  *out = std::move(fault);
  return true;
}

struct FromEnvironment {
  std::vector<Fault> faults;
  bool malformed = false;
};

const FromEnvironment& from_environment() {
  static const FromEnvironment* const instance = [] {
    auto* read = new FromEnvironment;
    const char* text = std::getenv("VRAM_SIM_FAULTS");
    read->malformed = text != nullptr && !parse_faults(text, &read->faults);
    return read;
  }();
  return *instance;
}

}  // namespace

bool parse_faults(std::string_view text, std::vector<Fault>* out) {
  std::vector<Fault> faults;
  while (!text.empty()) {
    const size_t comma = text.find(',');
    Fault fault;
    if (!parse_fault(text.substr(0, comma), &fault)) return false;
    faults.push_back(std::move(fault));
    text.remove_prefix(comma == std::string_view::npos ? text.size() : comma + 1);
  }
  *out = std::move(faults);
  return true;
}

const std::vector<Fault>& injected_faults() { return from_environment().faults; }
bool faults_are_malformed() { return from_environment().malformed; }

}  // namespace vram::sim
