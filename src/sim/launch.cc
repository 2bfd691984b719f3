#include "sim/launch.h"
#include "sim/try.h"

#include <algorithm>
#include <cstring>

namespace vram::sim {
namespace {

constexpr unsigned kMaxGridX = 2147483647;
constexpr unsigned kMaxGridYZ = 65535;
constexpr unsigned kMaxBlockZ = 64;

bool is_valid(const LaunchShape& shape) {
  const auto& [grid, block, shared] = shape;
  if (std::count(grid.begin(), grid.end(), 0u) > 0) return false;
  if (std::count(block.begin(), block.end(), 0u) > 0) return false;
  if (grid[0] > kMaxGridX || grid[1] > kMaxGridYZ || grid[2] > kMaxGridYZ) return false;
  if (block[0] > kMaxBlockThreads || block[1] > kMaxBlockThreads || block[2] > kMaxBlockZ) {
    return false;
  }
  return uint64_t{block[0]} * block[1] * block[2] <= kMaxBlockThreads;
}

size_t packed_bytes(const KernelInfo& info) {
  size_t end = 0;
  for (const Parameter& parameter : info.parameters) {
    end = std::max(end, parameter.offset + parameter.bytes);
  }
  return end;
}

CUresult pack_parameters(const KernelInfo& info, void** parameters, std::vector<std::byte>* out) {
  out->assign(packed_bytes(info), std::byte{});
  for (size_t i = 0; i < info.parameters.size(); ++i) {
    if (parameters[i] == nullptr) return CUDA_ERROR_INVALID_VALUE;
    std::memcpy(out->data() + info.parameters[i].offset, parameters[i], info.parameters[i].bytes);
  }
  return CUDA_SUCCESS;
}

// `extra` is a list of pairs that ends with CU_LAUNCH_PARAM_END.
CUresult unpack_extra(void** extra, std::vector<std::byte>* out) {
  const std::byte* buffer = nullptr;
  size_t bytes = 0;
  for (; *extra != CU_LAUNCH_PARAM_END; extra += 2) {
    if (*extra == CU_LAUNCH_PARAM_BUFFER_POINTER) {
      buffer = static_cast<const std::byte*>(extra[1]);
    } else if (*extra == CU_LAUNCH_PARAM_BUFFER_SIZE) {
      bytes = *static_cast<const size_t*>(extra[1]);
    } else {
      return CUDA_ERROR_INVALID_VALUE;
    }
  }
  if (buffer == nullptr && bytes > 0) return CUDA_ERROR_INVALID_VALUE;
  out->assign(buffer, buffer + bytes);
  return CUDA_SUCCESS;
}

CUresult take_arguments(const KernelInfo& info, void** parameters, void** extra,
                        std::vector<std::byte>* out) {
  if (parameters != nullptr && extra != nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (extra != nullptr) return unpack_extra(extra, out);
  if (info.parameters.empty()) return CUDA_SUCCESS;
  if (parameters == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return pack_parameters(info, parameters, out);
}

int declared_attribute(const KernelInfo& info, CUfunction_attribute attribute) {
  switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
      return static_cast<int>(info.max_threads);
    case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
      return static_cast<int>(info.shared_bytes);
    case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES:
      return static_cast<int>(info.local_bytes);
    case CU_FUNC_ATTRIBUTE_NUM_REGS:
      return static_cast<int>(info.registers);
    case CU_FUNC_ATTRIBUTE_PTX_VERSION:
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
      return info.target != 0 ? static_cast<int>(info.target) : 90;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
      return static_cast<int>(kDefaultSharedBytes -
                              std::min<size_t>(info.shared_bytes, kDefaultSharedBytes));
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
      return -1;
    default:
      return 0;
  }
}

CUresult check_attribute(const KernelInfo& info, CUfunction_attribute attribute, int value) {
  const int room = static_cast<int>(kMaxSharedBytes) - static_cast<int>(info.shared_bytes);
  switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
      return value < 0 || value > room ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
      return value < -1 || value > 100 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
    case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH:
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT:
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH:
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

}  // namespace

CUresult prepare_kernel(Context& context, CUfunction function, const LaunchShape& shape,
                        void** parameters, void** extra, KernelCall* out) {
  KernelCall call;
  VRAM_SIM_TRY(find_function(function, context.home(), &call.function));
  if (call.function->context != &context.home()) return CUDA_ERROR_INVALID_HANDLE;
  if (!is_valid(shape)) return CUDA_ERROR_INVALID_VALUE;
  const KernelInfo& info = call.function->info;
  const unsigned threads = shape.block[0] * shape.block[1] * shape.block[2];
  if (threads > info.max_threads) return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
  const int dynamic =
      function_attribute(*call.function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
  if (shape.shared_bytes > static_cast<unsigned>(dynamic)) return CUDA_ERROR_INVALID_VALUE;
  VRAM_SIM_TRY(take_arguments(info, parameters, extra, &call.arguments));
  call.asked_for = function;
  call.grid = shape.grid;
  call.block = shape.block;
  call.shared_bytes = shape.shared_bytes;
  *out = std::move(call);
  return CUDA_SUCCESS;
}

CUresult provide_for_kernel(const KernelCall& call) {
  const size_t bytes = call.function->info.local_bytes;
  return bytes == 0 ? CUDA_SUCCESS : require_local_memory(*call.function->context, bytes);
}

int function_attribute(Function& function, CUfunction_attribute attribute) {
  std::shared_ptr<Kernel> kernel;
  {
    const std::lock_guard held(function.attributes.mutex);
    const auto found = function.attributes.set.find(attribute);
    if (found != function.attributes.set.end()) return found->second;
    kernel = function.attributes.kernel.lock();
  }
  if (kernel) {
    return kernel_attribute(*kernel, function.context->device, attribute);
  }
  return declared_attribute(function.info, attribute);
}

CUresult set_function_attribute(Function& function, CUfunction_attribute attribute, int value) {
  VRAM_SIM_TRY(check_attribute(function.info, attribute, value));
  const std::lock_guard held(function.attributes.mutex);
  function.attributes.set[attribute] = value;
  return CUDA_SUCCESS;
}

int kernel_attribute(Kernel& kernel, int device, CUfunction_attribute attribute) {
  const std::lock_guard held(kernel.mutex);
  const auto found = kernel.attributes.find({device, attribute});
  if (found != kernel.attributes.end()) return found->second;
  return declared_attribute(kernel.info, attribute);
}

CUresult set_kernel_attribute(Kernel& kernel, int device, CUfunction_attribute attribute,
                              int value) {
  VRAM_SIM_TRY(check_attribute(kernel.info, attribute, value));
  const std::lock_guard held(kernel.mutex);
  kernel.attributes[{device, attribute}] = value;
  return CUDA_SUCCESS;
}

CUresult parameter_of(const KernelInfo& info, size_t index, size_t* offset, size_t* bytes) {
  if (index >= info.parameters.size()) return CUDA_ERROR_INVALID_VALUE;
  *offset = info.parameters[index].offset;
  if (bytes != nullptr) *bytes = info.parameters[index].bytes;
  return CUDA_SUCCESS;
}

}  // namespace vram::sim
