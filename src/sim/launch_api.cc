// cuLaunch…, with the calls of before CUDA 4 that set a function up piece by piece.
#include <cuda.h>

#include <cstring>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "sim/capture.h"
#include "sim/event.h"
#include "sim/identity.h"
#include "sim/launch.h"
#include "sim/module.h"
#include "sim/occupancy.h"
#include "sim/operation.h"
#include "sim/stream_entry.h"
#include "sim/try.h"

namespace vram::sim {
namespace {

CUresult put_on_stream(DefaultStream meaning, CUfunction function, const LaunchShape& shape,
                       CUstream handle, void** parameters, void** extra) {
  std::shared_ptr<Stream> stream;
  VRAM_SIM_TRY(require_stream(handle, meaning, &stream));
  KernelCall call;
  VRAM_SIM_TRY(prepare_kernel(context_of(*stream), function, shape, parameters, extra, &call));
  return enqueue(stream, std::move(call));
}

CUresult launch(DefaultStream meaning, CUfunction function, unsigned grid_x, unsigned grid_y,
                unsigned grid_z, unsigned block_x, unsigned block_y, unsigned block_z,
                unsigned shared, CUstream stream, void** parameters, void** extra) {
  return put_on_stream(meaning, function,
                       {{grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared}, stream,
                       parameters, extra);
}

// All blocks of a cooperative kernel must be on the card at once.
CUresult check_cooperative(Context& context, CUfunction handle, const LaunchShape& shape) {
  std::shared_ptr<Function> function;
  VRAM_SIM_TRY(find_function(handle, context, &function));
  const auto threads = static_cast<int>(shape.block[0] * shape.block[1] * shape.block[2]);
  const auto room = static_cast<uint64_t>(
                        blocks_per_multiprocessor(function->info, threads, shape.shared_bytes)) *
                    kMultiprocessors;
  const uint64_t blocks = uint64_t{shape.grid[0]} * shape.grid[1] * shape.grid[2];
  return blocks > room ? CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE : CUDA_SUCCESS;
}

CUresult launch_cooperative(DefaultStream meaning, CUfunction function, unsigned grid_x,
                            unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,
                            unsigned block_z, unsigned shared, CUstream handle, void** parameters) {
  const LaunchShape shape{{grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared};
  std::shared_ptr<Stream> stream;
  VRAM_SIM_TRY(require_stream(handle, meaning, &stream));
  VRAM_SIM_TRY(check_cooperative(context_of(*stream), function, shape));
  return put_on_stream(meaning, function, shape, handle, parameters, nullptr);
}

CUresult record(const std::shared_ptr<Stream>& stream, CUevent handle) {
  std::shared_ptr<Event> event;
  VRAM_SIM_TRY(find_event(handle, &event));
  CUresult result = CUDA_SUCCESS;
  if (!capture_event_record(stream, event, &result)) record_event(event, stream);
  return result;
}

// Attributes that change nothing here (priority, clusters, memory domains) are taken as they are.
CUresult launch_configured(DefaultStream meaning, const CUlaunchConfig* config, CUfunction function,
                           void** parameters, void** extra) {
  if (config == nullptr || (config->numAttrs > 0 && config->attrs == nullptr)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const LaunchShape shape{{config->gridDimX, config->gridDimY, config->gridDimZ},
                          {config->blockDimX, config->blockDimY, config->blockDimZ},
                          config->sharedMemBytes};
  std::shared_ptr<Stream> stream;
  VRAM_SIM_TRY(require_stream(config->hStream, meaning, &stream));
  std::vector<CUevent> events;
  for (unsigned i = 0; i < config->numAttrs; ++i) {
    const CUlaunchAttribute& attribute = config->attrs[i];
    if (attribute.id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE && attribute.value.cooperative != 0) {
      VRAM_SIM_TRY(check_cooperative(context_of(*stream), function, shape));
    } else if (attribute.id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT) {
      events.push_back(attribute.value.programmaticEvent.event);
    } else if (attribute.id == CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT) {
      events.push_back(attribute.value.launchCompletionEvent.event);
    }
  }
  VRAM_SIM_TRY(put_on_stream(meaning, function, shape, config->hStream, parameters, extra));
  for (const CUevent event : events) VRAM_SIM_TRY(record(stream, event));
  return CUDA_SUCCESS;
}

// What cuFuncSetBlockShape, cuFuncSetSharedSize and cuParamSet… have set for a function.
struct Prepared {
  std::array<unsigned, 3> block{1, 1, 1};
  unsigned shared_bytes = 0;
  std::vector<std::byte> parameters;
};

std::mutex prepared_lock;
std::unordered_map<CUfunction, Prepared>& prepared() {
  static auto* const all = new std::unordered_map<CUfunction, Prepared>;
  return *all;
}

CUresult require_function(CUfunction handle) {
  Context* context = nullptr;
  VRAM_SIM_TRY(require_usable_context(&context));
  std::shared_ptr<Function> function;
  return find_function(handle, *context, &function);
}

template <typename F>
CUresult prepare(CUfunction handle, F change) {
  VRAM_SIM_TRY(require_function(handle));
  const std::lock_guard held(prepared_lock);
  change(prepared()[handle]);
  return CUDA_SUCCESS;
}

CUresult set_parameter(CUfunction handle, int offset, const void* value, unsigned bytes) {
  constexpr unsigned kMost = 32764;  // of all parameters together
  if (offset < 0 || value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto begin = static_cast<unsigned>(offset);
  if (begin > kMost || bytes > kMost - begin) return CUDA_ERROR_INVALID_VALUE;
  return prepare(handle, [&](Prepared& state) {
    state.parameters.resize(std::max<size_t>(state.parameters.size(), begin + bytes));
    std::memcpy(state.parameters.data() + begin, value, bytes);
  });
}

CUresult launch_prepared(CUfunction handle, int grid_x, int grid_y, CUstream stream) {
  if (grid_x <= 0 || grid_y <= 0) return CUDA_ERROR_INVALID_VALUE;
  Prepared state;
  VRAM_SIM_TRY(prepare(handle, [&](const Prepared& now) { state = now; }));
  size_t bytes = state.parameters.size();
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, state.parameters.data(),
                   CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes, CU_LAUNCH_PARAM_END};
  const LaunchShape shape{{static_cast<unsigned>(grid_x), static_cast<unsigned>(grid_y), 1},
                          state.block,
                          state.shared_bytes};
  return put_on_stream(DefaultStream::kLegacy, handle, shape, stream, nullptr, extra);
}

}  // namespace
}  // namespace vram::sim

using namespace vram::sim;

extern "C" {

VRAM_SIM_BOTH(cuLaunchKernel, _ptsz, launch,
              (CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
               unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared,
               CUstream stream, void** parameters, void** extra),
              (function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared, stream,
               parameters, extra))
VRAM_SIM_BOTH(cuLaunchKernelEx, _ptsz, launch_configured,
              (const CUlaunchConfig* config, CUfunction function, void** parameters, void** extra),
              (config, function, parameters, extra))
VRAM_SIM_BOTH(cuLaunchCooperativeKernel, _ptsz, launch_cooperative,
              (CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
               unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared,
               CUstream stream, void** parameters),
              (function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared, stream,
               parameters))

CUresult cuFuncSetBlockShape(CUfunction function, int x, int y, int z) {
  VRAM_SIM_ENTER();
  if (x <= 0 || y <= 0 || z <= 0) return CUDA_ERROR_INVALID_VALUE;
  return prepare(function, [&](Prepared& state) {
    state.block = {static_cast<unsigned>(x), static_cast<unsigned>(y), static_cast<unsigned>(z)};
  });
}
CUresult cuFuncSetSharedSize(CUfunction function, unsigned bytes) {
  VRAM_SIM_ENTER();
  return prepare(function, [&](Prepared& state) { state.shared_bytes = bytes; });
}
CUresult cuParamSetSize(CUfunction function, unsigned bytes) {
  VRAM_SIM_ENTER();
  return prepare(function, [&](Prepared& state) { state.parameters.resize(bytes); });
}
CUresult cuParamSeti(CUfunction function, int offset, unsigned value) {
  VRAM_SIM_ENTER();
  return set_parameter(function, offset, &value, sizeof(value));
}
CUresult cuParamSetf(CUfunction function, int offset, float value) {
  VRAM_SIM_ENTER();
  return set_parameter(function, offset, &value, sizeof(value));
}
CUresult cuParamSetv(CUfunction function, int offset, void* value, unsigned bytes) {
  VRAM_SIM_ENTER();
  return set_parameter(function, offset, value, bytes);
}
CUresult cuLaunch(CUfunction function) {
  VRAM_SIM_ENTER();
  return launch_prepared(function, 1, 1, nullptr);
}
CUresult cuLaunchGrid(CUfunction function, int x, int y) {
  VRAM_SIM_ENTER();
  return launch_prepared(function, x, y, nullptr);
}
CUresult cuLaunchGridAsync(CUfunction function, int x, int y, CUstream stream) {
  VRAM_SIM_ENTER();
  return launch_prepared(function, x, y, stream);
}

}  // extern "C"
