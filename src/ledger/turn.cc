#include "ledger/turn.h"

namespace vram::ledger {
namespace {

constexpr unsigned kHolderBits = 16;

std::uint64_t pack(std::uint64_t until_ms, std::uint16_t holder) {
  return until_ms << kHolderBits | holder;
}

// A lease from a clock that is not ours (another time namespace) may lie anywhere.
bool is_over(std::uint64_t word, std::uint64_t now_ms) {
  const std::uint64_t until = word >> kHolderBits;
  return until <= now_ms || until > now_ms + kTurn_ms;
}

}  // namespace

bool Turn::is_anothers(std::uint64_t now_ms) {
  std::uint64_t word = word_.load(std::memory_order_acquire);
  if (word == 0) return false;
  if (is_over(word, now_ms)) {
    word_.compare_exchange_strong(word, 0);
    return false;
  }
  const auto holder = static_cast<std::uint16_t>(word);
  return holder != 0 && holder != holder_;
}

bool Turn::take(std::uint64_t now_ms) {
  std::uint64_t word = word_.load(std::memory_order_acquire);
  if (mine_ != 0 && word == mine_) return true;
  if (word != 0 && !is_over(word, now_ms)) return false;
  const std::uint64_t next = pack(now_ms + kTurn_ms, holder_);
  if (!word_.compare_exchange_strong(word, next)) return false;
  mine_ = next;
  return true;
}

void Turn::end_if_over(std::uint64_t now_ms) {
  if (mine_ == 0 || !is_over(mine_, now_ms)) return;
  std::uint64_t word = mine_;
  mine_ = 0;
  word_.compare_exchange_strong(word, pack(now_ms + kTurn_ms, 0));
}

bool Turn::give_back() {
  std::uint64_t word = mine_;
  mine_ = 0;
  return word != 0 && word_.compare_exchange_strong(word, 0);
}

}  // namespace vram::ledger
