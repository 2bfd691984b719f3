// cuStream…: streams as the program handles them. Capturing them is in capture_api.cc.
#include <cuda.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "sim/capture.h"
#include "sim/event.h"
#include "sim/green_context.h"
#include "sim/memory_operations.h"
#include "sim/operation.h"
#include "sim/scheduler.h"
#include "sim/stream_entry.h"
#include "sim/try.h"

namespace vram::sim {
namespace {

using StreamRef = std::shared_ptr<Stream>;

// The range of priorities of the cards that we simulate.
constexpr int kLeastPriority = 0;
constexpr int kGreatestPriority = -5;

// 64 streams cost 32 MiB on the card.
constexpr size_t kStreamBytes = 524288;

CUresult create_in(Context& context, CUstream* out, unsigned flags, int priority) {
  VRAM_SIM_TRY(check_capture_allows_unsafe_call());
  VRAM_SIM_TRY(charge_context(context, kStreamBytes));
  priority = std::clamp(priority, kGreatestPriority, kLeastPriority);
  *out = Scheduler::instance().create(context, flags, priority)->handle();
  return CUDA_SUCCESS;
}

CUresult create(CUstream* out, unsigned flags, int priority) {
  if (out == nullptr || flags > CU_STREAM_NON_BLOCKING) return CUDA_ERROR_INVALID_VALUE;
  Context* context = nullptr;
  VRAM_SIM_TRY(require_usable_context(&context));
  return create_in(*current_context(), out, flags, priority);
}

// Whichever context is current, and also where none is.
CUresult create_green_stream(CUstream* out, CUgreenCtx handle, unsigned flags, int priority) {
  GreenContext green;
  VRAM_SIM_TRY(find_green(handle, &green));
  if (out == nullptr || flags != CU_STREAM_NON_BLOCKING) return CUDA_ERROR_INVALID_VALUE;
  if (in_host_function()) return CUDA_ERROR_NOT_PERMITTED;
  VRAM_SIM_TRY(context_error(*green.context));
  return create_in(*green.context, out, flags, priority);
}

CUresult destroy(CUstream handle) {
  VRAM_SIM_TRY(require_initialized());
  if (in_host_function()) return CUDA_ERROR_NOT_PERMITTED;
  Context* owner = nullptr;
  if (const std::shared_ptr<Stream> stream = Scheduler::instance().created(handle)) {
    abandon_capture(*stream);
  }
  VRAM_SIM_TRY(Scheduler::instance().destroy(handle, &owner));
  uncharge_context(*owner, kStreamBytes);
  return CUDA_SUCCESS;
}

CUresult synchronise(DefaultStream meaning, CUstream handle) {
  StreamRef stream;
  VRAM_SIM_TRY(require_stream(handle, meaning, &stream));
  VRAM_SIM_TRY(refuse_if_capturing(*stream));
  return synchronise_stream(stream);
}

CUresult query(DefaultStream meaning, CUstream handle) {
  StreamRef stream;
  VRAM_SIM_TRY(require_stream(handle, meaning, &stream));
  VRAM_SIM_TRY(refuse_if_capturing(*stream));
  const std::vector<Ticket> tickets = Scheduler::instance().pending(stream);
  const bool done = std::all_of(tickets.begin(), tickets.end(),
                                [](const Ticket& ticket) { return reached(ticket); });
  if (!done) return CUDA_ERROR_NOT_READY;
  return context_error(context_of(*stream));
}

CUresult wait_event(DefaultStream meaning, CUstream handle, CUevent event_handle, unsigned flags) {
  if (flags > CU_EVENT_WAIT_EXTERNAL) return CUDA_ERROR_INVALID_VALUE;
  StreamRef stream;
  VRAM_SIM_TRY(require_stream(handle, meaning, &stream));
  std::shared_ptr<Event> event;
  VRAM_SIM_TRY(find_event(event_handle, &event));
  if (flags == CU_EVENT_WAIT_EXTERNAL && capture_of(*stream)) {
    return enqueue(stream, EventWaitCall{event});
  }
  CUresult result = CUDA_SUCCESS;
  if (capture_event_wait(stream, event, &result)) return result;
  const Ticket ticket = ticket_of(*event);
  if (!ticket.stream || reached(ticket)) return CUDA_SUCCESS;
  submit(stream, [] { return CUDA_SUCCESS; }, {ticket});
  return CUDA_SUCCESS;
}

CUresult get_flags(DefaultStream meaning, CUstream handle, unsigned* out) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  StreamRef stream;
  const CUresult result = require_stream(handle, meaning, &stream);
  if (result == CUDA_SUCCESS) *out = stream->flags;
  return result;
}

CUresult get_priority(DefaultStream meaning, CUstream handle, int* out) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  StreamRef stream;
  const CUresult result = require_stream(handle, meaning, &stream);
  if (result == CUDA_SUCCESS) *out = stream->priority;
  return result;
}

