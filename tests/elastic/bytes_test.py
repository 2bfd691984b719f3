"""Memory that was parked comes back as it was: bytes, addresses, and what the driver tells of them.

usage: bytes_test.py BUILD
"""

from scene import KINDS, MIB, ElasticTest, main


class Bytes(ElasticTest):
    def test_of_every_kind_come_back_by_command(self):
        scene = self.scene()
        self.take_every_kind(scene)
        for _ in range(3):
            self.assertGreaterEqual(self.park()["bytes"], sum(KINDS.values()))
            self.unpark()
            self.tell(scene, "check")

    def test_of_every_kind_come_back_by_the_next_call(self):
        for kind, size in KINDS.items():
            with self.subTest(kind=kind):
                scene = self.scene(name=kind)
                self.tell(scene, f"take it {kind} {size}")
                self.park(kind)
                self.tell(scene, "check")
                self.assertEqual(self.process_of(kind)["place"], "card")
                self.park(kind)
                self.tell(scene, "fill it", "check")
                self.park(kind)
                self.tell(scene, "give it", "check")
                self.finish(scene.process)

    def test_keep_the_identity_that_the_driver_gave_them(self):
        scene = self.scene()
        self.take_every_kind(scene)
        self.tell(scene, "ids")
        self.park()
        self.unpark()
        self.tell(scene, "ids")

    def test_that_change_between_are_those_that_come_back(self):
        scene = self.scene()
        self.take_every_kind(scene)
        for kind in KINDS:
            self.park()
            self.tell(scene, f"fill {kind}")
            self.park()
            self.unpark()
            self.tell(scene, "check")

    def test_are_there_for_what_is_taken_while_parked(self):
        scene = self.scene()
        self.take_every_kind(scene)
        for round_number, (kind, size) in enumerate(KINDS.items()):
            self.park()
            self.tell(scene, f"take more{round_number} {kind} {size}", "check")
            self.park()
            self.tell(scene, f"give {kind}", "check")

    def test_are_those_of_a_graph_that_was_made_before(self):
        scene = self.scene()
        self.tell(scene, f"take from block {4 * MIB}", f"take to virtual {4 * MIB}", "capture from to", "captured")
        self.park()
        self.tell(scene, "replay", "check", "fill to")
        self.park()
        self.unpark()
        self.tell(scene, "replay", "check")

    def test_of_a_program_that_forks_are_its_own(self):
        scene = self.scene()
        self.take_every_kind(scene)
        self.tell(scene, "fork")
        self.park()
        self.tell(scene, "join", "check")
        self.tell(scene, "fork")
        self.unpark_if_parked()
        self.tell(scene, "join", "check")
        self.park()
        self.tell(scene, "fork", "join", "check")

    def unpark_if_parked(self):
        for told in self.move("unpark"):
            self.assertIn(told["outcome"], ("restored", "already"), told)

    def test_of_two_processes_of_a_job_move_together(self):
        scene = self.scene(begin=False)
        self.tell(scene, f"own {20 * MIB}", "begin")
        self.take_every_kind(scene)
        self.wait_for(lambda: len(self.processes_of()) == 2 and
                      all(process["place"] == "card" for process in self.processes_of()), "both")
        told = self.move("park")
        self.assertEqual([process["outcome"] for process in told], ["parked", "parked"], told)
        self.tell(scene, "check")
        self.assertEqual(sorted(process["place"] for process in self.processes_of()), ["card", "parked"],
                         "one restores what is its own")
        self.tell(scene, "join", "check")


if __name__ == "__main__":
    main()
