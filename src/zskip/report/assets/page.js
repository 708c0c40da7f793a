"use strict";
(async () => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const trouble = document.getElementById("trouble");
  const charts = new Map();
  const waiting = new Map();
  const still = { displayModeBar: false, responsive: true };

  async function library() {
    const text = atob(document.getElementById("library").textContent.trim());
    const packed = new Uint8Array(text.length);
    for (let i = 0; i < text.length; i++) packed[i] = text.charCodeAt(i);
    const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
    const script = document.createElement("script");
    script.textContent = await new Response(stream).text();
    document.head.append(script);
  }

  const textColor = () => getComputedStyle(document.body).color;

  function framed(layout, box) {
    return {
      ...layout,
      height: layout.height || box.clientHeight,
      margin: { l: 60, r: 32, t: 28, b: 48 },
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      font: { color: textColor(), size: 12 },
      hoverlabel: { align: "left" },
    };
  }

  async function draw(id, name, change) {
    const box = document.getElementById(id);
    const figure = structuredClone(data.figures[name]);
    if (change) change(figure);
    await Plotly.react(box, figure.data, framed(figure.layout, box), still);
    charts.set(id, box);
  }

  const value = (id) => document.getElementById(id).value;

  function picture() {
    let [x, y] = [Number(value("x")), Number(value("y"))];
    const swapped = x > y;
    const pair = swapped ? `${y}-${x}` : `${x}-${y}`;
    const color = value("color");
    const kind = color === "cover" ? "cover" : "files";
    return draw("picture", `${kind}-${pair}`, (figure) => {
      const trace = figure.data[0];
      if (swapped) turn(trace, figure.layout);
      trace.colorbar = trace.colorbar || {};
      const bar = kind === "cover" ? trace.colorbar : trace.marker.colorbar;
      bar.title = { text: { cover: "files", bytes: "bytes", reads: "% of queries" }[color], side: "right" };
      if (kind === "files") {
        trace.marker.color = trace.customdata.map((i) => data[color][i]);
        trace.hovertext = trace.customdata.map((i) => data.hover[i]);
      }
    });
  }

  function turn(trace, layout) {
    [layout.xaxis, layout.yaxis] = [layout.yaxis, layout.xaxis];
    if (trace.type === "heatmap") trace.transpose = true;
    else [trace.x, trace.width, trace.base, trace.y] = [trace.base, trace.y, trace.x, trace.width];
  }

  function pick(event) {
    const point = event.points[0];
    if (point === undefined || point.customdata === undefined) return;
    const file = data.files[point.customdata];
    const line = document.createElement("li");
    const name = document.createElement("bdi");
    name.textContent = file.name;
    const ranges = data.names.map((column, i) => `${column}: ${file.ranges[i]}`).join("; ");
    line.append(name, ` — ${file.size}, ${file.rows} rows; ${ranges}`);
    document.getElementById("picked").prepend(line);
  }

  function choose(event) {
    const other = document.getElementById(event.target.id === "x" ? "y" : "x");
    if (event.target.value === other.value) other.value = other.dataset.before === event.target.value ? event.target.dataset.before : other.dataset.before;
    if (event.target.value === other.value) other.selectedIndex = (event.target.selectedIndex + 1) % other.length;
    event.target.dataset.before = event.target.value;
    other.dataset.before = other.value;
    picture();
  }

  const colorAgain = () => charts.forEach((box) => Plotly.relayout(box, { "font.color": textColor() }));
  const fit = () => charts.forEach((box) => Plotly.relayout(box, { autosize: true, "font.color": textColor() }));

  function failed(error) {
    trouble.hidden = false;
    document.documentElement.dataset.drawn = "failed";
    console.error(error);
  }

  // A chart is drawn when it comes near the window, and all are before the page is printed.
  function show(boxes) {
    const works = boxes.map((box) => waiting.get(box)).filter(Boolean);
    for (const box of boxes) waiting.delete(box);
    const told = () => { document.documentElement.dataset.drawn = String(charts.size); };
    return Promise.all(works.map((work) => work())).then(told, failed);
  }

  const near = new IntersectionObserver(
    (entries) => show(entries.filter((entry) => entry.isIntersecting).map((entry) => entry.target)),
    { rootMargin: "50% 0px" },
  );

  function expect(box, work) {
    waiting.set(box, work);
    near.observe(box);
  }

  try {
    await library();
    for (const box of document.querySelectorAll("[data-figure]")) {
      const height = data.figures[box.dataset.figure].layout.height;
      if (height) box.style.height = `${height}px`;
      expect(box, () => draw(box.id, box.dataset.figure));
    }
    const files = document.getElementById("picture");
    if (files) {
      for (const id of ["x", "y"]) document.getElementById(id).addEventListener("change", choose);
      document.getElementById("color").addEventListener("change", picture);
      expect(files, async () => {
        await picture();
        files.on("plotly_click", pick);
      });
    }
    addEventListener("beforeprint", () => show([...waiting.keys()]));
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", colorAgain);
    matchMedia("print").addEventListener("change", fit);
    if (waiting.size === 0) await show([]);
  } catch (error) {
    failed(error);
  }
})();
