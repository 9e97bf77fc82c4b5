"""Marking hostile text: mutated, deep, long; nothing is run and nothing takes long."""

import json
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from written_answers import ANSWERS

from headwise.check import answer, load
from headwise.check.mark import judged

PROBLEMS = load("attention").problems


def mutated(text, rng):
    """Change a text at random: cut, double, swap, insert signs that mean something and signs that mean nothing."""
    signs = [*"()[]{}^_+-*/|\\$,;='\"<>.!%&~0123456789abktTxqAIuv \n\t\x00‖≫√Σβμₐ²½", "\\frac", "\\sum_", "||", "e999", "^T"]
    found = list(text)
    for _ in range(rng.randint(1, 6)):
        place = rng.randint(0, len(found))
        what = rng.random()
        if what < 0.4:
            found.insert(place, rng.choice(signs))
        elif what < 0.7 and found:
            del found[place % len(found)]
        elif found:
            other = rng.randrange(len(found))
            found[place % len(found)] = found[other]
    return "".join(found) * (3 if rng.random() < 0.02 else 1)


def test_mutated_answers_neither_crash_nor_take_long():
    rng = random.Random(7)
    slowest = 0.0
    for _ in range(4000):
        part, text, *_ = rng.choice(ANSWERS)
        start = time.process_time()
        verdict = judged(load("attention").problems[part], mutated(text, rng))
        slowest = max(slowest, time.process_time() - start)
        assert verdict.status in ("right", "remark", "wrong", "unreadable")
    assert slowest < 2.5


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=200), st.sampled_from(sorted(load("attention").problems)))
def test_any_text_has_a_verdict(text, part):
    assert judged(load("attention").problems[part], text).status in ("right", "remark", "wrong", "unreadable")


@pytest.mark.parametrize(
    "text",
    [
        "(" * 3000,
        "k_a + " * 900,
        "\\frac{" * 600,
        "||" * 1500,
        "t^" * 1500 + "2",
        "sum_{i in S} " * 200 + "k_i",
        "sum_i sum_j sum_l sum_m (k_i + k_j + k_l + k_m)",
        "9" * 5000,
        "((((((((((t^64)^64)^64)^64)^64)^64)^64)^64)^64)^64) k_a",
        "A" * 100_000,
        "-" * 3900 + "k_a",
        "2 *" + " -" * 1800 + " k_a",
        "exp(" * 800,
        "\\" * 3000,
        "\u202e" * 10,
        "k_a" + "'" * 3000,
    ],
    ids=lambda text: text[:12],
)
def test_hostile_text_ends_soon(text):
    start = time.process_time()
    verdict = answer("b.ii", text)
    assert time.process_time() - start < 2.5
    assert verdict.status in ("unreadable", "wrong", "remark")


@pytest.mark.parametrize(
    ("part", "text"),
    [
        ("b.i", "a" * 4000),
        ("b.i", "ab" * 2000),
        ("b.ii", "k" * 4000),
        ("d.ii variance", "np" * 2000),
        ("e.ii", "K = I, Q = " + "u" * 3900),
        ("e.ii", "K=Q=V" + "=I" * 1200),
        ("b.ii", "t(k_a+k_b), " + "is " * 1200),
        ("b.ii", "q" + "=t k_a" * 500),
    ],
    ids=range(8),
)
def test_plain_text_is_bounded_too(part, text):
    start = time.process_time()
    assert judged(PROBLEMS[part], text).status in ("unreadable", "remark")
    assert time.process_time() - start < 2.5


SLOW = [
    ("a.ii", "k_j^T q + " + "0 sum_i sum_j k_i^T k_j + " * 55 + "0 >> k_i^T q"),
    ("a.i", "0 sum_i sum_j k_i^T k_j + " * 55 + "k_j^T q"),
    ("b.ii", "0 sum_i sum_j k_i^T k_j k_a + " * 40 + "t (k_a - k_b), t large"),
    ("d.i", "q_1 = " + "0 sum_i sum_j mu_i^T mu_j mu_a + " * 40 + "mu_a, q_2 = mu_b"),
    ("e.ii", "K = I, V = I, Q = " + " + ".join(["u_a u_b^T - u_c u_d^T"] * 50)),
]
NAMES = "K = I, V = I, Q = " + "w " * 200 + "".join(f", {one} = {f'{other} ' * 200}" for one, other in ("wx", "xy", "yz"))


def test_memory_is_bounded():
    """Chains, names put into names, sums in sums, deep and long text; in a process of its own, which says what it took."""
    program = """
import json, resource, sys
from headwise.check import answer
answer("e.ii", "K = I, Q = I, V = I")
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for part, text in json.loads(sys.argv[1]):
    answer(part, text)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024)
"""
    texts = [("e.ii", "K=Q=V" + "=I" * 1000), ("e.ii", NAMES), ("b.ii", "(" * 3000), ("b.ii", "k_a + " * 600), *SLOW]
    done = subprocess.run([sys.executable, "-c", program, json.dumps(texts)], capture_output=True, text=True, check=True)
    assert float(done.stdout) < 100


def test_reading_runs_and_opens_nothing():
    """An audit hook sees what Python itself sees: imports, files, compiled code."""
    program = """
import sys
sys.path.insert(0, sys.argv[1])
from more_answers import MORE
from written_answers import ANSWERS
from headwise.check import answer, load
load("attention")
seen = []
watch = {"import", "open", "exec", "compile", "os.system", "subprocess.Popen", "socket.connect"}
sys.addaudithook(lambda event, given: seen.append((event, given[0])) if event in watch else None)
for text in ("__import__('os').system('ls')", "eval(1)", "open('x')"):
    answer("b.ii", text)
for part, text, *_ in (*ANSWERS, *MORE):
    answer(part, text)
print(seen)
"""
    place = str(Path(__file__).parents[1])
    done = subprocess.run([sys.executable, "-c", program, place], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_a_mistake_of_ours_stops_nobody(monkeypatch):
    def fail(*_):
        raise ZeroDivisionError

    monkeypatch.setattr(sys.modules["headwise.check.mark"], "judged", fail)
    verdict = answer("b.ii", "an answer that nobody gave before")
    assert verdict.problem == "this could not be marked, for headwise itself failed (ZeroDivisionError)"


def test_one_answer_takes_two_seconds_in_all():
    """Trying it, looking for mistakes and showing it; in a process of its own, where shapes are not checked on the way."""
    program = """
import json, sys, time
from headwise.check import answer
for part, text in json.loads(sys.argv[1]):
    start = time.process_time()
    answer(part, text)
    print(time.process_time() - start)
"""
    done = subprocess.run([sys.executable, "-c", program, json.dumps(SLOW)], capture_output=True, text=True, check=True)
    times = [float(line) for line in done.stdout.split()]
    assert len(times) == len(SLOW)
    assert max(times) < 2


def test_deep_text_is_told_with_its_place():
    verdict = judged(PROBLEMS["b.ii"], "k_a + " * 200 + "k_b")
    assert verdict.problem.startswith("expressions nest at most 120 deep\n")
    assert "^" in verdict.problem.splitlines()[-1]
