// Draws a map by WebGL 2: hundreds of thousands of nodes. The same methods as `CanvasPainter`.

import { packedColour, toRGB } from "./colours.js";
import { edgeOpacity, fitCanvas } from "./map_canvas.js";

const POSITION = 0, COLOUR = 1;  // the locations in the shader

const VERTEX = `#version 300 es
layout(location = 0) in vec2 position;
layout(location = 1) in vec3 colour;
uniform vec3 place;   // pixels per unit, and the pixel of the origin
uniform vec2 size;    // of the canvas
uniform float outer;  // radius of a disc or a ring
out vec3 ink;
void main() {
  vec2 at = (place.x * position + place.yz) / size * 2.0 - 1.0;
  gl_Position = vec4(at.x, -at.y, 0.0, 1.0);
  gl_PointSize = 2.0 * outer + 2.0;
  ink = colour;
}`;

// A ring between two radii with soft edges: a disc if the inner one is negative, and a line if the outer one is 0.
const FRAGMENT = `#version 300 es
precision highp float;
in vec3 ink;
uniform float inner, outer, opacity;
out vec4 pixel;
void main() {
  float away = length(gl_PointCoord - 0.5) * (2.0 * outer + 2.0);
  float soft = clamp(outer - away + 0.5, 0.0, 1.0) * clamp(away - inner + 0.5, 0.0, 1.0);
  float covered = opacity * (outer > 0.0 ? soft : 1.0);
  pixel = vec4(ink * covered, covered);
}`;

export class WebGLPainter {
  // Throws where WebGL 2 is missing, or, unless `anyhow`, slower than a canvas: without a graphics processor.
  constructor(canvas, { count, x, y }, anyhow = false) {
    const gl = canvas.getContext("webgl2", {
      antialias: true, preserveDrawingBuffer: true /* for printing */, failIfMajorPerformanceCaveat: !anyhow,
    });
    if (!gl || (!anyhow && isSoftware(gl))) throw new Error("WebGL 2 is missing or slow");
    const program = linked(gl);
    Object.assign(this, { canvas, gl, count });
    const named = (names, make) => Object.fromEntries(names.map((name) => [name, make(name)]));
    this.at = named(["place", "size", "inner", "outer", "opacity"], (name) => gl.getUniformLocation(program, name));
    this.buffers = named(["position", "colour", "order", "edges", "marked"], () => gl.createBuffer());
    const position = new Float32Array(2 * count);
    for (let node = 0; node < count; node++) { position[2 * node] = x[node]; position[2 * node + 1] = y[node]; }
    gl.useProgram(program);
    gl.enable(gl.BLEND);
    gl.blendFunc(gl.ONE, gl.ONE_MINUS_SRC_ALPHA);
    this.fill("position", position, gl.ARRAY_BUFFER);
    gl.enableVertexAttribArray(POSITION);
    gl.vertexAttribPointer(POSITION, 2, gl.FLOAT, false, 0, 0);
    this.setEdges([]);
  }

  fill(name, values, target = this.gl.ELEMENT_ARRAY_BUFFER) {
    this.gl.bindBuffer(target, this.buffers[name]);
    this.gl.bufferData(target, values, this.gl.DYNAMIC_DRAW);
  }

  setEdges(edges) {
    this.edges = edges;
    this.fill("edges", Uint32Array.from(edges));
  }

  setLayers(layers) {
    const { gl } = this, colours = new Uint32Array(this.count), order = new Uint32Array(this.count);
    let place = 0;
    for (const { colour, nodes } of layers) {
      const packed = packedColour(colour);
      for (let k = 0; k < nodes.length; k++) colours[nodes[k]] = packed;
      order.set(nodes, place);
      place += nodes.length;
    }
    this.fill("colour", colours, gl.ARRAY_BUFFER);
    gl.vertexAttribPointer(COLOUR, 3, gl.UNSIGNED_BYTE, true, 4, 0);
    this.fill("order", order);
  }

  paint({ view, theme, edges, radius = view.radius, marks = [] }) {
    const { gl } = this, ratio = fitCanvas(this.canvas, view.width, view.height);
    gl.viewport(0, 0, this.canvas.width, this.canvas.height);
    gl.clear(gl.COLOR_BUFFER_BIT);
    gl.uniform3f(this.at.place, ratio * view.scale, ratio * view.left, ratio * view.top);
    gl.uniform2f(this.at.size, this.canvas.width, this.canvas.height);
    gl.disableVertexAttribArray(COLOUR);
    if (edges) this.draw(gl.LINES, "edges", this.edges.length, -1, 0, 0.7 * edgeOpacity(this.edges), theme.edge);
    gl.enableVertexAttribArray(COLOUR);
    this.draw(gl.POINTS, "order", this.count, -1, ratio * radius, 1);
    gl.disableVertexAttribArray(COLOUR);
    for (const mark of marks) this.drawRings(mark, ratio, theme.background);
  }

  drawRings({ nodes, radius, width, colour, opacity = 1 }, ratio, background) {
    this.fill("marked", Uint32Array.from(nodes));
    for (const [ink, stroke] of [[background, 2.4 * width], [colour, width]]) {
      const [inner, outer] = [ratio * (radius - stroke / 2), ratio * (radius + stroke / 2)];
      this.draw(this.gl.POINTS, "marked", nodes.length, inner, outer, opacity, ink);
    }
  }

  draw(kind, indices, count, inner, outer, opacity, colour = null) {
    const { gl } = this;
    if (colour) gl.vertexAttrib3fv(COLOUR, toRGB(colour).map((value) => value / 255));
    gl.uniform1f(this.at.inner, inner);
    gl.uniform1f(this.at.outer, outer);
    gl.uniform1f(this.at.opacity, opacity);
    gl.bindBuffer(gl.ELEMENT_ARRAY_BUFFER, this.buffers[indices]);
    gl.drawElements(kind, count, gl.UNSIGNED_INT, 0);
  }
}

// Some browsers compute WebGL by the processor without saying so: only the name of the renderer tells.
function isSoftware(gl) {
  const known = gl.getExtension("WEBGL_debug_renderer_info");
  return /swiftshader|llvmpipe|software/i.test(gl.getParameter(known ? known.UNMASKED_RENDERER_WEBGL : gl.RENDERER));
}

function linked(gl) {
  const program = gl.createProgram();
  for (const [kind, source] of [[gl.VERTEX_SHADER, VERTEX], [gl.FRAGMENT_SHADER, FRAGMENT]]) {
    const shader = gl.createShader(kind);
    gl.shaderSource(shader, source);
    gl.compileShader(shader);
    gl.attachShader(program, shader);
  }
  gl.linkProgram(program);
  if (!gl.getProgramParameter(program, gl.LINK_STATUS)) throw new Error(gl.getProgramInfoLog(program));
  return program;
}
