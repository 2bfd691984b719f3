// The daemon `vramd`: parses, reads the policy, listens, and loops; prints the one line when
// something failed.

#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <exception>
#include <iostream>

#include "daemon/daemon.h"
#include "daemon/dry_run.h"
#include "daemon/options.h"
#include "wire/daemon_client.h"
#include "wire/job_file.h"

namespace {

using namespace vram;
using host::Done;
using host::Failure;
using host::Result;

int report(const Failure& failure, int status) {
  std::fprintf(stderr, "vramd: %s\n", failure.message.c_str());
  return status;
}

Result<daemon::LogLevel> log_level(const std::string& text) {
  if (text == "error") return daemon::LogLevel::kError;
  if (text == "info") return daemon::LogLevel::kInfo;
  if (text == "debug") return daemon::LogLevel::kDebug;
  return Failure{"--log-level: '" + text + "' is unknown; use error, info or debug"};
}

// The folders named, each with its owner.
Result<std::vector<host::StateFolder>> named_folders(const std::vector<std::string>& paths) {
  std::vector<host::StateFolder> folders;
  for (const std::string& path : paths) {
    struct stat st {};
    if (lstat(path.c_str(), &st) != 0 || !S_ISDIR(st.st_mode)) {
      return Failure{"--state: " + path + " is no folder; make it, or correct the path"};
    }
    if (st.st_uid != geteuid() && geteuid() != 0) {
      return Failure{"--state: " + path + " belongs to another user; only root serves others"};
    }
    folders.push_back({path, st.st_uid});
  }
  return folders;
}

// Root serves everybody, and a user itself, unless one folder was chosen.
bool serves_everybody(const daemon::Options& options) {
  if (geteuid() != 0) return false;
  return options.folders.size() > 1 || std::getenv("VRAM_STATE_DIR") == nullptr;
}

Result<std::string> socket_path(const daemon::Options& options) {
  if (options.socket) return *options.socket;
  if (serves_everybody(options)) return std::string(wire::kSystemSocket);
  char folder[wire::kPathSize];
  wire::state_folder(folder);
  const wire::FileError error = wire::ensure_state_folder(folder);
  if (error != wire::FileError::kNone) {
    return Failure{std::string("state folder ") + folder + ": " + wire::describe(error) +
                   "; remove it, or set VRAM_STATE_DIR to a folder of your own"};
  }
  return std::string(folder) + "/" + wire::kSocketName;
}

Result<Done> serve(const daemon::Options& options) {
  const Result<daemon::LogLevel> level = log_level(options.log_level);
  if (!level) return level.error();
  daemon::Policy policy;
  if (options.policy) {
    Result<daemon::Policy> read = daemon::read_policy(*options.policy);
    if (!read) return read.error();
    policy = std::move(*read);
  }
  Result<std::vector<host::StateFolder>> folders = named_folders(options.folders);
  if (!folders) return folders.error();
  auto host = host::read_host(options.sim, host::find_install_layout(host::executable_folder()));
  if (!host) return host.error().failure;
  if (options.dry_run) {
    daemon::Standings standings(&policy);
    const daemon::Sight sight = daemon::see(*folders, *host->nvml, host->cards);
    const auto standing_of = [&](std::uint32_t uid) { return standings.of(uid); };
    std::fputs(daemon::describe(sight, policy, standing_of).c_str(), stdout);
    return Done{};
  }
  const Result<std::string> path = socket_path(options);
  if (!path) return path.error();
  const bool everybody = serves_everybody(options);
  Result<daemon::Listener> listener =
      daemon::listen_at(*path, everybody ? daemon::Audience::kEverybody : daemon::Audience::kOwner);
  if (!listener) return listener.error();
  daemon::Daemon daemon(std::move(policy), std::move(*host), std::move(*folders),
                        std::move(*listener), daemon::Log(*level));
  daemon.run();
  return Done{};
}

int run(int argc, char** argv) {
  daemon::Options options;
  const std::unique_ptr<CLI::App> root = daemon::make_options(&options);
  try {
    root->parse(argc, argv);
  } catch (const CLI::Success& success) {
    return root->exit(success, std::cout, std::cerr);
  } catch (const CLI::ParseError& error) {
    return report({std::string(error.what()) + "; see 'vramd --help'"}, host::kUsage);
  }
  const Result<Done> done = serve(options);
  return done ? 0 : report(done.error(), host::kError);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {  // no memory, a library's surprise
    return report({error.what()}, host::kError);
  }
}
