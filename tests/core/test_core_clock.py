"""The virtual clock of replays: time advances only on request, and due sleepers wake."""

import asyncio

from opilio.core.clock import VirtualClock


def test_virtual_clock_moves_to_the_next_sleeper_in_order() -> None:
    async def main() -> list[tuple[str, float]]:
        clock, woken = VirtualClock(), []

        async def sleeper(name: str, seconds: float) -> None:
            await clock.sleep(seconds)
            woken.append((name, clock.now()))

        tasks = [asyncio.create_task(sleeper(name, s)) for name, s in (("late", 5.0), ("soon", 2.0), ("now", 0.0))]
        await asyncio.sleep(0)
        assert clock.sleeping == 2
        start = clock.now()
        while clock.advance():
            await asyncio.sleep(0)
        await asyncio.gather(*tasks)
        return [(name, at - start) for name, at in woken]

    assert asyncio.run(main()) == [("now", 0.0), ("soon", 2.0), ("late", 5.0)]


def test_virtual_clock_stops_at_a_limit_before_the_next_sleeper() -> None:
    async def main() -> None:
        clock = VirtualClock()
        task = asyncio.create_task(clock.sleep(10.0))
        await asyncio.sleep(0)
        limit = clock.now() + 4.0
        assert not clock.advance(limit)
        assert clock.now() == limit
        assert clock.sleeping == 1
        assert clock.advance()
        await task

    asyncio.run(main())


def test_virtual_clock_without_sleepers_stays_where_it_is() -> None:
    clock = VirtualClock()
    before = clock.now()
    assert not clock.advance()
    assert clock.now() == before
