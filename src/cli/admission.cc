#include "cli/admission.h"

#include <unistd.h>

#include <cstdio>

#include "wire/daemon_client.h"

namespace vram::cli {
namespace {

using wire::DaemonError;
using wire::DaemonLine;
using wire::DaemonReply;
using wire::Verdict;

// A daemon that lives answers at once, if only that the job has to wait.
constexpr std::uint32_t kAnswer_ms = 10'000;
// While it waits: how soon a daemon that was killed is noticed is up to the connection, and this is
// only how long one call sleeps.
constexpr std::uint32_t kSleep_ms = 60'000;
// How long a daemon that was ended may take to be started again.
constexpr int kReturn_s = 60;

// On a terminal one line that is written over; elsewhere a line when the reason changes.
class Progress {
 public:
  explicit Progress(bool quiet) : terminal_(isatty(STDERR_FILENO) != 0), quiet_(quiet) {}
  ~Progress() {
    if (terminal_ && !told_.empty()) std::fputs("\r\x1b[K", stderr);
  }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void tell(const std::string& text) {
    if (text == told_ || (quiet_ && !terminal_)) return;
    told_ = text;
    std::fprintf(stderr, terminal_ ? "\r\x1b[Kvram: waits: %s" : "vram: waits: %s\n", text.c_str());
    std::fflush(stderr);
  }

 private:
  bool terminal_, quiet_;
  std::string told_;
};

enum class Outcome : std::uint8_t { kAdmitted, kRefused, kNobody, kLost, kOtherVersion };

struct Answer {
  Outcome outcome = Outcome::kNobody;
  std::string text;
};

Answer listen(const DaemonLine& line, Progress* progress) {
  std::uint32_t timeout_ms = kAnswer_ms;
  for (;;) {
    DaemonReply reply{};
    const DaemonError error = wire::receive_reply(line, timeout_ms, &reply);
    if (error == DaemonError::kTimeout && timeout_ms == kSleep_ms) continue;
    if (error != DaemonError::kNone) return {Outcome::kLost, ""};
    switch (reply.verdict) {
      case Verdict::kGranted:
        return {Outcome::kAdmitted, ""};
      case Verdict::kWaits:
        progress->tell(reply.text);
        timeout_ms = kSleep_ms;
        break;
      case Verdict::kVersion:
        return {Outcome::kOtherVersion, ""};
      case Verdict::kLater:
      case Verdict::kNever:
        return {Outcome::kRefused, reply.text};
    }
  }
}

Answer ask(const Settings& settings, const wire::JobHeader& header, Progress* progress) {
  if (header.daemon_path[0] == '\0') return {};
  DaemonLine line = wire::call_daemon(header.daemon_path);
  if (line.error != DaemonError::kNone) return {};
  wire::DaemonRequest request = wire::make_request(wire::DaemonAsk::kAdmit);
  request.flags = settings.wait.value ? wire::kAskToWait : 0;
  std::snprintf(request.job, sizeof request.job, "%s", header.id);
  Answer answer{Outcome::kLost, ""};
  if (wire::send_request(line, request) == DaemonError::kNone) answer = listen(line, progress);
  wire::hang_up(&line);
  return answer;
}

// Whoever waits goes on waiting when the daemon is started anew.
Answer ask_until_decided(const Settings& settings, const wire::JobHeader& header) {
  Progress progress(settings.quiet.value);
  Answer answer = ask(settings, header, &progress);
  for (int s = 0; answer.outcome == Outcome::kLost && s < kReturn_s; ++s) {
    for (int tenth = 0; tenth < 10; ++tenth) {
      usleep(100'000);
      const Answer again = ask(settings, header, &progress);
      if (again.outcome == Outcome::kNobody || again.outcome == Outcome::kLost) continue;
      return again;
    }
    progress.tell("vramd ended; until it is back");
  }
  return answer;
}

std::string without_daemon(Outcome outcome, const wire::JobHeader& header) {
  const std::string path = header.daemon_path;
  if (path.empty()) return "there is no vramd for this job (VRAM_DAEMON)";
  if (outcome == Outcome::kOtherVersion) return "vramd at " + path + " is of another version";
  if (outcome == Outcome::kLost) return "vramd at " + path + " does not answer";
  return "no vramd listens at " + path;
}

}  // namespace

Result<Done> be_admitted(const Settings& settings, const JobFile& job) {
  const wire::JobHeader& header = job->header;
  const Answer answer = ask_until_decided(settings, header);
  if (answer.outcome == Outcome::kAdmitted) return Done{};
  if (answer.outcome == Outcome::kRefused) return Failure{"not admitted: " + answer.text};
  if (settings.reserve.value.empty()) return Done{};
  const std::string reason =
      without_daemon(answer.outcome, header) + ", so nobody keeps the reserve";
  if (settings.on_failure.value == OnFailure::kRefuse) {
    return Failure{reason + "; start vramd, or accept that with --on-failure allow"};
  }
  std::fprintf(stderr, "vram: warning: %s\n", reason.c_str());
  return Done{};
}

}  // namespace vram::cli
