"""The shortest way through a maze, with diagonal steps."""

import math

import numpy as np

from lggd import Graph, distance, shortest_path

MAZE = """
#########################
#A..#.......#...........#
#...#..####.#..######...#
#...#..#....#..#....#...#
#......#....#..#..B.#...#
#...####..###..#....##..#
#...#..........#........#
#...#..........#........#
#########################
"""
cells = np.array([list(line) for line in MAZE.split()])
free = cells != "#"

# Nodes are the free cells, numbered row by row: `place[node]` is where a node lies.
graph = Graph.from_grid(free, connectivity=8)
place = np.argwhere(free)
start, goal = (int(np.flatnonzero(cells[free] == letter)[0]) for letter in "AB")

found = distance(graph, [start], p=math.inf)
path = shortest_path(graph, found, goal)
for row, column in place[path[1:-1]]:
    cells[row, column] = "o"
print("\n".join("".join(line) for line in cells))
print(f"\nFrom A to B: {len(path) - 1} steps, length {found.value[goal]:.2f}")
