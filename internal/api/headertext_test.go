package api_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"posthaste/internal/api"
)

// runHeaders are what an SDK sends with what belongs to the run w, as JSON.
const runHeaders = `"upstash-workflow-runid":"w","upstash-workflow-url":"https://a.example/workflow",` +
	`"upstash-feature-set":"LazyFetch,InitialBody,WF_DetectTrigger,WF_TriggerOnConfig","upstash-workflow-sdk-version":"1",` +
	`"upstash-forward-upstash-workflow-sdk-version":"1","upstash-method":"POST","content-type":"application/json"`

// TestHeaderOutsideASCII gives the same header in every way there is: it arrives as the bytes
// that fetch sends (contract, decision 29), and is shown as a Headers object has it.
func TestHeaderOutsideASCII(t *testing.T) {
	const latin1, inJSON = "Jos\xe9", "José"
	for name, give := range map[string]func(w *world){
		"in a header": func(w *world) {
			w.do("POST", "/v2/publish/https://a.example/x", "", nil, "Upstash-Forward-X-Name: "+latin1)
		},
		"in a header without a prefix": func(w *world) {
			w.do("POST", "/v2/publish/https://a.example/x", "", nil, "Upstash-Header-Forward: true", "X-Name: "+latin1)
		},
		"in the query": func(w *world) {
			w.do("POST", "/v2/publish/https://a.example/x?upstash-forward-x-name=Jos%C3%A9", "", nil)
		},
		"in a batch": func(w *world) {
			w.do("POST", "/v2/batch", `[{"destination":"https://a.example/x","headers":{"upstash-forward-x-name":"José"}}]`, nil)
		},
		"in a batch, without a prefix": func(w *world) {
			w.do("POST", "/v2/batch", `[{"destination":"https://a.example/x","headers":{"upstash-header-forward":"true","x-name":["José"]}}]`, nil)
		},
		"in a batch, escaped": func(w *world) {
			w.do("POST", "/v2/batch", `[{"destination":"https://a.example/x","headers":{"service-forward-x-name":"Jos\u00e9"}}]`, nil)
		},
		"by a queue": func(w *world) {
			w.do("POST", "/v2/enqueue/q/https://a.example/x", "", nil, "Upstash-Forward-X-Name: "+latin1)
		},
		"as a default of a group": func(w *world) {
			w.do("POST", "/v2/topics/g/endpoints", `{"endpoints":[{"url":"https://a.example/x"}]}`, nil)
			w.do("PATCH", "/v2/topics/g", `{"headers":{"Upstash-Forward-X-Name":"José"}}`, nil)
			var group struct{ Headers http.Header }
			w.do("GET", "/v2/topics/g", "", &group)
			if got := group.Headers.Get("Upstash-Forward-X-Name"); got != inJSON {
				w.Errorf("the group shows %q", got)
			}
			w.do("POST", "/v2/publish/g", "", nil)
		},
		"in a schedule": func(w *world) {
			w.do("POST", "/v2/schedules/https://a.example/x", "", nil, "Upstash-Cron: * * * * *", "Upstash-Schedule-Id: s", "Upstash-Forward-X-Name: "+latin1)
			var schedule struct{ Header http.Header }
			w.do("GET", "/v2/schedules/s", "", &schedule)
			if got := schedule.Header.Get("X-Name"); got != inJSON {
				w.Errorf("the schedule shows %q", got)
			}
			time.Sleep(time.Minute)
		},
		"with a run": func(w *world) {
			w.do("POST", "/v2/batch", `[{"destination":"https://a.example/workflow","headers":{"upstash-workflow-init":"true",`+runHeaders+`,"upstash-forward-x-name":"José"}}]`, nil)
		},
		"with a run by another route": func(w *world) {
			w.do("POST", "/v2/batch/trigger", `[{"destination":"https://a.example/workflow","headers":{"upstash-forward-x-name":"José"}}]`, nil)
		},
		"with a wait that ends": func(w *world) {
			w.do("POST", "/v2/batch", `[{"destination":"https://a.example/workflow","headers":{"upstash-workflow-init":"true",`+runHeaders+`}}]`, nil)
			w.do("POST", "/v2/wait/e", `{"url":"https://a.example/workflow","timeout":"1s","timeoutHeaders":{`+runHeaders+`,"upstash-forward-x-name":["José"]},`+
				`"step":{"stepId":1,"stepType":"Wait","stepName":"w","concurrent":1}}`, nil, "Upstash-Workflow-RunId: w")
			var waiters []struct{ TimeoutHeaders http.Header }
			w.do("GET", "/v2/waiters/e", "", &waiters)
			if got := waiters[0].TimeoutHeaders.Get("Upstash-Forward-X-Name"); got != inJSON {
				w.Errorf("the waiter shows %q", got)
			}
			time.Sleep(time.Second)
		},
		"in a retry of a dead letter": func(w *world) {
			w.do("POST", "/v2/publish/https://a.example/fail/500", "", nil, "Upstash-Retries: 0")
			time.Sleep(time.Second)
			var dlq struct{ Messages []struct{ DLQID string } }
			w.do("GET", "/v2/dlq", "", &dlq)
			w.do("POST", "/v2/dlq/retry/"+dlq.Messages[0].DLQID, "", nil, "Upstash-Forward-X-Name: "+latin1)
		},
	} {
		t.Run(name, func(t *testing.T) {
			inLargeWorld(t, func(w *world) {
				give(w)
				time.Sleep(time.Second)
				synctest.Wait()
				attempts := w.destinations.take()
				if last := attempts[len(attempts)-1]; !strings.Contains(last, "X-Name: "+latin1+" ") && !strings.Contains(last, "X-Name: "+latin1+"\n") {
					t.Errorf("delivered %q, want the header %q", last, latin1)
				}
				var log struct {
					Events []struct{ Header http.Header }
				}
				w.do("GET", "/v2/logs", "", &log)
				if got := log.Events[0].Header.Get("X-Name"); got != inJSON {
					t.Errorf("the log shows %q, want %q", got, inJSON)
				}
			})
		})
	}
}

