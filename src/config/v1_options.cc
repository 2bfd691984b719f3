#include "config/v1_options.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>

namespace vram::config {
namespace {

// As TensorFlow's safe_strto32: a sign and blanks around the number are fine.
std::optional<int> number(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  if (text.size() > 1 && text.front() == '+' && text[1] != '-') text.remove_prefix(1);
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return {};
  return value;
}

Fault invalid(std::string message) { return {FaultKind::kInvalidArgument, std::move(message)}; }

}  // namespace

Result<std::vector<int>> parse_visible_device_list(const std::string& list, int cards) {
  std::vector<int> order;
  if (list.empty()) {
    for (int card = 0; card < cards; ++card) order.push_back(card);
    return order;
  }
  std::string_view rest = list;
  for (;;) {
    const std::size_t comma = rest.find(',');
    const std::string entry(rest.substr(0, comma));
    const std::optional<int> card = number(entry);
    if (!card) {
      return invalid("Could not parse entry in 'visible_device_list': '" + entry +
                     "'. visible_device_list = " + list + "; write numbers like 0,1");
    }
    if (*card < 0 || *card >= cards) {
      return invalid("'visible_device_list' listed an invalid Device id '" + std::to_string(*card) +
                     "' but visible device count is " + std::to_string(cards));
    }
    if (std::find(order.begin(), order.end(), *card) != order.end()) {
      return invalid("visible_device_list contained a duplicate entry: " + list +
                     "; name each GPU once");
    }
    order.push_back(*card);
    if (comma == std::string_view::npos) return order;
    rest.remove_prefix(comma + 1);
  }
}

Outcome check_allocator_type(const std::string& type) {
  if (type.empty() || type == "BFC") return Done{};
  return Fault{FaultKind::kInternal,
               "Invalid allocator type: " + type + "; use \"BFC\" or leave it empty"};
}

int device_count(const compat::v1::ConfigProto& config, const std::string& type, int otherwise) {
  const auto found = config.device_count.find(type);
  return found == config.device_count.end() ? otherwise : found->second;
}

Outcome check_priorities(const compat::v1::GPUOptions::Experimental::VirtualDevices& parts, int gpu,
                         int lowest, int highest) {
  if (parts.priority.empty()) return Done{};
  if (parts.priority.size() != parts.memory_limit_mb.size()) {
    return invalid(
        "Number of virtual device priorities specified (" + std::to_string(parts.priority.size()) +
        ") doesn't match with number of memory_limit_mb specified (" +
        std::to_string(parts.memory_limit_mb.size()) + ") for GPU# " + std::to_string(gpu));
  }
  for (const int priority : parts.priority) {
    if (priority > lowest || priority < highest) {
      return invalid("Priority " + std::to_string(priority) +
                     " is outside the range of supported priorities [" + std::to_string(highest) +
                     "," + std::to_string(lowest) + "] for virtual device on GPU# " +
                     std::to_string(gpu));
    }
  }
  return Done{};
}

}  // namespace vram::config
