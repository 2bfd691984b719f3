#pragma once

// What all machine-readable output has in common: a value that is built like the text it becomes, a
// version of its form, byte counts as integers, null for what is not known or not there.
//
// A type of our own, and no library's: of a library that is all templates, every command would be
// compiled and checked with several seconds of it, for the little that is written here.

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "wire/job_layout.h"

namespace vram::cli {

// null, a truth value, a number, a text, a list, or an object, whose fields keep the order in which
// they were written. A list in braces is an object when all it holds are pairs that begin with a
// text: {{"a", 1}, {"b", {2, 3}}}; {"a", 1} by itself is a list.
class Json {
 public:
  Json() = default;
  Json(std::nullptr_t) {}
  template <std::same_as<bool> T>
  Json(T value) : value_(value) {}
  template <std::unsigned_integral T>
  requires(!std::same_as<T, bool>) Json(T value) : value_(std::uint64_t{value}) {}
  template <std::signed_integral T>
  Json(T value) : value_(std::int64_t{value}) {}
  Json(double value) : value_(value) {}
  Json(const char* value) : value_(std::string(value)) {}
  Json(std::string value) : value_(std::move(value)) {}
  template <typename T>
  Json(const std::vector<T>& items) : value_(Array(items.begin(), items.end())) {}
  Json(std::initializer_list<Json> items);

  static Json array();
  static Json object();

  // Of a list.
  void push_back(Json item);
  // Of an object; the field is made when there is none.
  Json& operator[](std::string_view name);
  // Takes over the fields of another object.
  void update(const Json& other);

  // On one line, or each item on a line of its own, indented by two for each level. What is not
  // valid UTF-8 becomes U+FFFD, byte by byte.
  [[nodiscard]] std::string line() const;
  [[nodiscard]] std::string lines() const;

 private:
  using Field = std::pair<std::string, Json>;
  using Array = std::vector<Json>;
  using Object = std::vector<Field>;
  friend class JsonText;

  std::variant<std::monostate, bool, std::uint64_t, std::int64_t, double, std::string, Array,
               Object>
      value_;
};

// Raised when a field changes its meaning or goes away; new fields come without.
inline constexpr int kJsonSchema = 1;

inline Json limit_json(std::uint64_t limit) {
  return limit == wire::kUnlimited ? Json(nullptr) : Json(limit);
}

template <typename T>
Json optional_json(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

// As a command prints it.
inline std::string dump(const Json& json) { return json.lines() + "\n"; }

}  // namespace vram::cli