// TestHeaderBeyondFetch has headers that fetch does not send. They arrive in UTF-8, and what
// is shown of them is what fetch reads then: SDKs that repeat it send the same bytes.
func TestHeaderBeyondFetch(t *testing.T) {
	inLargeWorld(t, func(w *world) {
		publish := func(name string) (delivered, shown string) {
			body, err := json.Marshal([]any{map[string]any{"destination": "https://a.example/x", "headers": map[string]string{"upstash-forward-x-name": name}}})
			if err != nil {
				t.Fatal(err)
			}
			w.do("POST", "/v2/batch", string(body), nil)
			time.Sleep(time.Second)
			synctest.Wait()
			_, after, _ := strings.Cut(w.destinations.take()[0], "X-Name: ")
			delivered, _, _ = strings.Cut(after, ` ""`)
			var log struct {
				Events []struct{ Header http.Header }
			}
			w.do("GET", "/v2/logs?count=1", "", &log)
			return delivered, log.Events[0].Header.Get("X-Name")
		}
		delivered, shown := publish("患者 é")
		if delivered != "患者 é" || shown != "æ\u0082£è\u0080\u0085 Ã©" {
			t.Errorf("delivered %q, shown %q", delivered, shown)
		}
		if again, _ := publish(shown); again != delivered {
			t.Errorf("repeated, it is delivered as %q", again)
		}
	})
}

