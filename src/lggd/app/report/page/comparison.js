// Starts the page of a comparison: the line charts show values under the pointer.

import { startChart } from "./charts.js";

for (const chart of document.querySelectorAll(".chart:not(.points)")) startChart(chart);
