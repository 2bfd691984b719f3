#pragma once

// What the functions of the library throw. The classes are those that TensorFlow raises for the
// same mistakes, so that code that is carried over catches what it caught before; all derive from
// vram::Error. what() names the thing, the limit and the next step.

#include <stdexcept>

#include "vram/api.h"

namespace vram {

class VRAM_API Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// An argument that cannot be meant: an unknown device, a size out of range (Python: ValueError).
class VRAM_API ValueError : public Error {
 public:
  using Error::Error;
};
// Right, but not now: the runtime is initialised already (Python: RuntimeError).
class VRAM_API RuntimeError : public Error {
 public:
  using Error::Error;
};
// Options that contradict each other or the machine (tf.errors.InvalidArgumentError).
class VRAM_API InvalidArgument : public Error {
 public:
  using Error::Error;
};
// Another session of this process set the device up differently (tf.errors.AlreadyExistsError).
class VRAM_API AlreadyExists : public Error {
 public:
  using Error::Error;
};
class VRAM_API InternalError : public Error {
 public:
  using Error::Error;
};
class VRAM_API UnknownError : public Error {
 public:
  using Error::Error;
};
// Out of device memory (tf.errors.ResourceExhaustedError). The program can go on.
class VRAM_API ResourceExhausted : public Error {
 public:
  using Error::Error;
};

}  // namespace vram
