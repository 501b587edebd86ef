#!/usr/bin/env python3
"""chart.py - draw the speed of attention over the sequence length as SVG, from the figures of attention_h200.json.

  python3 tools/bench/chart.py [FIGURES.json] [--out FOLDER]   writes attention_light.svg and attention_dark.svg

Six panels: head dimension 64, 128, 256; without a mask and causal.  ptxpack and cuDNN were measured in one run.
FlashAttention-3 and FlashAttention-2 were measured beside cuDNN in another run on the same kind of GPU; their figures
are multiplied by the ratio of cuDNN between the two runs, so that all lines of a panel can be compared.
"""
import argparse
import json
import os

SERIES = (("ptxpack", "ptxpack"), ("FA3", "FlashAttention-3"), ("cuDNN", "cuDNN"), ("FA2", "FlashAttention-2"))
THEMES = {
    "light": {"page": "#ffffff", "ink": "#1f2328", "faint": "#d0d7de",
              "ptxpack": "#cf222e", "FA3": "#0969da", "cuDNN": "#1a7f37", "FA2": "#8c6d1f"},
    "dark": {"page": "#0d1117", "ink": "#e6edf3", "faint": "#30363d",
             "ptxpack": "#ff7b72", "FA3": "#79c0ff", "cuDNN": "#7ee787", "FA2": "#e3b341"},
}
PANEL_WIDTH, PANEL_HEIGHT, GAP_X, GAP_Y, LEFT, TOP = 250, 170, 46, 54, 52, 64


def speed(row, name):
    """TFLOP/s, on the scale of the run in which ptxpack was measured."""
    return row[name] if name in ("ptxpack", "cuDNN") else row[name] * row["cuDNN"] / row["cuDNN_peers"]


class Panel:
    """One diagram: where a sequence length and a speed lie in the picture."""

    def __init__(self, column, line, rows, top_speed):
        self.x0 = LEFT + column * (PANEL_WIDTH + GAP_X)
        self.y0 = TOP + line * (PANEL_HEIGHT + GAP_Y)
        self.rows, self.top_speed = rows, top_speed

    def x(self, index):
        return self.x0 + 12 + index * (PANEL_WIDTH - 24) / (len(self.rows) - 1)

    def y(self, value):
        return self.y0 + PANEL_HEIGHT * (1 - value / self.top_speed)

    def draw(self, title, theme):
        out = [f'<text x="{self.x0}" y="{self.y0 - 8}" font-weight="600">{title}</text>']
        for value in range(0, self.top_speed + 1, 200):
            y = self.y(value)
            out.append(f'<path d="M{self.x0} {y:.1f}h{PANEL_WIDTH}" stroke="{theme["faint"]}"/>')
            out.append(f'<text x="{self.x0 - 6}" y="{y + 4:.1f}" text-anchor="end">{value}</text>')
        for i, row in enumerate(self.rows):
            name = str(row["s"]) if row["s"] < 1024 else f'{row["s"] // 1024}k'
            out.append(f'<text x="{self.x(i):.1f}" y="{self.y0 + PANEL_HEIGHT + 16}" text-anchor="middle">{name}</text>')
        for name, _ in reversed(SERIES):
            points = [(self.x(i), self.y(speed(row, name))) for i, row in enumerate(self.rows)]
            path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
            width = 2.6 if name == "ptxpack" else 1.6
            out.append(f'<polyline points="{path}" fill="none" stroke="{theme[name]}" stroke-width="{width}"/>')
            out += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{width:.1f}" fill="{theme[name]}"/>' for x, y in points]
        return out


def draw(figures, theme):
    rows = figures["rows"]
    top_speed = 200 * int(max(speed(row, name) for row in rows for name, _ in SERIES) // 200 + 1)
    width = LEFT + 3 * PANEL_WIDTH + 2 * GAP_X + 14
    height = TOP + 2 * PANEL_HEIGHT + GAP_Y + 30
    run = figures["runs"][0]
    title = f'Attention forward, {figures["gpu"]}, {figures["dtype"]}, {figures["unit"]} over sequence length'
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
           f'font-family="system-ui, sans-serif" font-size="12" fill="{theme["ink"]}">', f"<title>{title}</title>",
           f'<rect width="{width}" height="{height}" fill="{theme["page"]}"/>',
           f'<text x="{LEFT}" y="20" font-size="14" font-weight="600">{title}, {run["date"]}</text>']
    at = LEFT
    for name, label in SERIES:
        out.append(f'<path d="M{at} 36h22" stroke="{theme[name]}" stroke-width="3"/>')
        out.append(f'<text x="{at + 28}" y="40">{label}</text>')
        at += 60 + 7 * len(label)
    for line, causal in enumerate((False, True)):
        for column, dim in enumerate((64, 128, 256)):
            chosen = sorted((row for row in rows if row["d"] == dim and row["causal"] == causal), key=lambda row: row["s"])
            title = f"d {dim}, {'causal' if causal else 'full'}"
            out.append("".join(Panel(column, line, chosen, top_speed).draw(title, theme)))
    return "\n".join(out) + "\n</svg>\n"


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("figures", nargs="?", default=os.path.join(here, "attention_h200.json"))
    parser.add_argument("--out", default=here, help="the folder of the pictures (default: this one)")
    options = parser.parse_args()
    with open(options.figures, encoding="utf-8") as file:
        figures = json.load(file)
    for name, theme in THEMES.items():
        with open(os.path.join(options.out, f"attention_{name}.svg"), "w", encoding="utf-8") as file:
            file.write(draw(figures, theme))


if __name__ == "__main__":
    main()
