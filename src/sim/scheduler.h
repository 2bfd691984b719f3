// The queues behind stream.h and the threads that work them off.
#pragma once

#include <pthread.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "sim/stream.h"

namespace vram::sim {

struct Execution;

// The members are guarded by the scheduler's lock unless they are const or atomic. A created
// stream's handle is its address; the default streams have CUDA's reserved handles.
class Stream {
 public:
  enum class Kind { kLegacy, kPerThread, kCreated };

  Stream(Kind kind, Context* context, unsigned flags, int priority, uint64_t id);

  [[nodiscard]] CUstream handle() const;
  [[nodiscard]] bool is_blocking() const { return (flags & CU_STREAM_NON_BLOCKING) == 0; }

  struct Entry {
    Work work;
    std::vector<Ticket> after;
  };

  const Kind kind;
  Context* const context;
  const unsigned flags;
  const int priority;
  const uint64_t id;
  std::atomic<bool> cancelled{false};  // the context goes: operations that block give up
  std::deque<Entry> queue;
  uint64_t submitted = 0;
  uint64_t completed = 0;
  bool running = false;
  bool blocked = false;  // listed among those that wait for another stream
  // Held back until the stream that owns it is submitted to again; null outside a capture.
  std::shared_ptr<Capture> capture;
};

// The streams of one context.
struct Execution {
  Context* context = nullptr;
  std::shared_ptr<Stream> legacy;
  std::map<uint64_t, std::shared_ptr<Stream>> per_thread;  // by number of the thread
  std::vector<std::shared_ptr<Stream>> created;
  std::vector<std::shared_ptr<Stream>> draining;  // nobody's any more, still at work
};

// One for the process, never destroyed: executor threads may outlive main().
class Scheduler {
 public:
  static Scheduler& instance();

  [[nodiscard]] CUresult find(Context& context, CUstream handle, DefaultStream meaning,
                              std::shared_ptr<Stream>* out);
  [[nodiscard]] std::shared_ptr<Stream> create(Context& context, unsigned flags, int priority);
  [[nodiscard]] std::shared_ptr<Stream> created(CUstream handle);  // null when there is none
  // `*owner` is the stream's context.
  [[nodiscard]] CUresult destroy(CUstream handle, Context** owner);
  void destroy_all(Context& context);

  Ticket submit(const std::shared_ptr<Stream>& stream, Work work, std::vector<Ticket> after);
  [[nodiscard]] Ticket last(const std::shared_ptr<Stream>& stream);
  [[nodiscard]] bool reached(const Ticket& ticket);
  [[nodiscard]] bool reached(uint64_t stream_id, uint64_t number);
  // False when the process ends before the ticket is reached.
  [[nodiscard]] bool wait(const Ticket& ticket);
  // The tickets that a synchronisation of the stream or of the whole context waits for.
  [[nodiscard]] std::vector<Ticket> pending(const std::shared_ptr<Stream>& stream);
  [[nodiscard]] std::vector<Ticket> pending(Context& context);
  // All streams of a context that a program could capture, for the capture rules.
  [[nodiscard]] std::vector<std::shared_ptr<Stream>> streams(Context& context);

  std::mutex& lock() { return mutex_; }
  // The thread ends: its per-thread default streams finish what they have, nobody finds them again.
  void forget_thread(uint64_t number);
  void stop();  // at process exit: executor threads take up nothing more

 private:
  Execution& execution(Context& context);
  std::shared_ptr<Stream> add(Stream::Kind kind, Context& context, unsigned flags, int priority);
  void retire(Execution& owner, const std::shared_ptr<Stream>& stream);
  static bool passed(const Ticket& ticket);
  static bool can_start(const Stream& stream);
  void add_implicit_order(const Stream& stream, std::vector<Ticket>* after);
  void consider(const std::shared_ptr<Stream>& stream);
  void reconsider_blocked();
  void finish(const std::shared_ptr<Stream>& stream);
  void start_worker();
  static void* worker_main(void* self);
  void work_until_idle();
  void run_next(std::unique_lock<std::mutex>& held);

  std::mutex mutex_;
  std::condition_variable work_ready_;
  std::condition_variable progress_;
  std::unordered_map<Context*, Execution> executions_;
  std::unordered_map<CUstream, std::shared_ptr<Stream>> handles_;
  std::unordered_map<uint64_t, std::weak_ptr<Stream>> by_id_;
  std::deque<std::shared_ptr<Stream>> ready_;
  std::vector<std::shared_ptr<Stream>> blocked_;
  uint64_t next_id_ = 1;
  int workers_ = 0;
  int idle_workers_ = 0;
  bool stopping_ = false;
};

// For operations that block (stream waits on memory): true when they should give up, for the
// context is being destroyed or the process ends.
[[nodiscard]] bool operation_cancelled();

// Marks the calling thread as inside a function of the program while it lives.
class HostFunctionScope {
 public:
  HostFunctionScope();
  ~HostFunctionScope();
  HostFunctionScope(const HostFunctionScope&) = delete;
  HostFunctionScope& operator=(const HostFunctionScope&) = delete;
};

// A small number for the calling thread, never reused; keys per-thread default streams.
[[nodiscard]] uint64_t thread_number();

}  // namespace vram::sim
