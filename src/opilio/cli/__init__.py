"""The command line: one file per command. Data on stdout, progress and messages on stderr."""

import typer


def register(app: typer.Typer) -> None:
    """Put every command on the app."""
    from opilio.cli.agents import agents
    from opilio.cli.collection import export, status, why
    from opilio.cli.crawl import crawl
    from opilio.cli.demo import demo
    from opilio.cli.doctor import doctor
    from opilio.cli.history import history
    from opilio.cli.housekeeping import compact, merge, verify
    from opilio.cli.lab import app as lab
    from opilio.cli.label import label
    from opilio.cli.search import app as index
    from opilio.cli.search import search
    from opilio.cli.seeds import seeds
    from opilio.cli.serve import serve
    from opilio.cli.tgraph import app as tgraph
    from opilio.cli.topic import app as topic
    from opilio.cli.train import train

    for command in (
        crawl,
        seeds,
        search,
        status,
        agents,
        why,
        history,
        label,
        serve,
        verify,
        compact,
        merge,
        export,
        train,
        demo,
        doctor,
    ):
        app.command()(command)
    app.add_typer(index, name="index")
    app.add_typer(lab, name="lab")
    app.add_typer(topic, name="topic")
    app.add_typer(tgraph, name="tgraph")
