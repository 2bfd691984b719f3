"""What the holding programs share: memory full of a known pattern, and answers to a line each.

The pattern of word i is a function of i and a seed, computed on the card. A memory has: fill(seed), checksum(), exact()
(whether every word is the pattern's), pointers(), touch() and bytes.

  touch           uses one word
  check           checksum, exactness, pointers
  fill SEED       with another pattern
  churn           gives a part back and takes it again
  soak SECONDS [still]   checks every second, fills and churns at times; a row for each round, then {"done"};
                  `still`: takes and gives nothing
"""
import json
import sys
import time


def say(**row):
    print(json.dumps(row), flush=True)


def skip(why):
    say(skip=why)
    raise SystemExit(0)


def look(memory):
    return {"checksum": memory.checksum(), "exact": memory.exact(), "pointers": memory.pointers()}


def soak(memory, seconds, seed, churns):
    end = time.monotonic() + seconds
    rounds = 0
    while time.monotonic() < end:
        start = time.monotonic()
        exact = memory.exact()
        if rounds % 5 == 4:
            seed += 1
            memory.fill(seed)
        if churns and rounds % 7 == 6:
            memory.churn()
        rounds += 1
        say(round=rounds, exact=exact, seconds=round(time.monotonic() - start, 3))
        time.sleep(max(0.0, 1.0 - (time.monotonic() - start)))
    say(done=rounds, exact=memory.exact())
    return seed


def serve(memory, seed=1):
    memory.fill(seed)
    say(ready=True, bytes=memory.bytes, **look(memory))
    for line in sys.stdin:
        words = line.split()
        start = time.monotonic()
        if words[0] == "touch":
            memory.touch()
            say(seconds=time.monotonic() - start)
        elif words[0] == "check":
            say(**look(memory))
        elif words[0] == "fill":
            seed = int(words[1])
            memory.fill(seed)
            say(filled=seed)
        elif words[0] == "churn":
            memory.churn()
            say(churned=True)
        elif words[0] == "soak":
            seed = soak(memory, float(words[1]), seed, "still" not in words)
        else:
            say(unknown=words[0])


def sizes(gib, word):
    """Words of each block: large ones of 1 GiB and of odd sizes, then many small ones; together about `gib` GiB."""
    left = int(gib * (1 << 30)) // word
    small = [256 // word + 97 * i for i in range(300)]
    left -= sum(small)
    large = []
    while left > 0:
        # Every third is odd, so that blocks end within pages.
        want = (1 << 30) // word if len(large) % 3 else (700 << 20) // word + 131
        large.append(min(want, left))
        left -= large[-1]
    return large + small
