#pragma once

// A value, or why there is none. Reading the wrong one of the two is a fault of the caller: it is
// checked by an assertion, not by an exception.

#include <cassert>
#include <optional>
#include <utility>

namespace vram::base {

template <typename T, typename E>
class [[nodiscard]] Expected {
 public:
  Expected(T value) : value_(std::move(value)) {}  // NOLINT: converts
  Expected(E error) : error_(std::move(error)) {}  // NOLINT: converts

  explicit operator bool() const { return value_.has_value(); }

  T& operator*() { return value(); }
  const T& operator*() const { return const_cast<Expected*>(this)->value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &const_cast<Expected*>(this)->value(); }

  E& error() {
    assert(error_);
    return *error_;
  }
  const E& error() const { return const_cast<Expected*>(this)->error(); }

 private:
  T& value() {
    assert(value_);
    return *value_;
  }

  // One of the two: a variant says so better, but what reads the source for faults gets lost in its
  // copies.
  std::optional<T> value_;
  std::optional<E> error_;
};

}  // namespace vram::base
