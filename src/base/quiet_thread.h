#pragma once

// A thread of ours in somebody else's program: it blocks all signals, which are the program's, and
// has a small stack.

#include <pthread.h>
#include <signal.h>

#include <cstddef>

namespace vram::base {

enum class ThreadEnd { kJoined, kDetached };

// Starts body(argument) with `stack` bytes of stack. False: there is no such thread.
[[nodiscard]] inline bool start_quiet_thread(pthread_t* thread, ThreadEnd end, std::size_t stack,
                                             void* (*body)(void*), void* argument) {
  pthread_attr_t attributes;
  if (pthread_attr_init(&attributes) != 0) return false;
  if (end == ThreadEnd::kDetached) {
    (void)pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  }
  (void)pthread_attr_setstacksize(&attributes, stack);
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  (void)pthread_sigmask(SIG_SETMASK, &all, &before);
  const bool started = pthread_create(thread, &attributes, body, argument) == 0;
  (void)pthread_sigmask(SIG_SETMASK, &before, nullptr);
  (void)pthread_attr_destroy(&attributes);
  return started;
}

}  // namespace vram::base
