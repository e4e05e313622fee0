"""Lookups of names that take long hold nothing up."""

import asyncio
import threading

from opilio.fetch.resolver import MAX_LOOKUPS, NameResolver, system_addresses


class Names:
    """A resolver of the system that waits, for names that begin with `slow`, until it is released."""

    def __init__(self) -> None:
        self.released = threading.Event()
        self.asked: list[str] = []

    def look_up(self, name: str) -> tuple[str, ...]:
        self.asked.append(name)
        if name.startswith("slow"):
            self.released.wait()
        return (f"address of {name}",)


def test_name_is_found_while_many_others_are_looked_up() -> None:
    names = Names()

    async def start() -> None:
        resolver = NameResolver(names.look_up)
        slow = [asyncio.create_task(resolver.addresses(f"slow{number}")) for number in range(100)]
        await asyncio.sleep(0)
        assert await resolver.addresses("wren") == ("address of wren",)
        assert not any(task.done() for task in slow)
        names.released.set()
        assert await asyncio.gather(*slow) == [(f"address of slow{number}",) for number in range(100)]

    asyncio.run(start())


def test_name_counts_as_unknown_when_it_is_not_found_in_time() -> None:
    """The loop ends before the thread."""
    names = Names()

    async def start() -> None:
        resolver = NameResolver(names.look_up, timeout_s=0.01)
        assert await resolver.addresses("slow") == ()
        assert await resolver.addresses("slow") == ()
        assert names.asked == ["slow"]

    asyncio.run(start())
    names.released.set()


def test_lookups_are_bounded() -> None:
    names = Names()

    async def start() -> None:
        resolver = NameResolver(names.look_up, timeout_s=0.01)
        await asyncio.gather(*(resolver.addresses(f"slow{number}") for number in range(MAX_LOOKUPS + 10)))
        assert len(names.asked) == MAX_LOOKUPS
        assert await resolver.addresses("wren") == ()
        names.released.set()

    asyncio.run(start())


def test_name_is_looked_up_once_when_it_is_needed_often() -> None:
    names = Names()

    async def start() -> None:
        resolver = NameResolver(names.look_up)
        together = await asyncio.gather(*(resolver.addresses("wren") for _ in range(3)))
        assert {*together, await resolver.addresses("wren")} == {("address of wren",)}
        assert names.asked == ["wren"]

    asyncio.run(start())


def test_system_knows_its_own_name_and_no_invalid_one() -> None:
    assert "127.0.0.1" in system_addresses("localhost")
    assert system_addresses("x" * 70 + ".example") == system_addresses("") == ()
