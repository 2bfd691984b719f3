#include "daemon/options.h"

namespace vram::daemon {
namespace {

void text(CLI::App* app, const std::string& name, std::optional<std::string>* to,
          const std::string& value, const std::string& help) {
  app->add_option_function<std::string>(
         name, [to](const std::string& given) { *to = given; }, help)
      ->type_name(value);
}

}  // namespace

std::unique_ptr<CLI::App> make_options(Options* options) {
  auto root = std::make_unique<CLI::App>(
      "Lends GPU memory among elastic jobs, and takes it back when it is needed.", "vramd");
  root->set_version_flag("--version", "vramd " VRAM_VERSION, "print the version");
  root->set_help_flag("-h,--help", "print this help");
  root->footer("Manual: man vramd.");
  text(root.get(), "--policy", &options->policy, "FILE", "who may take how much (TOML)");
  root->add_flag("--dry-run", options->dry_run,
                 "check the policy, print what it means for the jobs there are, and end");
  text(root.get(), "--socket", &options->socket, "PATH", "listen there");
  root->add_option("--state", options->folders, "serve the jobs in this folder; may be repeated")
      ->type_name("FOLDER");
  text(root.get(), "--sim", &options->sim, "CARDS", "serve these simulated cards, like 2x24GiB");
  root->add_option("--log-level", options->log_level, "error, info (the default) or debug")
      ->type_name("LEVEL");
  return root;
}

}  // namespace vram::daemon
