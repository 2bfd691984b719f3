#include "sim/scheduler.h"

#include <signal.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "sim/context.h"

namespace vram::sim {
namespace {

// A card works on up to this many queues at once; more streams than that take turns.
constexpr int kMaxWorkers = 128;
// Long enough that a program in its steady state keeps its threads, short enough that a
// finished one does not carry them along.
constexpr auto kIdleTime = std::chrono::seconds(2);

thread_local const Stream* current_stream = nullptr;
thread_local int host_function_depth = 0;
std::atomic<bool> process_ends{false};
std::atomic<bool> forked{false};

void after_fork_in_child() { forked.store(true, std::memory_order_relaxed); }

// Runs after the program's own exit handlers, when nobody waits for the card any more.
__attribute__((destructor)) void stop_at_exit() {
  if (forked.load(std::memory_order_relaxed)) return;
  process_ends.store(true, std::memory_order_relaxed);
  Scheduler::instance().stop();
}

// Runs when a thread ends that had a stream of its own.
struct ThreadEnd {
  bool had_stream = false;
  ~ThreadEnd() {
    if (had_stream && !forked.load(std::memory_order_relaxed)) {
      Scheduler::instance().forget_thread(thread_number());
    }
  }
};
thread_local ThreadEnd thread_end;

}  // namespace

Stream::Stream(Kind kind_in, Context* context_in, unsigned flags_in, int priority_in,
               uint64_t id_in)
    : kind(kind_in), context(context_in), flags(flags_in), priority(priority_in), id(id_in) {}

CUstream Stream::handle() const {
  switch (kind) {
    case Kind::kLegacy:
      return CU_STREAM_LEGACY;
    case Kind::kPerThread:
      return CU_STREAM_PER_THREAD;
    case Kind::kCreated:
      break;
  }
  return reinterpret_cast<CUstream>(const_cast<Stream*>(this));
}

Scheduler& Scheduler::instance() {
  static Scheduler* const scheduler = [] {
    pthread_atfork(nullptr, nullptr, after_fork_in_child);
    return new Scheduler;
  }();
  return *scheduler;
}

Execution& Scheduler::execution(Context& context) {
  Execution& execution = executions_[&context];
  if (execution.context == nullptr) {
    execution.context = &context;
    execution.legacy = add(Stream::Kind::kLegacy, context, CU_STREAM_DEFAULT, 0);
  }
  return execution;
}

std::shared_ptr<Stream> Scheduler::add(Stream::Kind kind, Context& context, unsigned flags,
                                       int priority) {
  auto stream = std::make_shared<Stream>(kind, &context, flags, priority, next_id_++);
  by_id_[stream->id] = stream;
  return stream;
}

CUresult Scheduler::find(Context& context, CUstream handle, DefaultStream meaning,
                         std::shared_ptr<Stream>* out) {
  const std::lock_guard held(mutex_);
  if (handle == nullptr) {
    handle = meaning == DefaultStream::kPerThread ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY;
  }
  if (handle == CU_STREAM_LEGACY) {
    *out = execution(context).legacy;
    return CUDA_SUCCESS;
  }
  if (handle == CU_STREAM_PER_THREAD) {
    thread_end.had_stream = true;
    auto& slot = execution(context).per_thread[thread_number()];
    if (!slot) slot = add(Stream::Kind::kPerThread, context, CU_STREAM_DEFAULT, 0);
    *out = slot;
    return CUDA_SUCCESS;
  }
  const auto found = handles_.find(handle);
  if (found == handles_.end()) return CUDA_ERROR_INVALID_HANDLE;
  *out = found->second;
  return CUDA_SUCCESS;
}

std::shared_ptr<Stream> Scheduler::create(Context& context, unsigned flags, int priority) {
  const std::lock_guard held(mutex_);
  auto stream = add(Stream::Kind::kCreated, context, flags, priority);
  execution(context).created.push_back(stream);
  handles_[stream->handle()] = stream;
  return stream;
}

std::shared_ptr<Stream> Scheduler::created(CUstream handle) {
  const std::lock_guard held(mutex_);
  const auto found = handles_.find(handle);
  return found == handles_.end() ? nullptr : found->second;
}

CUresult Scheduler::destroy(CUstream handle, Context** out_owner) {
  const std::lock_guard held(mutex_);
  const auto found = handles_.find(handle);
  if (found == handles_.end()) return CUDA_ERROR_INVALID_HANDLE;
  const std::shared_ptr<Stream> stream = found->second;
  handles_.erase(found);
  *out_owner = stream->context;
  Execution& owner = execution(*stream->context);
  std::erase(owner.created, stream);
  retire(owner, stream);
  return CUDA_SUCCESS;
}

// Whoever asks for a stream that is not known any more learns that it has run to its end.
void Scheduler::retire(Execution& owner, const std::shared_ptr<Stream>& stream) {
  if (stream->completed < stream->submitted) {
    owner.draining.push_back(stream);
  } else {
    by_id_.erase(stream->id);
  }
}

void Scheduler::forget_thread(uint64_t number) {
  const std::lock_guard held(mutex_);
  for (auto& [context, owner] : executions_) {
    const auto found = owner.per_thread.find(number);
    if (found == owner.per_thread.end()) continue;
    retire(owner, found->second);
    owner.per_thread.erase(found);
  }
}

std::vector<std::shared_ptr<Stream>> Scheduler::streams(Context& context) {
  const std::lock_guard held(mutex_);
  const auto found = executions_.find(&context);
  if (found == executions_.end()) return {};
  std::vector<std::shared_ptr<Stream>> all = found->second.created;
  for (const auto& [thread, stream] : found->second.per_thread) all.push_back(stream);
  return all;
}

void Scheduler::destroy_all(Context& context) {
  std::unique_lock held(mutex_);
  const auto found = executions_.find(&context);
  if (found == executions_.end()) return;
  std::vector<std::shared_ptr<Stream>> all = found->second.created;
  for (const auto& [thread, stream] : found->second.per_thread) all.push_back(stream);
  for (const auto& stream : found->second.draining) all.push_back(stream);
  all.push_back(found->second.legacy);
  // What the dropped operations hold is released last, without the lock: it may take others.
  std::vector<std::deque<Stream::Entry>> dropped;
  for (const auto& stream : all) {
    stream->cancelled.store(true, std::memory_order_relaxed);
    dropped.push_back(std::exchange(stream->queue, {}));
    handles_.erase(stream->handle());
    if (std::erase(ready_, stream) > 0) stream->running = false;
    std::erase(blocked_, stream);
  }
  for (const auto& stream : all) {
    progress_.wait(held, [&] { return !stream->running || stopping_; });
    stream->completed = stream->submitted;
    by_id_.erase(stream->id);
  }
  executions_.erase(&context);
  reconsider_blocked();
  progress_.notify_all();
  held.unlock();
}

bool Scheduler::passed(const Ticket& ticket) {
  return !ticket.stream || ticket.stream->completed >= ticket.number;
}

bool Scheduler::can_start(const Stream& stream) {
  if (stream.queue.empty() || stream.running) return false;
  return std::all_of(stream.queue.front().after.begin(), stream.queue.front().after.end(), passed);
}

// The legacy stream and the blocking streams of a context never overlap.
void Scheduler::add_implicit_order(const Stream& stream, std::vector<Ticket>* after) {
  Execution& owner = execution(*stream.context);
  const auto follow = [&](const std::shared_ptr<Stream>& other) {
    if (!other->is_blocking() || other->completed >= other->submitted) return;
    after->push_back({other, other->submitted});
  };
  if (stream.kind == Stream::Kind::kLegacy) {
    for (const auto& other : owner.created) follow(other);
    for (const auto& other : owner.draining) follow(other);
    for (const auto& [thread, other] : owner.per_thread) follow(other);
  } else if (stream.is_blocking()) {
    follow(owner.legacy);
  }
}

Ticket Scheduler::submit(const std::shared_ptr<Stream>& stream, Work work,
                         std::vector<Ticket> after) {
  const std::lock_guard held(mutex_);
  if (stream->cancelled.load(std::memory_order_relaxed)) return {};
  add_implicit_order(*stream, &after);
  stream->queue.push_back({std::move(work), std::move(after)});
  const Ticket ticket{stream, ++stream->submitted};
  if (stream->queue.size() == 1) consider(stream);
  return ticket;
}

// Lists a stream whose first operation may be new as ready or as blocked.
void Scheduler::consider(const std::shared_ptr<Stream>& stream) {
  if (stream->running || stream->queue.empty()) return;
  if (!can_start(*stream)) {
    if (!std::exchange(stream->blocked, true)) blocked_.push_back(stream);
    return;
  }
  stream->running = true;
  // More urgent streams (smaller numbers) go first, equals in the order they became ready.
  const auto place = std::find_if(ready_.begin(), ready_.end(), [&](const auto& other) {
    return other->priority > stream->priority;
  });
  ready_.insert(place, stream);
  if (idle_workers_ > 0) {
    work_ready_.notify_one();
  }
  if (idle_workers_ < static_cast<int>(ready_.size()) && workers_ < kMaxWorkers) start_worker();
}

void Scheduler::reconsider_blocked() {
  for (const auto& stream : std::exchange(blocked_, {})) {
    stream->blocked = false;
    consider(stream);
  }
}

void Scheduler::start_worker() {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread;
  if (pthread_create(&thread, nullptr, worker_main, this) == 0) {
    pthread_detach(thread);
    ++workers_;
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void* Scheduler::worker_main(void* self) {
  static_cast<Scheduler*>(self)->work_until_idle();
  return nullptr;
}

void Scheduler::work_until_idle() {
  std::unique_lock held(mutex_);
  for (;;) {
    ++idle_workers_;
    const bool woken =
        work_ready_.wait_for(held, kIdleTime, [&] { return !ready_.empty() && !stopping_; });
    --idle_workers_;
    if (!woken) break;
    run_next(held);
  }
  --workers_;
}

void Scheduler::run_next(std::unique_lock<std::mutex>& held) {
  const std::shared_ptr<Stream> stream = ready_.front();
  ready_.pop_front();
  Work work = std::move(stream->queue.front().work);
  stream->queue.pop_front();
  held.unlock();
  current_stream = stream.get();
  if (context_error(*stream->context) == CUDA_SUCCESS) {
    const CUresult result = work();
    if (result != CUDA_SUCCESS && !stream->cancelled.load(std::memory_order_relaxed)) {
      poison_context(*stream->context, result);
    }
  }
  current_stream = nullptr;
  // What the operation holds may take locks of its own when it is released.
  work = nullptr;
  held.lock();
  finish(stream);
}

void Scheduler::finish(const std::shared_ptr<Stream>& stream) {
  stream->running = false;
  ++stream->completed;
  consider(stream);
  reconsider_blocked();
  if (stream->completed >= stream->submitted && stream->kind != Stream::Kind::kLegacy) {
    const auto owner = executions_.find(stream->context);
    if (owner != executions_.end() && std::erase(owner->second.draining, stream) > 0) {
      by_id_.erase(stream->id);
    }
  }
  progress_.notify_all();
}

Ticket Scheduler::last(const std::shared_ptr<Stream>& stream) {
  const std::lock_guard held(mutex_);
  return {stream, stream->submitted};
}

bool Scheduler::reached(const Ticket& ticket) {
  const std::lock_guard held(mutex_);
  return passed(ticket);
}

bool Scheduler::reached(uint64_t stream_id, uint64_t number) {
  const std::lock_guard held(mutex_);
  const auto found = by_id_.find(stream_id);
  if (found == by_id_.end()) return true;
  const std::shared_ptr<Stream> stream = found->second.lock();
  if (!stream) {
    by_id_.erase(found);
    return true;
  }
  return stream->completed >= number;
}

bool Scheduler::wait(const Ticket& ticket) {
  std::unique_lock held(mutex_);
  progress_.wait(held, [&] { return passed(ticket) || stopping_; });
  return passed(ticket);
}

std::vector<Ticket> Scheduler::pending(const std::shared_ptr<Stream>& stream) {
  const std::lock_guard held(mutex_);
  std::vector<Ticket> tickets{{stream, stream->submitted}};
  // Waiting for the legacy stream is waiting for what an operation put there now would follow.
  if (stream->kind == Stream::Kind::kLegacy) add_implicit_order(*stream, &tickets);
  return tickets;
}

std::vector<Ticket> Scheduler::pending(Context& context) {
  const std::lock_guard held(mutex_);
  std::vector<Ticket> tickets;
  // Waiting for a primary context is waiting for its green contexts too.
  for (const auto& [key, owner] : executions_) {
    if (owner.context != &context && owner.context->green_home != &context) continue;
    tickets.push_back({owner.legacy, owner.legacy->submitted});
    for (const auto& stream : owner.created) tickets.push_back({stream, stream->submitted});
    for (const auto& stream : owner.draining) tickets.push_back({stream, stream->submitted});
    for (const auto& [thread, stream] : owner.per_thread) {
      tickets.push_back({stream, stream->submitted});
    }
  }
  return tickets;
}

void Scheduler::stop() {
  const std::lock_guard held(mutex_);
  stopping_ = true;
  progress_.notify_all();
}

bool operation_cancelled() {
  return process_ends.load(std::memory_order_relaxed) ||
         (current_stream != nullptr && current_stream->cancelled.load(std::memory_order_relaxed));
}

HostFunctionScope::HostFunctionScope() { ++host_function_depth; }
HostFunctionScope::~HostFunctionScope() { --host_function_depth; }
bool in_host_function() { return host_function_depth > 0; }

uint64_t thread_number() {
  static std::atomic<uint64_t> next{1};
  thread_local const uint64_t number = next.fetch_add(1, std::memory_order_relaxed);
  return number;
}

}  // namespace vram::sim
