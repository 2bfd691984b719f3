"""vramd for a script's time, as the same user, when it was built."""
import os
import shlex
import signal
import subprocess
import tempfile
import time


class Daemon:
    """`running` tells whether there is one; its words are in last_words()."""

    def __init__(self, build, arguments=""):
        self.path = next((path for path in (os.path.join(build, "bin", "vramd"), os.path.join(build, "sbin", "vramd"))
                          if os.path.exists(path)), None)
        self.log = tempfile.TemporaryFile(mode="w+", errors="replace")
        self.process = None
        if self.path is not None:
            self.process = subprocess.Popen([self.path, *shlex.split(arguments)], stdin=subprocess.DEVNULL, stdout=self.log,
                                            stderr=self.log, start_new_session=True)
            time.sleep(1.0)

    @property
    def running(self):
        return self.process is not None and self.process.poll() is None

    def last_words(self, lines=40):
        self.log.seek(0)
        return "\n    ".join(self.log.read().splitlines()[-lines:])

    def stop(self):
        if self.running:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
