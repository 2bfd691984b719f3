// Completion scripts, made from the option tree: what is not in it cannot be completed, and what is
// in it always can.

#include <CLI/CLI.hpp>
#include <cstdio>
#include <map>

#include "cli/commands.h"
#include "cli/framework_env.h"

namespace vram::cli {
namespace {

struct Word {
  std::string name;  // "-m", "--limit"
  std::string help;
  bool takes_value = false;
  bool is_file = false;
  std::vector<std::string> values;  // those known beforehand
};

struct Verb {
  std::string name, help;
  std::vector<Word> options;
  std::vector<std::string> positionals;  // known values of the first positional
  bool takes_files = false;
};

const std::map<std::string, std::vector<std::string>>& known_values() {
  static const std::map<std::string, std::vector<std::string>> values{
      {"--profile", {"shared", "serve", "train"}},
      {"--on-failure", {"refuse", "allow"}},
      {"--alloc", {"driver", "vram"}},
      {"--pool", {"segments", "bfc", "driver-async", "all"}},
      {"--card", {"24GiB", "80GiB", "141GiB"}},
      {"--limit", {"1GiB", "2GiB", "4GiB", "8GiB", "50%"}},
      {"--reserve", {"1GiB", "2GiB", "4GiB", "25%"}},
      {"--park-after", {"1min", "10min", "1h"}},
      {"--timeout", {"10s", "60s", "5min"}},
      {"--sim", {"1x24GiB", "2x24GiB", "1x141GiB"}}};
  return values;
}

std::vector<Word> words_of(const CLI::App& app) {
  std::vector<Word> words;
  for (const CLI::Option* option : app.get_options()) {
    if (option->nonpositional() == false) continue;
    std::vector<std::string> values;
    for (const std::string& name : option->get_lnames()) {
      const auto known = known_values().find("--" + name);
      if (known != known_values().end()) values = known->second;
    }
    const bool takes_value = option->get_items_expected_max() > 0;
    const std::string type = option->get_type_name();
    const bool is_file = type == "FILE" || type == "LOG";
    for (const std::string& name : option->get_snames()) {
      words.push_back({"-" + name, option->get_description(), takes_value, is_file, values});
    }
    for (const std::string& name : option->get_lnames()) {
      words.push_back({"--" + name, option->get_description(), takes_value, is_file, values});
    }
  }
  return words;
}

std::vector<Verb> verbs_of(const CLI::App& root) {
  std::vector<Verb> verbs;
  for (const CLI::App* app : root.get_subcommands([](const CLI::App*) { return true; })) {
    Verb verb{app->get_name(), app->get_description(), words_of(*app), {}};
    for (const CLI::App* inner : app->get_subcommands([](const CLI::App*) { return true; })) {
      verb.positionals.push_back(inner->get_name());
      const std::vector<Word> more = words_of(*inner);
      verb.options.insert(verb.options.end(), more.begin(), more.end());
    }
    const CLI::Option* file = app->get_option_no_throw("FILE");
    verb.takes_files = file != nullptr && file->get_positional();
    if (verb.name == "env") verb.positionals = framework_names();
    if (verb.name == "completion") verb.positionals = {"bash", "zsh", "fish"};
    verbs.push_back(std::move(verb));
  }
  return verbs;
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

std::string option_names(const std::vector<Word>& words) {
  std::vector<std::string> names;
  for (const Word& word : words) names.push_back(word.name);
  return joined(names);
}

// Case labels of the options that take a value, and what can follow them.
std::string bash_values(const Verb& verb) {
  std::string text;
  for (const Word& word : verb.options) {
    if (!word.takes_value) continue;
    const std::string what = word.is_file ? "-f" : "-W \"" + joined(word.values) + "\"";
    text += "      " + verb.name + ":" + word.name + ") COMPREPLY=($(compgen " + what +
            " -- \"$cur\")); return ;;\n";
  }
  return text;
}

std::string bash(const std::vector<Verb>& verbs) {
  std::string names, values, options, with_value, with_files;
  for (const Verb& verb : verbs) {
    names += (names.empty() ? "" : " ") + verb.name;
    values += bash_values(verb);
    std::string words = option_names(verb.options);
    if (!verb.positionals.empty()) words += " " + joined(verb.positionals);
    options += "    " + verb.name + ") words=\"" + words + "\" ;;\n";
    if (verb.takes_files) with_files += (with_files.empty() ? "" : "|") + verb.name;
    if (!starts_program(verb.name)) continue;
    for (const Word& word : verb.options) {
      if (word.takes_value) with_value += (with_value.empty() ? "" : "|") + word.name;
    }
  }
  return "_vram() {\n"
         "  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} words i\n"
         "  COMPREPLY=()\n"
         "  if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
         "    COMPREPLY=($(compgen -W \"" +
         names +
         " --help --version\" -- \"$cur\")); return\n"
         "  fi\n"
         "  local verb=${COMP_WORDS[1]}\n"
         "  if [ \"$verb\" = run ] || [ \"$verb\" = trace ]; then\n"
         "    # From the program's name on, its own completion is meant.\n"
         "    for ((i = 2; i < COMP_CWORD; i++)); do\n"
         "      case ${COMP_WORDS[i]} in\n"
         "        --) ((i++)); break ;;\n"
         "        " +
         with_value +
         ") ((i++)) ;;\n"
         "        -*) ;;\n"
         "        *) break ;;\n"
         "      esac\n"
         "    done\n"
         "    if [ \"$i\" -lt \"$COMP_CWORD\" ]; then\n"
         "      if declare -F _command_offset >/dev/null; then _command_offset \"$i\"\n"
         "      else COMPREPLY=($(compgen -f -- \"$cur\")); fi\n"
         "      return\n"
         "    fi\n"
         "  fi\n"
         "  case $verb:$prev in\n" +
         values +
         "  esac\n"
         "  case $verb in\n" +
         options +
         "  esac\n"
         "  COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n"
         "  if { [ \"$verb\" = run ] || [ \"$verb\" = trace ]; } && [ \"${cur:0:1}\" != - ]; then\n"
         "    COMPREPLY+=($(compgen -c -- \"$cur\"))\n"
         "  fi\n"
         "  case $verb in\n"
         "    " +
         with_files +
         ") [ \"${cur:0:1}\" = - ] || COMPREPLY+=($(compgen -f -- \"$cur\")) ;;\n"
         "  esac\n"
         "  if { [ \"$verb\" = limit ] && [ \"$COMP_CWORD\" -eq 2 ]; } || [ \"$verb\" = park ] ||\n"
         "      [ \"$verb\" = unpark ]; then\n"
         "    COMPREPLY+=($(compgen -W \"$(vram ps 2>/dev/null | awk 'NR > 1 && $1 != \"-\" {print "
         "$1}')\" -- \"$cur\"))\n"
         "  fi\n"
         "}\n"
         "complete -F _vram vram\n";
}

std::string zsh_quoted(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '\'') out += "'\\'";
    if (c == '[' || c == ']' || c == ':') out += '\\';
    out += c;
  }
  return out;
}

std::string zsh_value(const Word& word) {
  if (!word.takes_value) return "";
  return word.is_file ? ":file:_files" : ":value:(" + joined(word.values) + ")";
}

std::string zsh(const std::vector<Verb>& verbs) {
  std::string names, cases;
  for (const Verb& verb : verbs) {
    names += "    '" + verb.name + ":" + zsh_quoted(verb.help) + "'\n";
    cases += "    " + verb.name + ")\n      _arguments";
    for (const Word& word : verb.options) {
      cases +=
          " \\\n        '" + word.name + "[" + zsh_quoted(word.help) + "]" + zsh_value(word) + "'";
    }
    if (starts_program(verb.name)) cases += " \\\n        '*::command:_normal'";
    if (verb.takes_files) cases += " \\\n        '*:file:_files'";
    if (!verb.positionals.empty())
      cases += " \\\n        '1:value:(" + joined(verb.positionals) + ")'";
    cases += "\n      ;;\n";
  }
  return "#compdef vram\n"
         "_vram() {\n"
         "  local -a verbs\n"
         "  verbs=(\n" +
         names +
         "  )\n"
         "  if (( CURRENT == 2 )); then\n"
         "    _describe 'command' verbs\n"
         "    return\n"
         "  fi\n"
         "  local verb=$words[2]\n"
         "  shift words\n"
         "  (( CURRENT-- ))\n"
         "  case $verb in\n" +
         cases +
         "  esac\n"
         "}\n"
         "if [ \"$funcstack[1]\" = _vram ]; then _vram \"$@\"; else compdef _vram vram; fi\n";
}

std::string fish_quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'' || c == '\\') out += '\\';
    out += c;
  }
  return out + "'";
}

