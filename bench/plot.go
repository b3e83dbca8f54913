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
	p := plot.New()
	p.Title.Text = w.name
	p.X.Label.Text = w.columns[0]
	p.X.Min = 0
	width := vg.Points(14)
	var names []string
	for i, row := range rows {
		bar, err := plotter.NewBarChart(plotter.Values{row.medians[w.columns[0]]}, width)
		if err != nil {
			return err
		}
		bar.Horizontal, bar.XMin, bar.LineStyle.Width, bar.Color = true, float64(i), 0, colorOf(row.system)
		p.Add(bar)
		names = append(names, row.system)
	}
	p.NominalY(names...)
	return p.Save(8*vg.Inch, vg.Points(90)+vg.Length(len(rows))*1.6*width, file)
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
