#pragma once

// The one thread of ours in a governed process, where its job asks for something that takes one:
// gives back what idles in own pools, and moves elastic memory when asked (parking.h).
//
// It blocks all signals, wakes once a second and when its bell rings, and stops before the
// program's exit handlers end the driver. From then on memory that is parked is brought back by
// whoever of the program needs it.
//
// Threads: any.

namespace vram::interpose {

// Unless this process has it. Without the thread memory goes back when the program trims, and
// nothing is moved.
void start_caretaker();

// A call of the program waits for memory that is parked, or about to be.
void somebody_waits();

// The program ends, and the thread does nothing more.
bool caretaker_has_ended();

// The program ends while its memory is parked: what it gives back now need not come to the card
// first, where there may be no room; the driver takes all of it when the process is gone.
bool ends_parked();

// The caretaker lets its mutex go for a scope in which it may wait for long.
class CaretakerAway {
 public:
  CaretakerAway();
  ~CaretakerAway();
  CaretakerAway(const CaretakerAway&) = delete;
  CaretakerAway& operator=(const CaretakerAway&) = delete;
};

// Held by whoever closes a pool that the caretaker may be working on.
class CaretakerAtRest {
 public:
  CaretakerAtRest();
  ~CaretakerAtRest();
  CaretakerAtRest(const CaretakerAtRest&) = delete;
  CaretakerAtRest& operator=(const CaretakerAtRest&) = delete;

 private:
  bool held_;
};

}  // namespace vram::interpose
