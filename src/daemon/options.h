#pragma once

// vramd's options: one tree, from which parsing, --help and the check of the manual page come.

#include <CLI/CLI.hpp>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace vram::daemon {

struct Options {
  std::optional<std::string> policy, sim, socket;
  std::vector<std::string> folders;
  std::string log_level = "info";
  bool dry_run = false;
};

// The tree writes into `options`, which must outlive it.
std::unique_ptr<CLI::App> make_options(Options* options);

}  // namespace vram::daemon
