#pragma once

// Facts of a header or a process: words of the form name=value, separated by spaces. In a value
// '%', spaces and control characters are written as % and two hexadecimal digits.

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace vram::trace {

using Facts = std::vector<std::pair<std::string, std::string>>;

// "a=1 b=x%20y".
std::string format_facts(const Facts& facts);

// One word; nothing when it is no fact.
std::optional<std::pair<std::string, std::string>> parse_fact(const std::string& word);

// The value of the first fact of this name.
std::optional<std::string> find_fact(const Facts& facts, const std::string& name);

}  // namespace vram::trace
