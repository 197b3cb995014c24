package telemetry

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

var (
	named  = regexp.MustCompile(`kaged_[a-z_]+`)
	filter = regexp.MustCompile(`(kaged_[a-z_]+)\{([a-z_]+)[=!]`)
)

// metricOf returns the metric of a series.
func metricOf(series string) (Metric, bool) {
	for _, m := range All() {
		if m.Name == series {
			return m, true
		}
		if base, ok := strings.CutPrefix(series, m.Name); ok && m.Kind == Histogram &&
			slices.Contains([]string{"_bucket", "_sum", "_count"}, base) {
			return m, true
		}
	}
	return Metric{}, false
}

// The dashboard and the alert rules are valid and use known metrics and labels; the dashboard shows every metric.
func TestDashboardAndAlerts(t *testing.T) {
	t.Parallel()
	shown := map[string]bool{}
	check := func(file, text string) {
		for _, series := range named.FindAllString(text, -1) {
			m, ok := metricOf(series)
			if !ok {
				t.Errorf("%s names %s, which is no metric", file, series)
			}
			shown[file+m.Name] = true
		}
		for _, f := range filter.FindAllStringSubmatch(text, -1) {
			if m, ok := metricOf(f[1]); ok && !slices.Contains(m.Labels, f[2]) {
				t.Errorf("%s filters %s by %s, which is no label of it", file, f[1], f[2])
			}
		}
	}
	const dashboard, alerts = "../../deploy/grafana/kaged.json", "../../deploy/prometheus/alerts.yaml"
	var panels struct {
		Panels []struct{ Targets []struct{ Expr string } }
	}
	data := read(t, dashboard)
	if err := json.Unmarshal(data, &panels); err != nil || len(panels.Panels) == 0 {
		t.Fatalf("%s: %v", dashboard, err)
	}
	for _, p := range panels.Panels {
		for _, target := range p.Targets {
			check(dashboard, target.Expr)
		}
	}
	for _, m := range All() {
		if !shown[dashboard+m.Name] {
			t.Errorf("%s does not show %s", dashboard, m.Name)
		}
	}
	var rules struct {
		Groups []struct {
			Rules []struct{ Alert, Expr string }
		}
	}
	err := yaml.Unmarshal(read(t, alerts), &rules)
	if err != nil || len(rules.Groups) != 1 || len(rules.Groups[0].Rules) == 0 {
		t.Fatalf("%s: %v", alerts, err)
	}
	page := string(read(t, "../../docs/howto/watch.md"))
	for _, r := range rules.Groups[0].Rules {
		check(alerts, r.Expr)
		if !strings.Contains(page, "`"+r.Alert+"`") {
			t.Errorf("docs/howto/watch.md does not tell of %s", r.Alert)
		}
	}
	check("docs/howto/watch.md", strings.ReplaceAll(page, "kaged_*", ""))
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