// TestControlsOutsideASCII gives labels, keys and ids in every way: what is given in one is
// found, and recognised, in each other.
func TestControlsOutsideASCII(t *testing.T) {
	type pairs = map[string]string
	const x = "https://a.example/x"
	inHeader := func(encode func(string) string) func(*world, any, pairs) {
		return func(w *world, into any, given pairs) {
			var lines []string
			for name, value := range given {
				lines = append(lines, name+": "+encode(value))
			}
			w.do("POST", "/v2/publish/"+x, "", into, lines...)
		}
	}
	ways := map[string]func(w *world, into any, given pairs){
		"in a header, a byte for each character": inHeader(func(text string) string { return strings.ReplaceAll(text, "é", "\xe9") }),
		"in a header, in UTF-8":                  inHeader(func(text string) string { return text }),
		"in the query": func(w *world, into any, given pairs) {
			query := url.Values{}
			for name, value := range given {
				query.Set(name, value)
			}
			w.do("POST", "/v2/publish/"+x+"?"+query.Encode(), "", into)
		},
		"in a batch": func(w *world, into any, given pairs) {
			body, err := json.Marshal([]any{map[string]any{"destination": x, "headers": given}})
			if err != nil {
				w.Fatal(err)
			}
			receipts := []any{into}
			w.do("POST", "/v2/batch", string(body), &receipts)
		},
	}
	for way, give := range ways {
		for _, name := range []string{"José", "患者"} {
			if name != "José" && strings.Contains(way, "a byte") {
				continue // fetch refuses it
			}
			t.Run(way+", "+name, func(t *testing.T) {
				inLargeWorld(t, func(w *world) {
					var sent receipt
					give(w, &sent, pairs{
						"Upstash-Label": name + ",other", "Upstash-Deduplication-Id": name,
						"Upstash-Flow-Control-Key": name, "Upstash-Flow-Control-Value": "rate=1",
					})
					for _, filter := range []string{"label", "flowControlKey"} {
						var log struct {
							Events []struct{ MessageID, Label, FlowControlKey string }
						}
						w.do("GET", "/v2/logs?"+filter+"="+url.QueryEscape(name), "", &log)
						if len(log.Events) == 0 || log.Events[0].Label != name || log.Events[0].FlowControlKey != name {
							t.Errorf("by its %s, the log has %+v", filter, log.Events)
						}
					}
					var key struct{ FlowControlKey string }
					w.do("GET", "/v2/flowControl/"+url.PathEscape(name), "", &key)
					if key.FlowControlKey != name {
						t.Errorf("the key is shown as %q", key.FlowControlKey)
					}
					for other, again := range ways {
						if name != "José" && strings.Contains(other, "a byte") {
							continue
						}
						var repeated receipt
						if again(w, &repeated, pairs{"Upstash-Deduplication-Id": name}); repeated != sent {
							t.Errorf("its deduplication id, given %s, is not the same", other)
						}
					}
				})
			})
		}
	}
}

// TestHookOutsideASCII checks that the event of a webhook holds nothing that a Headers object
// or a Request refuses, whatever a stranger sends (contract, workflows 4.7).
func TestHookOutsideASCII(t *testing.T) {
	calls := &hookCalls{}
	handler := newSurface(t, &published{}, func(o *api.Options) { o.Workflows = calls })
	r := newRequest("POST", "/v2/workflows/hooks/ann/run/event", nil)
	r.RequestURI = "/v2/workflows/hooks/ann/run/event?q=S\xc3\xa3o&r=\xff"
	r.Header = http.Header{"A": {"患者"}, "B": {"Jos\xe9"}, "C": {"plain", "bot 🚀"}}
	if w := do(handler, r); w.Code != http.StatusOK {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	var event struct {
		Header http.Header
		URL    string
	}
	if err := json.Unmarshal([]byte(calls.events[0]), &event); err != nil {
		t.Fatal(err)
	}
	want := http.Header{"A": {"æ\u0082£è\u0080\u0085"}, "B": {"José"}, "C": {"plain", "bot ð\u009f\u009a\u0080"}}
	if diff := cmp.Diff(want, event.Header); diff != "" {
		t.Errorf("headers (-want +got):\n%s", diff)
	}
	if want := "/v2/workflows/hooks/ann/run/event?q=S%C3%A3o&r=%FF"; event.URL != want {
		t.Errorf("url %q, want %q", event.URL, want)
	}
}
