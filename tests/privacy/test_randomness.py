"""Generators for what is no noise: keyed by name. Random bits of releases are in tests/release/test_random_bits.py."""

from dpadmm.privacy.randomness import generator


def test_generator_is_keyed_by_seed_and_purpose() -> None:
    same = [generator(3, "split").integers(2**62) for _ in range(2)]
    assert same[0] == same[1]
    assert len({same[0], generator(4, "split").integers(2**62), generator(3, "data").integers(2**62)}) == 3
