package main

import (
	"image/color"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
)

var (
	oursColor  = color.RGBA{R: 0x1f, G: 0x77, B: 0xb4, A: 0xff}
	bareColor  = color.RGBA{R: 0xb0, G: 0xb0, B: 0xb0, A: 0xff}
	peersColor = color.RGBA{R: 0xff, G: 0x7f, B: 0x0e, A: 0xff}
)

// plotRows draws the first figure of each system as a bar, the first system at the top.
func plotRows(w workload, rows []row, file string) error {
	rows = slices.Clone(rows)
	slices.Reverse(rows)
	figure := w.columns[0]
	p := plot.New()
	p.Title.Text = w.name
	p.Title.Padding = vg.Points(8)
	p.X.Label.Text = figure
	p.Y.Label.Text = " " // keeps the names off the edge
	width := vg.Points(14)
	labels := plotter.XYLabels{}
	var names []string
	for i, row := range rows {
		value := row.medians[figure]
		bar, err := plotter.NewBarChart(plotter.Values{value}, width)
		if err != nil {
			return err
		}
		bar.Horizontal, bar.XMin, bar.LineStyle.Width, bar.Color = true, float64(i), 0, colorOf(row.system)
		p.Add(bar)
		names = append(names, row.system)
		labels.XYs = append(labels.XYs, plotter.XY{X: value, Y: float64(i)})
		labels.Labels = append(labels.Labels, significant(value))
	}
	figures, err := plotter.NewLabels(labels)
	if err != nil {
		return err
	}
	figures.Offset = vg.Point{X: vg.Points(4), Y: -vg.Points(4)}
	p.Add(figures)
	p.NominalY(names...)
	p.X.Min, p.X.Max = 0, 1.15*max(p.X.Max, 1e-9) // room for the last figure
	p.Y.Min, p.Y.Max = -0.6, float64(len(rows))-0.4
	return p.Save(8*vg.Inch, vg.Points(80)+vg.Length(len(rows))*1.6*width, file)
}

func colorOf(system string) color.Color {
	for _, e := range entries {
		if e.name != system {
			continue
		}
		switch e.kind {
		case oursKind:
			return oursColor
		case bareKind:
			return bareColor
		}
	}
	return peersColor
}
