"""The report of a run: a layout of the graph, the content of the report, and the HTML page."""
