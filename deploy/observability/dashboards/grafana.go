package dashboards

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/cog/variants"
	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/grafana/grafana-foundation-sdk/go/stat"
	"github.com/grafana/grafana-foundation-sdk/go/table"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"
)

// tag is of all dashboards: each links to the others by it.
const tag = "scriptorium"

// source is the Prometheus that is chosen at the top of the page.
func source() common.DataSourceRef {
	return common.DataSourceRef{Type: new("prometheus"), Uid: new("$datasource")}
}

// JSON is the dashboard as Grafana imports it.
func (d Dashboard) JSON() ([]byte, error) {
	b := dashboard.NewDashboardBuilder(d.Title). //nolint:staticcheck // the format that Grafana before 12, and its sidecar, read
							Uid(tag+"-"+d.Name).Description(d.Description).Tags([]string{tag}).
							Time("now-1h", "now").Refresh("30s").Timezone(common.TimeZoneBrowser).Tooltip(dashboard.DashboardCursorSyncCrosshair).
							Link(dashboard.NewDashboardLinkBuilder("Scriptorium").Type(dashboard.DashboardLinkTypeDashboards).Tags([]string{tag}).AsDropdown(true).IncludeVars(true).KeepTime(true)).
							WithVariable(dashboard.NewDatasourceVariableBuilder("datasource").Label("Prometheus").Type("prometheus"))
	for i, v := range d.Variables {
		b.WithVariable(v.grafana(d.Variables[:i]))
	}
	y, id := 0, uint32(0)
	next := func() uint32 { id++; return id }
	for _, row := range d.Rows {
		b.WithRow(dashboard.NewRowBuilder(row.Title).Id(next()).GridPos(dashboard.GridPos{Y: uint32(y), W: 24, H: 1})) //nolint:gosec // a page is short
		places, end := row.Places(y + 1)
		for i, p := range row.Panels {
			b.WithPanel(p.grafana(next(), places[i]))
		}
		y = end
	}
	built, err := b.Build()
	if err != nil {
		return nil, fmt.Errorf("build the dashboard %s: %w", d.Name, err)
	}
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	err = e.Encode(built)
	return out.Bytes(), err
}

// grafana returns the variable; its values depend on those before it.
func (v Variable) grafana(before []Variable) cog.Builder[dashboard.VariableModel] {
	all := dashboard.VariableOption{
		Selected: new(true),
		Text:     dashboard.StringOrArrayOfString{ArrayOfString: []string{"All"}}, Value: dashboard.StringOrArrayOfString{ArrayOfString: []string{"$__all"}},
	}
	return dashboard.NewQueryVariableBuilder(v.Name).Label(v.Label).Datasource(source()).
		Query(dashboard.StringOrMap{String: new(v.query(before))}).
		Current(all).Multi(true).IncludeAll(true).AllValue(".*").
		Refresh(dashboard.VariableRefreshOnTimeRangeChanged).Sort(dashboard.VariableSortAlphabeticalAsc)
}

// query is how Grafana finds the values of the variable.
func (v Variable) query(before []Variable) string {
	selector := ""
	for i, b := range before {
		if i > 0 {
			selector += ","
		}
		selector += b.Values() + `=~"$` + b.Name + `"`
	}
	if selector != "" {
		selector = "{" + selector + "}"
	}
	return "label_values(" + v.Metric + selector + ", " + v.Values() + ")"
}

// Values is the label with the values.
func (v Variable) Values() string {
	if v.From != "" {
		return v.From
	}
	return v.Name
}

func (p Panel) grafana(id uint32, at Place) cog.Builder[dashboard.Panel] {
	pos := dashboard.GridPos{X: uint32(at.X), Y: uint32(at.Y), W: uint32(at.Width), H: uint32(at.Height)} //nolint:gosec // a page is small
	switch p.Kind {
	case Stat:
		return p.stat(id, pos)
	case Table:
		return p.table(id, pos)
	}
	return p.timeseries(id, pos)
}

// targets are the queries, called A, B and so on.
func (p Panel) targets() (all []cog.Builder[variants.Dataquery]) {
	for i, q := range p.Queries {
		t := prometheus.NewDataqueryBuilder().Datasource(source()).Expr(q.Expanded()).RefId(string(rune('A' + i)))
		switch p.Kind {
		case Lines:
			t.Range().LegendFormat(q.Legend)
		case Stat:
			t.Range()
		case Table:
			t.Instant().Format(prometheus.PromQueryFormatTable)
		}
		all = append(all, t)
	}
	return all
}

func (p Panel) timeseries(id uint32, pos dashboard.GridPos) cog.Builder[dashboard.Panel] {
	b := timeseries.NewPanelBuilder().Id(id).GridPos(pos).Title(p.Title).Description(p.Description).Datasource(source()).
		Unit(p.Unit).Min(0).Targets(p.targets()).LineWidth(1).FillOpacity(10).ShowPoints(common.VisibilityModeNever).
		Legend(common.NewVizLegendOptionsBuilder().DisplayMode(common.LegendDisplayModeList).Placement(common.LegendPlacementBottom).ShowLegend(true)).
		Tooltip(common.NewVizTooltipOptionsBuilder().Mode(common.TooltipDisplayModeMulti).Sort(common.SortOrderDescending))
	if p.Stacked {
		b.Stacking(common.NewStackingConfigBuilder().Mode(common.StackingModeNormal)).FillOpacity(40)
	}
	return b
}

func (p Panel) stat(id uint32, pos dashboard.GridPos) cog.Builder[dashboard.Panel] {
	return stat.NewPanelBuilder().Id(id).GridPos(pos).Title(p.Title).Description(p.Description).Datasource(source()).
		Unit(p.Unit).Targets(p.targets()).Thresholds(p.thresholds()).NoValue("–").
		GraphMode(common.BigValueGraphModeArea).ColorMode(common.BigValueColorModeValue).
		ReduceOptions(common.NewReduceDataOptionsBuilder().Calcs([]string{"lastNotNull"}))
}

func (p Panel) thresholds() cog.Builder[dashboard.ThresholdsConfig] {
	steps := []dashboard.Threshold{{Color: "text"}}
	switch {
	case p.Bad != nil && p.Falls:
		steps = []dashboard.Threshold{{Color: "red"}, {Value: p.Bad, Color: "green"}}
	case p.Bad != nil:
		steps = []dashboard.Threshold{{Color: "green"}, {Value: p.Bad, Color: "red"}}
	}
	return dashboard.NewThresholdsConfigBuilder().Mode(dashboard.ThresholdsModeAbsolute).Steps(steps)
}

func (p Panel) table(id uint32, pos dashboard.GridPos) cog.Builder[dashboard.Panel] {
	names, order := map[string]string{}, map[string]int{}
	for i, label := range p.Labels {
		order[label] = i
	}
	for i, q := range p.Queries {
		column := fmt.Sprintf("Value #%c", 'A'+i)
		if len(p.Queries) == 1 {
			column = "Value"
		}
		names[column], order[column] = q.Legend, len(p.Labels)+i
	}
	return table.NewPanelBuilder().Id(id).GridPos(pos).Title(p.Title).Description(p.Description).Datasource(source()).
		Unit(p.Unit).Targets(p.targets()).Filterable(true).
		WithTransformation(dashboard.DataTransformerConfig{Id: "merge", Options: map[string]any{}}).
		WithTransformation(dashboard.DataTransformerConfig{Id: "organize", Options: map[string]any{
			"excludeByName": map[string]bool{"Time": true}, "renameByName": names, "indexByName": order,
		}})
}
