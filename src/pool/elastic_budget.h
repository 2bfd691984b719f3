#pragma once

// The memory of one card shared by several pools: each member has a reserve, which is always there
// for it, and a limit, which it never exceeds. What no reserve needs is lent to whoever asks.
//
// Invariant, at every instant:
//     sum over the members of max(held, reserve)  <=  total
// where `held` is what a member took and did not give. The left side is what is committed: a
// member's own reserve counts in full while it is idle. So a take() that stays within the reserve
// commits nothing new and cannot fail, whatever the others hold, and needs no trim of them. It also
// means that an unfilled reserve is not lent: what a neighbour holds it may turn into live blocks
// at any time without asking, and live blocks do not come back. Give members small reserves and
// high limits to share much; a reserve is for what must never fail.
//
// What is lent comes back in two ways: by give(), and by asking: a take() above the reserve that
// finds too little uncommitted calls the trim of every member that holds more than its reserve, and
// tries once more. That may fail ("not now") when others are faster.
//
// Threads: everything may be called by any thread. One mutex guards the numbers; no trim is called
// while it is held, so a trim may call give() of its own member, and take() of it too.

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/expected.h"
#include "pool/memory_pool.h"

namespace vram::pool {

class ElasticBudget : public std::enable_shared_from_this<ElasticBudget> {
 public:
  // Gives idle memory back until the pool holds at most `keep` bytes, or nothing is idle.
  using Trim = std::function<void(std::uint64_t keep)>;

  class Member : public Budget {
   public:
    // Gives everything back and ends the reserve.
    ~Member() override;
    Member(const Member&) = delete;
    Member& operator=(const Member&) = delete;

    [[nodiscard]] bool take(std::uint64_t bytes) override;
    void give(std::uint64_t bytes) override;

    // How others get back what this one holds idle. A trim under way may outlast the replacement:
    // it must keep alive what it uses.
    void set_trim(Trim trim);
    [[nodiscard]] std::uint64_t held() const;

   private:
    friend class ElasticBudget;
    Member(std::shared_ptr<ElasticBudget> card, std::uint64_t reserve, std::uint64_t limit)
        : card_(std::move(card)), reserve_(reserve), limit_(limit) {}

    std::shared_ptr<ElasticBudget> card_;
    const std::uint64_t reserve_;
    const std::uint64_t limit_;
    // Guarded by card_->mutex_.
    std::uint64_t held_ = 0;
    std::shared_ptr<const Trim> trim_;
  };

  static std::shared_ptr<ElasticBudget> create(std::uint64_t total);

  // Refused, with a message: a reserve above its limit, or one that is no longer free.
  [[nodiscard]] base::Expected<std::shared_ptr<Member>, std::string> add_member(
      std::uint64_t reserve, std::uint64_t limit);

  // sum of max(held, reserve)
  [[nodiscard]] std::uint64_t committed() const;
  [[nodiscard]] std::uint64_t total() const { return total_; }

 private:
  enum class Answer : std::uint8_t { kTaken, kOverLimit, kShort };
  struct Ask {
    std::shared_ptr<const Trim> trim;
    std::uint64_t keep;
  };

  explicit ElasticBudget(std::uint64_t total) : total_(total) {}

  Answer try_take(Member* member, std::uint64_t bytes);
  void set_held(Member* member, std::uint64_t held);
  std::vector<Ask> lenders(const Member* except) const;

  const std::uint64_t total_;
  mutable std::mutex mutex_;
  std::uint64_t committed_ = 0;
  std::vector<Member*> members_;
};

}  // namespace vram::pool
