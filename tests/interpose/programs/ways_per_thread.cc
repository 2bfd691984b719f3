// The same ways by the calls of programs that have a default stream for each thread.
#define CUDA_API_PER_THREAD_DEFAULT_STREAM
#include "ways.cc"