CUresult get_id(DefaultStream meaning, CUstream handle, unsigned long long* out) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  StreamRef stream;
  const CUresult result = require_stream(handle, meaning, &stream);
  if (result == CUDA_SUCCESS) *out = stream->id;
  return result;
}

CUresult get_context(DefaultStream meaning, CUstream handle, CUcontext* out) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  StreamRef stream;
  const CUresult result = require_stream(handle, meaning, &stream);
  if (result == CUDA_SUCCESS) *out = handle_of(context_of(*stream));
  return result;
}

CUresult get_contexts(DefaultStream meaning, CUstream handle, CUcontext* out, CUgreenCtx* green) {
  if (out == nullptr || green == nullptr) return CUDA_ERROR_INVALID_VALUE;
  StreamRef stream;
  VRAM_SIM_TRY(require_stream(handle, meaning, &stream));
  *out = handle_of(context_of(*stream).home());
  *green = green_handle_of(context_of(*stream));
  return CUDA_SUCCESS;
}

CUresult get_green(CUstream handle, CUgreenCtx* out) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  StreamRef stream;
  VRAM_SIM_TRY(require_stream(handle, DefaultStream::kLegacy, &stream));
  *out = green_handle_of(context_of(*stream));
  return CUDA_SUCCESS;
}

CUresult get_device(DefaultStream meaning, CUstream handle, CUdevice* out) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  StreamRef stream;
  const CUresult result = require_stream(handle, meaning, &stream);
  if (result == CUDA_SUCCESS) *out = context_of(*stream).device;
  return result;
}

CUresult add_callback(DefaultStream meaning, CUstream handle, CUstreamCallback callback,
                      void* argument, unsigned flags) {
  if (callback == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  StreamRef stream;
  VRAM_SIM_TRY(require_stream(handle, meaning, &stream));
  VRAM_SIM_TRY(refuse_if_capturing(*stream));
  Context& context = context_of(*stream);
  submit(stream, [=, &context] {
    const HostFunctionScope scope;
    callback(handle, context_error(context), argument);
    return CUDA_SUCCESS;
  });
  return CUDA_SUCCESS;
}

CUresult launch_host(DefaultStream meaning, CUstream handle, CUhostFn function, void* argument) {
  if (function == nullptr) return CUDA_ERROR_INVALID_VALUE;
  StreamRef stream;
  VRAM_SIM_TRY(require_stream(handle, meaning, &stream));
  return enqueue(stream, HostCall{function, argument});
}

// Managed memory is everybody's here; the call is taken and has no effect.
CUresult attach_memory(DefaultStream meaning, CUstream handle, CUdeviceptr, size_t, unsigned) {
  StreamRef stream;
  return require_stream(handle, meaning, &stream);
}

CUresult memory_operations(DefaultStream meaning, CUstream handle, unsigned count,
                           const CUstreamBatchMemOpParams* operations, unsigned flags) {
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  StreamRef stream;
  VRAM_SIM_TRY(require_stream(handle, meaning, &stream));
  if (!capture_of(*stream)) VRAM_SIM_TRY(check_memory_operations(operations, count));
  return enqueue(stream, MemoryOpsCall{{operations, operations + count}});
}

CUresult batch(DefaultStream meaning, CUstream handle, unsigned count,
               CUstreamBatchMemOpParams* operations, unsigned flags) {
  return memory_operations(meaning, handle, count, operations, flags);
}

template <CUstreamBatchMemOpType kType, typename T>
CUresult one_operation(DefaultStream meaning, CUstream handle, CUdeviceptr address, T value,
                       unsigned flags) {
  CUstreamBatchMemOpParams operation{};
  operation.operation = kType;
  operation.waitValue.address = address;
  if constexpr (sizeof(T) == 8) {
    operation.waitValue.value64 = value;
  } else {
    operation.waitValue.value = value;
  }
  operation.waitValue.flags = flags;
  return memory_operations(meaning, handle, 1, &operation, 0);
}

// Attributes are kept and given back; none changes what the simulator does.
std::mutex attributes_lock;
std::map<std::pair<uint64_t, CUstreamAttrID>, CUstreamAttrValue>& attributes() {
  static auto* const all = new std::map<std::pair<uint64_t, CUstreamAttrID>, CUstreamAttrValue>;
  return *all;
}

CUresult set_attribute(DefaultStream meaning, CUstream handle, CUstreamAttrID id,
                       const CUstreamAttrValue* value) {
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  StreamRef stream;
  VRAM_SIM_TRY(require_stream(handle, meaning, &stream));
  const std::lock_guard held(attributes_lock);
  attributes()[{stream->id, id}] = *value;
  return CUDA_SUCCESS;
}

CUresult get_attribute(DefaultStream meaning, CUstream handle, CUstreamAttrID id,
                       CUstreamAttrValue* out) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  StreamRef stream;
  VRAM_SIM_TRY(require_stream(handle, meaning, &stream));
  const std::lock_guard held(attributes_lock);
  const auto found = attributes().find({stream->id, id});
  CUstreamAttrValue value{};
  if (found != attributes().end()) {
    value = found->second;
  } else if (id == CU_LAUNCH_ATTRIBUTE_PRIORITY) {
    value.priority = stream->priority;
  }
  *out = value;
  return CUDA_SUCCESS;
}

