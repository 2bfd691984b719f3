#pragma once

// From settings to pools as TensorFlow goes: first to GPUOptions (context.py), then to devices
// (gpu_device.cc).

#include <vector>

#include "config/environment.h"
#include "config/plan.h"
#include "config/settings.h"

namespace vram::config {

// ValueError: growth differs among visible GPUs, a priority on some parts only. A logical
// configuration of any device, the CPU's too, drops the growth of all, which `notes` tells.
Result<compat::v1::ConfigProto> compat_config(const World& world, std::vector<std::string>* notes);

// The devices of one session, in TensorFlow's numbering.
Result<std::vector<CardPlan>> compat_plan(const World& world, const compat::v1::ConfigProto& config,
                                          const Environment& environment,
                                          const MemoryOf& memory_of);

}  // namespace vram::config
