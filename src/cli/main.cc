// The command `vram`: parses, calls, prints the one line when something failed.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <exception>
#include <iostream>

#include "cli/commands.h"
#include "cli/options.h"
#include "cli/run.h"
#include "cli/trace.h"

namespace {

using vram::cli::Done;
using vram::cli::Failure;
using vram::cli::Options;
using vram::cli::Result;

// One line whatever is quoted in it, and nothing that moves a terminal's cursor.
int report(const Failure& failure) {
  std::string line = failure.message;
  for (char& c : line) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  }
  std::fprintf(stderr, "vram: %s\n", line.c_str());
  return failure.status;
}

// Usage errors of `run` and `trace` are 125, for any other status could be the program's own.
int report_usage(const CLI::App& root, const CLI::ParseError& error, const std::string& first) {
  const bool runs = root.got_subcommand("run") || root.got_subcommand("trace");
  if (root.get_subcommands().empty() && !first.empty() && first[0] != '-') {
    return report(
        {"there is no command '" + first + "'; 'vram --help' lists them", vram::cli::kUsage});
  }
  const CLI::App* at = &root;
  std::string name;
  while (!at->get_subcommands().empty()) {
    at = at->get_subcommands().front();
    name += " " + at->get_name();
  }
  std::string what = error.what();
  if (const std::size_t line = what.find('\n'); line != std::string::npos) what.resize(line);
  return report(
      {(name.empty() ? "" : name.substr(1) + ": ") + what + "; see 'vram" + name + " --help'",
       runs ? vram::cli::kFailed : vram::cli::kUsage});
}

Result<Done> dispatch(const CLI::App& root, const Options& options) {
  if (root.got_subcommand("replay")) return vram::cli::replay_traces(options.replay);
  if (root.got_subcommand("ps")) return vram::cli::show_jobs(options.ps);
  if (root.got_subcommand("devices")) return vram::cli::show_devices(options.devices);
  if (root.got_subcommand("limit")) return vram::cli::change_limit(options.limit);
  if (root.got_subcommand("park")) return vram::cli::park_jobs(options.park);
  if (root.got_subcommand("unpark")) return vram::cli::unpark_jobs(options.unpark);
  if (root.got_subcommand("env")) return vram::cli::show_framework_environment(options.env);
  if (root.got_subcommand("config")) return vram::cli::show_config(options.config);
  return vram::cli::print_completion(options.completion, root);
}

// Outside `run` no status can be taken for a program's own.
int show(const CLI::App& root, const Options& options) {
  Result<Done> done = dispatch(root, options);
  if (done && std::fflush(stdout) != 0) done = Failure{"standard output cannot be written"};
  if (done) return 0;
  Failure failure = done.error();
  if (failure.status == vram::cli::kFailed) failure.status = vram::cli::kError;
  return report(failure);
}

int run_command(int argc, char** argv) {
  Options options;
  const std::unique_ptr<CLI::App> root = vram::cli::make_options(&options);
  std::vector<std::string> arguments(argv + 1, argv + argc);
  std::vector<std::string> command;
  if (!arguments.empty() && vram::cli::starts_program(arguments.front())) {
    const std::string verb = arguments.front();
    arguments.erase(arguments.begin());
    command = vram::cli::take_command(*root->get_subcommand(verb), &arguments);
    arguments.insert(arguments.begin(), verb);
  }
  std::reverse(arguments.begin(), arguments.end());  // as CLI11 takes them
  try {
    root->parse(arguments);
  } catch (const CLI::Success& success) {
    return root->exit(success, std::cout, std::cerr);
  } catch (const CLI::ParseError& error) {
    return report_usage(*root, error, argc > 1 ? argv[1] : "");
  }
  const bool runs = root->got_subcommand("run");
  if (!runs && !root->got_subcommand("trace")) return show(*root, options);
  (runs ? options.run : options.trace.run).command = std::move(command);
  const Result<int> status =
      runs ? vram::cli::run(options.run, nullptr) : vram::cli::trace(options.trace);
  return status ? *status : report(status.error());
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run_command(argc, argv);
  } catch (const std::exception& error) {  // no memory, a library's surprise
    return report({error.what()});
  }
}
