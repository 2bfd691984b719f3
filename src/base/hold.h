#pragma once

// A pthread mutex held for a scope, for code that may not use libstdc++'s.

#include <pthread.h>

namespace vram::base {

class Hold {
 public:
  explicit Hold(pthread_mutex_t& mutex) : mutex_(mutex) { pthread_mutex_lock(&mutex_); }
  ~Hold() { pthread_mutex_unlock(&mutex_); }
  Hold(const Hold&) = delete;
  Hold& operator=(const Hold&) = delete;

 private:
  pthread_mutex_t& mutex_;
};

}  // namespace vram::base