CUresult copy_attributes(DefaultStream meaning, CUstream to, CUstream from) {
  StreamRef target;
  StreamRef source;
  VRAM_SIM_TRY(require_stream(to, meaning, &target));
  VRAM_SIM_TRY(require_stream(from, meaning, &source));
  const std::lock_guard held(attributes_lock);
  for (const auto& [key, value] : std::map(attributes())) {
    if (key.first == source->id) attributes()[{target->id, key.second}] = value;
  }
  return CUDA_SUCCESS;
}

CUresult synchronise_current() {
  Context* context = nullptr;
  VRAM_SIM_TRY(require_usable_context(&context));
  Context& current = *current_context();
  VRAM_SIM_TRY(refuse_if_capturing(current));
  return synchronise_context(current);
}

CUresult synchronise_given(CUcontext handle) {
  VRAM_SIM_TRY(require_initialized());
  Context* context = nullptr;
  VRAM_SIM_TRY(find_context(handle, &context));
  if (in_host_function()) return CUDA_ERROR_NOT_PERMITTED;
  VRAM_SIM_TRY(refuse_if_capturing(*context));
  return synchronise_context(*context);
}

}  // namespace
}  // namespace vram::sim

using namespace vram::sim;

extern "C" {

VRAM_SIM_ONE(cuStreamCreate, create, (CUstream * stream, unsigned flags), (stream, flags, 0))
VRAM_SIM_ONE(cuStreamCreateWithPriority, create, (CUstream * stream, unsigned flags, int priority),
             (stream, flags, priority))
VRAM_SIM_ONE(cuGreenCtxStreamCreate, create_green_stream,
             (CUstream * stream, CUgreenCtx context, unsigned flags, int priority),
             (stream, context, flags, priority))
VRAM_SIM_ONE(cuStreamGetGreenCtx, get_green, (CUstream stream, CUgreenCtx* out), (stream, out))
VRAM_SIM_ONE(cuStreamDestroy, destroy, (CUstream stream), (stream))
VRAM_SIM_ONE(cuStreamDestroy_v2, destroy, (CUstream stream), (stream))
VRAM_SIM_BOTH(cuStreamSynchronize, _ptsz, synchronise, (CUstream stream), (stream))
VRAM_SIM_BOTH(cuStreamQuery, _ptsz, query, (CUstream stream), (stream))
VRAM_SIM_BOTH(cuStreamWaitEvent, _ptsz, wait_event,
              (CUstream stream, CUevent event, unsigned flags), (stream, event, flags))
VRAM_SIM_BOTH(cuStreamGetFlags, _ptsz, get_flags, (CUstream stream, unsigned* out), (stream, out))
VRAM_SIM_BOTH(cuStreamGetPriority, _ptsz, get_priority, (CUstream stream, int* out), (stream, out))
VRAM_SIM_BOTH(cuStreamGetId, _ptsz, get_id, (CUstream stream, unsigned long long* out),
              (stream, out))
VRAM_SIM_BOTH(cuStreamGetCtx, _ptsz, get_context, (CUstream stream, CUcontext* out), (stream, out))
VRAM_SIM_BOTH(cuStreamGetCtx_v2, _ptsz, get_contexts,
              (CUstream stream, CUcontext* out, CUgreenCtx* green), (stream, out, green))
VRAM_SIM_BOTH(cuStreamGetDevice, _ptsz, get_device, (CUstream stream, CUdevice* out), (stream, out))
VRAM_SIM_BOTH(cuStreamAddCallback, _ptsz, add_callback,
              (CUstream stream, CUstreamCallback callback, void* argument, unsigned flags),
              (stream, callback, argument, flags))
VRAM_SIM_BOTH(cuLaunchHostFunc, _ptsz, launch_host,
              (CUstream stream, CUhostFn function, void* argument), (stream, function, argument))
VRAM_SIM_BOTH(cuStreamAttachMemAsync, _ptsz, attach_memory,
              (CUstream stream, CUdeviceptr address, size_t bytes, unsigned flags),
              (stream, address, bytes, flags))

VRAM_SIM_BOTH(cuStreamBatchMemOp, _ptsz, batch,
              (CUstream stream, unsigned count, CUstreamBatchMemOpParams* list, unsigned flags),
              (stream, count, list, flags))
VRAM_SIM_BOTH(cuStreamBatchMemOp_v2, _ptsz, batch,
              (CUstream stream, unsigned count, CUstreamBatchMemOpParams* list, unsigned flags),
              (stream, count, list, flags))

#define VRAM_SIM_VALUE(name, type, value_type)                                            \
  VRAM_SIM_BOTH(name, _ptsz, one_operation<type>,                                         \
                (CUstream stream, CUdeviceptr address, value_type value, unsigned flags), \
                (stream, address, value, flags))                                          \
  VRAM_SIM_BOTH(name##_v2, _ptsz, one_operation<type>,                                    \
                (CUstream stream, CUdeviceptr address, value_type value, unsigned flags), \
                (stream, address, value, flags))
VRAM_SIM_VALUE(cuStreamWaitValue32, CU_STREAM_MEM_OP_WAIT_VALUE_32, cuuint32_t)
VRAM_SIM_VALUE(cuStreamWaitValue64, CU_STREAM_MEM_OP_WAIT_VALUE_64, cuuint64_t)
VRAM_SIM_VALUE(cuStreamWriteValue32, CU_STREAM_MEM_OP_WRITE_VALUE_32, cuuint32_t)
VRAM_SIM_VALUE(cuStreamWriteValue64, CU_STREAM_MEM_OP_WRITE_VALUE_64, cuuint64_t)
#undef VRAM_SIM_VALUE

VRAM_SIM_BOTH(cuStreamSetAttribute, _ptsz, set_attribute,
              (CUstream stream, CUstreamAttrID id, const CUstreamAttrValue* value),
              (stream, id, value))
VRAM_SIM_BOTH(cuStreamGetAttribute, _ptsz, get_attribute,
              (CUstream stream, CUstreamAttrID id, CUstreamAttrValue* out), (stream, id, out))
VRAM_SIM_BOTH(cuStreamCopyAttributes, _ptsz, copy_attributes, (CUstream to, CUstream from),
              (to, from))

VRAM_SIM_ONE(cuCtxSynchronize, synchronise_current, (), ())
VRAM_SIM_ONE(cuCtxSynchronize_v2, synchronise_given, (CUcontext context), (context))

}  // extern "C"
