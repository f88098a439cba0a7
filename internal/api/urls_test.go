package api_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestURLOutsideASCII gives URLs in every way there is. They are called, stored and shown in
// ASCII, and found in both forms (contract, decision 30).
func TestURLOutsideASCII(t *testing.T) {
	const given, ascii = "https://bücher.example/größe?q=São", "https://xn--bcher-kva.example/gr%C3%B6%C3%9Fe?q=S%C3%A3o"
	for name, give := range map[string]func(w *world){
		"in the path":          func(w *world) { w.do("POST", "/v2/publish/"+given, "", nil) },
		"in the path, encoded": func(w *world) { w.do("POST", "/v2/publish/"+url.PathEscape(given), "", nil) },
		"in the path, in part": func(w *world) { w.do("POST", "/v2/publish/https://b%C3%BCcher.example/gr%C3%B6ße?q=São", "", nil) },
		"by a queue":           func(w *world) { w.do("POST", "/v2/enqueue/q/"+given, "", nil) },
		"in a batch":           func(w *world) { w.do("POST", "/v2/batch", `[{"destination":"`+given+`"}]`, nil) },
		"as a callback": func(w *world) {
			w.do("POST", "/v2/publish/https://a.example/x", "", nil, "Upstash-Callback: "+given)
		},
		"as a callback, a byte for each character": func(w *world) {
			latin1 := strings.NewReplacer("ü", "\xfc", "ö", "\xf6", "ß", "\xdf", "ã", "\xe3").Replace(given)
			w.do("POST", "/v2/publish/https://a.example/x", "", nil, "Upstash-Callback: "+latin1)
		},
		"as a failure callback": func(w *world) {
			w.do("POST", "/v2/batch", `[{"destination":"https://a.example/fail/500","headers":{"upstash-retries":"0","upstash-failure-callback":"`+given+`"}}]`, nil)
		},
		"as an endpoint": func(w *world) {
			w.do("POST", "/v2/topics/g/endpoints", `{"endpoints":[{"url":"`+given+`"},{"url":"`+ascii+`"}]}`, nil)
			var group struct{ Endpoints []struct{ URL string } }
			w.do("GET", "/v2/topics/g", "", &group)
			if len(group.Endpoints) != 1 || group.Endpoints[0].URL != ascii {
				w.Errorf("the group has %v", group.Endpoints)
			}
			w.do("POST", "/v2/publish/g", "", nil)
			w.do("DELETE", "/v2/topics/g/endpoints", `{"endpoints":[{"url":"`+given+`"}]}`, nil)
			if code := do(w.handler, newRequest("GET", "/v2/topics/g", nil)).Code; code != http.StatusNotFound {
				w.Errorf("the group is still there: %d", code)
			}
		},
		"in a schedule": func(w *world) {
			w.do("POST", "/v2/schedules/"+given, "", nil, "Upstash-Cron: * * * * *", "Upstash-Schedule-Id: s")
			var schedule struct{ Destination string }
			w.do("GET", "/v2/schedules/s", "", &schedule)
			if schedule.Destination != ascii {
				w.Errorf("the schedule shows %q", schedule.Destination)
			}
			time.Sleep(time.Minute)
		},
		"with a run": func(w *world) { w.do("POST", "/v2/trigger/"+given, "", nil, "Upstash-Workflow-RunId: w") },
	} {
		t.Run(name, func(t *testing.T) {
			inLargeWorld(t, func(w *world) {
				give(w)
				time.Sleep(time.Second)
				synctest.Wait()
				attempts := w.destinations.take()
				if last := attempts[len(attempts)-1]; !strings.HasPrefix(last, "POST "+ascii+" ") {
					t.Errorf("delivered %q, want it at %s", last, ascii)
				}
				path := "/v2/logs"
				filters := []string{"url=" + url.QueryEscape(given), "url=" + url.QueryEscape(ascii), "host=bücher.example", "host=xn--bcher-kva.example", "path=/größe"}
				if name == "with a run" {
					path = "/v2/workflows/events"
					filters = []string{"workflowUrl=" + url.QueryEscape(given), "workflowUrl=" + url.QueryEscape(ascii)}
				}
				for _, filter := range filters {
					var log struct {
						Events []struct{ URL, WorkflowURL string }
					}
					w.do("GET", path+"?"+filter, "", &log)
					if len(log.Events) == 0 || log.Events[0].URL != ascii && log.Events[0].WorkflowURL != ascii {
						t.Errorf("by %s, the log has %v", filter, log.Events)
					}
				}
			})
		})
	}
}

// TestURLOutsideASCIIIsRefused checks that a refusal says what is wrong, and where.
func TestURLOutsideASCIIIsRefused(t *testing.T) {
	const bad = "https://a／b.example/"
	handler := newSurface(t, &published{}, nil)
	for name, test := range map[string]struct {
		request *http.Request
		want    string
	}{
		"destination":             {newRequest("POST", "/v2/publish/"+bad, nil), "destination has the host \"a／b.example\", which is not a valid host name"},
		"schedule":                {newRequest("POST", "/v2/schedules/"+bad, nil), "destination has the host \"a／b.example\", which is not a valid host name"},
		"address that is refused": {newRequest("POST", "/v2/publish/http://１６９.254.169.254/", nil), "destination \"http://169.254.169.254/\" is refused"},
	} {
		t.Run(name, func(t *testing.T) {
			w := do(handler, test.request)
			var text strings.Builder
			_ = json.NewEncoder(&text).Encode(test.want)
			want := strings.Trim(text.String(), "\"\n")
			if !strings.Contains(w.Body.String(), want) {
				t.Errorf("%d %s, want %s", w.Code, w.Body, want)
			}
		})
	}
}
