// cuEvent…
#include <cuda.h>

#include <chrono>

#include "sim/capture.h"
#include "sim/event.h"
#include "sim/operation.h"
#include "sim/stream_entry.h"
#include "sim/try.h"

namespace vram::sim {
namespace {

constexpr unsigned kFlags =
    CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS;

CUresult create(CUevent* out, unsigned flags) {
  if (out == nullptr || (flags & ~kFlags) != 0) return CUDA_ERROR_INVALID_VALUE;
  // An event of several processes cannot carry times.
  if ((flags & CU_EVENT_INTERPROCESS) != 0 && (flags & CU_EVENT_DISABLE_TIMING) == 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  Context* context = nullptr;
  VRAM_SIM_TRY(require_usable_context(&context));
  *out = create_event(*context, flags)->handle();
  return CUDA_SUCCESS;
}

CUresult destroy(CUevent handle) {
  VRAM_SIM_TRY(require_initialized());
  if (in_host_function()) return CUDA_ERROR_NOT_PERMITTED;
  return destroy_event(handle);
}

CUresult require_event(CUevent handle, std::shared_ptr<Event>* out) {
  Context* context = nullptr;
  VRAM_SIM_TRY(require_usable_context(&context));
  return find_event(handle, out);
}

CUresult record(DefaultStream meaning, CUevent handle, CUstream stream_handle, unsigned flags) {
  if (flags > CU_EVENT_RECORD_EXTERNAL) return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<Event> event;
  VRAM_SIM_TRY(require_event(handle, &event));
  std::shared_ptr<Stream> stream;
  VRAM_SIM_TRY(require_stream(stream_handle, meaning, &stream));
  if (event->context != &context_of(*stream).home()) return CUDA_ERROR_INVALID_HANDLE;
  if (flags == CU_EVENT_RECORD_EXTERNAL && capture_of(*stream)) {
    return enqueue(stream, EventRecordCall{event});
  }
  CUresult result = CUDA_SUCCESS;
  if (capture_event_record(stream, event, &result)) return result;
  record_event(event, stream);
  return CUDA_SUCCESS;
}

CUresult record_plain(DefaultStream meaning, CUevent event, CUstream stream) {
  return record(meaning, event, stream, CU_EVENT_RECORD_DEFAULT);
}

CUresult query(CUevent handle) {
  std::shared_ptr<Event> event;
  VRAM_SIM_TRY(require_event(handle, &event));
  if (is_captured(*event)) return CUDA_ERROR_CAPTURED_EVENT;
  return reached(ticket_of(*event)) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult synchronise(CUevent handle) {
  std::shared_ptr<Event> event;
  VRAM_SIM_TRY(require_event(handle, &event));
  if (is_captured(*event)) return CUDA_ERROR_CAPTURED_EVENT;
  return wait(ticket_of(*event), *event->context);
}

// When the event was passed; CUDA_ERROR_NOT_READY while it has not been.
CUresult time_of(Event& event, Event::Clock::time_point* out) {
  if (is_captured(event)) return CUDA_ERROR_CAPTURED_EVENT;
  Ticket ticket;
  std::shared_ptr<Event::Stamp> stamp;
  {
    const std::lock_guard held(event.mutex);
    ticket = event.ticket;
    stamp = event.stamp;
  }
  if (!stamp || (event.flags & CU_EVENT_DISABLE_TIMING) != 0) return CUDA_ERROR_INVALID_HANDLE;
  if (!reached(ticket)) return CUDA_ERROR_NOT_READY;
  *out = stamp->time;
  return CUDA_SUCCESS;
}

CUresult elapsed(float* milliseconds, CUevent from_handle, CUevent to_handle) {
  if (milliseconds == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<Event> from;
  std::shared_ptr<Event> to;
  VRAM_SIM_TRY(require_event(from_handle, &from));
  VRAM_SIM_TRY(require_event(to_handle, &to));
  if (from->context != to->context) return CUDA_ERROR_INVALID_HANDLE;
  Event::Clock::time_point begin;
  Event::Clock::time_point end;
  VRAM_SIM_TRY(time_of(*from, &begin));
  VRAM_SIM_TRY(time_of(*to, &end));
  *milliseconds = std::chrono::duration<float, std::milli>(end - begin).count();
  return CUDA_SUCCESS;
}

}  // namespace
}  // namespace vram::sim

using namespace vram::sim;

extern "C" {

VRAM_SIM_ONE(cuEventCreate, create, (CUevent * event, unsigned flags), (event, flags))
VRAM_SIM_ONE(cuEventDestroy, destroy, (CUevent event), (event))
VRAM_SIM_ONE(cuEventDestroy_v2, destroy, (CUevent event), (event))
VRAM_SIM_BOTH(cuEventRecord, _ptsz, record_plain, (CUevent event, CUstream stream), (event, stream))
VRAM_SIM_BOTH(cuEventRecordWithFlags, _ptsz, record,
              (CUevent event, CUstream stream, unsigned flags), (event, stream, flags))
VRAM_SIM_ONE(cuEventQuery, query, (CUevent event), (event))
VRAM_SIM_ONE(cuEventSynchronize, synchronise, (CUevent event), (event))
VRAM_SIM_ONE(cuEventElapsedTime, elapsed, (float* milliseconds, CUevent from, CUevent to),
             (milliseconds, from, to))
VRAM_SIM_ONE(cuEventElapsedTime_v2, elapsed, (float* milliseconds, CUevent from, CUevent to),
             (milliseconds, from, to))

}  // extern "C"
