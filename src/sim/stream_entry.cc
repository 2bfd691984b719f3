#include "sim/stream_entry.h"
#include "sim/try.h"

namespace vram::sim {

CUresult require_usable_context(Context** out) {
  VRAM_SIM_TRY(require_initialized());
  if (in_host_function()) return CUDA_ERROR_NOT_PERMITTED;
  Context* context = nullptr;
  VRAM_SIM_TRY(require_context(&context));
  VRAM_SIM_TRY(context_error(*context));
  *out = context;
  return CUDA_SUCCESS;
}

CUresult require_stream(CUstream handle, DefaultStream meaning, std::shared_ptr<Stream>* out) {
  Context* context = nullptr;
  VRAM_SIM_TRY(require_usable_context(&context));
  std::shared_ptr<Stream> stream;
  VRAM_SIM_TRY(find_stream(*current_context(), handle, meaning, &stream));
  VRAM_SIM_TRY(context_error(context_of(*stream)));
  *out = std::move(stream);
  return CUDA_SUCCESS;
}

}  // namespace vram::sim
