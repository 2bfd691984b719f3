#pragma once

// What all machine-readable output has in common: a version of its form, byte counts as integers,
// null for what is not known or not there.

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>

#include "wire/job_layout.h"

namespace vram::cli {

// Raised when a field changes its meaning or goes away; new fields come without.
inline constexpr int kJsonSchema = 1;

// Fields keep the order in which they were written, so that people can read them as well.
using Json = nlohmann::ordered_json;

inline Json limit_json(std::uint64_t limit) {
  return limit == wire::kUnlimited ? Json(nullptr) : Json(limit);
}

template <typename T>
Json optional_json(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

// Program names and command lines need not be valid UTF-8.
inline std::string dump(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace vram::cli
