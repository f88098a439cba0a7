package app

import (
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// metricName matches a metric of ours, in a file or on the page of /metrics.
var metricName = regexp.MustCompile(`\bposthaste_[a-z_]+`)

// TestDeployedMetrics checks that the dashboard and the alerts ask for metrics that the
// server has.
func TestDeployedMetrics(t *testing.T) {
	_, url := start(t, t.TempDir())
	call(t, http.MethodGet, url+"/v2/queues")
	_, page := call(t, http.MethodGet, url+"/metrics")
	shown := map[string]bool{}
	for _, name := range metricName.FindAllString(page, -1) {
		shown[name] = true
	}
	files, asked := os.DirFS(filepath.Join("..", "..", "deploy")), 0
	for _, file := range []string{"grafana/posthaste.json", "prometheus/alerts.yaml"} {
		text, err := fs.ReadFile(files, file)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range metricName.FindAllString(string(text), -1) {
			asked++
			if !shown[name] {
				t.Errorf("%s asks for %s, which /metrics does not have", file, name)
			}
		}
	}
	if asked == 0 || !strings.Contains(page, "posthaste_lanes") {
		t.Errorf("%d metrics were compared with %d", asked, len(shown))
	}
}
