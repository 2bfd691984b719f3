"""Parking while the driver fails at one step after another, programs are killed, and requests cross: no wrong byte, no
leak, nobody stuck, and whatever failed works when it is asked again.

usage: faults_test.py BUILD [--cycles N] [--seed N]
"""

import collections
import os
import signal
import sys
import threading
import time

from scene import KINDS, MIB, ElasticTest, main, option, seeded

# What moving memory asks of the driver, and what each may answer. The scene's own looks at memory go by other functions.
STEPS = {
    "cuMemCreate": (2, 999), "cuMemMap": (2, 1, 999), "cuMemSetAccess": (2, 999), "cuMemUnmap": (999,), "cuMemRelease": (999,),
    "cuMemAddressReserve": (2,), "cuMemcpyDtoHAsync_v2": (2, 999), "cuMemcpyHtoDAsync_v2": (2, 999),
    "cuStreamSynchronize": (999,), "cuStreamCreate": (2, 999), "cuMemHostRegister_v2": (2, 712), "cuMemHostUnregister": (999,), "cuCtxPushCurrent_v2": (999,),
    "cuCtxSynchronize": (999,)}
# A fault that comes every n-th call must let something through; a step is called this often in a move at most.
TRIES = 200
CYCLES_OF_A_PROGRAM = 25
# src/wire/job_layout.h: it has nothing more that could be moved.
NOTHING = 1
# Beyond the memory that the host keeps for the next time.
RSS_SLACK = 96 * MIB


CYCLES = option("--cycles", 100)
SEED = option("--seed", 4)


class Faults(ElasticTest):
    def setUp(self):
        super().setUp()
        self.seen = collections.Counter()
        self.number = 0

    def until_ok(self, scene, command):
        """What a program does whose call failed: the same once more."""
        for _ in range(TRIES):
            said = scene.ask(command)
            if said.startswith("ok"):
                return said[3:]
            self.assertRegex(said, "CUDA_ERROR", command)
            self.assertNotRegex(said, "wrong|other answers|ILLEGAL", command)
            self.seen["refused to the program"] += 1
        return self.fail(f"{command}: never, after {TRIES} tries: {said}")

    def until_moved(self, verb, name):
        for _ in range(TRIES):
            told = self.move(verb, name)
            if not told or told[0]["outcome"] in ("parked", "restored", "already", "nothing"):
                self.seen[told[0]["outcome"] if told else "nothing"] += 1
                return
            self.assertEqual(told[0]["outcome"], "refused", told)
            self.seen["refused: " + told[0]["refusal"]] += 1
        self.fail(f"{verb} {name}: never, after {TRIES} tries: {told}")

    def until_part_is_gone(self, size, name):
        """A part, and more of it: what the daemon does."""
        for _ in range(TRIES):
            refusal = self.take_part(size, name)
            self.seen["a part" if refusal == 0 else "a part, refused"] += 1
            if refusal in (0, NOTHING):
                return
        self.fail(f"a part of {name}: never, after {TRIES} tries: {refusal}")

    def start_program(self, faults):
        self.number += 1
        name = f"job{self.number}"
        environment = {"VRAM_SIM_FAULTS": faults} if faults else {}
        scene = self.scene(name=name, begin=False, environment=environment)
        self.last = scene
        self.until_ok(scene, "begin")
        return name, scene

    @staticmethod
    def memory_of(pid):
        with open(f"/proc/{pid}/status", encoding="ascii") as status:
            return next(int(line.split()[1]) * 1024 for line in status if line.startswith("RssAnon"))

    def change(self, scene, chance, names):
        """What programs do between: take, give, fill, or only look."""
        what = chance.choice(("look", "fill", "take", "give"))
        if what == "take" and len(names) < 20:
            kind = chance.choice(list(KINDS))
            name = f"{kind}-{chance.randrange(1 << 30)}"
            self.until_ok(scene, f"take {name} {kind} {chance.randrange(1, 5 * MIB)}")
            names.append(name)
        elif what == "give" and len(names) > 3:
            self.until_ok(scene, f"give {names.pop(chance.randrange(len(names)))}")
        elif what == "fill":
            self.until_ok(scene, f"fill {chance.choice(names)}")

    def cycle(self, scene, name, chance, names):
        for _ in range(chance.choice((0, 0, 1, 2))):
            self.until_part_is_gone(chance.randrange(1, 8) * 2 * MIB, name)
        if chance.random() < 0.7:
            self.until_moved("park", name)
        if chance.random() < 0.4:
            self.until_moved("unpark", name)
        self.change(scene, chance, names)
        said = scene.ask("check")
        self.assertEqual(said, f"ok {len(names)}", said)

    def live(self, faults, cycles, chance):
        """One program from its start to its end."""
        name, scene = self.start_program(faults)
        empty = self.held()
        names = []
        for kind, size in KINDS.items():
            self.until_ok(scene, f"take {kind} {kind} {size}")
            names.append(kind)
        self.until_moved("park", name)
        self.cycle(scene, name, chance, names)
        pid = self.process_of(name)["pid"]
        memory = self.memory_of(pid)
        for _ in range(cycles - 1):
            self.cycle(scene, name, chance, names)
        self.assertLess(self.memory_of(pid), 2 * memory + RSS_SLACK, "of the host")
        if chance.random() < 0.5:
            self.kill_while_moving(scene, name, chance)
        else:
            while names:
                self.until_ok(scene, f"give {names.pop()}")
            self.until_moved("park", name)
            self.assertLessEqual(self.held(), empty + 2 * MIB, "of the card")
            scene.process.stdin.close()
            self.assertEqual(scene.process.wait(timeout=30), 0)
        self.assert_nothing_left()

    def kill_while_moving(self, scene, name, chance):
        asking = threading.Thread(target=lambda: self.move(chance.choice(("park", "unpark")), name))
        asking.start()
        time.sleep(chance.random() * 0.03)
        for process in self.processes_of(name):
            os.kill(process["pid"], signal.SIGKILL)
        asking.join(30)
        self.assertFalse(asking.is_alive(), "the command waits for the dead")
        scene.process.wait(timeout=30)
        self.seen["killed"] += 1

    def run_programs(self, faults_of):
        done = 0
        while done < CYCLES:
            chance = seeded(SEED + done)
            faults = faults_of(chance)
            cycles = min(CYCLES_OF_A_PROGRAM, CYCLES - done)
            with self.subTest(faults=faults, seed=SEED + done):
                try:
                    self.live(faults, cycles, chance)
                finally:
                    self.finish(self.last.process)
            done += cycles
        self.assertGreater(self.seen["parked"], 0)
        print(f"{done} cycles: " + ", ".join(f"{count} {what}" for what, count in sorted(self.seen.items())), file=sys.stderr)

    def test_one_step_fails_once(self):
        def one(chance):
            step = chance.choice(list(STEPS))
            return f"{step}:{chance.randrange(1, 40)}={chance.choice(STEPS[step])}"
        self.run_programs(one)

    def test_steps_fail_again_and_again(self):
        def several(chance):
            steps = chance.sample(list(STEPS), 3)
            return ",".join(f"{step}:every={chance.randrange(19, 90)}={chance.choice(STEPS[step])}" for step in steps)
        self.run_programs(several)

    def test_nothing_fails(self):
        self.run_programs(lambda chance: "")


if __name__ == "__main__":
    main()
