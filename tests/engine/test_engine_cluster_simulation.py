"""The simulation of a crawl by several workers: it repeats, respects its limits, and loses nothing to faults."""

from dataclasses import replace

from benchmarks.cluster.simulate import ClusterShape, Simulation

SMALL = ClusterShape(workers=4, hosts=60, seconds=200_000, pages_per_host=10, connections=8, deaths_per_hour=0.0)


def test_simulation_repeats_with_the_same_seed() -> None:
    faulty = replace(SMALL, seconds=200, deaths_per_hour=60.0)
    assert Simulation(faulty).run() == Simulation(faulty).run()
    assert Simulation(faulty).run() != Simulation(replace(faulty, seed=2)).run()


def test_all_pages_are_committed_once_when_workers_die() -> None:
    calm = Simulation(SMALL).run()
    faulty = Simulation(replace(SMALL, deaths_per_hour=60.0)).run()
    assert calm["pages"] == faulty["pages"]
    assert calm["hosts_finished"] == faulty["hosts_finished"] == SMALL.hosts
    assert calm["refetch_ratio"] == 0.0 < faulty["refetch_ratio"]
    assert faulty["expired_leases"] > 0


def test_throughput_has_the_limit_of_cores_or_trainer() -> None:
    busy = replace(SMALL, workers=2, hosts=500, pages_per_host=1000, connections=64, seconds=300)
    cores = Simulation(busy).run()
    assert 0.9 * 2 / 0.080 < cores["pages_per_s"] <= 2 / 0.080
    trainer = Simulation(replace(busy, trainer_ms=100.0, max_backlog=20)).run()
    assert trainer["pages_per_s"] < cores["pages_per_s"]
    assert trainer["max_backlog"] >= 20
