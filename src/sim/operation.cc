#include "sim/operation.h"

#include <time.h>

#include <utility>

#include "sim/capture.h"
#include "sim/card_time.h"
#include "sim/graph.h"
#include "sim/launch.h"
#include "sim/memory_operations.h"
#include "sim/pool.h"
#include "sim/scheduler.h"
#include "sim/transfer.h"
#include "sim/try.h"

namespace vram::sim {
namespace {

constexpr timespec kPollInterval{0, 20000};

struct Run {
  Context& context;

  CUresult operator()(const EmptyCall&) const { return CUDA_SUCCESS; }
  CUresult operator()(const KernelCall& call) const {
    const CardTime time("card.kernel");
    const KnownKernel* known = call.function->info.known;
    return known != nullptr ? known->body(call) : CUDA_SUCCESS;
  }
  CUresult operator()(const CopyCall& call) const { return run_copy(call.shape); }
  CUresult operator()(const FillCall& call) const { return run_fill(call.shape); }
  CUresult operator()(const HostCall& call) const {
    const HostFunctionScope scope;
    call.function(call.argument);
    return CUDA_SUCCESS;
  }
  CUresult operator()(const EventRecordCall& call) const {
    record_event_now(*call.event);
    return CUDA_SUCCESS;
  }
  // Only inside a graph; a stream waits by a ticket.
  CUresult operator()(const EventWaitCall& call) const {
    const Ticket ticket = ticket_of(*call.event);
    while (!reached(ticket) && !operation_cancelled()) nanosleep(&kPollInterval, nullptr);
    return CUDA_SUCCESS;
  }
  CUresult operator()(const MemoryOpsCall& call) const {
    return run_memory_operations(call.operations);
  }
  CUresult operator()(const AllocationCall& call) const {
    return graph_memory_commit(call.params.dptr);
  }
  CUresult operator()(const FreeCall& call) const { return graph_memory_uncommit(call.address); }
  CUresult operator()(const ChildGraphCall& call) const {
    for (GraphNode* node : execution_order(*call.graph)) {
      if (!node->enabled) continue;
      VRAM_SIM_TRY(run(node->operation, *node->context));
    }
    return CUDA_SUCCESS;
  }
};

}  // namespace

CUresult run(const Operation& operation, Context& context) {
  return std::visit(Run{context}, operation);
}

CUresult enqueue(const std::shared_ptr<Stream>& stream, Operation operation) {
  bool captured = false;
  if (const CUresult result = capture_operation(stream, &operation, &captured);
      result != CUDA_SUCCESS || captured) {
    return result;
  }
  if (const auto* kernel = std::get_if<KernelCall>(&operation)) {
    VRAM_SIM_TRY(provide_for_kernel(*kernel));
  }
  Context& context = context_of(*stream);
  submit(stream, [operation = std::move(operation), &context] { return run(operation, context); });
  return CUDA_SUCCESS;
}

}  // namespace vram::sim
