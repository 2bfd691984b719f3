#include "sim/kernels.h"

#include <time.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <tuple>

#include "sim/card_view.h"
#include "sim/operation.h"
#include "sim/scheduler.h"

namespace vram::sim {
namespace {

// An array in the card's memory, as a kernel's argument names it.
template <typename T>
struct Pointer {
  CUdeviceptr address;
};

// Parameters lie one after the other, each aligned to its size, as in the CUDA calling convention.
template <typename T>
T take(const KernelCall& call, size_t* offset) {
  *offset = (*offset + sizeof(T) - 1) / sizeof(T) * sizeof(T);
  T value{};
  if (*offset + sizeof(T) <= call.arguments.size()) {
    std::memcpy(&value, call.arguments.data() + *offset, sizeof(T));
  }
  *offset += sizeof(T);
  return value;
}

template <typename... Ts>
inline constexpr std::array<size_t, sizeof...(Ts)> kSizes = {sizeof(Ts)...};

// Makes a table entry's body out of a function over typed arguments.
template <auto Function>
struct Typed;

template <typename... Ts, CUresult (*Function)(Ts...)>
struct Typed<Function> {
  static CUresult run(const KernelCall& call) {
    size_t offset = 0;
    std::tuple<Ts...> values{take<Ts>(call, &offset)...};  // braces: left to right
    return std::apply(Function, values);
  }
  static constexpr std::span<const size_t> sizes{kSizes<Ts...>};
};

template <typename T>
T* view(Pointer<T> pointer, uint64_t count) {
  if (count > SIZE_MAX / sizeof(T)) return nullptr;
  return static_cast<T*>(card_view(pointer.address, static_cast<size_t>(count) * sizeof(T)));
}

// out[i] = f(...) over all i, or an illegal address where one of the arrays is too short.
template <typename F>
CUresult binary_f32(Pointer<const float> a, Pointer<const float> b, Pointer<float> out, uint64_t n,
                    F f) {
  if (n == 0) return CUDA_SUCCESS;
  const float* left = view(a, n);
  const float* right = view(b, n);
  float* result = view(out, n);
  if (left == nullptr || right == nullptr || result == nullptr) return CUDA_ERROR_ILLEGAL_ADDRESS;
  std::transform(left, left + n, right, result, f);
  return CUDA_SUCCESS;
}

uint64_t length(int n) { return n > 0 ? static_cast<uint64_t>(n) : 0; }

CUresult add_int_f32(Pointer<const float> a, Pointer<const float> b, Pointer<float> out, int n) {
  return binary_f32(a, b, out, length(n), [](float x, float y) { return x + y; });
}

CUresult add_f32(Pointer<const float> a, Pointer<const float> b, Pointer<float> out, uint64_t n) {
  return binary_f32(a, b, out, n, [](float x, float y) { return x + y; });
}

CUresult saxpy(int n, float a, Pointer<const float> x, Pointer<float> y) {
  return binary_f32(x, {y.address}, y, length(n), [a](float p, float q) { return a * p + q; });
}

CUresult fill_u32(Pointer<uint32_t> out, uint64_t n, uint32_t value) {
  if (n == 0) return CUDA_SUCCESS;
  uint32_t* words = view(out, n);
  if (words == nullptr) return CUDA_ERROR_ILLEGAL_ADDRESS;
  std::fill_n(words, n, value);
  return CUDA_SUCCESS;
}

CUresult copy_bytes(Pointer<std::byte> to, Pointer<const std::byte> from, uint64_t bytes) {
  if (bytes == 0) return CUDA_SUCCESS;
  std::byte* target = view(to, bytes);
  const std::byte* source = view(from, bytes);
  if (target == nullptr || source == nullptr) return CUDA_ERROR_ILLEGAL_ADDRESS;
  std::memmove(target, source, bytes);
  return CUDA_SUCCESS;
}

// FNV-1a over 64-bit words: order matters, so that swapped blocks are noticed.
CUresult checksum_u64(Pointer<const uint64_t> from, uint64_t n, Pointer<uint64_t> out) {
  uint64_t* result = view(out, 1);
  const uint64_t* words = n == 0 ? result : view(from, n);
  if (result == nullptr || words == nullptr) return CUDA_ERROR_ILLEGAL_ADDRESS;
  uint64_t hash = 0xcbf29ce484222325;
  for (uint64_t i = 0; i < n; ++i) hash = (hash ^ words[i]) * 0x100000001b3;
  *result = hash;
  return CUDA_SUCCESS;
}

uint64_t now_ns() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<uint64_t>(time.tv_sec) * 1000000000u + static_cast<uint64_t>(time.tv_nsec);
}

// Keeps the stream busy for a while without keeping a host core busy.
CUresult spin_ns(uint64_t duration) {
  constexpr uint64_t kSlice = 1000000;  // how late a cancelled spin may notice, 1 ms
  const uint64_t end = now_ns() + duration;
  for (uint64_t now = now_ns(); now < end && !operation_cancelled(); now = now_ns()) {
    const timespec pause{0, static_cast<long>(std::min(kSlice, end - now))};
    nanosleep(&pause, nullptr);
  }
  return CUDA_SUCCESS;
}

template <auto Function>
constexpr KnownKernel entry(std::string_view name, std::string_view mangled = {},
                            std::string_view also_mangled = {}) {
  return {name, {mangled, also_mangled}, Typed<Function>::sizes, Typed<Function>::run};
}

constexpr KnownKernel kTable[] = {
    entry<fill_u32>("vram_fill_u32"),          // (u32* out, u64 n, u32 value)
    entry<add_f32>("vram_add_f32"),            // (const f32*, const f32*, f32* out, u64 n)
    entry<copy_bytes>("vram_copy"),            // (void* to, const void* from, u64 bytes)
    entry<checksum_u64>("vram_checksum_u64"),  // (const u64*, u64 n, u64* out)
    entry<spin_ns>("vram_spin_ns"),            // (u64 nanoseconds)
    // What introductions to CUDA call their first kernels.
    entry<add_int_f32>("vectorAdd", "PKfS0_Pfi", "PfS_S_i"),
    entry<add_int_f32>("vecAdd", "PKfS0_Pfi", "PfS_S_i"),
    entry<add_int_f32>("vector_add", "PKfS0_Pfi", "PfS_S_i"),
    entry<add_int_f32>("VecAdd", "PKfS0_Pfi", "PfS_S_i"),
    entry<saxpy>("saxpy", "ifPKfPf", "ifPfS_"),
};

// The two halves of a mangled function name, "vectorAdd" and "PKfS0_Pfi"; the name and nothing
// where it is not mangled.
struct Mangled {
  std::string_view name;
  std::string_view parameters;
};

Mangled take_apart(std::string_view symbol) {
  if (!symbol.starts_with("_Z")) return {symbol, {}};
  size_t at = 2;
  size_t length_of_name = 0;
  while (at < symbol.size() && std::isdigit(static_cast<unsigned char>(symbol[at])) != 0) {
    length_of_name = length_of_name * 10 + static_cast<size_t>(symbol[at++] - '0');
  }
  if (length_of_name == 0 || length_of_name > symbol.size() - at) return {symbol, {}};
  return {symbol.substr(at, length_of_name), symbol.substr(at + length_of_name)};
}

bool matches(const KnownKernel& known, const Mangled& symbol) {
  if (known.name != symbol.name) return false;
  if (symbol.parameters.empty() || known.mangled_parameters[0].empty()) return true;
  return std::find(known.mangled_parameters.begin(), known.mangled_parameters.end(),
                   symbol.parameters) != known.mangled_parameters.end();
}

}  // namespace

const KnownKernel* known_kernel(std::string_view name) {
  const Mangled symbol = take_apart(name);
  const auto found = std::find_if(std::begin(kTable), std::end(kTable),
                                  [&](const KnownKernel& known) { return matches(known, symbol); });
  return found == std::end(kTable) ? nullptr : found;
}

}  // namespace vram::sim
