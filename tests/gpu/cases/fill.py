"""What the cases share: fill the card in pieces until it refuses, let go, and go on."""
import json


def skip(why):
    print(json.dumps({"skip": why}))
    raise SystemExit(0)


def fill(take, refusal, piece_mib=64, most=4096):
    """Calls take(mib) until it raises `refusal`. Returns what it held and whether it was refused."""
    held = []
    for _ in range(most):
        try:
            held.append(take(piece_mib))
        except refusal as error:
            return held, True, str(error)
    return held, False, ""


def report(**row):
    print(json.dumps(row), flush=True)
