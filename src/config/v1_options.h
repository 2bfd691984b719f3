#pragma once

// What both modes read alike in a ConfigProto.

#include <string>
#include <vector>

#include "config/fault.h"
#include "vram/compat/v1.h"

namespace vram::config {

// "1,0" as GPUs in that order. InvalidArgument: no number, out of range, twice.
Result<std::vector<int>> parse_visible_device_list(const std::string& list, int cards);

// Only TensorFlow's own allocator has a name: InternalError for others.
Outcome check_allocator_type(const std::string& type);

// The count for this type; `otherwise` when there is none.
int device_count(const compat::v1::ConfigProto& config, const std::string& type, int otherwise);

// Priorities of one GPU's parts: none, or one each, in range. InvalidArgument.
Outcome check_priorities(const compat::v1::GPUOptions::Experimental::VirtualDevices& parts, int gpu,
                         int lowest, int highest);

}  // namespace vram::config
