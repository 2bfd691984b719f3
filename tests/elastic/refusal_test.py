"""What cannot be parked is refused whole, with the reason, and goes on as it was.

usage: refusal_test.py BUILD
"""

from scene import MIB, ElasticTest, main


class Refusal(ElasticTest):
    def refused(self, scene, reason):
        """Asked to park, it says why not, shows it, and has lost nothing."""
        held, used = self.held(), self.process_of()["used"]
        told, = self.move("park")
        self.assertEqual((told["outcome"], told["refusal"], told["place"]), ("refused", reason, "card"), told)
        shown = self.process_of()
        self.assertEqual((shown["last_refusal"], shown["place"], shown["parked_bytes"]), (reason, "card", 0))
        self.assertEqual((self.held(), shown["used"]), (held, used))
        result = self.vram("park", "job", "--timeout", "50s")
        self.assertEqual(result.returncode, 1)
        self.assertIn("stays on the card", result.stderr)
        self.tell(scene, "check")

    def test_memory_given_to_others_by_ipc(self):
        scene = self.scene()
        self.take_every_kind(scene)
        said = scene.ask("ipc block")
        if not said.startswith("ok"):  # such memory may as well not be given away at all
            self.park()
            self.skipTest("blocks are not given away: " + said)
        self.refused(scene, "shared")
        self.tell(scene, "give block")
        self.park()

    def test_memory_given_to_others_by_a_descriptor(self):
        scene = self.scene()
        self.take_every_kind(scene)
        self.tell(scene, f"take given shareable {4 * MIB}")
        self.park()
        self.tell(scene, "check")
        self.tell(scene, "export given")
        self.refused(scene, "shared")
        self.tell(scene, "give given")
        self.park()
        self.tell(scene, "check")

    def test_managed_memory(self):
        scene = self.scene()
        self.take_every_kind(scene)
        self.tell(scene, f"take managed managed {4 * MIB}")
        self.refused(scene, "managed")
        self.tell(scene, "give managed")
        self.park()
        self.tell(scene, "check")

    def test_a_stream_in_capture(self):
        scene = self.scene()
        self.tell(scene, f"take from block {4 * MIB}", f"take to block {4 * MIB}", "capture from to")
        told, = self.move("park")
        self.assertEqual((told["outcome"], told["refusal"]), ("refused", "capture"), told)
        self.assertEqual(self.process_of()["last_refusal"], "capture")
        self.tell(scene, "captured", "replay", "check")
        self.park()
        self.tell(scene, "replay", "check")

    def test_a_program_without_memory(self):
        scene = self.scene()
        told = self.move("park")
        self.assertIn([process["outcome"] for process in told], ([], ["nothing"]), told)
        self.tell(scene, "check")


if __name__ == "__main__":
    main()
