#pragma once

// The command's options: one tree, from which parsing, --help, completion and the check of the
// manual page come.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/settings.h"

namespace CLI {
class App;  // <CLI/CLI.hpp> takes seconds to compile: only who builds or walks the tree includes it
}  // namespace CLI

namespace vram::cli {

struct RunOptions {
  Flags flags;
  std::string name;
  std::vector<std::string> command;
  bool json = false;
};

struct TraceOptions {
  RunOptions run;
  std::string output;
  std::optional<std::string> recover;
  bool force = false;
  bool as_is = false;
};

struct ReplayOptions {
  std::vector<std::string> files;
  std::string pool = "segments";
  std::optional<std::string> limit, card, sim;
  std::optional<std::uint32_t> process, device;
  bool real = false;
  bool smallest_limit = false;
  bool json = false;
};

struct PsOptions {
  std::optional<std::string> sim;
  bool json = false;
};

struct DevicesOptions {
  std::optional<std::string> sim;
  bool json = false;
};

struct LimitOptions {
  std::string job, limit;
  bool json = false;
};

struct ParkOptions {
  std::vector<std::string> jobs;
  std::string timeout = "60s";
  bool json = false;
};

struct EnvOptions {
  std::string framework;
  Flags flags;
  bool json = false;
};

struct ConfigOptions {
  bool origin = false;
  bool json = false;
};

struct CompletionOptions {
  std::string shell;
};

struct Options {
  RunOptions run;
  TraceOptions trace;
  ReplayOptions replay;
  PsOptions ps;
  DevicesOptions devices;
  LimitOptions limit;
  ParkOptions park, unpark;
  EnvOptions env;
  ConfigOptions config;
  CompletionOptions completion;
};

// The tree writes into `options`, which must outlive it.
std::unique_ptr<CLI::App> make_options(Options* options);

// The verbs that start a program: `vram run [OPTION]... [--] CMD [ARG]...` and `vram trace`.
bool starts_program(const std::string& verb);

// Everything from CMD on is the program's and is taken
// off `arguments` (which begin after the executable's name). A value that begins with a dash is
// joined to its option, so that `-m -4GiB` is a wrong size and not an unknown option.
std::vector<std::string> take_command(const CLI::App& run, std::vector<std::string>* arguments);

}  // namespace vram::cli
