"""The result of a run on one page: where the nodes lie, what is shown, and the page itself."""
