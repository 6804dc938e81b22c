// What every page of a report has: its head, its style and its script.
//
// Threading: constants.
#pragma once

namespace slipstream::report {

inline constexpr char kPageHead[] = R"(<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"/>
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:; form-action 'none'; base-uri 'none'"/>
<meta name="viewport" content="width=device-width"/>
<title>)";

inline constexpr char kPageStyle[] = R"(</title>
<style>
:root { color-scheme: light dark; --back: #fff; --text: #1d2126; --quiet: #4a5058; --pane: #f5f6f8; --grid: #e4e7eb; }
@media (prefers-color-scheme: dark) { :root { --back: #16191d; --text: #e3e6ea; --quiet: #b3bac3; --pane: #20242a;
  --grid: #333940; } }
body { font: 15px/1.45 system-ui, sans-serif; color: var(--text); background: var(--back); max-width: 1200px; margin: 24px auto; padding: 0 16px; }
h1 { font-size: 21px; line-height: 1.3; } h2 { font-size: 17px; margin: 30px 0 4px; } h3 { font-size: 15px; margin: 0 0 4px; }
h1, h3, p, li, summary { overflow-wrap: anywhere; }
p { margin: 4px 0 8px; color: var(--quiet); } p.run { margin: 0 0 2px; }
ul { margin: 4px 0 8px; padding-left: 20px; color: var(--quiet); } code { font: 12px/1.4 ui-monospace, monospace; }
.finding { border-left: 3px solid var(--grid); margin: 14px 0; padding: 2px 0 2px 12px; }
summary { font-size: 17px; font-weight: bold; margin: 30px 0 8px; cursor: pointer; }
pre { font: 12px/1.4 ui-monospace, monospace; background: var(--pane); padding: 12px; overflow-x: auto; }
form { display: flex; gap: 14px; align-items: center; flex-wrap: wrap; color: var(--quiet); }
form input { width: 300px; } form input, form select { font: inherit; padding: 2px 6px; }
</style></head><body>
)";

// Draws what figure.h wrote. Colors of a flame graph are by FlameKind.
inline constexpr char kPageScript[] = R"JS("use strict";
(() => {
// A phone: there a legend stands in lines of its own, and buttons would be on it.
const NARROW = 600;
const LEGEND_LINE = 20;
const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
// The library's own buttons include one that uploads the plot.
const config = (buttons) => ({
  ...(innerWidth < NARROW ? {displayModeBar: false} : {}), displaylogo: false, showSendToCloud: false, plotlyServerURL: "", responsive: true, modeBarButtons: [buttons],
});
const theme = () => ({
  "font.color": css("--quiet"), "xaxis.gridcolor": css("--grid"), "yaxis.gridcolor": css("--grid"),
  "xaxis.zerolinecolor": css("--grid"), "yaxis.zerolinecolor": css("--grid"), "hoverlabel.bgcolor": css("--pane"),
  "hoverlabel.font.color": css("--text"), "legend.font.color": css("--quiet"),
  "modebar.color": css("--quiet"), "modebar.activecolor": css("--text"),
});
const themed = (layout) => {
  for (const [path, value] of Object.entries(theme())) {
    const keys = path.split(".");
    const last = keys.pop();
    keys.reduce((at, key) => at[key] ??= {}, layout)[last] = value;
  }
  return layout;
};
const narrow = (layout, data) => {
  layout.margin = {...layout.margin, l: Math.min(layout.margin.l, 60)};
  if (data.length > 1 && layout.showlegend !== false) layout.height += LEGEND_LINE * data.length;
  for (const note of layout.annotations || []) note.text = note.text.replace(" at ", "<br>at ");
  if (layout.yaxis) layout.yaxis.automargin = true;
  const x = layout.xaxis;
  if (!x) return;
  x.nticks = 3;
  for (const key of ["tickvals", "ticktext"]) if (x[key]) x[key] = x[key].filter((_, i) => i % 2 === 0);
};
const plots = [];
const draw = (plot, data, layout, buttons = ["toImage", "zoom2d", "pan2d", "resetScale2d"]) => {
  const base = {
    height: 300, margin: {l: 80, r: 36, t: 10, b: 40}, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    font: {family: "system-ui, sans-serif", size: 12}, legend: {orientation: "h", x: 0, y: 1.02, yanchor: "bottom", traceorder: "normal"},
    hoverlabel: {align: "left"}, modebar: {bgcolor: "rgba(0,0,0,0)", orientation: "v"},
  };
  plots.push(plot);
  // Below the line, so that the first label of one axis is not on that of the other.
  if (layout.xaxis) Object.assign(layout.xaxis, {ticks: "outside", ticklen: 6, tickcolor: "rgba(0,0,0,0)"});
  const whole = themed({...base, ...layout});
  if (innerWidth < NARROW) narrow(whole, data);
  Plotly.newPlot(plot, data, whole, config(buttons));
};
// The library takes tags in texts for formatting.
const plain = (text) => text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
const cut = (text, letters) => text.length <= letters ? text : letters < 4 ? "" : text.slice(0, letters - 1) + "\u2026";
const lines = (text) => (text.match(/.{1,100}/g) || []).map(plain).join("<br>");
const time = (ns) => {
  const [of, unit] = [[1e9, "s"], [1e6, "ms"], [1e3, "us"], [1, "ns"]].find(([least]) => ns >= least) || [1, "ns"];
  return `${Number((ns / of).toPrecision(3))} ${unit}`;
};
const share = (part, whole) => whole > 0 ? `${(100 * part / whole).toFixed(1)} %` : "-";

const COLORS = ["#c9ced6", "#e8a95c", "#f2c982", "#a9c8e8", "#9ccfae", "#c9ced6", "#dfe3e8"];
const FOUND = "#ff8fa3";
const NOT_FOUND = "#e4e6ea";

function flame(plot, frames) {
  const {names, details, parents, kinds, times, counts} = frames;
  const base = kinds.map((kind) => COLORS[kind]);
  let level = 0;
  // Each as much of its name as there is room for.
  const texts = () => {
    const width = plot.clientWidth - 40;
    return names.map((name, i) => plain(cut(name, Math.floor(width * times[i] / times[level] / 6.6) - 1)));
  };
  const trace = {
    type: "icicle", branchvalues: "total", sort: true, tiling: {orientation: "v", pad: 1}, textposition: "middle left",
    ids: names.map((name, i) => String(i)), labels: names.map((name) => plain(cut(name, 60))),
    parents: parents.map((parent, i) => i === 0 ? "" : String(parent)), values: times, text: [], textinfo: "text",
    textfont: {color: "#1d2126", size: 11}, marker: {colors: base, line: {width: 0}}, leaf: {opacity: 1}, level: "0",
    pathbar: {thickness: 22, textfont: {color: "#1d2126", size: 11}}, hoverinfo: "text",
    hovertext: names.map((name, i) => [lines(name), lines(details[i]),
      `${time(times[i])}, ${share(times[i], times[0])} of all, ${share(times[i], times[parents[i]])} of what it is on`,
      `${counts[i].toLocaleString("en")} ${frames.what}`].filter((line) => line !== "").join("<br>")),
  };
  const controls = document.createElement("form");
  controls.innerHTML = `<label>Search <input type="search" placeholder="function, file or kernel"/></label>
    <label>Order <select><option value="1">by time</option><option value="">by name</option></select></label><output></output>`;
  const [input, order, output] = ["input", "select", "output"].map((name) => controls.querySelector(name));
  controls.onsubmit = (event) => event.preventDefault();
  plot.before(controls);
  trace.text = texts();
  draw(plot, [trace], {height: 46 + 22 * (frames.depth + 1), margin: {l: 0, r: 36, t: 24, b: 0},
                       uniformtext: {minsize: 11, mode: "hide"}}, ["toImage"]);
  const zoom = (to) => {
    level = to;
    return Plotly.restyle(plot, {level: String(level), text: [texts()]});
  };
  plot.on("plotly_icicleclick", (event) => {
    const at = Number(event.points[0].id);
    zoom(at === level ? parents[at] : at);
    return false;
  });
  order.onchange = () => Plotly.restyle(plot, {sort: order.value !== ""});
  // The time of what was found, but not twice where one frame is on another.
  input.oninput = () => {
    const what = input.value.toLowerCase();
    const inside = [];
    let sum = 0;
    const colors = names.map((name, i) => {
      const found = i > 0 && what !== "" && `${name}\n${details[i]}`.toLowerCase().includes(what);
      const below = i > 0 && inside[parents[i]];
      inside[i] = found || below;
      if (found && !below) sum += times[i];
      return what === "" ? base[i] : found ? FOUND : NOT_FOUND;
    });
    output.textContent = what === "" ? "" : `found: ${time(sum)}, ${share(sum, times[0])} of all`;
    return Plotly.restyle(plot, {"marker.colors": [colors]});
  };
}

for (const script of document.querySelectorAll("script.figure, script.flame")) {
  const plot = script.previousElementSibling;
  const value = JSON.parse(script.textContent);
  if (script.className === "flame") flame(plot, value); else draw(plot, value.data, value.layout);
}
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  for (const plot of plots) Plotly.relayout(plot, theme());
});
})();
)JS";

}  // namespace slipstream::report
