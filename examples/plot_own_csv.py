"""
Your own CSV files
==================

Two tables become a graph with names, a model and a prediction for every node. The picture shows who of a small company
belongs to which team: squares are the teams in the table, dots are predictions.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt

import lggd
from lggd.app.report.graph_layout import layout_graph
from lggd.app.tables.graph_files import read_graph_files

EDGES = "ada,ben ada,cyd ben,cyd cyd,dan ben,dan ada,dan dan,eve eve,fay eve,gus fay,gus gus,hal"
EDGES += " fay,hal hal,ida ida,jon ida,kim jon,kim"
NODES = "ada,sales,3 ben,,4 cyd,,2 dan,,5 eve,,9 fay,design,8 gus,,7 hal,,9 ida,,1 jon,,2 kim,support,1"
with tempfile.TemporaryDirectory() as folder:
    edges, nodes = Path(folder, "edges.csv"), Path(folder, "nodes.csv")
    edges.write_text("\n".join(["source,target", *EDGES.split()]))
    nodes.write_text("\n".join(["id,team,years", *NODES.split()]))
    table = read_graph_files(edges, nodes, label="team")

# %%
data = table.data
predicted = lggd.KernelRidge().fit(data).predict()
place = layout_graph(lggd.Graph.from_pyg(data))
figure, axes = plt.subplots(figsize=(8, 5), layout="constrained")
axes.plot(*place[data.edge_index].transpose(2, 0, 1), color="#BBBBBB", zorder=0)
for team, colour in enumerate(("#0072B2", "#E69F00", "#009E73")):
    axes.scatter(*place[data.y == team].T, marker="s", s=260, color=colour, label=table.classes[team])
    axes.scatter(*place[(predicted == team) & (data.y < 0)].T, s=260, color=colour)
for name, at in zip(table.ids, place, strict=True):
    axes.annotate(name, at, xytext=(0, 13), textcoords="offset points", ha="center")
axes.legend(title="team", frameon=False, markerscale=0.5)
axes.axis("off")
plt.show()
