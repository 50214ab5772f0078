"""lggd studio: label nodes in a browser and watch predictions change."""

from __future__ import annotations

import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from lggd.app.cli.options import GRAPH_FLAGS, TABLES, GraphOptions, command, file, option
from lggd.app.cli.terminal import Terminal
from lggd.errors import InputError

if TYPE_CHECKING:
    from lggd.app.studio.studio_graph import StudioGraph

DEFAULT_FOLDER = Path("out/studio")
STORE = "File in which labels are saved; created if it does not exist."
HOST = "Address to listen on. Any but this machine's own requires --token."
TOKEN = "Secret that is required to open the page."
ALLOWED = "Another name of this machine that browsers may use. Can be repeated."
SHARE = "Fraction of the labels of tables to hold out for accuracy; without, it is estimated by leave-one-out."


@command(GRAPH_FLAGS)
def studio_command(
    terminal: Terminal,
    graph: GraphOptions,
    test_share: float | None = option(None, SHARE, show_default="0", rich_help_panel=TABLES),
    start_empty: bool = option(False, "Start without the labels of the graph.", "--start-empty"),
    store: Path | None = file(None, STORE, show_default="out/studio/NAME.sqlite"),
    host: str = option("127.0.0.1", HOST),
    port: int = option(8765, "Port to listen on; 0 takes a free one.", min=0, max=65535),
    token: str | None = option(None, TOKEN, envvar="LGGD_STUDIO_TOKEN"),
    allow_host: list[str] = option([], ALLOWED, metavar="NAME"),
    no_browser: bool = option(False, "Do not open a browser.", "--no-browser"),
) -> None:
    r"""Label nodes in a browser, and watch the predictions of the whole graph change.

    DATASET is digits by default, and may be a saved model or a folder of lggd run.
    Tables need no labels: --label may be omitted, and classes added on the
    page. Labels are saved in the file --store; a restart shows them.

    Needs the extra studio: pip install 'lggd\[studio]'

    Example, which needs no files:

        lggd studio

    Example: start from nothing with your own tables:

        lggd studio --edges edges.csv --nodes nodes.csv

    Example: label together, on a machine that others can reach:

        lggd studio digits --host 0.0.0.0 --token "$(openssl rand -hex 16)"
    """
    with terminal.working("Loading lggd"):
        from lggd.app.studio.server import Access, StudioServer
    access = Access(host, port, token, tuple(allow_host))
    with terminal.working("Reading the graph"):
        read = _read(graph, test_share, start_empty)
    path = _store(read.name) if store is None else store
    with terminal.working(f"Opening {path}"):
        server = StudioServer.open(read, path, access)
    address = server.url + (f"?token={quote(token)}" if token is not None else "")
    facts = {"address": address, "graph": read.name, "nodes": read.num_nodes, "store": str(path)}
    terminal.print_result(
        facts, [f"The studio of {read.name} is at {address}", f"Labels are saved in {path}. Ctrl-C ends it."]
    )
    if not no_browser:
        webbrowser.open(address)
    server.run()


def _read(options: GraphOptions, test_share: float | None, start_empty: bool) -> StudioGraph:
    from lggd.app.studio.studio_graph import StudioGraph

    if options.dataset is not None and Path(options.dataset).is_dir():
        return StudioGraph.from_model(options.dataset)
    if options.edges is None and options.nodes is not None:
        raise InputError("--edges", "be a table, because --nodes is one", "none", "Add --edges FILE.")
    if options.edges is None and options.file is None:
        options = GraphOptions(**{**vars(options), "dataset": options.dataset or "digits"})
    if options.edges is None or options.label is not None:
        options.check(test_share)
    elif options.split_column is not None or test_share:
        rule = "name the column of classes, because some are held out"
        raise InputError("--label", rule, "none", "Add --label COLUMN.")
    given = options.read(0.0 if test_share is None else test_share, fewest_classes=0)
    return StudioGraph.from_run_input(given, unlabelled=start_empty)


def _store(name: str) -> Path:
    DEFAULT_FOLDER.mkdir(parents=True, exist_ok=True)
    return DEFAULT_FOLDER / f"{Path(name).name or 'graph'}.sqlite"
