"""A program under `vram run` has the terminal as if vram were not there.

usage: terminal_test.py BUILD
"""

import os
import pty
import signal
import time

from command import VRAM, CommandTest, main

RUN = ("run", "-q", "--sim", "1x24GiB", "--")


class Terminal(CommandTest):
    def in_terminal(self, *command):
        """Starts the command as the leader of a new terminal's session; its pid and the terminal."""
        pid, terminal = pty.fork()
        if pid == 0:
            os.execve(command[0], command, self.environment)
        self.addCleanup(self.close, pid, terminal)
        return pid, terminal

    @staticmethod
    def close(pid, terminal):
        try:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        except (ProcessLookupError, ChildProcessError):
            pass
        os.close(terminal)

    def read_until(self, terminal, wanted):
        os.set_blocking(terminal, False)
        got = b""
        deadline = time.monotonic() + 20
        while wanted not in got:
            self.assertLess(time.monotonic(), deadline, f"{wanted!r} did not come: {got!r}")
            try:
                got += os.read(terminal, 4096)
            except BlockingIOError:
                time.sleep(0.02)
            except OSError:  # the other side is closed
                break
        self.assertIn(wanted, got)
        return got

    @staticmethod
    def status(pid):
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

    def test_program_sees_a_terminal_and_reads_from_it(self):
        pid, terminal = self.in_terminal(VRAM, *RUN, "sh", "-c", "test -t 0 && test -t 1 && test -t 2 && read x && echo got-$x")
        os.write(terminal, b"word\n")
        self.read_until(terminal, b"got-word")
        self.assertEqual(self.status(pid), 0)

    def test_interrupt_key_ends_the_program_and_vram_reports_it(self):
        pid, terminal = self.in_terminal(VRAM, *RUN, "sh", "-c", "echo ready; exec sleep 60")
        self.read_until(terminal, b"ready")
        os.write(terminal, b"\x03")
        self.assertEqual(self.status(pid), 130)

    def test_interrupt_key_reaches_a_program_that_handles_it_once(self):
        pid, terminal = self.in_terminal(VRAM, *RUN, "python3", "-c", """
import signal, time
count = 0
def got(*_):
    global count
    count += 1
signal.signal(signal.SIGINT, got)
print("ready", flush=True)
while count == 0:
    time.sleep(0.01)
time.sleep(0.3)
print("interrupted", count, flush=True)
""")
        self.read_until(terminal, b"ready")
        os.write(terminal, b"\x03")
        self.read_until(terminal, b"interrupted 1\r\n")
        self.assertEqual(self.status(pid), 0)

    def test_suspend_key_and_fg_work_as_in_a_shell(self):
        pid, terminal = self.in_terminal("/bin/bash", "--norc", "--noprofile", "-i")
        command = " ".join((VRAM, *RUN))
        os.write(terminal, f"PS1=; {command} sh -c 'echo re''ady; sleep 0.5; echo do''ne'\n".encode())
        self.read_until(terminal, b"ready")
        os.write(terminal, b"\x1a")
        self.read_until(terminal, b"Stopped")
        os.write(terminal, b"fg\n")
        self.read_until(terminal, b"done")
        os.write(terminal, b"exit 4\n")
        self.read_until(terminal, b"exit")
        self.assertEqual(self.status(pid), 4)

    def test_program_that_stops_itself_gives_the_shell_back(self):
        pid, terminal = self.in_terminal("/bin/bash", "--norc", "--noprofile", "-i")
        command = " ".join((VRAM, *RUN))
        os.write(terminal, f"PS1=; {command} sh -c 'kill -STOP $$; echo con''tinued'\n".encode())
        self.read_until(terminal, b"Stopped")
        os.write(terminal, b"fg\n")
        self.read_until(terminal, b"continued")
        os.write(terminal, b"exit 4\n")
        self.read_until(terminal, b"exit")
        self.assertEqual(self.status(pid), 4)


if __name__ == "__main__":
    main()
