# The CUDA driver and NVML headers: an installed toolkit of CUDA 13 or later, or the copies that
# tools/setup fetched. Sets up the interface target vram_cuda_headers; nothing of CUDA is linked.
# VRAM_CUDA_INCLUDE_DIR and VRAM_NVML_INCLUDE_DIR override the search.
set(_vram_fetched ${PROJECT_SOURCE_DIR}/build/deps/cuda/include)

function(_vram_cuda_version dir out)
  set(${out} 0 PARENT_SCOPE)
  if(EXISTS ${dir}/cuda.h)
    file(STRINGS ${dir}/cuda.h line REGEX "^#define CUDA_VERSION ")
    if(line MATCHES "([0-9]+)")
      set(${out} ${CMAKE_MATCH_1} PARENT_SCOPE)
    endif()
  endif()
endfunction()

if(NOT VRAM_CUDA_INCLUDE_DIR)
  foreach(dir ${_vram_fetched} $ENV{CUDA_HOME}/include /usr/local/cuda/include /usr/include)
    _vram_cuda_version(${dir} version)
    if(version GREATER_EQUAL 13000)
      set(VRAM_CUDA_INCLUDE_DIR ${dir} CACHE PATH "Folder of cuda.h" FORCE)
      break()
    endif()
  endforeach()
endif()
if(NOT VRAM_NVML_INCLUDE_DIR)
  foreach(dir ${_vram_fetched} ${VRAM_CUDA_INCLUDE_DIR})
    if(EXISTS ${dir}/nvml.h)
      set(VRAM_NVML_INCLUDE_DIR ${dir} CACHE PATH "Folder of nvml.h" FORCE)
      break()
    endif()
  endforeach()
endif()
if(NOT VRAM_CUDA_INCLUDE_DIR OR NOT VRAM_NVML_INCLUDE_DIR)
  message(FATAL_ERROR "vram: cuda.h of CUDA 13 or later and nvml.h were not found; run 'make setup' to fetch them")
endif()

add_library(vram_cuda_headers INTERFACE)
target_include_directories(vram_cuda_headers SYSTEM INTERFACE
  ${VRAM_CUDA_INCLUDE_DIR} ${VRAM_NVML_INCLUDE_DIR})
