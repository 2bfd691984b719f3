#include "pool/elastic_budget.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "base/size_text.h"

namespace vram::pool {

std::shared_ptr<ElasticBudget> ElasticBudget::create(std::uint64_t total) {
  return std::shared_ptr<ElasticBudget>(new ElasticBudget(total));
}

base::Expected<std::shared_ptr<ElasticBudget::Member>, std::string> ElasticBudget::add_member(
    std::uint64_t reserve, std::uint64_t limit) {
  if (reserve > limit) {
    return "a reserve of " + std::string(base::format_bytes(reserve).text) +
           " is above its limit of " + base::format_bytes(limit).text + "; raise the limit";
  }
  auto member = std::shared_ptr<Member>(new Member(shared_from_this(), reserve, limit));
  const std::scoped_lock lock(mutex_);
  members_.push_back(member.get());
  if (reserve > total_ - committed_) {
    // The destructor of a member that was never let in finds nothing to undo.
    members_.pop_back();
    member->card_.reset();
    return "a reserve of " + std::string(base::format_bytes(reserve).text) + " is more than the " +
           base::format_bytes(total_ - committed_).text + " that other reserves leave of " +
           base::format_bytes(total_).text + "; use smaller reserves";
  }
  committed_ += reserve;
  return member;
}

std::uint64_t ElasticBudget::committed() const {
  const std::scoped_lock lock(mutex_);
  return committed_;
}

// With the mutex held.
void ElasticBudget::set_held(Member* member, std::uint64_t held) {
  committed_ -= std::max(member->held_, member->reserve_);
  committed_ += std::max(held, member->reserve_);
  member->held_ = held;
}

ElasticBudget::Answer ElasticBudget::try_take(Member* member, std::uint64_t bytes) {
  const std::scoped_lock lock(mutex_);
  if (bytes > member->limit_ - member->held_) return Answer::kOverLimit;
  const std::uint64_t held = member->held_ + bytes;
  const std::uint64_t before = std::max(member->held_, member->reserve_);
  const std::uint64_t more = std::max(held, member->reserve_) - before;
  if (more > total_ - committed_) return Answer::kShort;
  set_held(member, held);
  return Answer::kTaken;
}

std::vector<ElasticBudget::Ask> ElasticBudget::lenders(const Member* except) const {
  std::vector<Ask> asks;
  const std::scoped_lock lock(mutex_);
  for (const Member* member : members_) {
    if (member == except || member->trim_ == nullptr || member->held_ <= member->reserve_) continue;
    asks.push_back({member->trim_, member->reserve_});
  }
  return asks;
}

bool ElasticBudget::Member::take(std::uint64_t bytes) {
  const Answer first = card_->try_take(this, bytes);
  if (first != Answer::kShort) return first == Answer::kTaken;
  for (const Ask& ask : card_->lenders(this)) {
    (*ask.trim)(ask.keep);
    if (card_->try_take(this, bytes) == Answer::kTaken) return true;
  }
  return false;
}

void ElasticBudget::Member::give(std::uint64_t bytes) {
  const std::scoped_lock lock(card_->mutex_);
  assert(bytes <= held_);
  card_->set_held(this, held_ - std::min(bytes, held_));
}

void ElasticBudget::Member::set_trim(Trim trim) {
  auto shared = std::make_shared<const Trim>(std::move(trim));
  const std::scoped_lock lock(card_->mutex_);
  trim_.swap(shared);
  // The old one is destroyed below, when the lock is gone: it may own a pool.
}

std::uint64_t ElasticBudget::Member::held() const {
  const std::scoped_lock lock(card_->mutex_);
  return held_;
}

ElasticBudget::Member::~Member() {
  if (card_ == nullptr) return;
  const std::scoped_lock lock(card_->mutex_);
  card_->committed_ -= std::max(held_, reserve_);
  std::erase(card_->members_, this);
}

}  // namespace vram::pool
