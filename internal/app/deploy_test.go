package app

import (
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// metricName matches a metric of ours, in a file or on the page of /metrics.
var metricName = regexp.MustCompile(`\bposthaste_[a-z_]+`)

// TestDeployedMetrics checks that the server has the metrics that the dashboard, the alerts and
// the chart name.
func TestDeployedMetrics(t *testing.T) {
	_, url := start(t, t.TempDir())
	call(t, http.MethodGet, url+"/v2/queues")
	_, page := call(t, http.MethodGet, url+"/metrics")
	shown := map[string]bool{}
	for _, name := range metricName.FindAllString(page, -1) {
		shown[name] = true
	}
	files, asked := os.DirFS(filepath.Join("..", "..")), 0
	for _, file := range []string{"deploy/grafana/posthaste.json", "deploy/prometheus/alerts.yaml", "deploy/helm/posthaste/values.yaml"} {
		text, err := fs.ReadFile(files, file)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range metricName.FindAllString(string(text), -1) {
			asked++
			if !shown[name] {
				t.Errorf("%s names %s, which /metrics does not have", file, name)
			}
		}
	}
	if asked == 0 || !strings.Contains(page, "posthaste_lanes") {
		t.Errorf("%d metrics were compared with %d", asked, len(shown))
	}
}

// TestDeployedUnitMayBackUp checks that a server under the unit may write to where the
// documentation has it back up.
func TestDeployedUnitMayBackUp(t *testing.T) {
	root := os.DirFS(filepath.Join("..", ".."))
	unit, err := fs.ReadFile(root, "deploy/systemd/posthaste.service")
	if err != nil {
		t.Fatal(err)
	}
	text, err := fs.ReadFile(root, "docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	to := regexp.MustCompile(`posthaste backup .*--to /var/lib/([^/\s]+)/`).FindSubmatch(text)
	may := regexp.MustCompile(`(?m)^StateDirectory=(.*)$`).FindSubmatch(unit)
	if to == nil || may == nil {
		t.Fatalf("a backup goes to %q, the unit may write to %q", to, may)
	}
	if !slices.Contains(strings.Fields(string(may[1])), string(to[1])) {
		t.Errorf("a backup goes to /var/lib/%s, and the unit may write to %s", to[1], may[1])
	}
}

// TestScrapedJob checks that the job under which the chart has the server scraped is the
// one that the rules ask for.
func TestScrapedJob(t *testing.T) {
	deploy := filepath.Join("..", "..", "deploy")
	chart := filepath.Join(deploy, "helm", "posthaste", "templates")
	rules := namesIn(t, filepath.Join(deploy, "prometheus", "alerts.yaml"), `\bjob="([^"]*)"`)
	label := namesIn(t, filepath.Join(chart, "podmonitor.yaml"), `(?m)^  jobLabel: (\S+)$`)
	if len(rules) == 0 || len(label) != 1 {
		t.Fatalf("the rules ask for jobs %q, the chart names one by %q", rules, label)
	}
	job := namesIn(t, filepath.Join(chart, "_helpers.tpl"), `(?m)^`+regexp.QuoteMeta(label[0])+`: (\S+)$`)
	for _, rule := range rules {
		if !slices.Equal(job, []string{rule}) {
			t.Errorf("a rule asks for the job %q, the chart has pods scraped as %q", rule, job)
		}
	}
}
