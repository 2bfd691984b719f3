#pragma once

// Sizes with their unit: 4_GiB, 512_MiB, 40_percent. No function of the library takes a bare number
// for a size: TensorFlow means MiB by one, CUDA bytes, Docker and people either.
//
// Everything here is a literal type, is checked when it is compiled, and may be used by any thread.

#include <compare>
#include <cstdint>
#include <limits>

namespace vram {

// A count of bytes. There is no conversion from an integer: a count that is known only at run time
// is written Bytes::of(n).
class Bytes {
 public:
  constexpr Bytes() = default;
  [[nodiscard]] static constexpr Bytes of(std::uint64_t count) { return Bytes(count, Tag{}); }

  [[nodiscard]] constexpr std::uint64_t count() const { return count_; }
  friend constexpr auto operator<=>(Bytes, Bytes) = default;

  // Unsigned arithmetic; the caller keeps sums and differences in range.
  friend constexpr Bytes operator+(Bytes a, Bytes b) { return of(a.count_ + b.count_); }
  friend constexpr Bytes operator-(Bytes a, Bytes b) { return of(a.count_ - b.count_); }
  friend constexpr Bytes operator*(Bytes a, std::uint64_t times) { return of(a.count_ * times); }
  friend constexpr Bytes operator/(Bytes a, std::uint64_t parts) { return of(a.count_ / parts); }

 private:
  struct Tag {};
  constexpr Bytes(std::uint64_t count, Tag /*unused*/) : count_(count) {}
  std::uint64_t count_ = 0;
};

// A share of a card's total memory, in thousandths: 12.5_percent is the finest step.
class Percent {
 public:
  [[nodiscard]] static constexpr Percent of_thousandths(std::uint32_t permille) {
    return Percent(permille);
  }
  [[nodiscard]] constexpr std::uint32_t thousandths() const { return permille_; }
  friend constexpr auto operator<=>(Percent, Percent) = default;

 private:
  explicit constexpr Percent(std::uint32_t permille) : permille_(permille) {}
  std::uint32_t permille_;
};

// Either of the two.
class Size {
 public:
  constexpr Size(Bytes bytes) : amount_(bytes.count()) {}  // NOLINT: converts
  constexpr Size(Percent share)                            // NOLINT: converts
      : amount_(share.thousandths()), percent_(true) {}

  [[nodiscard]] constexpr bool is_percent() const { return percent_; }
  // Bytes of it on a card of this total.
  [[nodiscard]] constexpr Bytes on(Bytes total) const {
    if (!percent_) return Bytes::of(amount_);
    // In two steps: a thousand times a total could overflow.
    return Bytes::of(total.count() / 1000 * amount_ + total.count() % 1000 * amount_ / 1000);
  }
  friend constexpr bool operator==(Size, Size) = default;

 private:
  std::uint64_t amount_;
  bool percent_ = false;
};

namespace detail {

// Thrown while compiling only: what does not fit is an error at the literal.
consteval Bytes whole(unsigned long long count, std::uint64_t unit) {
  if (count > std::numeric_limits<std::uint64_t>::max() / unit) throw "the size overflows 64 bits";
  return Bytes::of(count * unit);
}
consteval Bytes decimal(long double count, std::uint64_t unit) {
  if (count < 0 || count * static_cast<long double>(unit) >= 9.2e18L) throw "the size overflows";
  return Bytes::of(static_cast<std::uint64_t>(count * static_cast<long double>(unit)));
}
consteval Percent share(long double percent) {
  const auto permille = static_cast<std::uint32_t>(percent * 10 + 0.5L);
  if (!(percent > 0) || percent > 100) throw "a share is more than 0 % and at most 100 %";
  const long double rest = percent * 10 - static_cast<long double>(permille);
  if (rest > 1e-9L || rest < -1e-9L) throw "a share has one decimal at most";
  return Percent::of_thousandths(permille);
}

inline constexpr std::uint64_t kKi = 1024;
inline constexpr std::uint64_t kK = 1000;

}  // namespace detail

// `using namespace vram::literals;` brings in the literals alone.
inline namespace literals {

consteval Bytes operator""_B(unsigned long long n) { return detail::whole(n, 1); }
consteval Bytes operator""_KiB(unsigned long long n) { return detail::whole(n, detail::kKi); }
consteval Bytes operator""_MiB(unsigned long long n) {
  return detail::whole(n, detail::kKi * detail::kKi);
}
consteval Bytes operator""_GiB(unsigned long long n) {
  return detail::whole(n, detail::kKi * detail::kKi * detail::kKi);
}
consteval Bytes operator""_TiB(unsigned long long n) {
  return detail::whole(n, detail::kKi * detail::kKi * detail::kKi * detail::kKi);
}
consteval Bytes operator""_MB(unsigned long long n) {
  return detail::whole(n, detail::kK * detail::kK);
}
consteval Bytes operator""_GB(unsigned long long n) {
  return detail::whole(n, detail::kK * detail::kK * detail::kK);
}
consteval Bytes operator""_MiB(long double n) {
  return detail::decimal(n, detail::kKi * detail::kKi);
}
consteval Bytes operator""_GiB(long double n) {
  return detail::decimal(n, detail::kKi * detail::kKi * detail::kKi);
}
consteval Percent operator""_percent(unsigned long long n) {
  return detail::share(static_cast<long double>(n));
}
consteval Percent operator""_percent(long double n) { return detail::share(n); }

}  // namespace literals
}  // namespace vram
