#pragma once

// A value, or why there is none. Reading the wrong one of the two is a fault of the caller: it is
// checked by an assertion, not by an exception.

#include <cassert>
#include <utility>
#include <variant>

namespace vram::base {

template <typename T, typename E>
class [[nodiscard]] Expected {
 public:
  Expected(T value) : state_(std::in_place_index<0>, std::move(value)) {}  // NOLINT: converts
  Expected(E error) : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT: converts

  explicit operator bool() const { return state_.index() == 0; }

  T& operator*() { return value(); }
  const T& operator*() const { return const_cast<Expected*>(this)->value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &const_cast<Expected*>(this)->value(); }

  E& error() {
    E* error = std::get_if<1>(&state_);
    assert(error != nullptr);
    return *error;
  }
  const E& error() const { return const_cast<Expected*>(this)->error(); }

 private:
  T& value() {
    T* value = std::get_if<0>(&state_);
    assert(value != nullptr);
    return *value;
  }

  std::variant<T, E> state_;
};

}  // namespace vram::base