std::string fish(const std::vector<Verb>& verbs) {
  std::string text = "complete -c vram -f\n";
  for (const Verb& verb : verbs) {
    text += "complete -c vram -n __fish_use_subcommand -a " + verb.name + " -d " +
            fish_quoted(verb.help) + "\n";
    const std::string when = "complete -c vram -n '__fish_seen_subcommand_from " + verb.name + "' ";
    for (const Word& word : verb.options) {
      const bool long_name = word.name.compare(0, 2, "--") == 0;
      text += when + (long_name ? "-l " + word.name.substr(2) : "-s " + word.name.substr(1)) +
              (word.is_file       ? " -r -F"
               : word.takes_value ? " -x"
                                  : "");
      if (!word.values.empty()) text += " -a " + fish_quoted(joined(word.values));
      text += " -d " + fish_quoted(word.help) + "\n";
    }
    if (!verb.positionals.empty())
      text += when + "-a " + fish_quoted(joined(verb.positionals)) + "\n";
    if (verb.takes_files) text += when + "-F\n";
    if (starts_program(verb.name)) text += when + "-a '(__fish_complete_subcommand)'\n";
  }
  return text;
}

}  // namespace

Result<Done> print_completion(const CompletionOptions& options, const CLI::App& root) {
  const std::vector<Verb> verbs = verbs_of(root);
  std::string script;
  if (options.shell == "bash") {
    script = bash(verbs);
  } else if (options.shell == "zsh") {
    script = zsh(verbs);
  } else if (options.shell == "fish") {
    script = fish(verbs);
  } else {
    return Failure{
        "completion: '" + options.shell + "' is no shell known here; use bash, zsh or fish",
        kUsage};
  }
  std::fputs(script.c_str(), stdout);
  return Done{};
}

}  // namespace vram::cli
